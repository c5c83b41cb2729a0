/*
 * drover claim, done, renew, update - the transactions of the task store, one by one. Each is one
 * request, but for renew, which has to read a task first: an update says anew what its data is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "cli/http_client.h"
#include "cli/task_share.h"

enum { LEASE_DEFAULT_MS = 60 * 1000, WAIT_SLICE_MS = 30 * 1000, UPDATE_LEN_MAX = 64 << 20 };

#define DAY_MS (INT64_C(86400) * 1000)

static void put_ids(struct buf *b, const char *key, const int64_t *ids, size_t count)
{
    json_key(b, key);
    json_open(b, '[');
    for (size_t i = 0; i < count; i++)
        json_put_int(b, ids[i]);
    json_close(b, ']');
}

/* claim */

struct claim {
    struct task_options task;
    int64_t lease_ms, wait_ms, limit;
};

static void claim_body(struct buf *b, const struct claim *k, int argc, char **argv, int64_t wait_ms)
{
    b->len = 0;
    task_open_body(b, &k->task);
    json_key(b, "groups");
    json_open(b, '[');
    for (int i = 1; i < argc; i++)
        json_put_text(b, str_of(argv[i]));
    json_close(b, ']');
    json_key(b, "duration");
    json_put_int(b, k->lease_ms);
    json_key(b, "wait");
    json_put_int(b, wait_ms);
    json_key(b, "limit");
    json_put_int(b, k->limit);
    json_close(b, '}');
}

/* Asks in slices, so that nothing on the way takes the silence for death. */
static int claim(struct client *c, const struct claim *k, int argc, char **argv,
                 struct client_reply *ret_reply)
{
    int64_t left_ms = k->wait_ms;
    struct buf body = {0};
    const struct json *tasks;
    int status;

    do {
        int64_t wait_ms = left_ms < WAIT_SLICE_MS ? left_ms : WAIT_SLICE_MS;

        claim_body(&body, k, argc, argv, wait_ms);
        client_set_wait(c, wait_ms);
        client_set_repeatable(c);
        status = client_call(c, "POST", "/claim", buf_text(&body), ret_reply);
        left_ms -= wait_ms;
        tasks = status ? NULL : json_get(ret_reply->json, "tasks");
    } while (tasks && !tasks->count && left_ms > 0);
    buf_release(&body);
    if (!status && tasks && !tasks->count)
        return CMD_NOTHING;
    return status;
}

int cmd_claim(int argc, char **argv)
{
    struct claim k = {.lease_ms = LEASE_DEFAULT_MS, .limit = 1};
    const struct option options[] = {
        {"for", "TIME", "Own it for that long. Default: 60s.", option_span, &k.lease_ms, 1,
         365 * DAY_MS},
        {"wait", "TIME", "Wait that long for a task to appear. Default: not at all.", option_span,
         &k.wait_ms, 0, 365 * DAY_MS},
        {"limit", "N", "Claim up to that many at once. Default: 1.", option_number, &k.limit, 1,
         10000},
        TASK_CLIENT_ID_OPTION(k.task),
        CLIENT_OPTIONS(k.task.client),
    };
    const struct cmd cmd = {
        .name = "claim",
        .operands = "GROUP...",
        .operands_min = 1,
        .operands_max = 1000,
        .about =
            "Takes a task of the group, or of any of the groups, at random, and owns it for a\n"
            "while: nobody else can have it or change it. Finish it with 'drover done ID'.\n"
            "Exits with 3 when there is nothing to claim.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    struct client_reply reply;
    struct client *c;
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    status = task_find_clientid(&k.task);
    c = status ? NULL : client_open(&k.task.client);
    if (!c)
        return status ? status : CMD_FAILURE;
    status = claim(c, &k, argc, argv, &reply);
    if ((status == CMD_OK || status == CMD_NOTHING) && k.task.client.json)
        client_print_json(&reply);
    else if (status == CMD_OK)
        task_print(json_get(reply.json, "tasks"));
    else if (status == CMD_NOTHING)
        client_error("nothing to claim");
    client_close(c);
    return status;
}

/* done */

int cmd_done(int argc, char **argv)
{
    struct task_options o = {0};
    const struct option options[] = {
        TASK_CLIENT_ID_OPTION(o),
        CLIENT_OPTIONS(o.client),
    };
    const struct cmd cmd = {
        .name = "done",
        .operands = "ID...",
        .operands_min = 1,
        .operands_max = 10000,
        .about = "Deletes tasks, all or none. A task that somebody else owns cannot be deleted.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    struct client_reply reply;
    struct buf body = {0};
    struct client *c;
    int64_t *ids;
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    ids = task_parse_ids(&cmd, argc, argv);
    if (!ids)
        return CMD_USAGE;
    status = task_find_clientid(&o);
    c = status ? NULL : client_open(&o.client);
    if (c) {
        task_open_body(&body, &o);
        put_ids(&body, "deletes", ids, (size_t)argc - 1);
        json_close(&body, '}');
        status = task_update(c, &body, &reply);
        if (!status && o.client.json)
            client_print_json(&reply);
    }
    buf_release(&body);
    free(ids);
    client_close(c);
    return c || status ? status : CMD_FAILURE;
}

/* renew */

static void id_list(struct buf *b, const int64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_printf(b, "%s%lld", i ? "," : "/tasks/", (long long)ids[i]);
}

/* The body that gives each task the same data and a later time. */
static int renew_body(struct buf *b, const struct task_options *o, const struct json *tasks,
                      const int64_t *ids, int64_t lease_ms)
{
    int status = CMD_OK;

    task_open_body(b, o);
    json_key(b, "updates");
    json_open(b, '[');
    json_each(task, tasks) {
        const struct json *data = json_get(task, "data");

        if (task->kind != JSON_OBJECT)
            status = client_error("no task %lld", (long long)*ids);
        json_open(b, '{');
        json_key(b, "id");
        json_put_int(b, *ids++);
        json_key(b, "data");
        if (data)
            json_put(b, data);
        else
            json_put_null(b);
        json_key(b, "timespec");
        json_put_int(b, -lease_ms);
        json_close(b, '}');
    }
    json_close(b, ']');
    json_close(b, '}');
    return status;
}

static void print_ids(const struct json *tasks)
{
    struct err_info e;
    int64_t id;

    if (tasks && tasks->kind == JSON_LIST)
        json_each(task, tasks)
            if (json_get_int(task, "id", &id, &e) > 0)
                printf("%lld\n", (long long)id);
}

static int renew(struct client *c, const struct task_options *o, const int64_t *ids, size_t count,
                 int64_t lease_ms)
{
    struct client_reply reply;
    struct buf path = {0}, body = {0};
    int status;

    id_list(&path, ids, count);
    status = client_call(c, "GET", buf_text(&path), NULL, &reply);
    if (!status && (!reply.json || reply.json->kind != JSON_LIST || reply.json->count != count))
        status = client_error("%s did not answer with a list", client_server(c));
    if (!status)
        status = renew_body(&body, o, reply.json, ids, lease_ms);
    if (!status)
        status = task_update(c, &body, &reply);
    if (!status && o->client.json)
        client_print_json(&reply);
    else if (!status)
        print_ids(json_get(reply.json, "tasks"));
    buf_release(&path);
    buf_release(&body);
    return status;
}

int cmd_renew(int argc, char **argv)
{
    struct task_options o = {0};
    int64_t lease_ms = LEASE_DEFAULT_MS, *ids;
    const struct option options[] = {
        {"for", "TIME", "Own it for that long from now. Default: 60s.", option_span, &lease_ms, 1,
         365 * DAY_MS},
        TASK_CLIENT_ID_OPTION(o),
        CLIENT_OPTIONS(o.client),
    };
    const struct cmd cmd = {
        .name = "renew",
        .operands = "ID...",
        .operands_min = 1,
        .operands_max = 1000,
        .about =
            "Owns tasks for longer, all or none. A changed task has a new id: they are printed,\n"
            "one on a line.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    struct client *c;
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    ids = task_parse_ids(&cmd, argc, argv);
    if (!ids)
        return CMD_USAGE;
    status = task_find_clientid(&o);
    c = status ? NULL : client_open(&o.client);
    if (c)
        status = renew(c, &o, ids, (size_t)argc - 1, lease_ms);
    free(ids);
    client_close(c);
    return c || status ? status : CMD_FAILURE;
}

/* update */

static bool read_all(FILE *in, struct buf *b)
{
    char piece[16384];
    size_t n;

    while ((n = fread(piece, 1, sizeof piece, in)) > 0 && b->len <= UPDATE_LEN_MAX)
        buf_put(b, piece, n);
    return !ferror(in) && b->len <= UPDATE_LEN_MAX;
}

static int read_file(const char *name, struct buf *b)
{
    bool is_stdin = !strcmp(name, "-");
    FILE *in = is_stdin ? stdin : fopen(name, "re");
    bool good = in && read_all(in, b);
    int errnum = errno;

    if (in && !is_stdin)
        fclose(in);
    if (good)
        return CMD_OK;
    return client_error("%s: %s", is_stdin ? "standard input" : name,
                        b->len > UPDATE_LEN_MAX ? "too large" : strerror(errnum));
}

/* What the user wrote, with a client id and a request id where it has none. */
static int update_body(const struct task_options *o, struct str text, struct buf *ret_body)
{
    struct arena a = {0};
    struct err_info e;
    const struct json *v = json_parse(&a, text, &e);
    int status = CMD_OK;

    if (!v || v->kind != JSON_OBJECT) {
        client_error("the transaction is %s", v ? "no JSON object" : e.text);
        status = CMD_USAGE;
    } else {
        json_open(ret_body, '{');
        if (!json_get(v, "clientid"))
            task_put_clientid(ret_body, o);
        if (!json_get(v, "requestid"))
            task_put_requestid(ret_body);
        json_each(member, v) {
            json_key_str(ret_body, member->key);
            json_put(ret_body, member);
        }
        json_close(ret_body, '}');
    }
    arena_release(&a);
    return status;
}

int cmd_update(int argc, char **argv)
{
    struct task_options o = {0};
    const struct option options[] = {
        TASK_CLIENT_ID_OPTION(o),
        CLIENT_OPTIONS(o.client),
    };
    const struct cmd cmd = {
        .name = "update",
        .operands = "[FILE]",
        .operands_max = 1,
        .about =
            "Sends a transaction: the JSON object in the file, or on standard input, with adds,\n"
            "updates, deletes and depends as the protocol describes them. All of it happens or\n"
            "nothing. A clientid is put in when there is none.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    struct buf text = {0}, body = {0};
    struct client_reply reply;
    struct client *c = NULL;
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    status = task_find_clientid(&o);
    if (!status)
        status = read_file(argc > 1 ? argv[1] : "-", &text);
    if (!status)
        status = update_body(&o, (struct str){text.p, text.len}, &body);
    if (!status && !(c = client_open(&o.client)))
        status = CMD_FAILURE;
    if (!status)
        status = task_update(c, &body, &reply);
    if (!status && o.client.json)
        client_print_json(&reply);
    else if (!status)
        task_print(json_get(reply.json, "tasks"));
    buf_release(&text);
    buf_release(&body);
    client_close(c);
    return status;
}
