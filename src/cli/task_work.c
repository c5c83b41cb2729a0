/*
 * drover work - runs a command for each task of a group. A job claims a task, runs the command
 * while the library renews the claim, and stores the outcome in one transaction: finished, failed
 * with what the command said last, or released.
 *
 * The server counts the attempts and decides when a task is tried again and when it is dead, by the
 * settings of the group. --attempts and --backoff go with a failure and count instead of these. An
 * attempt that ends with the worker itself, by a signal or a crash, does not count.
 *
 * The workers of drover 0.1 kept the number of attempts in the name of the group: a task that had
 * failed n times waited in GROUP/retry/n. At its start a worker moves what is in such groups of its
 * own groups back, which keeps the number (EDIT_MOVE in task/store.h). A user's own group of that
 * name was a retry group for 0.1, too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/worker.h"
#include "drover.h"

enum {
    WAIT_MS = 60 * 1000,
    CLAIM_RETRY_MS = 10 * 1000, /* with the same requestid; after that the server is away */
    EMPTY_WAIT_MS = 500,
    PAUSE_MS = 1000,
    TICK_MS = 250,
};

#define HOUR_MS (INT64_C(3600) * 1000)
#define RETRY "/retry/"

static int64_t lease_ms = 30 * 1000;
static bool keeps_result, takes_internal;

/*
 * The same client three times: listing is not repeated, so that a server that cannot be reached is
 * reported at once; listing and claiming end with a signal; storing an outcome does not.
 */
static struct drover_client *lists, *claims, *updates;

static const char *const *groups; /* to claim from */
static size_t group_count;

/* The task that a thread has. */
struct claimed {
    struct drover_result result;
    struct drover_hold *hold;
    bool patient; /* there are tasks, but others have them: wait for one */
    char id[64], group[1200], attempt[64], client[64];
};

/* Groups of drover 0.1. */

/* Whether tasks that failed wait there: GROUP/retry/N. */
static bool is_retry_group(const char *name, const char *group)
{
    size_t len = strlen(group);
    int64_t number;
    if (strncmp(name, group, len) != 0 || strncmp(name + len, RETRY, strlen(RETRY)) != 0)
        return false;
    const char *digits = name + len + strlen(RETRY);
    return digits[0] != '0' && option_digits(digits, 1, WORKER_ATTEMPTS_MAX - 1, &number);
}

/* A task that a worker of drover 0.1 has stays: that worker moves it. */
static int move_back(const char *from, const char *to)
{
    const struct drover_bulk move = {
        .filter = {.group = from}, .action = DROVER_BULK_MOVE, .group = to};
    struct drover_bulk_count count;
    struct drover_error e;
    if (drover_client_bulk(claims, &move, &count, &e))
        return child_signal() ? CMD_OK : client_error("%s: %s", from, e.text);
    if (count.changed && !worker_options.quiet)
        client_error("moved the tasks of %s to %s: %" PRId64, from, to, count.changed);
    return CMD_OK;
}

/* Errors that would be the same the next time. */
static bool is_permanent(int err)
{
    return err == DROVER_BAD_ARGUMENT || err == DROVER_NO_AUTH || err == DROVER_REFUSED;
}

/* Waits for the server, which a worker may be ahead of. */
static int take_over(void)
{
    struct drover_groups all;
    struct drover_error e;
    bool away = false;
    int err;

    while ((err = drover_client_count_groups(lists, false, &all, &e))) {
        if (child_signal())
            return CMD_FAILURE;
        if (!away || is_permanent(err))
            client_error("%s", e.text);
        if (is_permanent(err))
            return CMD_FAILURE;
        away = true;
        child_pause(PAUSE_MS);
    }
    if (away)
        client_error("the server is back");
    int status = CMD_OK;
    for (size_t i = 0; i < all.count * group_count; i++)
        if (!status && is_retry_group(all.names[i / group_count], groups[i % group_count]))
            status = move_back(all.names[i / group_count], groups[i % group_count]);
    drover_groups_release(&all);
    return status;
}

/* Taking and settling. */

static enum worker_taken take(struct worker_thread *t, struct worker_item *ret_item)
{
    struct claimed *c = t->own;
    struct drover_claim claim = {
        .groups = groups,
        .group_count = group_count,
        .duration_ms = lease_ms,
        .tasks_only = !takes_internal,
        .wait_ms = !worker_options.until_empty ? WAIT_MS
                   : c->patient                ? EMPTY_WAIT_MS
                                               : 0,
    };
    struct drover_error e;
    int got = drover_client_claim(claims, &claim, &c->result, &e);
    const struct drover_task *task = c->result.tasks;

    c->patient = got == 0;
    if (got < 0)
        err_set(&t->error, 0, "%s", e.text);
    if (got == 0 || got == DROVER_REFUSED)
        drover_result_release(&c->result);
    if (got <= 0)
        return got == 0 ? WORKER_NOTHING : is_permanent(got) ? WORKER_BROKEN : WORKER_AWAY;
    c->hold = drover_client_hold(updates, task, lease_ms);
    snprintf(c->id, sizeof c->id, "DROVER_TASK_ID=%" PRId64, task->id);
    snprintf(c->group, sizeof c->group, "DROVER_TASK_GROUP=%s", task->group);
    snprintf(c->attempt, sizeof c->attempt, "DROVER_TASK_ATTEMPT=%" PRId64, task->attempts + 1);
    snprintf(c->client, sizeof c->client, "DROVER_CLIENT_ID=%" PRId64, drover_client_id(updates));
    *ret_item = (struct worker_item){.input = {task->data, task->data_len},
                                     .variables = {c->id, c->group, c->attempt, c->client},
                                     .attempt = task->attempts + 1,
                                     .keeps_error = true,
                                     .keeps_output = keeps_result};
    snprintf(ret_item->name, sizeof ret_item->name, "task %" PRId64, task->id);
    return WORKER_TAKEN;
}

static bool renew(struct worker_thread *t)
{
    return !drover_hold_lost(((struct claimed *)t->own)->hold);
}

/* The result holds the tasks of the answer; the caller releases it. */
static int send_update(struct worker_thread *t, const struct drover_update *u,
                       struct drover_result *ret_result)
{
    struct drover_error e;
    int err = drover_client_update(updates, u, ret_result, &e);
    if (err)
        err_set(&t->error, err, "the result could not be stored: %s", e.text);
    return err;
}

/* UTF-8, with U+FFFD for what is none. */
static struct str readable(struct str bytes, struct arena *a)
{
    struct buf text = {0};
    json_open(&text, '[');
    json_put_text(&text, bytes);
    json_close(&text, ']');
    return json_parse(a, arena_take(a, &text), NULL)->first->text;
}

/* The last bytes, from the beginning of a character on. */
static struct str last_bytes(struct str text, size_t max)
{
    size_t from = text.len > max ? text.len - max : 0;
    while (from < text.len && ((unsigned char)text.p[from] & 0xc0) == 0x80)
        from++;
    return (struct str){text.p + from, text.len - from};
}

/* "exit status 7: " and the end of what the command wrote to its standard error. */
static void put_error(struct buf *b, const struct worker_item *item)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct str said = last_bytes(buf_str(&item->error), WORKER_ERROR_MAX);
    while (said.len && strchr(" \t\r\n", said.p[said.len - 1]))
        said.len--;
    buf_printf(b, "%s", item->why.text);
    if (!said.len)
        return;
    buf_printf(b, ": ");
    buf_put_str(b, last_bytes(readable(said, &a), WORKER_ERROR_MAX - b->len));
}

/* The server says whether it is dead, or when it is tried again. */
static int send_failure(struct worker_thread *t, struct worker_item *item, int64_t id,
                        enum worker_outcome *outcome)
{
    struct claimed *c = t->own;
    CLEANUP(drover_result_release) struct drover_result r = {0};
    CLEANUP(buf_release) struct buf error = {0};
    put_error(&error, item);
    const struct drover_fail fail = {.id = id,
                                     .error = buf_text(&error),
                                     .error_len = error.len,
                                     .retry_ms = item->back_off_ms,
                                     .attempts = worker_options.attempts};
    TRY(send_update(t, &(struct drover_update){.fails = &fail, .fail_count = 1}, &r));
    if (r.task_count != 1)
        return 0;
    *outcome = r.tasks[0].origin ? WORKER_DEAD : WORKER_RETRY;
    snprintf(c->group, sizeof c->group, "moved to %s", r.tasks[0].group);
    item->where = c->group;
    int64_t left_ms = r.tasks[0].timespec - clock_wall_ms();
    if (!item->back_off_ms)
        item->back_off_ms = left_ms > 0 ? left_ms : 0;
    return 0;
}

/* NULL: the output can be the result of the task. */
static const char *wrong_result(const struct worker_item *item)
{
    if (item->output.len > WORKER_OUTPUT_MAX)
        return "the result is longer than 256 KiB";
    return json_is_text(buf_str(&item->output)) ? NULL : "the result is not UTF-8 text";
}

static int send_outcome(struct worker_thread *t, struct worker_item *item, int64_t id,
                        enum worker_outcome *outcome)
{
    CLEANUP(drover_result_release) struct drover_result r = {0};
    const struct drover_finish finish = {.id = id,
                                         .result = item->output.len ? item->output.p : NULL,
                                         .result_len = item->output.len};
    if (*outcome == WORKER_RELEASED)
        return send_update(t, &(struct drover_update){.releases = &id, .release_count = 1}, &r);
    if (*outcome == WORKER_DONE && wrong_result(item)) {
        err_set(&item->why, 0, "%s", wrong_result(item));
        return send_failure(t, item, id, outcome);
    }
    if (*outcome != WORKER_DONE)
        return send_failure(t, item, id, outcome);
    return send_update(t, &(struct drover_update){.finishes = &finish, .finish_count = 1}, &r);
}

static int settle(struct worker_thread *t, struct worker_item *item, enum worker_outcome *outcome)
{
    struct claimed *c = t->own;
    int64_t id = c->result.tasks[0].id;
    int err = drover_hold_release(c->hold, &id);
    if (err)
        err_set(&t->error, err, "the claim ended while the command ran: %s",
                drover_err_message(err));
    else
        err = send_outcome(t, item, id, outcome);
    snprintf(item->name, sizeof item->name, "task %" PRId64, id);
    drover_result_release(&c->result);
    return err;
}

/* Whether no task is left, whoever has it. */
static bool is_empty(struct worker_thread *t)
{
    (void)t;
    for (size_t i = 0; i < group_count; i++) {
        struct drover_result r;
        int count = drover_client_list(updates, groups[i], 1, 1, &r, NULL);
        if (count >= 0)
            drover_result_release(&r);
        if (count != 0)
            return false;
    }
    return true;
}

/* The command. */

static int open_client(const struct client_config *config, struct drover_client_options o,
                       struct drover_client **ret_client)
{
    struct drover_error e;
    o.server = config->server;
    o.token = config->token;
    o.ca = config->tls.ca;
    o.cert = config->tls.cert;
    o.key = config->tls.key;
    return drover_client_open(&o, ret_client, &e) ? client_error("%s", e.text) : CMD_OK;
}

static int open_clients(const struct cmd_call *call)
{
    struct client_config config;
    TRY(client_configure(&call->client, &config));
    TRY(open_client(&config, (struct drover_client_options){0}, &updates));
    struct drover_client_options o = {.retry_ms = CLAIM_RETRY_MS,
                                      .stop_fd = child_stop_fd(),
                                      .clientid = drover_client_id(updates)};
    TRY(open_client(&config, o, &claims));
    o.retry_ms = -1;
    return open_client(&config, o, &lists);
}

static void release(void)
{
    struct drover_client *const clients[] = {lists, claims, updates};
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++)
        if (clients[i])
            drover_client_close(clients[i]);
}

static int run_work(const struct cmd_call *call)
{
    const struct worker_source source = {
        .own_size = sizeof(struct claimed),
        .tick_ms = TICK_MS,
        .take = take,
        .renew = renew,
        .settle = settle,
        .is_empty = is_empty,
    };
    groups = (const char *const *)call->operands;
    group_count = (size_t)call->count;
    worker_begin(source.attempts);
    int status = open_clients(call);
    if (!status)
        status = take_over();
    if (!status)
        status = worker_run(&source, call);
    release();
    return status;
}

const struct cmd cmd_work = CMD_INIT(
    "work", "run a command for each task of a group", "GROUP...",
    "Claims tasks of the groups and runs the command for each, with the data of the task on\n"
    "its standard input and DROVER_TASK_ID, DROVER_TASK_GROUP and DROVER_TASK_ATTEMPT in its\n"
    "environment. The claim is renewed while the command runs. Exit status 0 finishes the\n"
    "task; any other fails it, with the end of the command's standard error, and the settings\n"
    "of the group say when it is tried again and when it is dead. On TERM or INT the running\n"
    "tasks are released.",
    CMD_OPTIONS(
        WORKER_OPTIONS_WITH("After N failed attempts a task moves to GROUP/dead. Default: as the\n"
                            "settings of the group say, 5 without any.",
                            "as the settings of the group say, 1s without any"),
        {"for", "TIME",
         "Duration of the claim, which is renewed in time. Others can claim the task this\n"
         "long after a worker dies. Default: 30s.",
         option_span, &lease_ms, 500, 24 * HOUR_MS},
        {"result", NULL,
         "Keep what the command writes to its standard output as the result of the task, as\n"
         "long as the setting keep_done of the group says: UTF-8, at most 256 KiB.",
         option_flag, &keeps_result},
        {"internal", NULL,
         "Also take messages of queues and tasks of nodes, which are refused otherwise.",
         option_flag, &takes_internal}),
    CMD_REMOTE, run_work, .takes_command = true);
