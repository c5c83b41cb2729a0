/*
 * drover queue work - a worker that runs a command for each message. It is a program on the public
 * interface, and little more than that: drover_worker_join(), and a handler that starts the command.
 *
 * A command that runs when the worker is told to end gets the signal too; its message is handled again,
 * by whoever takes the queue, unless the command says with status 0 that it was done. A command that
 * cannot be started at all ends the worker: the messages are not to blame.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/http_client.h"
#include "cli/queue.h"
#include "drover.h"
#include "keeper/keeper.h"

enum { TICK_MS = 250, PARALLEL_MAX = 256, AUTH_LEN_MAX = 1024 };

struct queue_work {
    struct client_options client;
    struct drover_queues_options queues;
    struct drover_worker_options worker;
    struct client_config config;
    const char *auth_file, *only;
    int policy; /* enum drover_policy, by its place in the option's words */
    int64_t quiet_ms, poll_ms, timeout_ms, retries, parallel;
    bool verbose;
    char **command;

    char **names; /* of --queues */
    char auth[AUTH_LEN_MAX];
    struct drover_worker *running;
    atomic_bool broken, ended;
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fprintf(stderr, "drover: %s\n", line);
}

static void note(void *arg, const char *line)
{
    (void)arg;
    say("%s", line);
}

/* A message. */

static bool tick(void *arg)
{
    return drover_message_is_sure(arg);
}

static int judge(struct queue_work *w, struct drover_message *m, int status, const char *why)
{
    if (!status)
        return 0;
    if (child_signal() || !drover_message_is_sure(m))
        return -1;
    if (why[0]) { /* it could not be started */
        if (!atomic_exchange(&w->broken, true))
            say("%s", why);
        drover_worker_stop(w->running);
        return -1;
    }
    if (status > 128)
        snprintf(m->error, 256, "ended by signal %d", status - 128);
    else
        snprintf(m->error, 256, "exit status %d", status);
    return 1;
}

static int handle(void *arg, struct drover_message *m)
{
    struct queue_work *w = arg;
    char queue[64], id[64], fence[64];
    const char *variables[] = {queue, id, fence, NULL};
    struct err_info e = {""};
    int status = 0;
    const struct child_options o = {
        .argv = w->command,
        .input = {m->data, m->data_len},
        .variables = variables,
        .tick_ms = TICK_MS,
        .tick = tick,
        .arg = m,
        .grace_ms = drover_message_grace_ms(m),
    };

    if (child_signal() || w->broken)
        return -1;
    snprintf(queue, sizeof queue, "DROVER_QUEUE=%s", m->queue);
    snprintf(id, sizeof id, "DROVER_MESSAGE=%" PRId64, m->id);
    snprintf(fence, sizeof fence, "DROVER_FENCE=%" PRId64, m->fence);
    if (child_run(&o, &status, &e)) {
        say("message %" PRId64 " of %s: %s", m->id, m->queue, e.text);
        return -1;
    }
    status = judge(w, m, status, e.text);
    if (w->verbose && !status)
        say("message %" PRId64 " of %s: done", m->id, m->queue);
    return status;
}

/* Signals. */

static void *follow_signals(void *arg)
{
    struct queue_work *w = arg;

    while (!w->ended && !child_signal())
        child_pause(TICK_MS);
    if (child_signal())
        drover_worker_stop(w->running);
    return NULL;
}

static int refuse(int err, const struct drover_error *e)
{
    client_error("%s", e->text);
    return err == DROVER_BAD_ARGUMENT ? CMD_USAGE : CMD_FAILURE;
}

static int run(struct queue_work *w)
{
    struct drover_queues *qs;
    struct drover_error e = {""};
    pthread_t follower;
    int err = drover_queues_open(&w->queues, &qs, &e);

    if (err)
        return refuse(err, &e);
    child_catch_signals();
    err = drover_worker_join(qs, &w->worker, &w->running, &e);
    if (err) {
        drover_queues_close(qs);
        return refuse(err, &e);
    }
    thread_must_start(&follower, "queue-signals", follow_signals, w);
    err = drover_worker_wait(w->running);
    w->ended = true;
    pthread_join(follower, NULL);
    drover_worker_free(w->running);
    drover_queues_close(qs);
    if (child_signal())
        return 128 + child_signal();
    return err || w->broken ? CMD_FAILURE : CMD_OK;
}

/* Options. */

static int read_auth(struct queue_work *w)
{
    FILE *f = w->auth_file ? fopen(w->auth_file, "re") : NULL;

    w->queues.auth = getenv("DROVER_ZK_AUTH");
    if (!w->auth_file)
        return CMD_OK;
    if (!f || !fgets(w->auth, sizeof w->auth, f))
        w->auth[0] = '\0';
    if (f)
        fclose(f);
    w->auth[strcspn(w->auth, "\r\n")] = '\0';
    if (!w->auth[0])
        return client_error("cannot read %s, which --zk-auth names", w->auth_file);
    w->queues.auth = w->auth;
    return CMD_OK;
}

/* "a,b,c" into a list. */
static void split_names(struct queue_work *w, char *list)
{
    size_t count = 1;
    char *name, *rest = list;

    for (const char *at = list; *at; at++)
        count += *at == ',';
    w->names = mem_zalloc((count + 1) * sizeof *w->names);
    for (count = 0; (name = strsep(&rest, ","));)
        w->names[count++] = name;
    w->worker.only = (const char *const *)w->names;
    w->worker.only_count = count;
}

static int choose(struct queue_work *w)
{
    static const enum drover_policy policies[] = {DROVER_RETRY, DROVER_SKIP, DROVER_STOP};

    if (!client_configure(&w->client, &w->config))
        return CMD_FAILURE;
    w->queues.server = w->config.server;
    w->queues.token = w->config.token;
    w->queues.timeout_ms = (int)w->timeout_ms;
    w->worker.handle = handle;
    w->worker.arg = w;
    w->worker.note = note;
    w->worker.policy = policies[w->policy];
    w->worker.retries = w->retries ? (int)w->retries : -1;
    w->worker.parallel = (int)w->parallel;
    w->worker.quiet_ms = w->quiet_ms ? w->quiet_ms : -1;
    w->worker.poll_ms = w->poll_ms;
    return read_auth(w);
}

int cmd_queue_work(int argc, char **argv)
{
    struct queue_work w = {
        .quiet_ms = 3000, .poll_ms = 10000, .timeout_ms = 10000, .retries = 10, .parallel = 1};
    const struct option options[] = {
        CLIENT_SERVER_OPTIONS(w.client),
        {"keeper", "URL",
         "Where the workers meet: zk://HOST:PORT,.../CHROOT, an ensemble or the ZooKeeper port of\n"
         "a server. Default: what the server names.",
         option_text, &w.queues.keeper},
        {"zk-auth", "FILE",
         "Log on to the keeper with the user:password that this file holds. Default: what\n"
         "$DROVER_ZK_AUTH holds.",
         option_text, &w.auth_file},
        {"namespace", "PATH", "The node below which queues and workers are. Default: /mozilla-qdo.",
         option_text, &w.queues.ns},
        {"queues", "QUEUE,...", "Handle these only. Default: all.", option_text, &w.only},
        {"quiet", "TIME",
         "When workers or queues come or go, wait until they have not changed for so long, then\n"
         "share the queues anew. Default: 3s.",
         option_span, &w.quiet_ms, 0, 3600 * 1000},
        {"quiet-ms", "N", "The same, in milliseconds.", option_number, &w.quiet_ms, 0, 3600 * 1000},
        {"poll", "TIME",
         "Look into an empty queue so often, beside when the server tells of a message.\n"
         "Default: 10s.",
         option_span, &w.poll_ms, 1, 3600 * 1000},
        {"timeout", "TIME",
         "A worker that the keeper has not heard of for so long is dead, and others take its\n"
         "queues. Default: 10s.",
         option_span, &w.timeout_ms, KEEPER_TIMEOUT_MIN_MS, KEEPER_TIMEOUT_MAX_MS},
        {"on-failure", "retry|skip|stop",
         "retry (default): again, later and later; after --retries it is skipped.\n"
         "skip: the message goes to the queue qdo_error, and the next one is handled.\n"
         "stop: the worker ends with status 1, and the message stays where it is.",
         option_choice, &w.policy},
        {"retries", "N", "With retry: how often, before a message is skipped. Default: 10.",
         option_number, &w.retries, 0, 1000000},
        {"parallel", "N", "Messages in hand at once, each of another queue. Default: 1.",
         option_number, &w.parallel, 1, PARALLEL_MAX},
        {"verbose", NULL, "Say so when a message is done.", option_flag, &w.verbose},
    };
    const struct cmd cmd = {
        .name = "queue work",
        .command = &w.command,
        .about =
            "Joins the workers and runs a command for each message of the queues that are its\n"
            "share, in order, the message on standard input. Status 0 moves on to the next. The\n"
            "command finds $DROVER_QUEUE, $DROVER_MESSAGE (its id) and $DROVER_FENCE, a number\n"
            "that rises whenever the queue changes hands.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    char *only;
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    if (!w.command || !w.command[0])
        return cmd_usage_error(&cmd, "missing argument: -- COMMAND");
    only = w.only ? mem_dup(w.only, strlen(w.only)) : NULL;
    if (only)
        split_names(&w, only);
    status = choose(&w);
    if (!status)
        status = run(&w);
    free(w.names);
    free(only);
    return status;
}
