/*
 * drover add - tasks from the command line, in one transaction, or from standard input, one task
 * per line, in transactions of moderate size: a million lines must not need a million requests.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/human.h"
#include "cli/task_share.h"
#include "cli/verb.h"

enum { BATCH_MAX = 500, BATCH_LEN_MAX = 512 * 1024, DATA_LEN_MAX = 1024 * 1024, PROGRESS_MS = 500 };

static int64_t delay_ms;
static bool whole;

struct add {
    const struct cmd_call *call;
    struct client *client;
    struct buf body;
    size_t pending; /* in body */
    size_t sent;
    int64_t shown_ms; /* when progress was last shown; 0: never */
};

static void put_task(struct add *a, struct str data)
{
    struct buf *b = &a->body;

    if (!a->pending) {
        b->len = 0;
        task_open_body(b);
        json_member_open(b, "adds", '[');
    }
    json_open(b, '{');
    json_member_text(b, "group", str_of(a->call->operands[0]));
    json_key(b, "data");
    json_put_text(b, data);
    if (delay_ms) {
        json_member_int(b, "timespec", -delay_ms);
    }
    json_close(b, '}');
    a->pending++;
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

static void end_progress(const struct add *a)
{
    if (a->shown_ms)
        fprintf(stderr, "\r%zu added\n", a->sent);
}

static int send_pending(struct add *a)
{
    struct client_reply reply;

    if (!a->pending)
        return CMD_OK;
    json_close(&a->body, ']');
    json_close(&a->body, '}');
    int status = task_update(a->client, &a->body, &reply);
    if (!status) {
        if (a->call->client.json)
            client_print_json(&reply);
        else
            task_print_ids(json_get(reply.json, "tasks"));
        a->sent += a->pending;
        a->pending = 0;
        show_progress(a);
    }
    client_forget(a->client);
    return status;
}

static int add_one(struct add *a, struct str data)
{
    if (!json_is_text(data))
        return client_error("the data of task %zu is not UTF-8 text", a->sent + a->pending + 1);
    put_task(a, data);
    return a->pending >= BATCH_MAX || a->body.len >= BATCH_LEN_MAX ? send_pending(a) : CMD_OK;
}

static int add_line(void *arg, struct str line)
{
    return add_one(arg, line);
}

static int add_whole(struct add *a)
{
    CLEANUP(buf_release) struct buf data = {0};
    char limit[HUMAN_SIZE];
    int status = verb_read_stdin(&data);

    if (!status && data.len > DATA_LEN_MAX)
        status = client_error("standard input is longer than %s", human_size(limit, DATA_LEN_MAX));
    else if (!status)
        status = add_one(a, buf_str(&data));
    return status;
}

static int add_all(struct add *a)
{
    const struct cmd_call *call = a->call;
    bool is_stdin = call->count > 1 && !strcmp(call->operands[1], "-");
    char count[HUMAN_SIZE];
    int status = CMD_OK;

    if (call->count == 1)
        status = add_one(a, STR(""));
    else if (is_stdin)
        status = whole ? add_whole(a) : verb_read_lines(add_line, a);
    for (int i = 1; i < call->count && !is_stdin && !status; i++)
        status = add_one(a, str_of(call->operands[i]));
    if (!status)
        status = send_pending(a);
    end_progress(a);
    if (status && a->sent)
        client_error("%s added before the error", human_count(count, a->sent, "task"));
    return status;
}

static int run_add(const struct cmd_call *call)
{
    struct add a = {.call = call};
    const char *group = call->operands[0], *data = call->count > 1 ? call->operands[1] : "";

    if (whole && (call->count != 2 || strcmp(data, "-") != 0))
        return cmd_usage_error(call->cmd, "--whole goes with '-'");
    if (call->count > 2 && !strcmp(data, "-"))
        return cmd_usage_error(call->cmd, "unexpected argument '%s' after '-'", call->operands[2]);
    if (call->count > BATCH_MAX + 1)
        return cmd_usage_error(call->cmd, "more than %d tasks: use '-'", BATCH_MAX);
    if (!*group || !json_is_text(str_of(group)))
        return cmd_usage_error(call->cmd, "GROUP must be UTF-8 text and not empty");
    int status = task_open(call, &a.client);
    if (!status)
        status = add_all(&a);
    client_close(a.client);
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
