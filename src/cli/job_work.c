/* drover job work - runs a command for each job of a state. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/worker.h"

enum { SETTLE_PAUSE_MS = 200 };

static const char *state;

/* The job that a thread has. */
struct job_lock {
    const char *id; /* in the arena of takes */
    int64_t token;
};

static enum worker_taken take(struct worker_thread *t, struct worker_item *ret_item)
{
    CLEANUP(buf_release) struct buf body = {0};
    struct arena *a = &t->takes.arena;
    struct job_lock *lock = t->own;
    struct client_reply reply;

    json_open(&body, '{');
    json_member_text(&body, "state", str_of(state));
    enum worker_taken taken = worker_session_take(t, "/v1/jobs/acquire", &body, &reply);
    if (taken != WORKER_TAKEN)
        return taken;
    const struct json *job = json_get(reply.json, "job");
    if (!job || job->kind != JSON_OBJECT)
        return WORKER_NOTHING;
    struct str batch = json_text_of(job, "batch"), state_now = json_text_of(job, "state");
    lock->id = arena_text(a, json_text_of(job, "id"));
    lock->token = json_int_of(reply.json, "token");
    snprintf(ret_item->name, sizeof ret_item->name, "job %s", lock->id);
    ret_item->input = job->raw;
    ret_item->variables[0] = arena_printf(a, "DROVER_JOB=%s", lock->id);
    ret_item->variables[1] = arena_printf(a, "DROVER_BATCH=%.*s", STR_ARGS(batch));
    ret_item->variables[2] = arena_printf(a, "DROVER_STATE=%.*s", STR_ARGS(state_now));
    ret_item->variables[3] = arena_printf(a, "DROVER_JOB_TOKEN=%" PRId64, lock->token);
    ret_item->variables[4] = arena_printf(a, "DROVER_SESSION=%s", t->session);
    return WORKER_TAKEN;
}

/*
 * Moves the job. While there is no reply the request is repeated, as long as the session may live:
 * the token makes sure that the job moves once. A refusal after a repetition means that an earlier
 * request was carried out.
 */
static int move_job(struct worker_thread *t, const char *id, const char *body)
{
    int64_t until_ms = clock_boot_ms() + worker_options.session_ms;
    struct client_reply reply;

    for (bool repeated = false;; repeated = true) {
        int status = client_try(&t->ends, &reply, body, "PUT /v1/jobs/%s/state", id);

        if (!status && (reply.status == 200 || (reply.status < 500 && repeated)))
            return 0;
        client_describe(&t->ends, status ? NULL : &reply, &t->error);
        if (!status && reply.status < 500)
            return DROVER_REFUSED;
        if (clock_boot_ms() >= until_ms || child_signal())
            break;
        child_pause(SETTLE_PAUSE_MS);
    }
    worker_session_end(t);
    return DROVER_UNKNOWN;
}

static int settle(struct worker_thread *t, struct worker_item *item, enum worker_outcome outcome)
{
    const struct job_lock *lock = t->own;
    CLEANUP(buf_release) struct buf body = {0};
    struct client_reply reply;

    item->where = "failed";
    if (outcome == WORKER_RELEASED) {
        client_try(&t->ends, &reply, NULL, "DELETE /v1/locks/jobs/%s?token=%" PRId64, lock->id,
                   lock->token);
        return 0;
    }
    json_open(&body, '{');
    json_member_text(&body, "state", outcome == WORKER_DONE ? STR("next") : STR("fail"));
    if (outcome != WORKER_DONE)
        json_member_text(&body, "message", str_of(item->why.text));
    json_member_int(&body, "token", lock->token);
    json_member_text(&body, "session", str_of(t->session));
    json_close(&body, '}');
    return move_job(t, lock->id, buf_text(&body));
}

static int run_work(const struct cmd_call *call)
{
    const struct worker_source source = {
        .attempts = 1,
        .own_size = sizeof(struct job_lock),
        .has_sessions = true,
        .local_retries = true,
        .take = take,
        .settle = settle,
    };

    if (!state)
        return cmd_usage_error(call->cmd, "missing option: --state");
    return worker_run(&source, call);
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
         option_span, &worker_options.session_ms, 1000, 3600 * 1000}),
    CMD_REMOTE, run_work, .takes_command = true);
