/* drover exec - one command as a node. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/dag.h"

static const char *group, *cwd;
static int64_t timeout_ms;

static void put_exec(struct buf *b, int count, char **words)
{
    char here[4096];

    json_open(b, '[');
    json_open(b, '{');
    json_member_open(b, "metadata", '{');
    json_member_text(b, "type", STR("command"));
    if (group) {
        json_member_text(b, "group", str_of(group));
    }
    json_close(b, '}');
    json_member_open(b, "data", '{');
    json_member_text(b, "command", str_of(words[0]));
    json_member_open(b, "args", '[');
    for (int i = 1; i < count; i++)
        json_put_text(b, str_of(words[i]));
    json_close(b, ']');
    if (cwd || getcwd(here, sizeof here)) {
        json_member_text(b, "cwd", str_of(cwd ? cwd : here));
    }
    if (timeout_ms) {
        json_member_int(b, "timeout", timeout_ms);
    }
    json_close(b, '}');
    json_close(b, '}');
    json_close(b, ']');
}

/* The first interrupt kills the node and waits for its end; the second does not wait. */
static void check_interrupts(struct client *c, const char *id, bool *killed)
{
    struct client_reply reply;

    if (!interrupts_count() || *killed)
        return;
    *killed = true;
    signal(SIGINT, SIG_DFL);
    client_error("interrupted: killing node %s; interrupt again to stop waiting for it", id);
    client_call(c, "PUT", arena_printf(client_arena(c), "/v1/scheduler/kill?id=%s", id), NULL,
                &reply);
}

/* Copies both outputs until the node has ended. Returns its exit status. */
static int follow_exec(struct client *c, const char *id)
{
    struct dag_output out = {.id = id, .key = "stdout", .to = stdout};
    struct dag_output err = {.id = id, .key = "stderr", .to = stderr};
    bool more_out = true, more_err = true, killed = false;
    struct client_reply reply;
    int status = CMD_OK;

    interrupts_catch();
    while (!status && (more_out || more_err)) {
        check_interrupts(c, id, &killed);
        if (more_out)
            status = follow_output(c, &out, out.pid[0] ? 200 : 0, &more_out);
        if (more_err && !status)
            status = follow_output(c, &err, 0, &more_err);
    }
    client_set_wait(c, INT64_C(1) << 40);
    if (!status)
        status = client_call(
            c, "GET", arena_printf(client_arena(c), "/v1/scheduler/wait?id=%s", id), NULL, &reply);
    if (!status)
        status = get_node(c, id, &reply);
    if (status)
        return status;
    struct str state = json_text_of(json_get(reply.json, "metadata"), "state");
    const struct json *result = json_get(json_get(reply.json, "data"), "result");
    if (!str_eq(state, STR("finished"))) {
        struct str reason = json_text_of(json_get(reply.json, "metadata"), "reason");

        client_error("node %s %.*s: %.*s", id, STR_ARGS(state), STR_ARGS(reason));
    }
    if (killed)
        return 130;
    return result && result->kind == JSON_INT && (result->number || str_eq(state, STR("finished")))
               ? (int)result->number
               : CMD_FAILURE;
}

static int run_exec(const struct cmd_call *call)
{
    struct client *c = client_open(&call->client);
    struct client_reply reply;
    struct buf body = {0};

    if (!c)
        return CMD_FAILURE;
    put_exec(&body, call->count, call->operands);
    int status = client_call(c, "POST", "/v1/nodes", buf_text(&body), &reply);
    buf_release(&body);
    if (!status) {
        struct str id = json_text_of(reply.json ? reply.json->first : NULL, "id");
        char text[24];

        snprintf(text, sizeof text, "%.*s", STR_ARGS(id));
        status = follow_exec(c, text);
    }
    client_close(c);
    return status;
}

const struct cmd cmd_exec = CMD_INIT(
    "exec", "run one command as a node", "-- COMMAND [ARGUMENT]...",
    "Runs one command as a node, prints its output, and ends with its exit status. An\n"
    "interrupt (Ctrl-C) kills the node.",
    CMD_OPTIONS(
        {"group", "GROUP", "Run it on an agent of this group. Default: drover/run.", option_text,
         &group},
        {"cwd", "DIR", "Run it in this directory. Default: the current one.", option_text, &cwd},
        {"timeout", "TIME", "Kill it after this time (500ms, 30s, 5m).", option_span, &timeout_ms,
         1, INT32_MAX}),
    CMD_REMOTE, run_exec);
