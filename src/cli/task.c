/*
 * drover add, claim, done, renew, update: the transactions of the task store. Each is one request,
 * except renew, which first reads the tasks, because an update must repeat the data, and add with
 * lines from standard input, which sends transactions of moderate size: a million lines must not
 * need a million requests.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/random.h"
#include "cli/task_share.h"
#include "cli/verb.h"
#include "client/task_client.h"

enum {
    BATCH_MAX = 500,
    BATCH_LEN_MAX = 512 * 1024,
    DATA_LEN_MAX = 1024 * 1024,
    PROGRESS_MS = 500,
    LEASE_DEFAULT_MS = 60 * 1000,
    WAIT_SLICE_MS = 30 * 1000,
    UPDATE_LEN_MAX = 64 << 20,
};

#define YEAR_MS (INT64_C(365) * 86400 * 1000)

static int print_tasks(const struct json *reply)
{
    verb_print_columns(json_get(reply, "tasks"), TASK_COLUMNS);
    return CMD_OK;
}

static int print_ids(const struct json *reply)
{
    json_each(task, json_list(json_get(reply, "tasks")))
        printf("%" PRId64 "\n", json_int_of(task, "id"));
    return CMD_OK;
}

/* Requests. */

/* With a requestid a request can be repeated when its reply is lost. */
static void put_requestid(struct client *c, struct buf *b)
{
    char requestid[TASK_CLIENT_REQUESTID_LEN + 1];
    c->repeatable = true;
    random_hex(requestid, TASK_CLIENT_REQUESTID_LEN);
    json_member_text(b, "requestid", str_of(requestid));
}

/* Opens a request that changes something. */
static void open_body(struct client *c, struct buf *b)
{
    json_open(b, '{');
    json_member_int(b, "clientid", task_clientid);
    put_requestid(c, b);
}

/* add */

static int64_t delay_ms;
static bool whole;

struct add {
    const struct cmd_call *call;
    struct client client;
    struct buf body;
    size_t pending; /* in body */
    size_t sent;
    int64_t shown_ms; /* when progress was last shown; 0: never */
};

static void put_task(struct add *a, struct str data)
{
    struct buf *b = &a->body;
    if (!a->pending++) {
        b->len = 0;
        open_body(&a->client, b);
        json_member_open(b, "adds", '[');
    }
    json_open(b, '{');
    json_member_text(b, "group", str_of(a->call->operands[0]));
    json_member_text(b, "data", data);
    if (delay_ms)
        json_member_int(b, "timespec", -delay_ms);
    json_close(b, '}');
}

/* On stderr, if it is a terminal and stdout is not. */
static void show_progress(struct add *a)
{
    if (!isatty(STDERR_FILENO) || isatty(STDOUT_FILENO) ||
        clock_boot_ms() - a->shown_ms < PROGRESS_MS)
        return;
    a->shown_ms = clock_boot_ms();
    fprintf(stderr, "\r%zu added", a->sent);
    fflush(stderr);
}

static int send_pending(struct add *a)
{
    struct client_reply reply;
    if (!a->pending)
        return CMD_OK;
    json_close(&a->body, ']');
    json_close(&a->body, '}');
    TRY(client_call(&a->client, &reply, buf_text(&a->body), "POST /update"));
    verb_print(a->call, &reply, print_ids);
    a->sent += a->pending;
    a->pending = 0;
    show_progress(a);
    arena_reset(&a->client.arena);
    return CMD_OK;
}

static int add_task(void *arg, struct str data)
{
    struct add *a = arg;
    if (!json_is_text(data))
        return client_error("the data of task %zu is not UTF-8 text", a->sent + a->pending + 1);
    put_task(a, data);
    return a->pending >= BATCH_MAX || a->body.len >= BATCH_LEN_MAX ? send_pending(a) : CMD_OK;
}

static int add_whole(struct add *a)
{
    CLEANUP(buf_release) struct buf data = {0};
    char limit[HUMAN_SIZE];
    TRY(client_read_file("-", SIZE_MAX, &data));
    if (data.len > DATA_LEN_MAX)
        return client_error("standard input is longer than %s", human_size(limit, DATA_LEN_MAX));
    return add_task(a, buf_str(&data));
}

static int add_all(struct add *a)
{
    const struct cmd_call *call = a->call;
    if (call->count == 1)
        TRY(add_task(a, STR("")));
    else if (!strcmp(call->operands[1], "-"))
        TRY(whole ? add_whole(a) : verb_read_lines(add_task, a));
    else
        for (int i = 1; i < call->count; i++)
            TRY(add_task(a, str_of(call->operands[i])));
    return send_pending(a);
}

static int run_add(const struct cmd_call *call)
{
    struct add a = {.call = call};
    const char *group = call->operands[0], *data = call->count > 1 ? call->operands[1] : "";
    char count[HUMAN_SIZE];

    if (whole && (call->count != 2 || strcmp(data, "-") != 0))
        return cmd_usage_error(call->cmd, "--whole goes with '-'");
    if (call->count > 2 && !strcmp(data, "-"))
        return cmd_usage_error(call->cmd, "unexpected argument '%s' after '-'", call->operands[2]);
    if (call->count > BATCH_MAX + 1)
        return cmd_usage_error(call->cmd, "more than %d tasks: use '-'", BATCH_MAX);
    if (!*group || !json_is_text(str_of(group)))
        return cmd_usage_error(call->cmd, "GROUP must be UTF-8 text and not empty");
    TRY(task_find_clientid());
    TRY(client_open(&a.client, &call->client));
    int status = add_all(&a);
    if (a.shown_ms)
        fprintf(stderr, "\r%zu added\n", a.sent);
    if (status && a.sent)
        client_error("%s added before the error", human_count(count, a.sent, "task"));
    client_close(&a.client);
    buf_release(&a.body);
    return status;
}

const struct cmd cmd_add = CMD_INIT(
    "add", "add tasks to a group", "GROUP [DATA...|-]",
    "Adds a task to the group for each DATA, all or none; without DATA, one task with no\n"
    "data. With '-' each line of standard input is the data of a task. Prints the ids, one\n"
    "per line.",
    CMD_OPTIONS({"delay", "TIME", "Nobody can claim the tasks before that. Default: no delay.",
                 option_span, &delay_ms, 0, INT64_C(86400) * 1000 * 36500},
                {"whole", NULL, "With '-': all of standard input is the data of one task.",
                 option_flag, &whole},
                TASK_CLIENT_ID_OPTION),
    CMD_JSON, run_add, .heading = "Tasks");

/* claim */

static int64_t lease_ms = LEASE_DEFAULT_MS, wait_ms, limit = 1;

static void put_claim(struct client *c, const struct cmd_call *call, struct buf *b)
{
    open_body(c, b);
    json_member_texts(b, "groups", (const char *const *)call->operands, (size_t)call->count);
    json_member_int(b, "duration", lease_ms);
    json_member_int(b, "wait", c->wait_ms);
    json_member_int(b, "limit", limit);
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

static int put_deletes(const struct cmd_call *call, struct client *c, struct buf *b)
{
    TRY(task_find_clientid());
    open_body(c, b);
    json_member_open(b, "deletes", '[');
    TRY(task_put_ids(call, b));
    json_close(b, ']');
    json_close(b, '}');
    return CMD_OK;
}

const struct cmd cmd_done =
    VERB_INIT("done", "delete tasks that are finished", "ID...",
              "Deletes tasks, all or none. A task that another client owns cannot be deleted.",
              CMD_OPTIONS(TASK_CLIENT_ID_OPTION), "POST", "/update", .put = put_deletes);

/* renew */

/* An update that gives each task the same data and a later time. */
static int put_renewals(const struct cmd_call *call, struct client *c, struct buf *b)
{
    struct client_reply reply;
    int status = CMD_OK, i = 0;
    TRY(task_find_clientid());
    TRY(task_read(c, call, &reply));
    open_body(c, b);
    json_member_open(b, "updates", '[');
    json_each(task, reply.json) {
        const struct json *data = json_get(task, "data");
        const char *id = call->operands[i++];
        if (task->kind != JSON_OBJECT)
            status = client_error("no task %s", id);
        json_open(b, '{');
        json_member_int(b, "id", strtoll(id, NULL, 10));
        json_member_raw(b, "data", data ? data->raw : STR("null"));
        json_member_int(b, "timespec", -lease_ms);
        json_close(b, '}');
    }
    json_close(b, ']');
    json_close(b, '}');
    return status;
}

const struct cmd cmd_renew = VERB_INIT(
    "renew", "extend the claim of tasks", "ID...",
    "Extends the claim of tasks, all or none. A changed task has a new id; the new ids are\n"
    "printed, one per line.",
    CMD_OPTIONS({"for", "TIME", "Duration of the claim, from now. Default: 60s.", option_span,
                 &lease_ms, 1, YEAR_MS},
                TASK_CLIENT_ID_OPTION),
    "POST", "/update", .put = put_renewals, .print = print_ids);

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
        put_requestid(c, b);
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
    "updates, deletes and depends as the protocol describes them. It happens as a whole or\n"
    "not at all. A clientid is added if there is none.",
    CMD_OPTIONS(TASK_CLIENT_ID_OPTION), "POST", "/update", .put = put_update, .print = print_tasks);
