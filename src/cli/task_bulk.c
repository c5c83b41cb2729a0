/*
 * drover dead, purge, move: many tasks at once.
 *
 * The server changes a bounded number in each request and says where to go on. Which tasks these
 * are does not depend on the ids of those that were changed, so a request can be repeated when its
 * reply was lost. On a terminal the tasks are counted and shown first, and the user is asked.
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "cli/task_share.h"
#include "cli/task_show.h"

enum { PROGRESS_MS = 500, EXAMPLES_MAX = 3 };

static bool all, yes, dry_run;

/* What is done, in three forms. */
struct bulk_kind {
    const char *action, *verb, *past;
    bool of_dead; /* the tasks are dead, the operands are ids, --group is where they died */
};

struct bulk {
    const struct cmd_call *call;
    const struct bulk_kind *kind;
    const char *group, *to; /* NULL: any; not moved */
    struct client c;
    int64_t matched, changed;
    struct buf examples; /* JSON */
    size_t example_count;
    int64_t shown_ms; /* when progress was last shown; 0: never */
};

/* Which tasks. */

static bool is_given(const struct cmd_call *call, const char *option)
{
    const struct cmd_value *v = verb_value(call, option);
    return v && v->given;
}

static int check_filter(const struct bulk *b)
{
    static const char *const options[] = {"group", "state", "text", "key", "error"};
    const struct cmd_call *call = b->call;
    bool some = b->group || (b->kind->of_dead && call->count);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const struct cmd_value *v = verb_value(call, options[i]);
        some = some || is_given(call, options[i]);
        if (is_given(call, options[i]) && !json_is_text(str_of(v->text)))
            return cmd_usage_error(call->cmd, "--%s is not UTF-8 text", options[i]);
    }
    if (some && all)
        return cmd_usage_error(call->cmd, "--all goes without anything else");
    if (!some && !all)
        return cmd_usage_error(call->cmd, "which tasks? %s, or --all",
                               b->kind->of_dead ? "Give ids, a filter" : "Give a group, a filter");
    if (b->group && !json_is_text(str_of(b->group)))
        return cmd_usage_error(call->cmd, "GROUP must be UTF-8 text");
    return b->kind->of_dead ? task_check_ids(call) : CMD_OK;
}

static void put_words(struct buf *body, const char *words)
{
    struct str rest = str_of(words);
    json_member_open(body, "state", '[');
    while (rest.p)
        json_put_text(body, str_cut(&rest, ','));
    json_close(body, ']');
}

static void put_filter(const struct bulk *b, struct buf *body)
{
    static const char *const texts[] = {"text", "key", "error"};
    const struct cmd_call *call = b->call;
    json_member_open(body, "filter", '{');
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (is_given(call, texts[i]))
            json_member_text(body, texts[i], str_of(verb_value(call, texts[i])->text));
    if (b->group)
        json_member_text(body, b->kind->of_dead ? "origin" : "group", str_of(b->group));
    if (b->kind->of_dead)
        put_words(body, "dead");
    else if (is_given(call, "state"))
        put_words(body, verb_value(call, "state")->text);
    if (b->kind->of_dead && call->count)
        task_put_ids(call, body, "ids");
    json_close(body, '}');
}

/* All requests of one round. */

static void show_progress(struct bulk *b)
{
    if (!isatty(STDERR_FILENO) || clock_boot_ms() - b->shown_ms < PROGRESS_MS)
        return;
    b->shown_ms = clock_boot_ms();
    fprintf(stderr, "\r%" PRId64 " %s", b->changed, b->kind->past);
    fflush(stderr);
}

static void note(struct bulk *b, const struct json *reply)
{
    b->matched += json_int_of(reply, "matched");
    b->changed += json_int_of(reply, "changed");
    json_each(task, json_list(json_get(reply, "examples")))
        if (b->example_count++ < EXAMPLES_MAX)
            json_put_raw(&b->examples, task->raw);
}

static int send_round(struct bulk *b, bool dry)
{
    CLEANUP(buf_release) struct buf after = {0};
    struct client_reply reply;
    b->matched = b->changed = 0;
    b->examples.len = b->example_count = 0;
    b->c.repeatable = true;
    json_open(&b->examples, '[');
    do {
        CLEANUP(buf_release) struct buf body = {0};
        json_open(&body, '{');
        json_member_int(&body, "clientid", task_clientid);
        json_member_text(&body, "action", str_of(b->kind->action));
        json_member_bool(&body, "dry_run", dry);
        json_member_bool(&body, "all", all);
        put_filter(b, &body);
        if (b->to)
            json_member_text(&body, "group", str_of(b->to));
        if (after.len)
            json_member_text(&body, "after", buf_str(&after));
        json_close(&body, '}');
        TRY(client_call(&b->c, &reply, buf_text(&body), "POST /v1/tasks/bulk"));
        note(b, reply.json);
        if (!dry)
            show_progress(b);
        after.len = 0;
        buf_put_str(&after, json_text_of(reply.json, "next"));
        arena_reset(&b->c.arena);
    } while (after.len);
    json_close(&b->examples, ']');
    return CMD_OK;
}

/* What people see. */

static void print_examples(struct bulk *b)
{
    struct err_info e;
    verb_print_columns(json_parse(&b->c.arena, buf_str(&b->examples), &e), TASK_COLUMNS);
    if (b->matched > EXAMPLES_MAX)
        printf("... and %" PRId64 " more\n", b->matched - EXAMPLES_MAX);
}

/* Whether to go on. */
static bool confirm(struct bulk *b)
{
    char count[HUMAN_SIZE], answer[16];
    print_examples(b);
    printf("%s %s? [y/N] ", b->kind->verb, human_count(count, (uint64_t)b->matched, "task"));
    fflush(stdout);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

/* Says of each id why its task is not among those that were found. Exit status. */
static int explain_missing(struct bulk *b)
{
    for (int i = 0; i < b->call->count; i++) {
        struct client_reply reply;
        const char *id = b->call->operands[i];
        TRY(client_try(&b->c, &reply, NULL, "GET /v1/tasks/%s", id));
        if (reply.status != 200)
            client_refused(&b->c, &reply);
        else if (!str_eq(json_text_of(reply.json, "state"), STR("dead")))
            client_error("task %s is not dead: it is %.*s", id,
                         STR_ARGS(json_text_of(reply.json, "state")));
    }
    return CMD_FAILURE;
}

static int report(struct bulk *b, bool dry)
{
    char count[HUMAN_SIZE];
    int64_t number = dry ? b->matched : b->changed;
    if (b->shown_ms)
        fputs("\r", stderr);
    if (b->call->client.json) {
        CLEANUP(buf_release) struct buf out = {0};
        json_open(&out, '{');
        json_member_int(&out, "matched", b->matched);
        json_member_int(&out, "changed", b->changed);
        json_member_raw(&out, "examples", buf_str(&b->examples));
        json_close(&out, '}');
        term_line(stdout, buf_str(&out), ESCAPE_JSON);
    } else {
        if (dry)
            print_examples(b);
        printf("%s %s%s\n", human_count(count, (uint64_t)number, "task"), dry ? "would be " : "",
               b->kind->past);
    }
    if (!dry && b->changed < b->matched)
        return client_error("%" PRId64 " could not be %s: their keys are taken there",
                            b->matched - b->changed, b->kind->past);
    return CMD_OK;
}

static int change(struct bulk *b)
{
    char count[HUMAN_SIZE];
    int status = send_round(b, false);
    if (status && b->changed)
        client_error("%s %s before the error", human_count(count, (uint64_t)b->changed, "task"),
                     b->kind->past);
    return status;
}

static int change_many(struct bulk *b)
{
    const struct cmd_call *call = b->call;
    bool ids = b->kind->of_dead && call->count,
         asks = !yes && !dry_run && !ids && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    int missing = CMD_OK;
    if (dry_run || asks || ids)
        TRY(send_round(b, true));
    if (ids && b->matched < call->count)
        missing = explain_missing(b);
    if (dry_run || (asks && !b->matched)) {
        report(b, dry_run);
        return missing;
    }
    if (asks && !confirm(b))
        return client_error("nothing was changed");
    TRY(change(b));
    int status = report(b, false);
    return missing ? missing : status;
}

static int run_bulk(struct bulk b)
{
    TRY(check_filter(&b));
    TRY(task_find_clientid());
    int status = client_open(&b.c, &b.call->client);
    status = status ? status : change_many(&b);
    buf_release(&b.examples);
    client_close(&b.c);
    return status;
}

/* The commands. */

#define BULK_OPTIONS                                                                               \
    {"dry-run", NULL, "Change nothing: show how many there are, and some.", option_flag,           \
     &dry_run},                                                                                    \
    {                                                                                              \
        "yes", NULL, "Do not ask. Only on a terminal one is asked.", option_flag, &yes             \
    }

#define ALL_OPTION                                                                                 \
    {                                                                                              \
        "all", NULL, "All of them.", option_flag, &all                                             \
    }

static int run_dead(const struct cmd_call *call, const struct bulk_kind *kind)
{
    return run_bulk(
        (struct bulk){.call = call, .kind = kind, .group = verb_value(call, "group")->text});
}

static int run_dead_retry(const struct cmd_call *call)
{
    static const struct bulk_kind kind = {"retry", "retry", "retried", true};
    return run_dead(call, &kind);
}

static int run_dead_rm(const struct cmd_call *call)
{
    static const struct bulk_kind kind = {"delete", "delete", "deleted", true};
    return run_dead(call, &kind);
}

static int run_purge(const struct cmd_call *call)
{
    static const struct bulk_kind kind = {"delete", "delete", "deleted", false};
    return run_bulk((struct bulk){
        .call = call, .kind = &kind, .group = call->count ? call->operands[0] : NULL});
}

static int run_move(const struct cmd_call *call)
{
    static const struct bulk_kind kind = {"move", "move", "moved", false};
    if (!json_is_text(str_of(call->operands[1])))
        return cmd_usage_error(call->cmd, "GROUP must be UTF-8 text");
    return run_bulk((struct bulk){
        .call = call, .kind = &kind, .group = call->operands[0], .to = call->operands[1]});
}

#define DIED_OPTION                                                                                \
    {                                                                                              \
        "group", "GROUP", "Those that died in this group.", option_text                            \
    }

static const struct verb_column DEAD[] = {
    {{"ID", true}, "id", VERB_NUMBER},
    {{"GROUP"}, "origin"},
    {{"DIED"}, "ended", VERB_TIME, .colour = TERM_DIM},
    {{"FAILED", true}, "attempts", VERB_NUMBER},
    {{"ERROR"}, "error", .colour = TERM_RED, .otherwise = "-"},
    {{"DATA"}, NULL, VERB_DATA},
    {{0}},
};

static const struct cmd *const DEAD_COMMANDS[] = {
    VERB_CMD("dead ls", "list dead tasks", "[GROUP]",
             "Lists tasks that are not tried again: those that died in the group, or all.",
             CMD_OPTIONS(TASK_FILTER_OPTIONS,
                         {"limit", "N", "At most N; 0: all. Default: 1000.", option_number, NULL, 0,
                          INT32_MAX},
                         {"after", "NEXT", "Go on where a list ended that was cut.", option_text}),
             "GET", "/v1/tasks?state=dead", .body = "origin=1", .list = "tasks", .columns = DEAD,
             .page = {"after", 1000, 1000}),
    CMD("dead show", "show dead tasks", "ID...",
        "Shows all that is known of dead tasks. Exit status 1: one of them is not dead.",
        CMD_OPTIONS({"wide", NULL, "Also the owner.", option_flag, &task_show_wide}), CMD_JSON,
        task_show_dead),
    CMD("dead retry", "try dead tasks again", "[ID...]",
        "Makes dead tasks available again where they died, as if they had never failed: those of\n"
        "the ids, or those to which the options apply.",
        CMD_OPTIONS(DIED_OPTION, TASK_FILTER_OPTIONS, ALL_OPTION, BULK_OPTIONS,
                    TASK_CLIENT_ID_OPTION),
        CMD_JSON, run_dead_retry),
    CMD("dead rm", "delete dead tasks", "[ID...]",
        "Deletes dead tasks: those of the ids, or those to which the options apply.",
        CMD_OPTIONS(DIED_OPTION, TASK_FILTER_OPTIONS, ALL_OPTION, BULK_OPTIONS,
                    TASK_CLIENT_ID_OPTION),
        CMD_JSON, run_dead_rm),
    NULL,
};

const struct cmd cmd_dead =
    CMD_GROUP("dead", "tasks that are not tried again",
              "Dead tasks: they failed too often, were claimed too often without an answer, or\n"
              "expired. They are in the group GROUP/dead, unless its settings name another one.",
              DEAD_COMMANDS);

const struct cmd cmd_purge =
    CMD_INIT("purge", "delete many tasks", "[GROUP]",
             "Deletes the tasks of a group, or of all groups, to which the options apply. What is\n"
             "claimed is deleted only with --state claimed.",
             CMD_OPTIONS(TASK_STATE_OPTION, TASK_FILTER_OPTIONS, ALL_OPTION, BULK_OPTIONS,
                         TASK_CLIENT_ID_OPTION),
             CMD_JSON, run_purge);

const struct cmd cmd_move = CMD_INIT(
    "move", "move many tasks to another group", "GROUP TO",
    "Moves the tasks of a group to which the options apply to the group TO. What is claimed is\n"
    "moved only with --state claimed, and what has a key that is taken there stays.",
    CMD_OPTIONS(TASK_STATE_OPTION, TASK_FILTER_OPTIONS, BULK_OPTIONS, TASK_CLIENT_ID_OPTION),
    CMD_JSON, run_move);
