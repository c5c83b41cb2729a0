/*
 * drover world - worlds on the command line: each subcommand is one request to the server, shown for
 * people or, with --json, as it came. (drover world work is in work_cmd.c.)
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cli/http_client.h"
#include "cli/table.h"
#include "cli/world_share.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

const char *world_url(struct client *c, const char *world, const char *what)
{
    return arena_printf(client_arena(c), "/v1/worlds/%s%s", client_quote(c, str_of(world)), what);
}

/* init */

static int init(int argc, char **argv)
{
    struct client_options o = {0};
    const struct option options[] = {CLIENT_OPTIONS(o)};
    const struct cmd cmd = {
        .name = "world init",
        .operands = "WORLD",
        .operands_min = 1,
        .operands_max = 1,
        .about =
            "Makes a world: /zoott_WORLD for its tree, and zoott_p, zoott_w and zoott_c for the\n"
            "tasks that are pending, working and completed. Again does no harm.",
        .options = options,
        .option_count = COUNT(options),
    };
    struct buf body = {0};
    struct client_reply reply;
    int status;
    struct client *c = client_begin(&cmd, &o, &argc, argv, &status);

    if (!c)
        return status;
    json_open(&body, '{');
    json_key(&body, "world");
    json_put_text(&body, str_of(argv[1]));
    json_close(&body, '}');
    status = client_call(c, "POST", "/v1/worlds", buf_text(&body), &reply);
    if (!status && o.json)
        client_print_json(&reply);
    buf_release(&body);
    client_close(c);
    return status;
}

/* queue */

struct queue_options {
    struct client_options client;
    const char *parent, *parent_type, *child_name;
};

static bool read_stdin(struct buf *b)
{
    size_t got;

    do {
        buf_reserve(b, 65536);
        got = fread(b->p + b->len, 1, 65536, stdin);
        b->len += got;
    } while (got);
    return !ferror(stdin);
}

static void put_pair(struct buf *b, const char *key, const char *name, const char *type)
{
    json_key(b, key);
    json_open(b, '{');
    json_key(b, "name");
    json_put_text(b, str_of(name));
    json_key(b, "type");
    json_put_text(b, str_of(type));
}

static void put_queue(struct buf *b, const struct queue_options *o, char **argv, struct str data)
{
    json_open(b, '{');
    put_pair(b, "task", argv[2], argv[3]);
    json_key(b, "data");
    json_put_raw(b, data);
    json_close(b, '}');
    if (o->parent) {
        put_pair(b, "parent", o->parent, o->parent_type ? o->parent_type : ".*");
        json_close(b, '}');
    }
    if (o->child_name) {
        json_key(b, "child_name");
        json_put_text(b, str_of(o->child_name));
    }
    json_close(b, '}');
}

static int queue_send(struct client *c, const struct queue_options *o, char **argv, struct str data)
{
    struct err_info e;
    struct client_reply reply;
    struct buf body = {0};
    int status;

    if (!json_parse(client_arena(c), data, &e))
        return client_error("the data is %s", e.text), CMD_USAGE;
    put_queue(&body, o, argv, data);
    status = client_call(c, "POST", world_url(c, argv[1], "/tasks"), buf_text(&body), &reply);
    buf_release(&body);
    if (status)
        return status;
    if (o->client.json)
        client_print_json(&reply);
    else if (json_get(reply.json, "nodes"))
        json_each(node, json_get(reply.json, "nodes"))
            if (node->kind == JSON_TEXT)
                printf("%.*s\n", (int)node->text.len, node->text.p);
    return CMD_OK;
}

static int queue(int argc, char **argv)
{
    struct queue_options o = {0};
    const struct option options[] = {
        {"parent", "EXPRESSION",
         "Put the task below every task whose name matches, whole, this regular expression.",
         option_text, &o.parent},
        {"parent-type", "EXPRESSION", "And whose type matches this one. Default: any.", option_text,
         &o.parent_type},
        {"child-name", "TEMPLATE",
         "Name it by this, in which {parent} and {child} stand for the names.", option_text,
         &o.child_name},
        CLIENT_OPTIONS(o.client),
    };
    const struct cmd cmd = {
        .name = "world queue",
        .operands = "WORLD NAME TYPE [DATA]",
        .operands_min = 3,
        .operands_max = 4,
        .about =
            "Queues a task: creates it, or updates it, and makes it pending. DATA is JSON; '-'\n"
            "reads it from standard input; without, it is null. Prints the nodes.",
        .options = options,
        .option_count = COUNT(options),
    };
    struct buf data = {0};
    int status;
    struct client *c = client_begin(&cmd, &o.client, &argc, argv, &status);

    if (!c)
        return status;
    if ((o.parent_type || o.child_name) && !o.parent)
        status = cmd_usage_error(&cmd, "--parent-type and --child-name go with --parent");
    else if (argc > 4 && !strcmp(argv[4], "-") && !read_stdin(&data))
        status = client_error("cannot read standard input");
    else
        status = queue_send(c, &o, argv,
                            data.p     ? (struct str){data.p, data.len}
                            : argc > 4 ? str_of(argv[4])
                                       : STR("null"));
    buf_release(&data);
    client_close(c);
    return status;
}

/* ls */

static enum term_colour state_colour(struct str state)
{
    return str_eq(state, STR("working"))     ? TERM_YELLOW
           : str_eq(state, STR("completed")) ? TERM_GREEN
           : str_eq(state, STR("pending"))   ? TERM_PLAIN
                                             : TERM_DIM;
}

static void print_tasks(const struct json *reply)
{
    static const struct table_column columns[] = {
        {"NODE"}, {"TYPE"}, {"STATE"}, {"SINCE", .right = true}, {"FAILURES", .right = true}};
    const struct json *tasks = json_get(reply, "tasks");
    struct table t;

    table_init(&t, columns, COUNT(columns));
    if (tasks && tasks->kind == JSON_LIST)
        json_each(task, tasks) {
            struct buf since = {0};
            int64_t since_ms = 0, failures = 0;

            json_get_int(task, "since", &since_ms, NULL);
            json_get_int(task, "failures", &failures, NULL);
            term_put_moment(&since, clock_wall_ms(), since_ms);
            table_text(&t, TERM_PLAIN, json_text_of(task, "node"));
            table_text(&t, TERM_PLAIN, json_text_of(task, "type"));
            table_text(&t, state_colour(json_text_of(task, "state")), json_text_of(task, "state"));
            table_text(&t, TERM_PLAIN, (struct str){since.p, since.len});
            table_cell(&t, failures ? TERM_RED : TERM_PLAIN, "%lld", (long long)failures);
            buf_release(&since);
        }
    table_print(&t, stdout);
    table_release(&t);
}

static int list_worlds(struct client *c, bool json)
{
    struct client_reply reply;
    int status = client_call(c, "GET", "/v1/worlds", NULL, &reply);
    const struct json *worlds = status ? NULL : json_get(reply.json, "worlds");

    if (!status && json)
        client_print_json(&reply);
    else if (worlds && worlds->kind == JSON_LIST)
        json_each(world, worlds)
            if (world->kind == JSON_TEXT)
                printf("%.*s\n", (int)world->text.len, world->text.p);
    return status;
}

static int ls(int argc, char **argv)
{
    static const char *const states[] = {"pending", "working", "completed"};
    struct client_options o = {0};
    int state = 0;
    int64_t limit = 1000;
    const char *after = NULL;
    const struct option options[] = {
        {"state", "pending|working|completed", "Which tasks. Default: pending.", option_choice,
         &state},
        {"limit", "N", "At most that many. Default: 1000.", option_number, &limit, 1, 100000},
        {"after", "NODE", "Only those after this one, in the order of their names.", option_text,
         &after},
        CLIENT_OPTIONS(o),
    };
    const struct cmd cmd = {
        .name = "world ls",
        .operands = "[WORLD]",
        .operands_max = 1,
        .about = "Lists the tasks of a world; without one, the worlds.",
        .options = options,
        .option_count = COUNT(options),
    };
    struct client_reply reply;
    const char *query;
    int status;
    struct client *c = client_begin(&cmd, &o, &argc, argv, &status);

    if (!c)
        return status;
    if (argc < 2) {
        status = list_worlds(c, o.json);
    } else {
        query = arena_printf(client_arena(c), "/tasks?state=%s&limit=%lld&after=%s", states[state],
                             (long long)limit, client_quote(c, str_of(after ? after : "")));
        status = client_call(c, "GET", world_url(c, argv[1], query), NULL, &reply);
        if (!status && o.json)
            client_print_json(&reply);
        else if (!status)
            print_tasks(reply.json);
        if (!status && json_text_of(reply.json, "next").len)
            fprintf(stderr, "drover: there are more: --after '%.*s'\n",
                    (int)json_text_of(reply.json, "next").len, json_text_of(reply.json, "next").p);
    }
    client_close(c);
    return status;
}

/* tree */

static void print_below(const struct json *tasks, int depth)
{
    if (!tasks || tasks->kind != JSON_LIST)
        return;
    json_each(task, tasks) {
        struct str node = json_text_of(task, "node"), state = json_text_of(task, "state");
        const char *bar = node.len ? memrchr(node.p, '|', node.len) : NULL;
        struct buf line = {0};

        if (bar)
            node = (struct str){bar + 1, (size_t)(node.p + node.len - bar - 1)};
        term_put_safe(&line, node, SIZE_MAX);
        printf("%*s%s  %s%.*s%s\n", depth * 2, "", buf_text(&line),
               term_has_colour(stdout) ? term_colour(state_colour(state)) : "", (int)state.len,
               state.p, term_has_colour(stdout) ? term_colour(TERM_PLAIN) : "");
        buf_release(&line);
        print_below(json_get(task, "tasks"), depth + 1);
    }
}

static int tree(int argc, char **argv)
{
    struct client_options o = {0};
    const struct option options[] = {CLIENT_OPTIONS(o)};
    const struct cmd cmd = {
        .name = "world tree",
        .operands = "WORLD",
        .operands_min = 1,
        .operands_max = 1,
        .about = "Shows the tree of a world and the state of each task.",
        .options = options,
        .option_count = COUNT(options),
    };
    struct client_reply reply;
    int status;
    struct client *c = client_begin(&cmd, &o, &argc, argv, &status);

    if (!c)
        return status;
    status = client_call(c, "GET", world_url(c, argv[1], "/tree"), NULL, &reply);
    if (!status && o.json)
        client_print_json(&reply);
    else if (!status)
        print_below(json_get(reply.json, "tasks"), 0);
    client_close(c);
    return status;
}

int cmd_world(int argc, char **argv)
{
    static const struct cmd_sub subs[] = {
        {"init", "make a world", init},
        {"queue", "queue a task", queue},
        {"ls", "list the tasks of a world, or the worlds", ls},
        {"tree", "show the tree of a world", tree},
        {"rm", "remove tasks", cmd_world_rm},
        {"claim", "take a task", cmd_world_claim},
        {"complete", "say that a claimed task is done", cmd_world_complete},
        {"release", "give a claimed task back", cmd_world_release},
        {"fail", "say that a claimed task has failed", cmd_world_fail},
        {"work", "run a command for each task", cmd_world_work},
    };
    static const struct cmd_group group = {
        .name = "world",
        .about = "Trees of tasks: a task waits until those above it are completed.",
        .subs = subs,
        .sub_count = COUNT(subs),
    };

    return cmd_group_run(&group, argc, argv);
}
