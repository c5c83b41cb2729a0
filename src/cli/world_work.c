/*
 * drover world work - runs a command for each task of some types.
 *
 * A world counts the failures of a task but has no dead state: after --attempts the task stays
 * pending, behind the others. With --until-empty it is not tried again: its claim is kept, without
 * running the command, until the session of the thread ends.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/worker.h"

enum { PAUSE_MAX_MS = 10 * 1000 };

static struct option_list types;

static const char *world_path(struct client *c, const struct worker_thread *t, const char *what)
{
    return arena_printf(&c->arena, "/v1/worlds/%s/%s",
                        client_quote(c, str_of(t->call->operands[0])), what);
}

static const char *variable(struct arena *a, const char *name, struct str text)
{
    return arena_printf(a, "%s=%s", name, arena_text(a, text));
}

static void describe_task(struct worker_thread *t, const struct json *reply,
                          struct worker_item *item)
{
    const struct json *task = json_get(reply, "task"), *data = json_get(task, "data");
    struct arena *a = &t->takes.arena;
    struct str node = json_text_of(reply, "node");

    *(const char **)t->own = arena_text(a, node);
    snprintf(item->name, sizeof item->name, "task %.*s", STR_ARGS(node));
    item->input = data ? data->raw : STR("null");
    item->attempt = json_int_of(task, "failures") + 1;
    item->variables[0] = arena_printf(a, "DROVER_WORLD=%s", t->call->operands[0]);
    item->variables[1] = variable(a, "DROVER_NODE", node);
    item->variables[2] = variable(a, "DROVER_NAME", json_text_of(task, "name"));
    item->variables[3] = variable(a, "DROVER_TYPE", json_text_of(task, "type"));
    item->variables[4] = variable(a, "DROVER_PATH", json_text_of(task, "path"));
}

static enum worker_taken take(struct worker_thread *t, struct worker_item *ret_item)
{
    CLEANUP(buf_release) struct buf body = {0};
    struct client_reply reply;

    json_open(&body, '{');
    json_member_texts(&body, "types", types.items, types.count);
    enum worker_taken taken =
        worker_session_take(t, world_path(&t->takes, t, "claim"), &body, &reply);
    if (taken != WORKER_TAKEN)
        return taken;
    if (!json_text_of(reply.json, "node").len)
        return WORKER_NOTHING;
    describe_task(t, reply.json, ret_item);
    if (!worker_options.until_empty || ret_item->attempt <= worker_options.attempts)
        return WORKER_TAKEN;
    worker_skip_dead(ret_item);
    return WORKER_AGAIN;
}

static int settle(struct worker_thread *t, struct worker_item *item, enum worker_outcome outcome)
{
    static const char *const how[] = {[WORKER_DONE] = "complete",
                                      [WORKER_RETRY] = "fail",
                                      [WORKER_DEAD] = "fail",
                                      [WORKER_RELEASED] = "release"};
    CLEANUP(buf_release) struct buf body = {0};
    struct client_reply reply;

    json_open(&body, '{');
    json_member_text(&body, "node", str_of(*(const char **)t->own));
    json_member_text(&body, "session", str_of(t->session));
    if (outcome == WORKER_RETRY || outcome == WORKER_DEAD)
        json_member_text(&body, "error", str_of(item->why.text));
    json_close(&body, '}');
    int status = client_try(&t->ends, &reply, buf_text(&body), "POST %s",
                            world_path(&t->ends, t, how[outcome]));
    item->where = "it stays pending";
    if (!status && reply.status == 200)
        return 0;
    client_describe(&t->ends, status ? NULL : &reply, &t->error);
    worker_session_end(t);
    return DROVER_UNKNOWN;
}

static int run_work(const struct cmd_call *call)
{
    const struct worker_source source = {
        .attempts = 5,
        .own_size = sizeof(char *),
        .has_sessions = true,
        .retry_pause_max_ms = PAUSE_MAX_MS,
        .take = take,
        .settle = settle,
    };

    if (!types.count)
        return cmd_usage_error(call->cmd, "missing option: --type");
    return worker_run(&source, call);
}

const struct cmd cmd_world_work = CMD_INIT(
    "world work", "run a command for each task", "WORLD",
    "Runs the command for each task of the types, oldest first, with the data of the task\n"
    "on its standard input and DROVER_WORLD, DROVER_NODE, DROVER_NAME, DROVER_TYPE and\n"
    "DROVER_PATH in its environment. Exit status 0 completes the task, any other fails it.\n"
    "On TERM or INT the running tasks are released.",
    CMD_OPTIONS(
        {"type", "TYPE", "Tasks of this type; may be given more than once.", option_list_add,
         &types},
        WORKER_OPTIONS("After N failures a task is dead: it is reported and stays pending; with\n"
                       "--until-empty it is not tried again. Default: 5."),
        {"timeout", "TIME",
         "Others can claim a task when the server has not heard from this worker for this\n"
         "long. Default: 10s.",
         option_span, &worker_options.session_ms, 1000, 3600 * 1000}),
    CMD_REMOTE, run_work, .takes_command = true);
