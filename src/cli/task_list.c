/* drover ls, groups, group, task - what is in the task store. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "cli/http_client.h"
#include "cli/task_share.h"

enum { LIMIT_DEFAULT = 1000 };

/* groups */

int cmd_groups(int argc, char **argv)
{
    struct client_options o = {0};
    const struct option options[] = {CLIENT_OPTIONS(o)};
    const struct cmd cmd = {
        .name = "groups",
        .about = "Lists the groups that have tasks, one on a line.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    struct client_reply reply;
    struct client *c;
    int status;

    c = client_begin(&cmd, &o, &argc, argv, &status);
    if (!c)
        return status;
    status = client_call(c, "GET", "/groups", NULL, &reply);
    if (!status && o.json)
        client_print_json(&reply);
    else if (!status && reply.json && reply.json->kind == JSON_LIST)
        json_each(name, reply.json)
            if (name->kind == JSON_TEXT)
                printf("%.*s\n", (int)name->text.len, name->text.p);
    client_close(c);
    return status;
}

/* group */

static const char *group_path(struct client *c, struct str group, int64_t limit, bool owned)
{
    struct arena *a = client_arena(c);
    const char *name = client_quote(c, group);

    if (limit)
        return arena_printf(a, "/group/%s?owned=%d&limit=%lld", name, owned, (long long)limit);
    return arena_printf(a, "/group/%s?owned=%d", name, owned);
}

int cmd_group(int argc, char **argv)
{
    struct client_options o = {0};
    int64_t limit = 0;
    bool owned = false;
    const struct option options[] = {
        {"limit", "N", "At most that many. Default: all.", option_number, &limit, 1, INT32_MAX},
        {"owned", NULL, "Those that somebody owns, too.", option_flag, &owned},
        CLIENT_OPTIONS(o),
    };
    const struct cmd cmd = {
        .name = "group",
        .operands = "GROUP",
        .operands_min = 1,
        .operands_max = 1,
        .about = "Lists the tasks of a group that can be claimed.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    struct client_reply reply;
    struct client *c;
    int status;

    c = client_begin(&cmd, &o, &argc, argv, &status);
    if (!c)
        return status;
    status = client_call(c, "GET", group_path(c, str_of(argv[1]), limit, owned), NULL, &reply);
    if (!status && o.json)
        client_print_json(&reply);
    else if (!status)
        task_print(reply.json);
    client_close(c);
    return status;
}

/* ls */

struct ls {
    struct client_options client;
    int64_t limit;
    bool available;

    struct client *c;
    struct buf list; /* the tasks, as JSON */
    size_t count;
    bool more;
};

/* Appends the tasks of a group, as long as there is room for them. */
static int ls_group(struct ls *l, struct str group)
{
    int64_t room = l->limit - (int64_t)l->count;
    struct client_reply reply;
    int status;

    if (l->more)
        return CMD_OK;
    status =
        client_call(l->c, "GET", group_path(l->c, group, room + 1, !l->available), NULL, &reply);
    if (status || !reply.json || reply.json->kind != JSON_LIST)
        return status;
    json_each(task, reply.json) {
        if (room-- <= 0) {
            l->more = true;
            break;
        }
        json_put_raw(&l->list, task->raw);
        l->count++;
    }
    return CMD_OK;
}

/* Whether name is group, or one of the groups that its tasks wait in for another attempt. */
static bool belongs(struct str name, struct str group)
{
    struct str tail = {name.p + group.len, name.len - group.len};

    if (!str_starts(name, group))
        return false;
    return !tail.len || str_starts(tail, STR("/retry/"));
}

static bool is_asked_for(struct str name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (belongs(name, str_of(argv[i])))
            return true;
    return argc == 1;
}

static int ls_groups(struct ls *l, int argc, char **argv)
{
    struct client_reply reply;
    int status = client_call(l->c, "GET", "/groups", NULL, &reply);

    if (status || !reply.json || reply.json->kind != JSON_LIST)
        return status;
    json_each(name, reply.json)
        if (!status && name->kind == JSON_TEXT && is_asked_for(name->text, argc, argv))
            status = ls_group(l, name->text);
    return status;
}

static void ls_print(struct ls *l)
{
    struct client_reply made = {.body = {buf_text(&l->list), l->list.len}};
    struct err_info e;

    if (l->client.json)
        client_print_json(&made);
    else
        task_print(json_parse(client_arena(l->c), made.body, &e));
    if (l->more)
        client_error("there are more than %lld: see --limit", (long long)l->limit);
}

int cmd_ls(int argc, char **argv)
{
    struct ls l = {.limit = LIMIT_DEFAULT};
    const struct option options[] = {
        {"limit", "N", "At most that many. Default: 1000.", option_number, &l.limit, 1, INT32_MAX},
        {"available", NULL, "Only those that nobody owns.", option_flag, &l.available},
        CLIENT_OPTIONS(l.client),
    };
    const struct cmd cmd = {
        .name = "ls",
        .operands = "[GROUP...]",
        .operands_max = 1000,
        .about = "Lists the tasks of the groups, owned or not, with those that wait for another\n"
                 "attempt in GROUP/retry/N; without GROUP, all tasks.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    int status;

    l.c = client_begin(&cmd, &l.client, &argc, argv, &status);
    if (!l.c)
        return status;
    json_open(&l.list, '[');
    status = ls_groups(&l, argc, argv);
    json_close(&l.list, ']');
    if (!status)
        ls_print(&l);
    buf_release(&l.list);
    client_close(l.c);
    return status;
}

/* task */

static int print_data(const struct json *tasks)
{
    json_each(task, tasks) {
        const struct json *data = json_get(task, "data");

        if (data && data->kind == JSON_TEXT)
            fwrite(data->text.p, 1, data->text.len, stdout);
    }
    return CMD_OK;
}

/* Says which ids have no task. */
static int say_missing(const struct json *tasks, const int64_t *ids)
{
    int status = CMD_OK;

    json_each(task, tasks) {
        if (task->kind == JSON_NULL)
            status = client_error("no task %lld", (long long)*ids);
        ids++;
    }
    return status;
}

static int show_tasks(const struct client_options *o, const int64_t *ids, size_t count, bool data)
{
    struct client *c = client_open(o);
    struct client_reply reply;
    struct buf path = {0};
    int status;

    if (!c)
        return CMD_FAILURE;
    for (size_t i = 0; i < count; i++)
        buf_printf(&path, "%s%lld", i ? "," : "/tasks/", (long long)ids[i]);
    status = client_call(c, "GET", buf_text(&path), NULL, &reply);
    if (!status && (!reply.json || reply.json->kind != JSON_LIST || reply.json->count != count))
        status = client_error("%s did not answer with a list", client_server(c));
    if (!status) {
        if (o->json)
            client_print_json(&reply);
        else if (data)
            print_data(reply.json);
        else
            task_print(reply.json);
        status = say_missing(reply.json, ids);
    }
    buf_release(&path);
    client_close(c);
    return status;
}

int cmd_task(int argc, char **argv)
{
    struct client_options o = {0};
    bool data = false;
    const struct option options[] = {
        {"data", NULL, "Print only the data, as it is.", option_flag, &data},
        CLIENT_OPTIONS(o),
    };
    const struct cmd cmd = {
        .name = "task",
        .operands = "ID...",
        .operands_min = 1,
        .operands_max = 500,
        .about = "Shows tasks by their ids. Exits with 1 when one of them is not there.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    int64_t *ids;
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    ids = task_parse_ids(&cmd, argc, argv);
    if (!ids)
        return CMD_USAGE;
    status = show_tasks(&o, ids, (size_t)argc - 1, data);
    free(ids);
    return status;
}
