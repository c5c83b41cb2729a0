/* drover cron: schedules, which add a task or a graph at their times. */
#include <inttypes.h>
#include <stdio.h>

#include "base/human.h"
#include "cli/dag.h"
#include "cli/verb.h"

/* add */

static int64_t priority;
static const char *key, *graph;

/* A time is "every"; a cron expression has spaces or begins with "@". */
static int put_when(const struct cmd_call *call, struct buf *b)
{
    int64_t every_ms;
    const struct option span = {.target = &every_ms, .max = INT64_MAX};
    const char *when = call->operands[1];
    struct err_info e;
    if (!option_span(&span, when, &e))
        json_member_int(b, "every", every_ms);
    else if (strchr(when, ' ') || when[0] == '@')
        json_member_text(b, "cron", str_of(when));
    else
        return cmd_usage_error(
            call->cmd,
            "'%s' is neither cron, such as '30 4 * * mon-fri' or @daily, nor a time, such as 10m",
            when);
    return CMD_OK;
}

static int put_graph(struct buf *b)
{
    struct graph_file f = {0};
    int status = dag_read_graph(&f, graph);
    json_member_open(b, "graph", '[');
    for (uint32_t i = 0; i < f.count && !status; i++)
        graph_file_put_node(b, &f, i);
    json_close(b, ']');
    graph_file_release(&f);
    return status;
}

static void put_task(const struct cmd_call *call, struct buf *b)
{
    json_member_open(b, "task", '{');
    json_member_text(b, "group", str_of(call->operands[2]));
    if (call->count > 3)
        json_member_text(b, "data", str_of(call->operands[3]));
    if (priority)
        json_member_int(b, "priority", priority);
    if (key)
        json_member_text(b, "key", str_of(key));
    json_close(b, '}');
}

static int put_schedule(const struct cmd_call *call, struct client *c, struct buf *b)
{
    static const char *const texts[] = {"timezone", "missed", "overlap"};
    (void)c;
    if (!graph == (call->count < 3))
        return cmd_usage_error(call->cmd, "give either GROUP or --graph");
    for (int i = 0; i < call->count; i++)
        if (!json_is_text(str_of(call->operands[i])))
            return cmd_usage_error(call->cmd, "an argument is not UTF-8 text");
    json_open(b, '{');
    TRY(put_when(call, b));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (verb_value(call, texts[i])->given)
            json_member_text(b, texts[i], str_of(verb_value(call, texts[i])->given));
    if (verb_value(call, "paused")->given)
        json_member_bool(b, "paused", true);
    if (graph)
        TRY(put_graph(b));
    else
        put_task(call, b);
    json_close(b, '}');
    return CMD_OK;
}

/* Printing. */

static void put_time_of(struct buf *b, int64_t ms)
{
    char text[HUMAN_SIZE];
    buf_printf(b, "%s", ms ? human_time(text, ms) : "never");
}

/* "30 4 * * * Europe/Berlin", "every 10m". */
static void put_when_of(struct buf *b, const struct json *schedule)
{
    char span[HUMAN_SIZE];
    int64_t every_ms = json_int_of(schedule, "every");
    if (every_ms)
        buf_printf(b, "every %s", human_span(span, every_ms));
    else
        buf_put_str(b, json_text_of(schedule, "cron"));
}

static void put_what_of(struct buf *b, const struct json *schedule)
{
    const struct json *task = json_get(schedule, "task");
    buf_put_str(b, task ? json_text_of(task, "group") : STR("(a graph)"));
}

static void put_cell(struct table *t, const struct json *schedule,
                     void (*put)(struct buf *b, const struct json *schedule))
{
    CLEANUP(buf_release) struct buf b = {0};
    put(&b, schedule);
    table_text(t, TERM_PLAIN, buf_str(&b));
}

static bool is_paused(const struct json *schedule)
{
    const struct json *paused = json_get(schedule, "paused");
    return paused && paused->kind == JSON_BOOL && paused->truth;
}

static int print_schedules(const struct json *reply)
{
    static const struct table_column columns[] = {{"NAME"}, {"WHEN"},       {"ADDS"}, {"NEXT"},
                                                  {"LAST"}, {"RUNS", true}, {"ERROR"}};
    CLEANUP(table_release) struct table t = {.columns = columns, .column_count = 7};
    json_each(s, json_list(json_get(reply, "schedules"))) {
        char next[HUMAN_SIZE], last[HUMAN_SIZE];
        int64_t next_ms = json_int_of(s, "next"), last_ms = json_int_of(s, "last");
        struct str error = json_text_of(s, "error");
        table_text(&t, TERM_PLAIN, json_text_of(s, "name"));
        put_cell(&t, s, put_when_of);
        put_cell(&t, s, put_what_of);
        table_cell(&t, is_paused(s) ? TERM_YELLOW : TERM_PLAIN, "%s",
                   is_paused(s) ? "paused"
                   : next_ms    ? human_time(next, next_ms)
                                : "never");
        table_cell(&t, TERM_DIM, "%s", last_ms ? human_time(last, last_ms) : "never");
        table_cell(&t, TERM_PLAIN, "%" PRId64, json_int_of(s, "runs"));
        table_text(&t, TERM_RED, error.len ? error : STR("-"));
    }
    table_print(&t, stdout);
    return CMD_OK;
}

/* A line for each member; times as people read them. */
static int print_schedule(const struct json *schedule)
{
    json_each(member, schedule) {
        CLEANUP(buf_release) struct buf b = {0};
        bool is_time = str_eq(member->key, STR("next")) || str_eq(member->key, STR("last"));
        char span[HUMAN_SIZE];
        if (str_eq(member->key, STR("times")))
            continue;
        term_put_safe(&b, member->key, SIZE_MAX);
        buf_printf(&b, ": ");
        if (is_time)
            put_time_of(&b, member->kind == JSON_INT ? member->number : 0);
        else if (str_eq(member->key, STR("every")))
            buf_printf(&b, "%s", human_span(span, member->number));
        else if (member->kind == JSON_TEXT)
            term_put_safe(&b, member->text, SIZE_MAX);
        else
            escape_put(&b, member->raw, ESCAPE_JSON);
        puts(buf_text(&b));
    }
    return CMD_OK;
}

static int print_times(const struct json *schedule)
{
    json_each(time, json_list(json_get(schedule, "times"))) {
        char text[HUMAN_SIZE];
        puts(human_time(text, time->number));
    }
    return CMD_OK;
}

static int print_shown(const struct json *schedule)
{
    print_schedule(schedule);
    puts("times:");
    return print_times(schedule);
}

/* What was added: the id of the task, or of the first node. */
static int print_added(const struct json *schedule)
{
    const struct json *task = json_get(schedule, "last_task"),
                      *added = task ? task : json_get(schedule, "last_node");
    if (added && added->kind == JSON_INT)
        printf("%" PRId64 "\n", added->number);
    return CMD_OK;
}

static int print_next(const struct json *schedule)
{
    char text[HUMAN_SIZE];
    int64_t next_ms = json_int_of(schedule, "next");
    if (is_paused(schedule))
        puts("paused");
    else
        puts(next_ms ? human_time(text, next_ms) : "never");
    return CMD_OK;
}

/* The commands. */

static const struct option ADD[] = {
    {"timezone", "ZONE", "The time zone of the expression, such as Europe/Berlin. Default: UTC.",
     option_text},
    {"priority", "N", "Of the task: smaller goes first. Default: 0.", option_number, &priority,
     -1000000, 1000000},
    {"key", "KEY", "Of the task: while one has it, no other is added.", option_text, &key},
    {"graph", "FILE", "Add the nodes of this graph, as 'drover run' takes it, in place of a task.",
     option_text, &graph},
    {"missed", "one|skip|all",
     "What to do with times at which no server ran: add once for all of them, not at all,\n"
     "or for each. Default: one.",
     option_choice},
    {"overlap", "allow|skip",
     "skip: add nothing while what was added last has not ended. Default: allow.", option_choice},
    {"paused", NULL, "Begin with a pause.", option_flag},
    {0},
};

static const struct cmd *const COMMANDS[] = {
    VERB_CMD("cron add", "make or replace a schedule", "NAME WHEN [GROUP] [DATA]",
             "Makes a schedule, or replaces the one of this name: it adds a task to the group at\n"
             "its times. WHEN is cron ('30 4 * * mon-fri', six fields with seconds in front, or\n"
             "@hourly, @daily, ...), or a time between two (10m). Prints the next time.",
             ADD, "PUT", "/v1/schedules/{1}", .put = put_schedule, .print = print_next),
    VERB_CMD("cron ls", "list the schedules", NULL, "Lists the schedules, by name.",
             CMD_OPTIONS({"limit", "N", "At most N; 0: all. Default: 1000.", option_number, NULL, 0,
                          INT32_MAX},
                         {"after", "NAME", "Only names behind this one.", option_text}),
             "GET", "/v1/schedules", .list = "schedules", .print = print_schedules,
             .page = {"after", 1000, 1000}),
    VERB_CMD("cron show", "show a schedule", "NAME",
             "Shows all that is known of a schedule, and its next five times.", NULL, "GET",
             "/v1/schedules/{1}", .print = print_shown),
    VERB_CMD("cron rm", "delete schedules", "NAME...", "Deletes schedules. What they added stays.",
             NULL, "DELETE", "/v1/schedules/{1}", .flags = VERB_EACH),
    VERB_CMD(
        "cron run", "run schedules now", "NAME...",
        "Adds what the schedules add, now; their times stay. Prints the id of the task, or of\n"
        "the first node.",
        NULL, "POST", "/v1/schedules/{1}/run", .flags = VERB_EACH, .print = print_added),
    VERB_CMD("cron pause", "pause schedules", "NAME...",
             "Pauses schedules: their times do not come, and are not missed.", NULL, "POST",
             "/v1/schedules/{1}/pause", .flags = VERB_EACH),
    VERB_CMD("cron resume", "resume schedules", "NAME...",
             "Resumes schedules that were paused, with their next time. Prints that time.", NULL,
             "POST", "/v1/schedules/{1}/resume", .flags = VERB_EACH, .print = print_next),
    VERB_CMD("cron next", "print the next times of a schedule", "NAME",
             "Prints the next five times of a schedule, in the local time zone.", NULL, "GET",
             "/v1/schedules/{1}", .print = print_times),
    NULL,
};

const struct cmd cmd_cron =
    CMD_GROUP("cron", "schedules, which add tasks at their times",
              "Schedules: a task or a graph that the server adds at certain times.", COMMANDS);
