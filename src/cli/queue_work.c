/*
 * drover queue work - runs a command for each message. The threads and the order of the messages
 * belong to drover_worker_join(); its handler runs the command.
 *
 * When the worker is told to end, the running command gets the signal too; unless it still ends
 * with status 0, its message is handled again by the next owner of the queue.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"
#include "cli/worker.h"
#include "cli/zk_options.h"
#include "drover.h"
#include "keeper/keeper.h"

enum { TICK_MS = 250, EMPTY_MS = 500, AUTH_LEN_MAX = 1024 };

static struct drover_queues_options queues;
static struct drover_worker_options options = {.quiet_ms = 3000, .poll_ms = 10000};
static const char *auth_file, *only;
static struct zookeeper_tls zk_tls;
static int policy; /* index of the word of --on-failure */
static int64_t timeout_ms = 10000;

static struct drover_worker *running;
static atomic_bool ended;
static struct arena arena; /* lasts as long as the command; with attempts_lock while it works */

/*
 * How often the current message of each queue has failed. The library counts too, but a handler
 * does not see it.
 */
struct attempts {
    struct attempts *next;
    const char *queue;
    int64_t id, failed;
};

static struct attempts *all_attempts;
static pthread_mutex_t attempts_lock = PTHREAD_MUTEX_INITIALIZER;

/* The entry of a queue; a queue is handled by one thread at a time. */
static struct attempts *attempts_of(const struct drover_message *m)
{
    struct attempts *a;
    LOCKED(&attempts_lock);
    for (a = all_attempts; a && strcmp(a->queue, m->queue) != 0; a = a->next)
        ;
    if (!a) {
        a = arena_alloc(&arena, sizeof *a);
        *a = (struct attempts){.next = all_attempts, .queue = arena_text(&arena, str_of(m->queue))};
        all_attempts = a;
    }
    if (a->id != m->id) {
        a->id = m->id;
        a->failed = 0;
    }
    return a;
}

/* A message. */

static bool renew(void *arg)
{
    return drover_message_is_sure(arg);
}

static int handle(void *arg, struct drover_message *m)
{
    const struct cmd_call *call = arg;
    struct attempts *a = attempts_of(m);
    char queue[128], id[64], fence[64];
    struct worker_item item = {
        .input = {m->data, m->data_len},
        .variables = {queue, id, fence},
        .attempt = a->failed + 1,
        .grace_ms = drover_message_grace_ms(m),
        .where = options.policy == DROVER_STOP ? "stopping" : "moved to qdo_error",
    };

    if (worker_is_ending())
        return -1;
    snprintf(item.name, sizeof item.name, "message %" PRId64 " of %s", m->id, m->queue);
    snprintf(queue, sizeof queue, "DROVER_QUEUE=%s", m->queue);
    snprintf(id, sizeof id, "DROVER_MESSAGE=%" PRId64, m->id);
    snprintf(fence, sizeof fence, "DROVER_FENCE=%" PRId64, m->fence);
    const struct child_options o = {
        .argv = call->command, .tick_ms = TICK_MS, .tick = renew, .arg = m};
    enum worker_outcome outcome = worker_try(o, &item);
    /* With "skip" the first failure is the last; with "stop" the message stays where it is. */
    if (outcome == WORKER_RETRY && options.policy != DROVER_RETRY)
        outcome = WORKER_DEAD;
    if (outcome != WORKER_DONE && outcome != WORKER_RELEASED && !drover_message_is_sure(m)) {
        outcome = WORKER_LOST;
        err_set(&item.why, 0, "the session could not be renewed");
    }
    worker_report(&item, outcome);
    if (worker_is_ending() && outcome == WORKER_RELEASED)
        drover_worker_stop(running);
    if (outcome == WORKER_RETRY || outcome == WORKER_DEAD) {
        a->failed++;
        snprintf(m->error, 256, "%.255s", item.why.text);
        return 1;
    }
    return outcome == WORKER_DONE ? 0 : -1;
}

/* The end. */

static bool is_ours(struct str name)
{
    for (size_t i = 0; i < options.only_count; i++)
        if (str_eq(name, str_of(options.only[i])))
            return true;
    return !options.only_count;
}

static bool is_handled(struct client *c, const struct json *queue)
{
    struct client_reply reply;
    struct str name = json_text_of(queue, "queue"), last = json_text_of(queue, "last");
    if (!is_ours(name))
        return true;
    if (!last.len)
        last = STR("0");
    if (client_try(c, &reply, NULL, "GET /v1/queues/%s/messages?after=%.*s&limit=1",
                   client_quote(c, name), STR_ARGS(last)) ||
        reply.status != 200)
        return false;
    const struct json *messages = json_get(reply.json, "messages");
    return messages && !messages->count;
}

/* Whether every queue has been handled up to its last message. */
static bool all_handled(struct client *c)
{
    const char *path = "/v1/queues";
    struct client_reply reply;
    do {
        if (client_try(c, &reply, NULL, "GET %s", path) || reply.status != 200)
            return false;
        json_each(queue, json_list(json_get(reply.json, "queues")))
            if (!is_handled(c, queue))
                return false;
        path = arena_printf(&c->arena, "/v1/queues?after=%s",
                            client_quote(c, json_text_of(reply.json, "next")));
    } while (json_get(reply.json, "next"));
    return true;
}

/* Stops the worker on a signal, or with --until-empty when everything has been handled. */
static void *watch_end(void *arg)
{
    const struct cmd_call *call = arg;
    CLEANUP(client_close) struct client c = {.silent = true};
    bool asks = worker_options.until_empty && !client_open(&c, &call->client);
    while (!ended && !child_signal()) {
        child_pause(asks ? EMPTY_MS : TICK_MS);
        if (asks && all_handled(&c))
            break;
        arena_reset(&c.arena);
    }
    drover_worker_stop(running);
    return NULL;
}

static int work(const struct cmd_call *call)
{
    struct drover_queues *qs;
    struct drover_error e = {""};
    pthread_t watcher;
    int err = drover_queues_open(&queues, &qs, &e);
    if (!err && (err = drover_worker_join(qs, &options, &running, &e)))
        drover_queues_close(qs);
    if (err)
        return err == DROVER_BAD_ARGUMENT ? client_misuse("%s", e.text)
                                          : client_error("%s", e.text);
    thread_must_start(&watcher, "queue-watch", watch_end, (void *)call);
    drover_worker_wait(running);
    ended = true;
    pthread_join(watcher, NULL);
    drover_worker_free(running);
    drover_queues_close(qs);
    return worker_end();
}

/* Options. */

/* The notes about messages say what worker_report() has said. */
static void note(void *arg, const char *line)
{
    (void)arg;
    if (!worker_options.quiet && strncmp(line, "message ", strlen("message ")) != 0)
        client_error("%s", line);
}

static int read_auth(void)
{
    static char auth[AUTH_LEN_MAX];
    queues.auth = getenv("DROVER_ZK_AUTH");
    if (!auth_file)
        return CMD_OK;
    if (client_first_line(auth_file, auth, sizeof auth) || !auth[0])
        return client_error("--zk-auth: cannot read %s", auth_file);
    queues.auth = auth;
    return CMD_OK;
}

/* "a,b,c" into the list of queues, which points into the text. */
static void split_names(char *list)
{
    const char **names = arena_alloc(&arena, (strlen(list) + 1) * sizeof *names);
    for (char *rest = list, *name; (name = strsep(&rest, ","));)
        names[options.only_count++] = name;
    options.only = names;
}

static int run_work(const struct cmd_call *call)
{
    static const enum drover_policy policies[] = {DROVER_RETRY, DROVER_SKIP, DROVER_STOP};
    struct client_config config;

    worker_begin(11);
    options.handle = handle;
    options.arg = (void *)call;
    options.note = note;
    options.policy = policies[policy];
    options.retries = worker_options.attempts > 1 ? (int)worker_options.attempts - 1 : -1;
    options.back_off_ms = worker_options.back_off_ms;
    options.parallel = (int)worker_options.jobs;
    options.quiet_ms = options.quiet_ms ? options.quiet_ms : -1;
    if (only)
        split_names(arena_text(&arena, str_of(only)));
    TRY(client_configure(&call->client, &config));
    TRY(read_auth());
    queues.server = config.server;
    queues.token = config.token;
    queues.ca = config.tls.ca;
    queues.cert = config.tls.cert;
    queues.key = config.tls.key;
    queues.keeper_ca = zk_tls.ca;
    queues.keeper_cert = zk_tls.cert;
    queues.keeper_key = zk_tls.key;
    queues.timeout_ms = (int)timeout_ms;
    int status = work(call);
    arena_release(&arena);
    return status;
}

const struct cmd cmd_queue_work = CMD_INIT(
    "queue work", "run a command for each message, sharing the queues with other workers", NULL,
    "Joins the workers and runs the command for each message of the queues that it owns,\n"
    "in order, with the message on its standard input. Exit status 0 moves on to the next\n"
    "message. The command finds DROVER_QUEUE, DROVER_MESSAGE (the id) and DROVER_FENCE, a\n"
    "number that rises whenever the queue changes hands, in its environment.",
    CMD_OPTIONS(
        WORKER_OPTIONS("After N failed attempts a message moves to the queue qdo_error.\n"
                       "Default: 11."),
        {"on-failure", "retry|skip|stop",
         "retry (default): retry the message, up to --attempts.\n"
         "skip: move the message to the queue qdo_error, and handle the next one.\n"
         "stop: exit with status 1; the message stays in its queue.",
         option_choice, &policy},
        {"queues", "QUEUE,...", "Only handle these queues. Default: all.", option_text, &only},
        {"settle", "TIME",
         "When workers or queues join or leave, wait until they have not changed for this\n"
         "long, then share the queues again. Default: 3s.",
         option_span, &options.quiet_ms, 0, 3600 * 1000},
        {"poll", "TIME",
         "Read an empty queue this often, besides when the server reports a message.\n"
         "Default: 10s.",
         option_span, &options.poll_ms, 1, 3600 * 1000},
        {"timeout", "TIME",
         "Session timeout: others take over the queues of a worker that the keeper has not\n"
         "heard from for this long. Default: 10s.",
         option_span, &timeout_ms, KEEPER_TIMEOUT_MIN_MS, KEEPER_TIMEOUT_MAX_MS},
        {"namespace", "PATH",
         "The node below which queues and workers are. Default: the one that the server\n"
         "names.",
         option_text, &queues.ns},
        {"keeper", "URL",
         "Where the workers meet: zk://HOST:PORT,.../CHROOT, or zks:// with TLS, an ensemble\n"
         "or the ZooKeeper port of a server. Default: the one that the server names.",
         option_text, &queues.keeper},
        {"zk-auth", "FILE",
         "Log in to the keeper with the user:password in this file. Default:\n"
         "$DROVER_ZK_AUTH.",
         option_text, &auth_file},
        ZK_TLS_OPTIONS(zk_tls, .flags = 0)),
    CMD_REMOTE, run_work, .takes_command = true);
