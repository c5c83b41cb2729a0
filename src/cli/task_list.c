/* drover ls, groups, group, task - reading the task store. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/task_share.h"

enum { LIMIT_DEFAULT = 1000 };

const struct cmd cmd_groups = VERB_INIT("groups", "list the groups that have tasks", NULL,
                                        "Lists the groups that have tasks, one per line.", NULL,
                                        "GET", "/groups", .print = verb_print_words);

const struct cmd cmd_group = VERB_INIT(
    "group", "list the tasks of one group", "GROUP",
    "Lists the tasks of a group that can be claimed.",
    CMD_OPTIONS({"limit", "N", "At most N. Default: all.", option_number, NULL, 1, INT32_MAX},
                {"owned", NULL, "Also tasks that are owned.", option_flag}),
    "GET", "/group/{1}", .list = "", .columns = TASK_COLUMNS);

/* ls */

static int64_t limit = LIMIT_DEFAULT;
static bool available;

struct listing {
    struct client c;
    struct buf tasks; /* as JSON */
    int64_t count;
    bool more;
};

/* Appends the tasks of a group, up to the limit. */
static int list_group(struct listing *l, struct str group)
{
    int64_t left = limit - l->count;
    struct client_reply reply;

    TRY(client_call(&l->c, &reply, NULL, "GET /group/%s?owned=%d&limit=%" PRId64,
                    client_quote(&l->c, group), !available, left + 1));
    json_each(task, json_list(reply.json)) {
        l->more = left-- <= 0;
        if (l->more)
            break;
        json_put_raw(&l->tasks, task->raw);
        l->count++;
    }
    return CMD_OK;
}

/* Whether name is group, or one of the groups in which its tasks wait for another attempt. */
static bool belongs(struct str name, struct str group)
{
    struct str tail = {name.p + group.len, name.len - group.len};

    if (!str_starts(name, group))
        return false;
    return !tail.len || str_starts(tail, STR("/retry/"));
}

static bool is_listed(struct str name, const struct cmd_call *call)
{
    for (int i = 0; i < call->count; i++)
        if (belongs(name, str_of(call->operands[i])))
            return true;
    return !call->count;
}

static int list_groups(struct listing *l, const struct cmd_call *call)
{
    struct client_reply reply;

    TRY(client_call(&l->c, &reply, NULL, "GET /groups"));
    json_each(name, json_list(reply.json))
        if (!l->more && name->kind == JSON_TEXT && is_listed(name->text, call))
            TRY(list_group(l, name->text));
    return CMD_OK;
}

static int run_ls(const struct cmd_call *call)
{
    struct listing l = {0};
    struct err_info e;

    TRY(client_open(&l.c, &call->client));
    json_open(&l.tasks, '[');
    int status = list_groups(&l, call);
    json_close(&l.tasks, ']');
    if (!status && call->client.json)
        puts(buf_text(&l.tasks));
    else if (!status)
        verb_print_columns(json_parse(&l.c.arena, buf_str(&l.tasks), &e), TASK_COLUMNS);
    if (!status && l.more)
        client_error("there are more than %" PRId64 ": use --limit", limit);
    buf_release(&l.tasks);
    client_close(&l.c);
    return status;
}

const struct cmd cmd_ls = CMD_INIT(
    "ls", "list tasks", "[GROUP...]",
    "Lists the tasks of the groups, owned or not, including those that wait for another\n"
    "attempt in GROUP/retry/N; without GROUP, all tasks.",
    CMD_OPTIONS({"limit", "N", "At most N. Default: 1000.", option_number, &limit, 1, INT32_MAX},
                {"available", NULL, "Only tasks that nobody owns.", option_flag, &available}),
    CMD_JSON, run_ls);

/* task */

static bool data_only;

static void print_data(const struct json *tasks)
{
    json_each(task, tasks) {
        struct str data = json_text_of(task, "data");

        fwrite(data.p, 1, data.len, stdout);
    }
}

static int run_task(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    struct client_reply reply;
    int status = CMD_OK, i = 0;

    TRY(client_open(&c, &call->client));
    TRY(task_read(&c, call, &reply));
    if (call->client.json)
        client_print_json(&reply);
    else if (data_only)
        print_data(reply.json);
    else
        verb_print_columns(reply.json, TASK_COLUMNS);
    json_each(task, reply.json) {
        if (task->kind == JSON_NULL)
            status = client_error("no task %s", call->operands[i]);
        i++;
    }
    return status;
}

const struct cmd cmd_task = CMD_INIT(
    "task", "show tasks by their ids", "ID...",
    "Shows tasks by their ids. Exit status 1: one of them does not exist.",
    CMD_OPTIONS({"data", NULL, "Print only the data, unchanged.", option_flag, &data_only}),
    CMD_JSON, run_task);
