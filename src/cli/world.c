/* drover world: a table of its commands, and those that are more than one request. */
#include "cli/verb.h"

/* queue */

static const char *parent, *parent_type, *child_name;
static int64_t attempts;

static void put_pair(struct buf *b, const char *key, const char *name, const char *type)
{
    json_member_open(b, key, '{');
    json_member_text(b, "name", str_of(name));
    json_member_text(b, "type", str_of(type));
}

static int put_task(const struct cmd_call *call, struct client *c, struct buf *b)
{
    const struct json *data;
    if ((parent_type || child_name) && !parent)
        return cmd_usage_error(call->cmd, "--parent-type and --child-name go with --parent");
    TRY(verb_read_json(c, call->count > 3 ? call->operands[3] : "null", &data, "DATA: "));
    json_open(b, '{');
    put_pair(b, "task", call->operands[1], call->operands[2]);
    json_member_raw(b, "data", data->raw);
    if (attempts)
        json_member_int(b, "attempts", attempts);
    json_close(b, '}');
    if (parent) {
        put_pair(b, "parent", parent, parent_type ? parent_type : ".*");
        json_close(b, '}');
    }
    if (child_name)
        json_member_text(b, "child_name", str_of(child_name));
    json_close(b, '}');
    return CMD_OK;
}

static int print_nodes(const struct json *reply)
{
    return verb_print_words(json_get(reply, "nodes"));
}

/* ls */

static const struct verb_column TASKS[] = {
    {{"NODE"}, "node"},
    {{"TYPE"}, "type"},
    {{"STATE"}, "state", VERB_STATE},
    {{"SINCE"}, "since", VERB_TIME},
    {{"FAILURES", true}, "failures", VERB_FAILURES},
    {{0}},
};

/* Without WORLD it is another request, and the options are not sent. */
static int run_ls(const struct cmd_call *call)
{
    static const struct verb list_worlds = {"GET", "/v1/worlds", .print = verb_print_word};
    struct cmd_call worlds = *call;
    worlds.cmd = &(const struct cmd){.verb = &list_worlds};
    return verb_run(call->count ? call : &worlds);
}

/* tree */

static void print_below(const struct json *tasks, int depth)
{
    json_each(task, json_list(tasks)) {
        struct str node = json_text_of(task, "node"), state = json_text_of(task, "state");
        const char *bar = node.len ? memrchr(node.p, '|', node.len) : NULL;
        CLEANUP(buf_release) struct buf line = {0};
        if (bar)
            node = (struct str){bar + 1, (size_t)(node.p + node.len - bar - 1)};
        buf_printf(&line, "%*s", depth * 2, "");
        term_put_safe(&line, node, SIZE_MAX);
        buf_printf(&line, "  ");
        term_paint(&line, term_has_colour(stdout), verb_colour(state), state, SIZE_MAX);
        puts(buf_text(&line));
        print_below(json_get(task, "tasks"), depth + 1);
    }
}

static int print_tree(const struct json *reply)
{
    print_below(json_get(reply, "tasks"), 0);
    return CMD_OK;
}

/* claim */

static int print_claim(const struct json *reply)
{
    const struct verb_column columns[] = {
        {{"NODE"}, "node"},
        {{"TYPE"}, "task.type"},
        {{"SESSION"}, "session", .otherwise = verb_session},
        {{"DATA"}, "task.data", VERB_RAW, .otherwise = "null"},
        {{0}},
    };
    verb_print_columns(&(struct json){.kind = JSON_LIST, .first = (struct json *)reply}, columns);
    return CMD_OK;
}

/* The table. */

#define SESSION_OPTION                                                                             \
    OPTION("session", "ID", "The session that claimed it. Required.", option_text)

static const struct cmd *const COMMANDS[] = {
    VERB_CMD(
        "world init", "create a world", "WORLD",
        "Creates a world: /zoott_WORLD for its tree, and zoott_p, zoott_w and zoott_c for the\n"
        "tasks that are pending, working and completed. Safe to repeat.",
        NULL, "POST", "/v1/worlds", "world=1"),
    VERB_CMD("world queue", "queue a task", "WORLD NAME TYPE [DATA]",
             "Queues a task: creates it, or updates it, and makes it pending. DATA is JSON; '-'\n"
             "reads it from standard input; the default is null. Prints the nodes.",
             CMD_OPTIONS(
                 {"parent", "EXPRESSION",
                  "Put the task below every task whose whole name matches this regular expression.",
                  option_text, &parent},
                 {"parent-type", "EXPRESSION", "And whose type matches this one. Default: any.",
                  option_text, &parent_type},
                 {"child-name", "TEMPLATE",
                  "The name of the task, with {parent} and {child} replaced by the two names.",
                  option_text, &child_name},
                 {"attempts", "N", "After N attempts the task has failed. Default: no limit.",
                  option_number, &attempts, 1, 1000000}),
             "POST", "/v1/worlds/{1}/tasks", .put = put_task, .print = print_nodes),
    CMD("world ls", "list the tasks of a world, or the worlds", "[WORLD]",
        "Lists the tasks of a world; without WORLD, the worlds.",
        CMD_OPTIONS(
            {"state", "pending|working|completed|failed",
             "The state of the tasks. Default: pending.", option_choice},
            {"limit", "N", "At most N; 0: all. Default: 1000.", option_number, NULL, 0, INT32_MAX},
            {"after", "NODE", "Start after this node, in the order of names.", option_text}),
        CMD_JSON, run_ls,
        .verb = &(const struct verb){"GET", "/v1/worlds/{1}/tasks", .list = "tasks",
                                     .page = {"after", 10000, 1000}, .columns = TASKS}),
    VERB_CMD("world tree", "show the tree of a world", "WORLD",
             "Shows the tree of a world and the state of each task.", NULL, "GET",
             "/v1/worlds/{1}/tree", .print = print_tree),
    VERB_CMD(
        "world rm", "remove tasks", "WORLD NODE...",
        "Removes tasks from a world, whatever their state. A task that is being worked on, or\n"
        "that has tasks below it, stays.",
        NULL, "DELETE", "/v1/worlds/{1}/tasks/{2}", .flags = VERB_EACH),
    VERB_CMD(
        "world claim", "claim a task", "WORLD",
        "Claims the oldest pending task of a type that has no pending ancestor. The claim\n"
        "lasts until the task is completed, released or failed, or until the session ends.\n"
        "Exit status 3: there is none.",
        CMD_OPTIONS(
            {"type", "TYPE", "Tasks of this type; may be given more than once.", option_list_add},
            {"session", "ID",
             "Claim for this session. Default: a new one, which is printed, and which ends\n"
             "when nothing renews it for --timeout.",
             option_text},
            {"timeout", "TIME", "Timeout of the new session. Default: 60s.", option_span, NULL,
             1000, 3600 * 1000},
            {"wait", "TIME", "Wait this long for a task. Default: do not wait.", option_span, NULL,
             0, 3600 * 1000}),
        "POST", "/v1/worlds/{1}/claim", .requires = "type", .flags = VERB_SESSION | VERB_ACQUIRE,
        .print = print_claim),
    VERB_CMD("world complete", "complete a claimed task", "WORLD NODE",
             "Completes a task that was claimed. If it was queued again meanwhile, it becomes\n"
             "pending again.",
             CMD_OPTIONS(SESSION_OPTION), "POST", "/v1/worlds/{1}/complete", "node=2",
             .requires = "session"),
    VERB_CMD("world release", "release a claimed task", "WORLD NODE",
             "Releases a task that was claimed: it becomes pending again.",
             CMD_OPTIONS(SESSION_OPTION), "POST", "/v1/worlds/{1}/release", "node=2",
             .requires = "session"),
    VERB_CMD("world fail", "report that a claimed task has failed", "WORLD NODE",
             "Reports that a task that was claimed has failed. It becomes pending again, behind\n"
             "the others, and its failures are counted. After its last attempt it stays failed.",
             CMD_OPTIONS(SESSION_OPTION, {"error", "TEXT", "What went wrong.", option_text},
                         {"final", NULL, "Retrying would not help: it stays failed.", option_flag}),
             "POST", "/v1/worlds/{1}/fail", "node=2", .requires = "session"),
    VERB_CMD("world retry", "retry tasks that have failed", "WORLD NODE...",
             "Makes tasks that have failed pending again, with all their attempts.", NULL, "POST",
             "/v1/worlds/{1}/retry", "node=2", .flags = VERB_EACH),
    &cmd_world_work,
    NULL,
};

const struct cmd cmd_world = CMD_GROUP(
    "world", "trees of tasks", "Trees of tasks: a task waits until those above it are completed.",
    COMMANDS, .heading = "Worlds and queues");
