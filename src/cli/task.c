/*
 * drover claim, done, renew, update - the transactions of the task store. Each is one request,
 * except renew, which first reads the tasks: an update must repeat the data.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/task_share.h"
#include "cli/verb.h"

enum { LEASE_DEFAULT_MS = 60 * 1000, WAIT_SLICE_MS = 30 * 1000, UPDATE_LEN_MAX = 64 << 20 };

#define YEAR_MS (INT64_C(365) * 86400 * 1000)

/* claim */

static int64_t lease_ms = LEASE_DEFAULT_MS, wait_ms, limit = 1;

static void put_claim(struct buf *b, const struct cmd_call *call, int64_t slice_ms)
{
    b->len = 0;
    task_open_body(b);
    json_member_open(b, "groups", '[');
    for (int i = 0; i < call->count; i++)
        json_put_text(b, str_of(call->operands[i]));
    json_close(b, ']');
    json_member_int(b, "duration", lease_ms);
    json_member_int(b, "wait", slice_ms);
    json_member_int(b, "limit", limit);
    json_close(b, '}');
}

/* Waits in slices, so that no proxy on the way closes the connection for being idle. */
static int claim(struct client *c, const struct cmd_call *call, struct client_reply *ret_reply)
{
    int64_t left_ms = wait_ms;
    struct buf body = {0};
    const struct json *tasks;
    int status;

    client_set_repeatable(c);
    do {
        int64_t slice_ms = left_ms < WAIT_SLICE_MS ? left_ms : WAIT_SLICE_MS;

        put_claim(&body, call, slice_ms);
        client_set_wait(c, slice_ms);
        status = client_call(c, "POST", "/claim", buf_text(&body), ret_reply);
        left_ms -= slice_ms;
        tasks = status ? NULL : json_get(ret_reply->json, "tasks");
    } while (tasks && !tasks->count && left_ms > 0);
    buf_release(&body);
    return !status && tasks && !tasks->count ? CMD_NOTHING : status;
}

static int run_claim(const struct cmd_call *call)
{
    struct client_reply reply;
    struct client *c = NULL;
    TRY(task_open(call, &c));
    int status = claim(c, call, &reply);
    if (status == CMD_OK || (status == CMD_NOTHING && call->client.json))
        task_print_reply(call, &reply);
    else if (status == CMD_NOTHING)
        client_error("nothing to claim");
    client_close(c);
    return status;
}

const struct cmd cmd_claim = CMD_INIT(
    "claim", "claim a task for a while", "GROUP...",
    "Claims a random task of the groups for a while: meanwhile nobody else can claim or\n"
    "change it. Finish it with 'drover done ID'. Exit status 3: there is nothing to claim.",
    CMD_OPTIONS(
        {"for", "TIME", "Duration of the claim. Default: 60s.", option_span, &lease_ms, 1, YEAR_MS},
        {"wait", "TIME", "Wait this long for a task. Default: do not wait.", option_span, &wait_ms,
         0, YEAR_MS},
        {"limit", "N", "Claim up to N tasks at once. Default: 1.", option_number, &limit, 1, 10000},
        TASK_CLIENT_ID_OPTION),
    CMD_JSON, run_claim);

/* done */

static int run_done(const struct cmd_call *call)
{
    struct client *c = NULL;
    struct client_reply reply;
    struct buf body = {0};
    int status = task_open(call, &c);

    if (!status && !task_path(c, call))
        status = CMD_USAGE;
    if (!status) {
        task_open_body(&body);
        json_member_open(&body, "deletes", '[');
        for (int i = 0; i < call->count; i++)
            json_put_int(&body, strtoll(call->operands[i], NULL, 10));
        json_close(&body, ']');
        json_close(&body, '}');
        status = task_update(c, &body, &reply);
    }
    if (!status && call->client.json)
        client_print_json(&reply);
    buf_release(&body);
    client_close(c);
    return status;
}

const struct cmd cmd_done =
    CMD_INIT("done", "delete tasks that are finished", "ID...",
             "Deletes tasks, all or none. A task that another client owns cannot be deleted.",
             CMD_OPTIONS(TASK_CLIENT_ID_OPTION), CMD_JSON, run_done);

/* renew */

/* An update that gives each task the same data and a later time. */
static int put_renewals(struct buf *b, const struct cmd_call *call, const struct json *tasks)
{
    int status = CMD_OK, i = 0;

    task_open_body(b);
    json_member_open(b, "updates", '[');
    json_each(task, tasks) {
        const struct json *data = json_get(task, "data");
        const char *id = call->operands[i++];

        if (task->kind != JSON_OBJECT)
            status = client_error("no task %s", id);
        json_open(b, '{');
        json_member_int(b, "id", strtoll(id, NULL, 10));
        json_key(b, "data");
        if (data)
            json_put(b, data);
        else
            json_put_null(b);
        json_member_int(b, "timespec", -lease_ms);
        json_close(b, '}');
    }
    json_close(b, ']');
    json_close(b, '}');
    return status;
}

static int run_renew(const struct cmd_call *call)
{
    struct client_reply reply;
    struct buf body = {0};
    struct client *c = NULL;
    int status = task_open(call, &c);

    if (!status)
        status = task_read(c, call, &reply);
    if (!status)
        status = put_renewals(&body, call, reply.json);
    if (!status)
        status = task_update(c, &body, &reply);
    if (!status && call->client.json)
        client_print_json(&reply);
    else if (!status)
        task_print_ids(json_get(reply.json, "tasks"));
    buf_release(&body);
    client_close(c);
    return status;
}

const struct cmd cmd_renew = CMD_INIT(
    "renew", "extend the claim of tasks", "ID...",
    "Extends the claim of tasks, all or none. A changed task has a new id; the new ids are\n"
    "printed, one per line.",
    CMD_OPTIONS({"for", "TIME", "Duration of the claim, from now. Default: 60s.", option_span,
                 &lease_ms, 1, YEAR_MS},
                TASK_CLIENT_ID_OPTION),
    CMD_JSON, run_renew);

/* update */

static int read_file(const char *name, struct buf *b)
{
    bool is_stdin = !strcmp(name, "-");
    FILE *in = is_stdin ? stdin : fopen(name, "re");
    char piece[16384];
    size_t n;

    while (in && (n = fread(piece, 1, sizeof piece, in)) > 0 && b->len <= UPDATE_LEN_MAX)
        buf_put(b, piece, n);
    int errnum = errno;
    if (in && !ferror(in) && b->len <= UPDATE_LEN_MAX)
        errnum = 0;
    if (in && !is_stdin)
        fclose(in);
    if (!errnum)
        return CMD_OK;
    return client_error("%s: %s", is_stdin ? "standard input" : name,
                        b->len > UPDATE_LEN_MAX ? "too large" : strerror(errnum));
}

/* The user's transaction, with a client id and a request id if it has none. */
static int put_update(struct client *c, struct str text, struct buf *ret_body)
{
    struct err_info e;
    const struct json *v = json_parse(client_arena(c), text, &e);

    if (!v || v->kind != JSON_OBJECT) {
        client_error("the transaction is %s", v ? "not a JSON object" : e.text);
        return CMD_USAGE;
    }
    json_open(ret_body, '{');
    if (!json_get(v, "clientid"))
        task_put_clientid(ret_body);
    if (!json_get(v, "requestid"))
        task_put_requestid(ret_body);
    json_each(member, v) {
        json_key_str(ret_body, member->key);
        json_put(ret_body, member);
    }
    json_close(ret_body, '}');
    return CMD_OK;
}

static int run_update(const struct cmd_call *call)
{
    struct buf text = {0}, body = {0};
    struct client_reply reply;
    struct client *c = NULL;
    int status = task_open(call, &c);

    if (!status)
        status = read_file(call->count ? call->operands[0] : "-", &text);
    if (!status)
        status = put_update(c, buf_str(&text), &body);
    if (!status)
        status = task_update(c, &body, &reply);
    if (!status)
        task_print_reply(call, &reply);
    buf_release(&text);
    buf_release(&body);
    client_close(c);
    return status;
}

const struct cmd cmd_update = CMD_INIT(
    "update", "send a transaction, as JSON", "[FILE]",
    "Sends a transaction: the JSON object in the file, or on standard input, with adds,\n"
    "updates, deletes and depends as the protocol describes them. It happens as a whole or\n"
    "not at all. A clientid is added if there is none.",
    CMD_OPTIONS(TASK_CLIENT_ID_OPTION), CMD_JSON, run_update);
