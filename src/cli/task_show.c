/*
 * Reading the task store: drover ls, find, task, result, and the tasks of drover wait.
 *
 * A result that the group does not keep is answered to those who wait when the task ends. So one
 * request waits all the time.
 */
#include "cli/task_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "cli/task_share.h"

enum { LIMIT_DEFAULT = 1000, PAGE_LEN = 1000 };

#define FOREVER_MS (INT64_C(1) << 40)

/* ls */

static int64_t limit = LIMIT_DEFAULT;
static bool available, internal;
bool task_show_wide;
static const char *states;

struct listing {
    const struct cmd_call *call;
    struct client c;
    struct buf tasks;
    int64_t left; /* how many more may be listed; below 0: there are more */
};

/* The pages of a group, or of its part that may be listed. */
static int list_group(struct listing *l, struct str group)
{
    const char *after = "", *name = client_quote(&l->c, group),
               *state = available ? "available"
                        : states  ? client_quote(&l->c, str_of(states))
                                  : "";
    while (l->left >= 0) {
        struct client_reply reply;
        TRY(client_call(&l->c, &reply, NULL, "GET /v1/tasks?group=%s&internal=%d&limit=%d%s%s%s%s",
                        name, internal, PAGE_LEN, *state ? "&state=" : "", state,
                        *after ? "&after=" : "", after));
        json_each(task, json_list(json_get(reply.json, "tasks")))
            if (--l->left >= 0)
                json_put_raw(&l->tasks, task->raw);
        struct str next = json_text_of(reply.json, "next");
        if (!next.len)
            break;
        after = client_quote(&l->c, next);
    }
    return CMD_OK;
}

/* Whether name is a GROUP, or one in which version 0.1 kept those that wait for an attempt. */
static bool is_listed(struct str name, const struct cmd_call *call)
{
    for (int i = 0; i < call->count; i++) {
        struct str group = str_of(call->operands[i]),
                   tail = {name.p + group.len, name.len - group.len};
        if (str_starts(name, group) && (!tail.len || str_starts(tail, STR("/retry/"))))
            return true;
    }
    return !call->count;
}

static int list_groups(struct listing *l)
{
    const char *after = "";
    while (l->left >= 0) {
        struct client_reply reply;
        TRY(client_call(&l->c, &reply, NULL, "GET /v1/groups?internal=%d%s%s", internal,
                        *after ? "&after=" : "", after));
        json_each(group, json_list(json_get(reply.json, "groups"))) {
            struct str name = json_text_of(group, "group");
            if (l->left >= 0 && is_listed(name, l->call))
                TRY(list_group(l, name));
        }
        struct str next = json_text_of(reply.json, "next");
        if (!next.len)
            break;
        after = client_quote(&l->c, next);
    }
    return CMD_OK;
}

static int run_ls(const struct cmd_call *call)
{
    struct listing l = {.call = call, .left = limit ? limit : INT64_MAX - 1};
    struct err_info e;
    if (available && states)
        return cmd_usage_error(call->cmd, "--available does not go with --state");
    int status = client_open(&l.c, &call->client);
    json_open(&l.tasks, '[');
    status = status ? status : list_groups(&l);
    json_close(&l.tasks, ']');
    if (!status && call->client.json)
        term_line(stdout, buf_str(&l.tasks), ESCAPE_JSON);
    else if (!status)
        verb_print_columns(json_parse(&l.c.arena, buf_str(&l.tasks), &e),
                           task_show_wide ? TASK_WIDE : TASK_COLUMNS);
    if (!status && l.left < 0)
        client_error("there are more than %" PRId64 ": use --limit", limit);
    buf_release(&l.tasks);
    client_close(&l.c);
    return status;
}

#define INTERNAL_OPTION(target)                                                                    \
    {                                                                                              \
        "internal", NULL, "Also messages of queues and tasks of nodes.", option_flag, target       \
    }

const struct cmd cmd_ls = CMD_INIT(
    "ls", "list tasks", "[GROUP...]",
    "Lists the tasks of the groups, in whatever state; without GROUP, all tasks.",
    CMD_OPTIONS(
        {"limit", "N", "At most N; 0: all. Default: 1000.", option_number, &limit, 0, INT32_MAX},
        {"state", "STATE,...",
         "Only in these states: available, delayed, retrying, claimed, dead, done.", option_text,
         &states},
        {"available", NULL, "The same as --state available.", option_flag, &available},
        {"wide", NULL, "Also first id, priority, failures, owner, key and error.", option_flag,
         &task_show_wide},
        INTERNAL_OPTION(&internal)),
    CMD_JSON, run_ls);

const struct cmd cmd_find =
    VERB_INIT("find", "find tasks by what they are", "[GROUP]",
              "Finds tasks to which all of the options apply, in a group or in all.",
              CMD_OPTIONS(TASK_STATE_OPTION, TASK_FILTER_OPTIONS,
                          {"limit", "N", "At most N; 0: all. Default: 1000.", option_number, NULL,
                           0, INT32_MAX},
                          {"after", "NEXT", "Go on where a list ended that was cut.", option_text},
                          TASK_WIDE_OPTION, INTERNAL_OPTION(NULL)),
              "GET", "/v1/tasks", .body = "group=1", .list = "tasks", .columns = TASK_COLUMNS,
              .wide = TASK_WIDE, .page = {"after", PAGE_LEN, LIMIT_DEFAULT});

/* task, dead show */

static bool data_only;

/* A line for each member, in the order of the reply, as people read it. */
static void print_members(const struct json *task)
{
    static const char *const times[] = {"timespec", "expires", "created", "ended"};
    json_each(member, task) {
        CLEANUP(buf_release) struct buf b = {0}, data = {0};
        char time[HUMAN_SIZE];
        bool is_time = false;
        if (str_eq(member->key, STR("ownerid")) && !task_show_wide)
            continue;
        for (size_t i = 0; i < sizeof times / sizeof *times; i++)
            is_time = is_time || str_eq(member->key, str_of(times[i]));
        term_put_safe(&b, member->key, SIZE_MAX);
        buf_printf(&b, ": ");
        if (is_time && member->kind == JSON_INT) {
            buf_printf(&b, "%s", human_time(time, member->number));
        } else if (str_starts(member->key, STR("data"))) {
            verb_put_data(&data, task);
            term_put_safe(&b, buf_str(&data), SIZE_MAX);
        } else if (member->kind == JSON_TEXT) {
            term_put_safe(&b, member->text, SIZE_MAX);
        } else {
            escape_put(&b, member->raw, ESCAPE_JSON);
        }
        puts(buf_text(&b));
    }
}

static void print_task(const struct json *task, bool first)
{
    CLEANUP(buf_release) struct buf data = {0};
    if (data_only) {
        verb_put_data(&data, task);
        term_write(stdout, buf_str(&data), ESCAPE_LINES);
        return;
    }
    if (!first)
        putchar('\n');
    print_members(task);
}

/* Each of the operands; with --json as a list, with null for those that do not exist. */
static int show_tasks(const struct cmd_call *call, const char *state)
{
    CLEANUP(client_close) struct client c = {0};
    CLEANUP(buf_release) struct buf list = {0};
    int status = CMD_OK;
    TRY(task_check_ids(call));
    TRY(client_open(&c, &call->client));
    json_open(&list, '[');
    for (int i = 0; i < call->count; i++) {
        struct client_reply reply;
        TRY(client_try(&c, &reply, NULL, "GET /v1/tasks/%s", call->operands[i]));
        bool found = reply.status == 200 && reply.json;
        if (!found && reply.status != 404)
            return client_refused(&c, &reply);
        if (!found)
            status = client_refused(&c, &reply);
        else if (state && !str_eq(json_text_of(reply.json, "state"), str_of(state)))
            status = client_error("task %s is not %s: it is %.*s", call->operands[i], state,
                                  STR_ARGS(json_text_of(reply.json, "state")));
        else if (!call->client.json)
            print_task(reply.json, i == 0);
        json_put_raw(&list, found ? reply.json->raw : STR("null"));
    }
    json_close(&list, ']');
    if (call->client.json)
        term_line(stdout, buf_str(&list), ESCAPE_JSON);
    return status;
}

static int run_task(const struct cmd_call *call)
{
    return show_tasks(call, NULL);
}

int task_show_dead(const struct cmd_call *call)
{
    return show_tasks(call, "dead");
}

const struct cmd cmd_task =
    CMD_INIT("task", "show tasks by their ids", "ID...",
             "Shows all that is known of tasks. Exit status 1: one of them does not exist.",
             CMD_OPTIONS({"data", NULL, "Print only the data; unchanged, unless on a terminal.",
                          option_flag, &data_only},
                         {"wide", NULL, "Also the owner.", option_flag, &task_show_wide}),
             CMD_JSON, run_task);

/* result, wait */

static int64_t wait_ms;

/* Waits for the end of a task, at most so long. */
static int wait_for(struct client *c, const char *id, int64_t ms, struct client_reply *ret_reply)
{
    c->wait_ms = ms;
    c->repeatable = true;
    return client_try(c, ret_reply, NULL, "GET /v1/tasks/%s/wait?timeout=%" PRId64, id, ms);
}

static bool is_state(const struct client_reply *reply, const char *state)
{
    return str_eq(json_text_of(reply->json, "state"), str_of(state));
}

/* As it is; on a terminal the next line begins at its beginning. */
static void print_text(struct str text)
{
    term_write(stdout, text, ESCAPE_LINES);
    if (isatty(STDOUT_FILENO) && text.len && text.p[text.len - 1] != '\n')
        putchar('\n');
}

static int run_result(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    struct client_reply reply;
    TRY(task_check_ids(call));
    TRY(client_open(&c, &call->client));
    TRY(wait_for(&c, call->operands[0], wait_ms, &reply));
    if (reply.status != 200)
        return client_refused(&c, &reply);
    if (call->client.json)
        client_print_json(&reply);
    struct str state = json_text_of(reply.json, "state"), error = json_text_of(reply.json, "error");
    bool done = is_state(&reply, "done"), deleted = is_state(&reply, "deleted");
    if (done && !call->client.json)
        print_text(json_text_of(reply.json, "result"));
    if (done)
        return CMD_OK;
    if (call->client.json)
        return is_state(&reply, "dead") || deleted ? CMD_FAILURE : CMD_NOTHING;
    if (is_state(&reply, "dead") || deleted)
        return client_error("task %s was %s%s%.*s", call->operands[0],
                            deleted ? "deleted" : "given up", error.len ? ": " : "",
                            STR_ARGS(error));
    client_error("task %s has not ended: it is %.*s", call->operands[0], STR_ARGS(state));
    return CMD_NOTHING;
}

const struct cmd cmd_result = CMD_INIT(
    "result", "print the result of a task", "ID",
    "Prints the result of a task that is done. The group must keep it (keep_done), or somebody\n"
    "must wait when the task ends. Exit status 1: the task is dead, and its error is printed,\n"
    "or it was deleted; 3: it has not ended.",
    CMD_OPTIONS({"wait", "TIME", "Wait this long for its end. Default: do not wait.", option_span,
                 &wait_ms, 0, TASK_YEAR_MS}),
    CMD_JSON, run_result);

/*
 * One after the other, within the time for all. A task that was there at first, and is not when its
 * turn comes, has ended; whether it was finished or deleted is not known any more.
 */
struct task_waiting {
    struct client c;
    struct buf list; /* JSON */
    int status;
};

static int wait_for_one(struct task_waiting *w, const char *id, int64_t ms, bool print)
{
    struct client_reply reply;
    TRY(wait_for(&w->c, id, ms, &reply));
    if (reply.status != 200 && reply.status != 404)
        return client_refused(&w->c, &reply);
    struct str state = reply.status == 200 ? json_text_of(reply.json, "state") : STR("ended");
    if (!str_eq(state, STR("done")) && !str_eq(state, STR("ended")))
        w->status = CMD_FAILURE;
    if (reply.status == 200)
        json_put_raw(&w->list, reply.json->raw);
    if (reply.status != 200) {
        json_open(&w->list, '{');
        json_member_text(&w->list, "task", str_of(id));
        json_member_text(&w->list, "state", state);
        json_close(&w->list, '}');
    }
    if (print) {
        printf("%s ", id);
        term_line(stdout, state, ESCAPE_LINE);
        fflush(stdout);
    }
    return CMD_OK;
}

static int wait_for_all(struct task_waiting *w, const struct cmd_call *call, int64_t end_ms)
{
    bool json = call->client.json;
    for (int i = 0; i < call->count; i++) {
        struct client_reply reply;
        TRY(client_call(&w->c, &reply, NULL, "GET /v1/tasks/%s", call->operands[i]));
    }
    json_open(&w->list, '[');
    for (int i = 0; i < call->count; i++) {
        int64_t left_ms = end_ms - clock_boot_ms();
        TRY(wait_for_one(w, call->operands[i], left_ms > 0 ? left_ms : 0, !json));
    }
    json_close(&w->list, ']');
    if (json)
        term_line(stdout, buf_str(&w->list), ESCAPE_JSON);
    return w->status;
}

int task_wait(const struct cmd_call *call, const struct cmd_value *timeout)
{
    struct task_waiting w = {0};
    int64_t end_ms = clock_boot_ms() + (timeout->given ? timeout->number : FOREVER_MS);
    for (int i = 0; i < call->count; i++)
        if (!strncmp(call->operands[i], "task:", 5))
            call->operands[i] += 5;
    TRY(task_check_ids(call));
    int status = client_open(&w.c, &call->client);
    status = status ? status : wait_for_all(&w, call, end_ms);
    buf_release(&w.list);
    client_close(&w.c);
    return status;
}
