/*
 * drover claim, done, fail, release, renew, update: the transactions of the task store. Each is one
 * request, except renew, which first reads the tasks, because an update must repeat the data.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/task_share.h"
#include "cli/verb.h"

enum {
    LEASE_DEFAULT_MS = 60 * 1000,
    WAIT_SLICE_MS = 30 * 1000,
    UPDATE_LEN_MAX = 64 << 20,
};

/* Their states go without saying. */
static int print_tasks(const struct json *reply)
{
    static const struct verb_column columns[] = {
        {{"ID", true}, "id", VERB_NUMBER},
        {{"GROUP"}, "group"},
        {{"SINCE/UNTIL"}, "timespec", VERB_TIME, .colour = TERM_DIM},
        {{"DATA"}, NULL, VERB_DATA},
        {{0}},
    };
    verb_print_columns(json_get(reply, "tasks"), columns);
    return CMD_OK;
}

/* claim */

static int64_t lease_ms = LEASE_DEFAULT_MS, wait_ms, limit = 1;
static bool internal;

static void put_claim(struct client *c, const struct cmd_call *call, struct buf *b)
{
    task_open_body(c, b);
    json_member_texts(b, "groups", (const char *const *)call->operands, (size_t)call->count);
    json_member_int(b, "duration", lease_ms);
    json_member_int(b, "wait", c->wait_ms);
    json_member_int(b, "limit", limit);
    if (!internal)
        json_member_bool(b, "tasks_only", true);
    json_close(b, '}');
}

/* Waits in slices, so that no proxy on the way closes the connection for being idle. */
static int run_claim(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    struct client_reply reply;
    for (int i = 0; i < call->count; i++)
        if (!json_is_text(str_of(call->operands[i])))
            return cmd_usage_error(call->cmd, "GROUP must be UTF-8 text");
    TRY(task_find_clientid());
    TRY(client_open(&c, &call->client));
    for (int64_t left_ms = wait_ms; left_ms >= c.wait_ms; left_ms -= c.wait_ms) {
        CLEANUP(buf_release) struct buf body = {0};
        c.wait_ms = left_ms < WAIT_SLICE_MS ? left_ms : WAIT_SLICE_MS;
        put_claim(&c, call, &body);
        TRY(client_call(&c, &reply, buf_text(&body), "POST /claim"));
        const struct json *tasks = json_get(reply.json, "tasks");
        if (!tasks || tasks->count)
            return verb_print(call, &reply, print_tasks);
        if (left_ms <= c.wait_ms)
            break;
    }
    if (call->client.json)
        client_print_json(&reply);
    else
        client_error("nothing to claim");
    return CMD_NOTHING;
}

const struct cmd cmd_claim = CMD_INIT(
    "claim", "claim a task for a while", "GROUP...",
    "Claims a task of the groups for a while: meanwhile nobody else can claim or change it.\n"
    "Then it ends with 'drover done', goes back with 'drover release', or 'drover fail' says\n"
    "that it failed. Exit status 3: there is nothing to claim.",
    CMD_OPTIONS(
        {"for", "TIME", "Duration of the claim. Default: 60s.", option_span, &lease_ms, 1,
         TASK_YEAR_MS},
        {"wait", "TIME", "Wait this long for a task. Default: do not wait.", option_span, &wait_ms,
         0, TASK_YEAR_MS},
        {"limit", "N", "Claim up to N tasks at once. Default: 1.", option_number, &limit, 1, 10000},
        {"internal", NULL, "Also messages of queues and tasks of nodes.", option_flag, &internal},
        TASK_CLIENT_ID_OPTION),
    CMD_JSON, run_claim);

/* done, fail, release */

static const char *result, *result_file, *error;
static int64_t retry_ms = -1;
static bool dead;

/* One object for each id, with the members that put_more adds. */
static int put_edits(const struct cmd_call *call, struct client *c, struct buf *b,
                     const char *member, void (*put_more)(struct buf *b))
{
    TRY(task_check_ids(call));
    TRY(task_find_clientid());
    task_open_body(c, b);
    json_member_open(b, member, '[');
    for (int i = 0; i < call->count; i++) {
        json_open(b, '{');
        json_key(b, "id");
        task_put_id(b, call->operands[i]);
        put_more(b);
        json_close(b, '}');
    }
    json_close(b, ']');
    json_close(b, '}');
    return CMD_OK;
}

static void put_result(struct buf *b)
{
    if (result)
        json_member_text(b, "result", str_of(result));
}

static int put_finishes(const struct cmd_call *call, struct client *c, struct buf *b)
{
    CLEANUP(buf_release) struct buf text = {0};
    if (result && result_file)
        return cmd_usage_error(call->cmd, "--result does not go with --result-file");
    if (result_file) {
        TRY(client_read_file(result_file, UPDATE_LEN_MAX, &text));
        result = arena_text(&c->arena, buf_str(&text));
        if (strlen(result) != text.len)
            return client_misuse("the result has a byte of value 0");
    }
    if (result && !json_is_text(str_of(result)))
        return client_misuse("the result is not UTF-8 text");
    return put_edits(call, c, b, "finishes", put_result);
}

const struct cmd cmd_done = VERB_INIT(
    "done", "finish tasks", "ID...",
    "Finishes tasks, all or none. They end; their result is kept as long as the settings of\n"
    "the group say (keep_done), for 'drover result'. What another client has claimed cannot\n"
    "be finished.",
    CMD_OPTIONS({"result", "TEXT", "The result.", option_any_text, &result},
                {"result-file", "FILE", "The result is in this file; -: standard input.",
                 option_text, &result_file},
                TASK_CLIENT_ID_OPTION),
    "POST", "/update", .put = put_finishes);

static void put_failure(struct buf *b)
{
    if (error)
        json_member_text(b, "error", str_of(error));
    if (retry_ms >= 0)
        json_member_int(b, "retry_in", retry_ms);
    if (dead)
        json_member_bool(b, "dead", true);
}

static int put_fails(const struct cmd_call *call, struct client *c, struct buf *b)
{
    if (dead && retry_ms >= 0)
        return cmd_usage_error(call->cmd, "--dead does not go with --retry-in");
    if (error && !json_is_text(str_of(error)))
        return cmd_usage_error(call->cmd, "--error is not UTF-8 text");
    return put_edits(call, c, b, "fails", put_failure);
}

const struct cmd cmd_fail = VERB_INIT(
    "fail", "say that tasks failed", "ID...",
    "Says that tasks failed, all or none. The settings of the group decide when they are\n"
    "tried again, or that they are dead. Prints the new ids, one per line.",
    CMD_OPTIONS(
        {"error", "TEXT", "What went wrong; the first 4 KiB are kept.", option_text, &error},
        {"retry-in", "TIME", "Try again after this time, whatever the settings say.", option_span,
         &retry_ms, 0, TASK_YEAR_MS},
        {"dead", NULL, "Do not try again.", option_flag, &dead}, TASK_CLIENT_ID_OPTION),
    "POST", "/update", .put = put_fails, .print = task_print_ids);

static int put_releases(const struct cmd_call *call, struct client *c, struct buf *b)
{
    TRY(task_check_ids(call));
    TRY(task_find_clientid());
    task_open_body(c, b);
    task_put_ids(call, b, "releases");
    json_close(b, '}');
    return CMD_OK;
}

const struct cmd cmd_release =
    VERB_INIT("release", "give tasks back that were claimed", "ID...",
              "Gives tasks back, all or none: they are available at once, and that is no failure.\n"
              "Prints the new ids, one per line.",
              CMD_OPTIONS(TASK_CLIENT_ID_OPTION), "POST", "/update", .put = put_releases,
              .print = task_print_ids);

/* renew */

static int read_tasks(struct client *c, const struct cmd_call *call, struct client_reply *ret_reply)
{
    CLEANUP(buf_release) struct buf ids = {0};
    for (int i = 0; i < call->count; i++)
        buf_printf(&ids, "%s%s", i ? "," : "", call->operands[i]);
    TRY(client_call(c, ret_reply, NULL, "GET /tasks/%s", buf_text(&ids)));
    const struct json *v = ret_reply->json;
    if (!v || v->kind != JSON_LIST || v->count != (size_t)call->count)
        return client_error("%s did not reply with a list", transport_server(c->transport));
    return CMD_OK;
}

/*
 * An update that gives each task the same data and a later time. It names the ids that were read; a
 * task that was not found is named as it was given, and the server says what became of it.
 */
static int put_renewals(const struct cmd_call *call, struct client *c, struct buf *b)
{
    struct client_reply reply;
    int i = 0;
    TRY(task_check_ids(call));
    TRY(task_find_clientid());
    TRY(read_tasks(c, call, &reply));
    task_open_body(c, b);
    json_member_open(b, "updates", '[');
    json_each(task, reply.json) {
        const struct json *id = json_get(task, "id");
        json_open(b, '{');
        json_key(b, "id");
        if (id)
            json_put(b, id);
        else
            task_put_id(b, call->operands[i]);
        json_each(member, task)
            if (str_starts(member->key, STR("data"))) {
                json_key_str(b, member->key);
                json_put(b, member);
            }
        json_member_int(b, "timespec", -lease_ms);
        json_close(b, '}');
        i++;
    }
    json_close(b, ']');
    json_close(b, '}');
    return CMD_OK;
}

const struct cmd cmd_renew = VERB_INIT(
    "renew", "extend the claim of tasks", "ID...",
    "Extends the claim of tasks, all or none. A changed task has a new id; the new ids are\n"
    "printed, one per line.",
    CMD_OPTIONS({"for", "TIME", "Duration of the claim, from now. Default: 60s.", option_span,
                 &lease_ms, 1, TASK_YEAR_MS},
                TASK_CLIENT_ID_OPTION),
    "POST", "/update", .put = put_renewals, .print = task_print_ids);

/* update */

/* The user's transaction, with a client id and a request id if it has none. */
static int put_update(const struct cmd_call *call, struct client *c, struct buf *b)
{
    CLEANUP(buf_release) struct buf text = {0};
    struct err_info e;
    TRY(task_find_clientid());
    TRY(client_read_file(call->count ? call->operands[0] : "-", UPDATE_LEN_MAX, &text));
    const struct json *v = json_parse(&c->arena, buf_str(&text), &e);
    if (!v || v->kind != JSON_OBJECT)
        return client_misuse("the transaction is %s", v ? "not a JSON object" : e.text);
    json_open(b, '{');
    if (!json_get(v, "clientid"))
        json_member_int(b, "clientid", task_clientid);
    if (!json_get(v, "requestid"))
        task_put_requestid(c, b);
    c->repeatable = true;
    json_each(member, v) {
        json_key_str(b, member->key);
        json_put(b, member);
    }
    json_close(b, '}');
    return CMD_OK;
}

const struct cmd cmd_update = VERB_INIT(
    "update", "send a transaction, as JSON", "[FILE]",
    "Sends a transaction: the JSON object in the file, or on standard input, with adds,\n"
    "updates, deletes, depends, fails, finishes and releases as the protocol describes them.\n"
    "It happens as a whole or not at all. A clientid is added if there is none.",
    CMD_OPTIONS(TASK_CLIENT_ID_OPTION), "POST", "/update", .put = put_update, .print = print_tasks);
