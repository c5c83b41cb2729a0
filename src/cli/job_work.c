/* drover job work - runs a command for each job of a state. */
#include <inttypes.h>
#include <stdio.h>

#include "base/child.h"
#include "base/clock.h"
#include "cli/worker.h"

enum { WAIT_MS = 20 * 1000, SETTLE_PAUSE_MS = 200, TIMEOUT_MS = 10 * 1000 };

static const char *state;
static int64_t timeout_ms = TIMEOUT_MS;

/* The job that a thread has. */
struct job_lock {
    const char *id; /* in the arena of takes */
    int64_t token;
};

static const char *acquire_body(const struct worker_thread *t)
{
    CLEANUP(buf_release) struct buf b = {0};

    json_open(&b, '{');
    json_member_text(&b, "session", str_of(t->session));
    json_member_text(&b, "state", str_of(state));
    json_member_int(&b, "wait", worker_options.until_empty ? 0 : WAIT_MS);
    json_close(&b, '}');
    return arena_text(client_arena(t->takes), buf_str(&b));
}

static enum worker_taken take(struct worker_thread *t, struct worker_item *ret_item)
{
    struct arena *a = client_arena(t->takes);
    struct job_lock *lock = t->own;
    struct client_reply reply;
    enum worker_taken taken = worker_session_open(t);

    if (taken == WORKER_TAKEN)
        taken = worker_session_take(t, "/v1/jobs/acquire", acquire_body(t), WAIT_MS, &reply);
    if (taken != WORKER_TAKEN)
        return taken;
    const struct json *job = json_get(reply.json, "job");
    if (!job || job->kind != JSON_OBJECT)
        return WORKER_NOTHING;
    lock->id = arena_text(a, json_text_of(job, "id"));
    lock->token = json_int_of(reply.json, "token");
    snprintf(ret_item->name, sizeof ret_item->name, "job %s", lock->id);
    ret_item->input = job->raw;
    ret_item->variables[0] = arena_printf(a, "DROVER_JOB=%s", lock->id);
    ret_item->variables[1] =
        arena_printf(a, "DROVER_BATCH=%s", arena_text(a, json_text_of(job, "batch")));
    ret_item->variables[2] =
        arena_printf(a, "DROVER_STATE=%s", arena_text(a, json_text_of(job, "state")));
    ret_item->variables[3] = arena_printf(a, "DROVER_JOB_TOKEN=%" PRId64, lock->token);
    ret_item->variables[4] = arena_printf(a, "DROVER_SESSION=%s", t->session);
    return WORKER_TAKEN;
}

/*
 * Moves the job. While there is no reply the request is repeated, as long as the session may live:
 * the token makes sure that the job moves once. A refusal after a repetition means that an earlier
 * request was carried out.
 */
static int move_job(struct worker_thread *t, const char *path, const char *body)
{
    int64_t until_ms = clock_boot_ms() + timeout_ms;
    struct client_reply reply;

    for (bool repeated = false;; repeated = true) {
        int status = client_try(t->ends, "PUT", path, body, &reply);

        if (!status && (reply.status == 200 || (reply.status < 500 && repeated)))
            return 0;
        client_describe(t->ends, status ? NULL : &reply, &t->error);
        if (!status && reply.status < 500)
            return DROVER_REFUSED;
        if (clock_boot_ms() >= until_ms || child_signal())
            break;
        child_pause(SETTLE_PAUSE_MS);
    }
    worker_session_end(t);
    return DROVER_UNKNOWN;
}

static int settle(struct worker_thread *t, struct worker_item *item, enum worker_outcome outcome,
                  int64_t back_off_ms, const char *why, const char **ret_where)
{
    const struct job_lock *lock = t->own;
    struct arena *a = client_arena(t->ends);
    struct client_reply reply;
    const char *message = "";

    (void)item;
    (void)back_off_ms;
    *ret_where = "failed";
    if (outcome == WORKER_RELEASED) {
        client_try(t->ends, "DELETE",
                   arena_printf(a, "/v1/locks/jobs/%s?token=%" PRId64, lock->id, lock->token), NULL,
                   &reply);
        return 0;
    }
    if (outcome != WORKER_DONE)
        message = arena_printf(a, "\"message\":\"%s\",", why);
    return move_job(t, arena_printf(a, "/v1/jobs/%s/state", lock->id),
                    arena_printf(a, "{\"state\":\"%s\",%s\"token\":%" PRId64 ",\"session\":\"%s\"}",
                                 outcome == WORKER_DONE ? "next" : "fail", message, lock->token,
                                 t->session));
}

static int run_work(const struct cmd_call *call)
{
    const struct worker_source source = {
        .attempts = 1,
        .own_size = sizeof(struct job_lock),
        .session_ms = timeout_ms,
        .tick_ms = timeout_ms / 3,
        .local_retries = true,
        .take = take,
        .renew = worker_session_renew,
        .settle = settle,
    };

    if (!state)
        return cmd_usage_error(call->cmd, "missing option: --state");
    return worker_run(&source, call, NULL);
}

const struct cmd cmd_job_work = CMD_INIT(
    "job work", "run a command for each job of a state", NULL,
    "Runs the command for each job of a state, by priority, with the job as JSON on its\n"
    "standard input and DROVER_JOB, DROVER_BATCH, DROVER_STATE, DROVER_JOB_TOKEN and\n"
    "DROVER_SESSION in its environment. Exit status 0 moves the job to the next state; any\n"
    "other, in the last attempt, fails it. On TERM or INT the running jobs are released.",
    CMD_OPTIONS(
        {"state", "STATE", "Jobs in this state. Required.", option_text, &state},
        WORKER_OPTIONS("Run the command up to N times before the job fails. Default: 1."),
        {"timeout", "TIME",
         "Others can acquire a job when the server has not heard from this worker for this\n"
         "long. Default: 10s.",
         option_span, &timeout_ms, 1000, 3600 * 1000}),
    CMD_REMOTE, run_work, .takes_command = true);
