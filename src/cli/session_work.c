/*
 * drover world work, drover job work - run a command for each task of some types, or for each job
 * of a state. Each thread has a session of the server, which holds the claim of its item and is
 * kept alive while the command runs.
 *
 * A world counts the failures of a task. How many attempts it has is said by the task, else by
 * --attempts; after the last one it has failed, for everybody.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cli/worker.h"

enum { TAKE_WAIT_MS = 20 * 1000, PAUSE_MAX_MS = 10 * 1000, SETTLE_PAUSE_MS = 200 };

static struct option_list types;
static const char *state;
static int64_t timeout_ms = 10 * 1000;

/* A thread's own. */
struct session {
    struct client takes, ends; /* a signal stops the first, not the second */
    char *id;                  /* NULL: none */
    int64_t alive_ms;          /* when it was last known to live */
    const char *item;          /* the node or the job, in the arena of takes */
    int64_t token;             /* of the job */
};

static void forget_session(struct session *s)
{
    free(s->id);
    s->id = NULL;
}

/* If this request fails too, the session ends by its timeout. */
static void end_session(struct session *s)
{
    struct client_reply reply;
    if (s->id)
        client_try(&s->ends, &reply, NULL, "DELETE /v1/sessions/%s", s->id);
    forget_session(s);
}

static int open_clients(struct worker_thread *t)
{
    struct session *s = t->own;
    s->takes.silent = s->ends.silent = true;
    s->takes.wait_ms = TAKE_WAIT_MS;
    TRY(client_open(&s->takes, &t->call->client));
    transport_set_stop(s->takes.transport, child_stop_fd());
    return client_open(&s->ends, &t->call->client);
}

static void close_clients(struct worker_thread *t)
{
    struct session *s = t->own;
    end_session(s);
    client_close(&s->takes);
    client_close(&s->ends);
}

/* A server error, or no reply, may pass; a refusal stays one. */
static enum worker_taken refused(struct worker_thread *t, const struct client *c,
                                 const struct client_reply *reply)
{
    client_describe(c, reply, &t->error);
    return c->err || reply->status >= 500 ? WORKER_AWAY : WORKER_BROKEN;
}

static enum worker_taken open_session(struct worker_thread *t)
{
    struct session *s = t->own;
    struct client_reply reply;
    char body[64];
    snprintf(body, sizeof body, "{\"timeout\":%" PRId64 "}", timeout_ms);
    if (client_try(&s->ends, &reply, body, "POST /v1/sessions") || reply.status / 100 != 2)
        return refused(t, &s->ends, &reply);
    struct str id = json_text_of(reply.json, "session");
    s->id = mem_dup(id.p, id.len);
    s->alive_ms = clock_boot_ms();
    return WORKER_TAKEN;
}

static bool renew(struct worker_thread *t)
{
    struct session *s = t->own;
    struct client_reply reply;
    int64_t began_ms = clock_boot_ms();
    int status = client_try(&s->ends, &reply, NULL, "PUT /v1/sessions/%s", s->id);
    if (!status && reply.status == 200)
        s->alive_ms = began_ms;
    if (!status && reply.status == 410)
        return false;
    return clock_boot_ms() - s->alive_ms < timeout_ms;
}

/*
 * Sends a request that takes an item, waiting for one; TAKEN: there is a reply. body is an object
 * that is still open. Opens a session if there is none, and handles one that has ended.
 */
static enum worker_taken take_item(struct worker_thread *t, const char *path, struct buf *body,
                                   struct client_reply *ret_reply)
{
    struct session *s = t->own;

    arena_reset(&s->takes.arena);
    arena_reset(&s->ends.arena);
    enum worker_taken taken = s->id ? WORKER_TAKEN : open_session(t);
    if (taken != WORKER_TAKEN)
        return taken;
    json_member_text(body, "session", str_of(s->id));
    json_member_int(body, "wait", worker_options.until_empty ? 0 : TAKE_WAIT_MS);
    json_close(body, '}');
    bool failed = client_try(&s->takes, ret_reply, buf_text(body), "POST %s", path);
    if (!failed)
        s->alive_ms = clock_boot_ms();
    if (!failed && ret_reply->status == 200)
        return WORKER_TAKEN;
    if (!failed && ret_reply->status == 410) {
        forget_session(s);
        return WORKER_AGAIN;
    }
    taken = refused(t, &s->takes, ret_reply);
    end_session(s); /* it may hold a claim that this process does not know of */
    return taken;
}

static const char *variable(struct session *s, const char *name, struct str text)
{
    return arena_printf(&s->takes.arena, "%s=%.*s", name, STR_ARGS(text));
}

/* Both commands run the same worker; they differ in how an item is taken and settled. */
static int run_source(const struct cmd_call *call, struct worker_source source)
{
    source.own_size = sizeof(struct session);
    source.tick_ms = timeout_ms / 3;
    source.open = open_clients;
    source.close = close_clients;
    source.renew = renew;
    return worker_run(&source, call);
}

/* Tasks of worlds. */

static enum worker_taken take_task(struct worker_thread *t, struct worker_item *ret_item)
{
    CLEANUP(buf_release) struct buf body = {0}, path = {0};
    struct session *s = t->own;
    struct client_reply reply;

    buf_printf(&path, "/v1/worlds/%s/claim", client_quote(&s->takes, str_of(t->call->operands[0])));
    json_open(&body, '{');
    json_member_texts(&body, "types", types.items, types.count);
    enum worker_taken taken = take_item(t, buf_text(&path), &body, &reply);
    if (taken != WORKER_TAKEN)
        return taken;
    const struct json *task = json_get(reply.json, "task"), *data = json_get(task, "data");
    struct str node = json_text_of(reply.json, "node");
    int64_t limit = json_int_of(task, "attempts");
    if (!node.len)
        return WORKER_NOTHING;
    s->item = arena_text(&s->takes.arena, node);
    *ret_item = (struct worker_item){
        .input = data ? data->raw : STR("null"),
        .attempt = limit ? json_int_of(task, "tries") : json_int_of(task, "failures") + 1,
        .attempts = limit,
        .variables = {variable(s, "DROVER_WORLD", str_of(t->call->operands[0])),
                      variable(s, "DROVER_NODE", node),
                      variable(s, "DROVER_NAME", json_text_of(task, "name")),
                      variable(s, "DROVER_TYPE", json_text_of(task, "type")),
                      variable(s, "DROVER_PATH", json_text_of(task, "path"))},
    };
    snprintf(ret_item->name, sizeof ret_item->name, "task %s", s->item);
    return WORKER_TAKEN;
}

static int settle_task(struct worker_thread *t, struct worker_item *item,
                       enum worker_outcome *outcome)
{
    static const char *const how[] = {[WORKER_DONE] = "complete",
                                      [WORKER_RETRY] = "fail",
                                      [WORKER_DEAD] = "fail",
                                      [WORKER_RELEASED] = "release"};
    CLEANUP(buf_release) struct buf body = {0};
    struct session *s = t->own;
    struct client_reply reply;

    json_open(&body, '{');
    json_member_text(&body, "node", str_of(s->item));
    json_member_text(&body, "session", str_of(s->id));
    if (*outcome == WORKER_RETRY || *outcome == WORKER_DEAD)
        json_member_text(&body, "error", str_of(item->why.text));
    if (*outcome == WORKER_DEAD)
        json_member_bool(&body, "final", true);
    json_close(&body, '}');
    if (!client_try(&s->ends, &reply, buf_text(&body), "POST /v1/worlds/%s/%s",
                    client_quote(&s->ends, str_of(t->call->operands[0])), how[*outcome]) &&
        reply.status == 200) {
        bool failed = str_eq(json_text_of(reply.json, "state"), STR("failed"));
        item->where = failed ? "it has failed" : "it was queued again";
        return 0;
    }
    client_describe(&s->ends, &reply, &t->error);
    end_session(s);
    return DROVER_UNKNOWN;
}

static int run_world_work(const struct cmd_call *call)
{
    if (!types.count)
        return cmd_usage_error(call->cmd, "missing option: --type");
    return run_source(call, (struct worker_source){.attempts = 5,
                                                   .retry_pause_max_ms = PAUSE_MAX_MS,
                                                   .take = take_task,
                                                   .settle = settle_task});
}

const struct cmd cmd_world_work = CMD_INIT(
    "world work", "run a command for each task", "WORLD",
    "Runs the command for each task of the types, oldest first, with the data of the task\n"
    "on its standard input and DROVER_WORLD, DROVER_NODE, DROVER_NAME, DROVER_TYPE and\n"
    "DROVER_PATH in its environment. Exit status 0 completes the task, any other fails it.\n"
    "On TERM or INT the running tasks are released.",
    CMD_OPTIONS({"type", "TYPE", "Tasks of this type; may be given more than once.",
                 option_list_add, &types},
                WORKER_OPTIONS(
                    "After N attempts a task has failed, unless it has a limit of its own (world\n"
                    "queue --attempts). Default: 5."),
                {"timeout", "TIME",
                 "Others can claim a task when the server has not heard from this worker for this\n"
                 "long. Default: 10s.",
                 option_span, &timeout_ms, 1000, 3600 * 1000}),
    CMD_REMOTE, run_world_work, .takes_command = true);

/* Jobs. */

static enum worker_taken take_job(struct worker_thread *t, struct worker_item *ret_item)
{
    CLEANUP(buf_release) struct buf body = {0};
    struct session *s = t->own;
    struct client_reply reply;

    json_open(&body, '{');
    json_member_text(&body, "state", str_of(state));
    enum worker_taken taken = take_item(t, "/v1/jobs/acquire", &body, &reply);
    if (taken != WORKER_TAKEN)
        return taken;
    const struct json *job = json_get(reply.json, "job");
    if (!job || job->kind != JSON_OBJECT)
        return WORKER_NOTHING;
    s->item = arena_text(&s->takes.arena, json_text_of(job, "id"));
    s->token = json_int_of(reply.json, "token");
    *ret_item = (struct worker_item){
        .input = job->raw,
        .attempt = 1,
        .variables = {variable(s, "DROVER_JOB", str_of(s->item)),
                      variable(s, "DROVER_BATCH", json_text_of(job, "batch")),
                      variable(s, "DROVER_STATE", json_text_of(job, "state")),
                      arena_printf(&s->takes.arena, "DROVER_JOB_TOKEN=%" PRId64, s->token),
                      variable(s, "DROVER_SESSION", str_of(s->id))},
    };
    snprintf(ret_item->name, sizeof ret_item->name, "job %s", s->item);
    return WORKER_TAKEN;
}

/*
 * Moves the job. While there is no reply the request is repeated, as long as the session may live:
 * the token makes sure that the job moves once. A refusal after a repetition means that an earlier
 * request was carried out.
 */
static int move_job(struct worker_thread *t, const char *body)
{
    int64_t until_ms = clock_boot_ms() + timeout_ms;
    struct session *s = t->own;
    struct client_reply reply;
    for (bool repeated = false;; repeated = true) {
        int status = client_try(&s->ends, &reply, body, "PUT /v1/jobs/%s/state", s->item);
        if (!status && (reply.status == 200 || (reply.status < 500 && repeated)))
            return 0;
        client_describe(&s->ends, &reply, &t->error);
        if (!status && reply.status < 500)
            return DROVER_REFUSED;
        if (clock_boot_ms() >= until_ms || child_signal())
            break;
        child_pause(SETTLE_PAUSE_MS);
    }
    end_session(s);
    return DROVER_UNKNOWN;
}

static int settle_job(struct worker_thread *t, struct worker_item *item,
                      enum worker_outcome *outcome)
{
    CLEANUP(buf_release) struct buf body = {0};
    struct session *s = t->own;
    struct client_reply reply;
    item->where = "failed";
    if (*outcome == WORKER_RELEASED) {
        client_try(&s->ends, &reply, NULL, "DELETE /v1/locks/jobs/%s?token=%" PRId64, s->item,
                   s->token);
        return 0;
    }
    json_open(&body, '{');
    json_member_text(&body, "state", *outcome == WORKER_DONE ? STR("next") : STR("fail"));
    if (*outcome != WORKER_DONE)
        json_member_text(&body, "message", str_of(item->why.text));
    json_member_int(&body, "token", s->token);
    json_member_text(&body, "session", str_of(s->id));
    json_close(&body, '}');
    return move_job(t, buf_text(&body));
}

static int run_job_work(const struct cmd_call *call)
{
    if (!state)
        return cmd_usage_error(call->cmd, "missing option: --state");
    return run_source(
        call, (struct worker_source){
                  .attempts = 1, .local_retries = true, .take = take_job, .settle = settle_job});
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
    CMD_REMOTE, run_job_work, .takes_command = true);
