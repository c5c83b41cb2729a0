/*
 * drover world work - a handler: claims tasks of some types and runs a command for each.
 *
 * A job is a thread with a session of its own. While the command runs, the session is kept alive; when
 * that cannot be done for its timeout, another may have the task already, and the command is ended.
 * While a claim waits, the server itself takes it for a sign of life.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/world_share.h"

enum {
    JOBS_MAX = 256,
    WAIT_MS = 20 * 1000,
    AWAY_PAUSE_MS = 1000,
    BACK_OFF_MS = 100, /* after a failure, doubled with each in a row */
    BACK_OFF_MAX_MS = 10 * 1000,
};

struct work {
    struct client_options client;
    struct option_list types;
    int64_t jobs, timeout_ms;
    bool until_empty;
    const char *world;
    char **command;
    atomic_bool broken;
};

struct job {
    struct work *w;
    struct client *claims, *ends; /* a signal stops the claims, not what ends them */
    char *session;                /* NULL: none */
    int64_t alive_ms;             /* when it was last heard of */
    int failures;                 /* in a row */
    int status;
};

static void forget_session(struct job *j)
{
    free(j->session);
    j->session = NULL;
}

static int need_session(struct job *j)
{
    struct str session;
    int status;

    if (j->session)
        return CMD_OK;
    status = world_open_session(j->ends, j->w->timeout_ms, &session);
    if (!status) {
        j->session = mem_dup(session.p, session.len);
        j->alive_ms = clock_boot_ms();
    }
    return status;
}

/* The session's sign of life, from inside child_run(). */
static bool keep_alive(void *arg)
{
    struct job *j = arg;
    struct client_reply reply;
    int64_t began_ms = clock_boot_ms();
    int status = client_try(j->ends, "PUT",
                            arena_printf(client_arena(j->ends), "/v1/sessions/%s", j->session),
                            NULL, &reply);

    if (!status && reply.status == 200)
        j->alive_ms = began_ms;
    if (!status && reply.status == 410)
        return false;
    return clock_boot_ms() - j->alive_ms < j->w->timeout_ms;
}

static const char *variable(struct arena *a, const char *name, struct str text)
{
    return arena_printf(a, "%s=%s", name, arena_text(a, text));
}

/*
 * The command. What the task is stands in its environment, its data on its standard input. One that
 * cannot be started is no fault of the task: it ends the work, and the result is an error.
 */
static int run(struct job *j, const struct json *reply, int *ret_status)
{
    struct arena *a = client_arena(j->claims);
    const struct json *task = json_get(reply, "task"), *data = json_get(task, "data");
    struct str node = STR(""), name = STR(""), type = STR(""), path = STR("");
    const char *variables[6];
    struct child_options o = {
        .argv = j->w->command,
        .input = data ? data->raw : STR("null"),
        .variables = variables,
        .tick_ms = j->w->timeout_ms / 3,
        .tick = keep_alive,
        .arg = j,
    };
    struct err_info e = {""};
    int err;

    json_get_text(reply, "node", &node, NULL);
    json_get_text(task, "name", &name, NULL);
    json_get_text(task, "type", &type, NULL);
    json_get_text(task, "path", &path, NULL);
    variables[0] = arena_printf(a, "DROVER_WORLD=%s", j->w->world);
    variables[1] = variable(a, "DROVER_NODE", node);
    variables[2] = variable(a, "DROVER_NAME", name);
    variables[3] = variable(a, "DROVER_TYPE", type);
    variables[4] = variable(a, "DROVER_PATH", path);
    variables[5] = NULL;
    err = child_run(&o, ret_status, &e);
    if (!e.text[0])
        return err;
    if (err || !atomic_exchange(&j->w->broken, true))
        client_error("%s", e.text);
    return err ? err : DROVER_BAD_ARGUMENT;
}

/*
 * After an answer that did not come, the session may hold a claim that nobody knows of. Where it cannot
 * be ended, it ends by itself, because nobody keeps it alive.
 */
static void drop_session(struct job *j)
{
    struct client_reply reply;

    if (j->session)
        client_try(j->ends, "DELETE",
                   arena_printf(client_arena(j->ends), "/v1/sessions/%s", j->session), NULL,
                   &reply);
    forget_session(j);
}

/* Says what came of it. A failure to say so gives the claim up, with the session. */
static void finish(struct job *j, const char *node, int err, int status)
{
    const char *how = err || child_signal() ? "/release" : !status ? "/complete" : "/fail";
    struct client_reply reply;
    int64_t pause_ms;
    char error[80];

    snprintf(error, sizeof error, "exit status %d", status);
    if (world_end_claim(j->ends, j->w->world, how, node, str_of(j->session),
                        !strcmp(how, "/fail") ? error : NULL, &reply))
        drop_session(j);
    if (err || !status || child_signal()) {
        j->failures = 0;
        return;
    }
    if (j->failures < 20)
        j->failures++;
    pause_ms = (int64_t)BACK_OFF_MS << (j->failures - 1);
    child_pause(pause_ms < BACK_OFF_MAX_MS ? pause_ms : BACK_OFF_MAX_MS);
}

/* One task. CMD_NOTHING: there was none. */
static int work_once(struct job *j)
{
    struct client_reply reply;
    struct buf body = {0};
    struct str node = STR("");
    int status, exit_status = 0, err;

    if (need_session(j))
        return CMD_FAILURE;
    world_put_claim(&body, &j->w->types, str_of(j->session), j->w->until_empty ? 0 : WAIT_MS);
    client_set_wait(j->claims, WAIT_MS);
    status = client_try(j->claims, "POST", world_url(j->claims, j->w->world, "/claim"),
                        buf_text(&body), &reply);
    buf_release(&body);
    if (!status && reply.status == 410) {
        forget_session(j);
        return CMD_OK;
    }
    if (!status && reply.status != 200) {
        status = client_refused(j->claims, &reply);
        if (reply.status < 500)
            atomic_store(&j->w->broken, true);
    }
    if (status) {
        drop_session(j);
        return status;
    }
    json_get_text(reply.json, "node", &node, NULL);
    if (!node.len)
        return CMD_NOTHING;
    j->alive_ms = clock_boot_ms();
    err = run(j, reply.json, &exit_status);
    finish(j, arena_text(client_arena(j->ends), node), err, exit_status);
    return CMD_OK;
}

static void *job_main(void *arg)
{
    struct job *j = arg;

    client_set_stop(j->claims, child_stop_fd());
    while (!child_signal() && !atomic_load(&j->w->broken)) {
        j->status = work_once(j);
        client_forget(j->claims);
        client_forget(j->ends);
        if (j->status == CMD_NOTHING && j->w->until_empty)
            break;
        if (j->status != CMD_OK && j->status != CMD_NOTHING)
            child_pause(AWAY_PAUSE_MS);
    }
    drop_session(j);
    return NULL;
}

static int work(struct work *w)
{
    struct job *jobs = mem_zalloc((size_t)w->jobs * sizeof *jobs);
    pthread_t *threads = mem_zalloc((size_t)w->jobs * sizeof *threads);
    int64_t started = 0;

    child_catch_signals();
    for (; started < w->jobs; started++) {
        struct job *j = &jobs[started];

        *j = (struct job){.w = w};
        j->claims = client_open(&w->client);
        j->ends = j->claims ? client_open(&w->client) : NULL;
        if (!j->ends || thread_start(&threads[started], "world-job", job_main, j, NULL)) {
            client_close(j->claims);
            atomic_store(&w->broken, true);
            break;
        }
    }
    for (int64_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        client_close(jobs[i].claims);
        client_close(jobs[i].ends);
    }
    free(jobs);
    free(threads);
    return atomic_load(&w->broken) ? CMD_FAILURE : CMD_OK;
}

int cmd_world_work(int argc, char **argv)
{
    struct work w = {.jobs = 1, .timeout_ms = 10 * 1000};
    const struct option options[] = {
        {"type", "TYPE", "Tasks of this type; may be given more than once.", option_list_add,
         &w.types},
        {"jobs", "N", "Run up to that many commands at once. Default: 1.", option_number, &w.jobs,
         1, JOBS_MAX},
        {"timeout", "TIME",
         "A task is there for others when this process has not been heard of for so long.\n"
         "Default: 10s.",
         option_span, &w.timeout_ms, 1000, 3600 * 1000},
        {"until-empty", NULL, "End when there is nothing to claim.", option_flag, &w.until_empty},
        CLIENT_OPTIONS(w.client),
    };
    const struct cmd cmd = {
        .name = "world work",
        .operands = "WORLD",
        .operands_min = 1,
        .operands_max = 1,
        .command = &w.command,
        .about = "Runs the command for each task of the types, oldest first, with the task's data "
                 "on its\n"
                 "standard input and DROVER_WORLD, DROVER_NODE, DROVER_NAME, DROVER_TYPE and\n"
                 "DROVER_PATH in its environment. Exit status 0 completes the task, any other "
                 "fails it,\n"
                 "and the next is begun a little later with each failure in a row; a task that is "
                 "under\n"
                 "way when TERM or INT comes is given back. A command that cannot be started ends "
                 "the work.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    if (!w.types.count)
        return cmd_usage_error(&cmd, "name a --type");
    if (!w.command || !w.command[0])
        return cmd_usage_error(&cmd, "name a command after --");
    w.world = argv[1];
    return work(&w);
}
