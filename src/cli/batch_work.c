/*
 * drover job work - a consumer: acquires jobs of a state and runs a command for each.
 *
 * A thread has a session of its own, which is kept alive while its command runs; when that cannot be
 * done for its timeout, the lock is lost and another may have the job, and the command is ended.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/batch_verb.h"

enum { THREADS_MAX = 256, WAIT_MS = 20 * 1000, AWAY_PAUSE_MS = 1000, SETTLE_PAUSE_MS = 200 };

struct work {
    struct client_options client;
    const char *state;
    int64_t jobs, timeout_ms;
    bool until_empty;
    char **command;
    atomic_bool broken;
};

struct consumer {
    struct work *w;
    struct client *acquires, *ends; /* a signal stops acquiring, not what comes after a command */
    char *session;                  /* NULL: none */
    int64_t alive_ms;               /* when it was last heard of */
    int status;
};

static void forget_session(struct consumer *c)
{
    free(c->session);
    c->session = NULL;
}

/*
 * After an answer that did not come: the session may hold a lock that nobody knows of. Where it cannot
 * be ended, it ends by itself, because nobody keeps it alive.
 */
static void drop_session(struct consumer *c)
{
    struct client_reply reply;

    if (c->session)
        client_try(c->ends, "DELETE",
                   arena_printf(client_arena(c->ends), "/v1/sessions/%s", c->session), NULL,
                   &reply);
    forget_session(c);
}

static int need_session(struct consumer *c)
{
    struct client_reply reply;
    int status;

    if (c->session)
        return CMD_OK;
    status = client_call(
        c->ends, "POST", "/v1/sessions",
        arena_printf(client_arena(c->ends), "{\"timeout\":%lld}", (long long)c->w->timeout_ms),
        &reply);
    if (!status) {
        struct str id = json_text_of(reply.json, "session");

        c->session = mem_dup(id.p, id.len);
        c->alive_ms = clock_boot_ms();
    }
    return status;
}

static bool keep_alive(void *arg)
{
    struct consumer *c = arg;
    struct client_reply reply;
    int64_t began_ms = clock_boot_ms();
    int status = client_try(c->ends, "PUT",
                            arena_printf(client_arena(c->ends), "/v1/sessions/%s", c->session),
                            NULL, &reply);

    if (!status && reply.status == 200)
        c->alive_ms = began_ms;
    if (!status && reply.status == 410)
        return false;
    return clock_boot_ms() - c->alive_ms < c->w->timeout_ms;
}

static int run(struct consumer *c, const struct json *job, int64_t token, int *ret_status)
{
    struct arena *a = client_arena(c->acquires);
    const char *variables[] = {
        arena_printf(a, "DROVER_JOB=%s", arena_text(a, json_text_of(job, "id"))),
        arena_printf(a, "DROVER_BATCH=%s", arena_text(a, json_text_of(job, "batch"))),
        arena_printf(a, "DROVER_STATE=%s", arena_text(a, json_text_of(job, "state"))),
        arena_printf(a, "DROVER_JOB_TOKEN=%lld", (long long)token),
        arena_printf(a, "DROVER_SESSION=%s", c->session),
        NULL,
    };
    struct child_options o = {
        .argv = c->w->command,
        .input = job->raw,
        .variables = variables,
        .tick_ms = c->w->timeout_ms / 3,
        .tick = keep_alive,
        .arg = c,
    };
    struct err_info e = {""};
    int err = child_run(&o, ret_status, &e);

    if (e.text[0])
        client_error("%s", e.text);
    return err;
}

/*
 * Moves the job. When no answer comes it is asked again, as long as the session may live: the token
 * makes sure that it is moved once, and that the command need not run again. A refusal after that only
 * says that an earlier try was heard.
 */
static void settle(struct consumer *c, const char *path, const char *body)
{
    int64_t until_ms = clock_boot_ms() + c->w->timeout_ms;
    struct client_reply reply;

    for (bool again = false;; again = true) {
        int status = client_try(c->ends, "PUT", path, body, &reply);

        if (!status && reply.status < 500) {
            if (reply.status != 200 && !again)
                client_refused(c->ends, &reply);
            return;
        }
        if (clock_boot_ms() >= until_ms || child_signal())
            break;
        child_pause(SETTLE_PAUSE_MS);
    }
    drop_session(c);
}

/* Success and failure move the job; a command that was ended from outside leaves it as it is. */
static void finish(struct consumer *c, const char *jid, int64_t token, int err, int status)
{
    struct arena *a = client_arena(c->ends);
    struct client_reply reply;

    if (err || child_signal()) {
        client_try(c->ends, "DELETE",
                   arena_printf(a, "/v1/locks/jobs/%s?token=%lld", jid, (long long)token), NULL,
                   &reply);
        return;
    }
    settle(c, arena_printf(a, "/v1/jobs/%s/state", jid),
           status == 0 ? arena_printf(a, "{\"state\":\"next\",\"token\":%lld,\"session\":\"%s\"}",
                                      (long long)token, c->session)
                       : arena_printf(a,
                                      "{\"state\":\"fail\",\"message\":\"exit status %d\","
                                      "\"token\":%lld,\"session\":\"%s\"}",
                                      status, (long long)token, c->session));
}

static const char *acquire_body(struct consumer *c)
{
    struct buf b = {0};
    const char *text;

    json_open(&b, '{');
    json_key(&b, "session");
    json_put_text(&b, str_of(c->session));
    json_key(&b, "state");
    json_put_text(&b, str_of(c->w->state));
    json_key(&b, "wait");
    json_put_int(&b, c->w->until_empty ? 0 : WAIT_MS);
    json_close(&b, '}');
    text = arena_text(client_arena(c->acquires), (struct str){b.p, b.len});
    buf_release(&b);
    return text;
}

/* One job. CMD_NOTHING: there was none. */
static int work_once(struct consumer *c)
{
    struct client_reply reply;
    const struct json *job;
    int status, exit_status = 0, err;
    int64_t token;

    if (need_session(c))
        return CMD_FAILURE;
    client_set_wait(c->acquires, WAIT_MS);
    status = client_try(c->acquires, "POST", "/v1/jobs/acquire", acquire_body(c), &reply);
    if (!status && reply.status == 410) {
        forget_session(c);
        return CMD_OK;
    }
    if (!status && reply.status != 200) {
        status = client_refused(c->acquires, &reply);
        if (reply.status < 500)
            atomic_store(&c->w->broken, true);
    }
    if (status) {
        drop_session(c);
        return status;
    }
    job = json_get(reply.json, "job");
    token = json_int_of(reply.json, "token");
    if (!job || job->kind != JSON_OBJECT)
        return CMD_NOTHING;
    c->alive_ms = clock_boot_ms();
    err = run(c, job, token, &exit_status);
    finish(c, arena_text(client_arena(c->ends), json_text_of(job, "id")), token, err, exit_status);
    return CMD_OK;
}

static void *consume(void *arg)
{
    struct consumer *c = arg;

    client_set_stop(c->acquires, child_stop_fd());
    while (!child_signal() && !atomic_load(&c->w->broken)) {
        c->status = work_once(c);
        client_forget(c->acquires);
        client_forget(c->ends);
        if (c->status == CMD_NOTHING && c->w->until_empty)
            break;
        if (c->status != CMD_OK && c->status != CMD_NOTHING)
            child_pause(AWAY_PAUSE_MS);
    }
    drop_session(c);
    return NULL;
}

static int work(struct work *w)
{
    struct consumer *consumers = mem_zalloc((size_t)w->jobs * sizeof *consumers);
    pthread_t *threads = mem_zalloc((size_t)w->jobs * sizeof *threads);
    int64_t started = 0;

    child_catch_signals();
    for (; started < w->jobs; started++) {
        struct consumer *c = &consumers[started];

        c->w = w;
        c->acquires = client_open(&w->client);
        c->ends = c->acquires ? client_open(&w->client) : NULL;
        if (!c->ends || thread_start(&threads[started], "batch-job", consume, c, NULL)) {
            client_close(c->acquires);
            atomic_store(&w->broken, true);
            break;
        }
    }
    for (int64_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        client_close(consumers[i].acquires);
        client_close(consumers[i].ends);
    }
    free(consumers);
    free(threads);
    return atomic_load(&w->broken) ? CMD_FAILURE : CMD_OK;
}

int cmd_job_work(int argc, char **argv)
{
    struct work w = {.jobs = 1, .timeout_ms = 10 * 1000};
    const struct option options[] = {
        {"state", "STATE", "Jobs that are in this state.", option_text, &w.state},
        {"jobs", "N", "Run up to that many commands at once. Default: 1.", option_number, &w.jobs,
         1, THREADS_MAX},
        {"timeout", "TIME",
         "A job is there for others when this process has not been heard of for so long.\n"
         "Default: 10s.",
         option_span, &w.timeout_ms, 1000, 3600 * 1000},
        {"until-empty", NULL, "End when there is nothing to acquire.", option_flag, &w.until_empty},
        CLIENT_OPTIONS(w.client),
    };
    const struct cmd cmd = {
        .name = "job work",
        .command = &w.command,
        .about =
            "Runs the command for each job of a state, by priority, with the job as JSON on its\n"
            "standard input and DROVER_JOB, DROVER_BATCH, DROVER_STATE, DROVER_JOB_TOKEN and\n"
            "DROVER_SESSION in its environment. Exit status 0 moves the job on, any other fails\n"
            "it; a job that is under way when TERM or INT comes is given back.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    if (!w.state)
        return cmd_usage_error(&cmd, "name a --state");
    if (!w.command || !w.command[0])
        return cmd_usage_error(&cmd, "name a command after --");
    return work(&w);
}
