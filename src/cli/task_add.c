/*
 * drover add. Many tasks go in transactions of moderate size: a million lines must not need a
 * million requests.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/human.h"
#include "cli/task_share.h"
#include "cli/verb.h"

enum {
    BATCH_MAX = 500,
    BATCH_LEN_MAX = 512 * 1024,
    DATA_LEN_MAX = 1024 * 1024,
    PROGRESS_MS = 500,
};

#define DELAY_MAX_MS (INT64_C(86400) * 1000 * 36500)

/* Moments: "17:30", "2026-11-18", "2026-11-18 17:30:05", "2026-11-18T17:30:05Z". */

static const struct {
    const char *format;
    bool day, zone; /* what it names; without a zone it is local time */
} MOMENTS[] = {
    {"%H:%M:%S"},
    {"%H:%M"},
    {"%Y-%m-%d", true},
    {"%Y-%m-%d %H:%M:%S", true},
    {"%Y-%m-%d %H:%M", true},
    {"%Y-%m-%dT%H:%M:%S", true},
    {"%Y-%m-%dT%H:%M", true},
    {"%Y-%m-%dT%H:%M:%S%z", true, true},
    {"%Y-%m-%dT%H:%M%z", true, true},
};

/* As ms since 1970. A time without a day is the next one. 0: there is no such moment. */
static int64_t moment_ms(struct tm t, bool day, bool zone)
{
    time_t now = (time_t)(clock_wall_ms() / 1000);
    struct tm today, wanted = t;
    long offset = t.tm_gmtoff;
    if (!day) {
        localtime_r(&now, &today);
        wanted.tm_year = today.tm_year;
        wanted.tm_mon = today.tm_mon;
        wanted.tm_mday = today.tm_mday;
    }
    wanted.tm_isdst = -1;
    t = wanted;
    time_t s = zone ? timegm(&wanted) - offset : mktime(&wanted);
    if (wanted.tm_mday != t.tm_mday) /* such as February 30 */
        return 0;
    if (!day && s <= now) {
        t.tm_mday++;
        s = mktime(&t);
    }
    return (int64_t)s * 1000;
}

/* Either a moment, as ms since 1970, or a time from now, as a negative number: a timespec. */
static int option_moment(const struct option *o, const char *text, struct err_info *e)
{
    int64_t span_ms = 0;
    const struct option span = {.target = &span_ms, .max = DELAY_MAX_MS};
    if (!option_span(&span, text, e)) {
        *(int64_t *)o->target = span_ms ? -span_ms : clock_wall_ms();
        return 0;
    }
    for (size_t i = 0; i < sizeof MOMENTS / sizeof *MOMENTS; i++) {
        struct tm t = {.tm_mday = 1};
        const char *end = strptime(text, MOMENTS[i].format, &t);
        int64_t ms = end && !*end ? moment_ms(t, MOMENTS[i].day, MOMENTS[i].zone) : 0;
        if (ms > 0) {
            *(int64_t *)o->target = ms;
            return 0;
        }
    }
    return err_set(e, DROVER_BAD_ARGUMENT,
                   "'%s' is neither a moment such as 17:30, '2026-11-18 17:30' or "
                   "2026-11-18T17:30:05Z, nor a time from now such as 30s or 2h",
                   text);
}

/* What each task gets. */
static int64_t delay_ms, at_ms, expires_ms, priority;
static const char *key, *on_key, *share, *file;
static bool whole, each_line, bytes;

struct add {
    const struct cmd_call *call;
    struct client client;
    struct buf body;
    size_t pending; /* in body */
    size_t sent;
    int64_t shown_ms; /* when progress was last shown; 0: never */
};

static void put_given(struct buf *b)
{
    const struct {
        const char *name, *text;
        int64_t number;
    } members[] = {{"timespec", NULL, delay_ms ? -delay_ms : at_ms},
                   {"priority", NULL, priority},
                   {"expires", NULL, expires_ms},
                   {"key", key},
                   {"on_key", on_key},
                   {"share", share}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (members[i].text)
            json_member_text(b, members[i].name, str_of(members[i].text));
        else if (members[i].number)
            json_member_int(b, members[i].name, members[i].number);
    }
}

static void put_task(struct add *a, struct str data)
{
    CLEANUP(buf_release) struct buf text = {0};
    struct buf *b = &a->body;
    if (!a->pending++) {
        b->len = 0;
        task_open_body(&a->client, b);
        json_member_open(b, "adds", '[');
    }
    json_open(b, '{');
    json_member_text(b, "group", str_of(a->call->operands[0]));
    if (bytes) {
        base64_put(&text, (const unsigned char *)data.p, data.len);
        json_member_text(b, "data64", buf_str(&text));
    } else {
        json_member_text(b, "data", data);
    }
    put_given(b);
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
    verb_print(a->call, &reply, task_print_ids);
    a->sent += a->pending;
    a->pending = 0;
    show_progress(a);
    arena_reset(&a->client.arena);
    return CMD_OK;
}

static int add_task(void *arg, struct str data)
{
    struct add *a = arg;
    if (!bytes && !json_is_text(data))
        return client_error("the data of task %zu is not UTF-8 text: use --data64",
                            a->sent + a->pending + 1);
    put_task(a, data);
    return a->pending >= BATCH_MAX || a->body.len >= BATCH_LEN_MAX ? send_pending(a) : CMD_OK;
}

static int add_whole(struct add *a, const char *name)
{
    CLEANUP(buf_release) struct buf data = {0};
    char limit[HUMAN_SIZE];
    TRY(client_read_file(name, SIZE_MAX, &data));
    if (data.len > DATA_LEN_MAX)
        return client_error("%s is longer than %s", strcmp(name, "-") ? name : "standard input",
                            human_size(limit, DATA_LEN_MAX));
    return add_task(a, buf_str(&data));
}

static int add_all(struct add *a)
{
    const struct cmd_call *call = a->call;
    const char *from = file ? file : call->count == 2 ? call->operands[1] : "";
    bool by_lines = file ? each_line : !whole && !strcmp(from, "-");
    if (by_lines)
        TRY(verb_read_lines(strcmp(from, "-") ? from : NULL, add_task, a));
    else if (file || (whole && !strcmp(from, "-")))
        TRY(add_whole(a, from));
    else if (call->count == 1)
        TRY(add_task(a, STR("")));
    else
        for (int i = 1; i < call->count; i++)
            TRY(add_task(a, str_of(call->operands[i])));
    return send_pending(a);
}

static int check_use(const struct cmd_call *call)
{
    const char *group = call->operands[0], *data = call->count > 1 ? call->operands[1] : "";
    const char *const texts[] = {key, share};
    if (whole && (call->count != 2 || strcmp(data, "-") != 0))
        return cmd_usage_error(call->cmd, "--whole goes with '-'");
    if (each_line && !file && strcmp(data, "-") != 0)
        return cmd_usage_error(call->cmd, "--each-line goes with --file");
    if (file && call->count > 1)
        return cmd_usage_error(call->cmd, "unexpected argument '%s' with --file", data);
    if (call->count > 2 && !strcmp(data, "-"))
        return cmd_usage_error(call->cmd, "unexpected argument '%s' after '-'", call->operands[2]);
    if (call->count > BATCH_MAX + 1)
        return cmd_usage_error(call->cmd, "more than %d tasks: use '-'", BATCH_MAX);
    if (!*group || !json_is_text(str_of(group)))
        return cmd_usage_error(call->cmd, "GROUP must be UTF-8 text and not empty");
    if (delay_ms && at_ms)
        return cmd_usage_error(call->cmd, "--delay does not go with --at");
    if (on_key && !key)
        return cmd_usage_error(call->cmd, "--on-key goes with --key");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i] && !json_is_text(str_of(texts[i])))
            return cmd_usage_error(call->cmd, "--%s is not UTF-8 text", i ? "share" : "key");
    return CMD_OK;
}

static int run_add(const struct cmd_call *call)
{
    struct add a = {.call = call};
    char count[HUMAN_SIZE];
    on_key = verb_value(call, "on-key")->given;
    TRY(check_use(call));
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

static const struct option OPTIONS[] = {
    {"priority", "N", "Smaller goes first. Default: 0.", option_number, &priority, -1000000,
     1000000},
    {"key", "KEY", "A name that no other living task of the group may have.", option_text, &key},
    {"on-key", "refuse|keep|replace",
     "If a task has the key: refuse, print the id of that task, or give it this data and\n"
     "time unless it is claimed. Default: refuse.",
     option_choice},
    {"share", "NAME", "The tenant, for fair claims and limits.", option_text, &share},
    {"delay", "TIME", "Nobody can claim the tasks before that. Default: no delay.", option_span,
     &delay_ms, 0, DELAY_MAX_MS},
    {"at", "WHEN", "The same as a moment: 17:30, '2026-11-18 17:30', 2026-11-18T17:30:00Z.",
     option_moment, &at_ms},
    {"expires", "WHEN", "Not given out after that: a moment, as for --at, or a time from now.",
     option_moment, &expires_ms},
    {"file", "FILE", "What is in the file is the data of one task; -: standard input.", option_text,
     &file},
    {"each-line", NULL, "With --file: each line is the data of a task.", option_flag, &each_line},
    {"whole", NULL, "With '-': all of standard input is the data of one task.", option_flag,
     &whole},
    {"data64", NULL, "The data is bytes, which need not be UTF-8 text.", option_flag, &bytes},
    TASK_CLIENT_ID_OPTION,
    {0},
};

const struct cmd cmd_add = CMD_INIT(
    "add", "add tasks to a group", "GROUP [DATA...|-]",
    "Adds a task to the group for each DATA, all or none; without DATA, one task with no\n"
    "data. With '-' each line of standard input is the data of a task. Prints the ids, one\n"
    "per line.",
    OPTIONS, CMD_JSON, run_add, .heading = "Tasks");
