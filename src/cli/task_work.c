/*
 * drover work - runs a command for each task of a group. A job claims a task, runs the command
 * while the library renews the claim, and stores the outcome in one transaction.
 *
 * The number of attempts is the name of the group that the task waits in: after its first failure a
 * task of G moves to G/retry/1, claimed and thus out of reach until the back-off is over, after the
 * second to G/retry/2, and so on, and in the end to G/dead. Workers claim from G and its retry
 * groups alike. (A number in the data would show to everybody else who reads it, and a second task
 * that counts could not name the first, whose id changes.) The delete in one group and the add in
 * the other are one transaction. An attempt that ends with the worker itself, by a signal or a
 * crash, does not count.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
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

/*
 * The same client three times: listing is not repeated, so that a server that cannot be reached is
 * reported at once; listing and claiming end with a signal; storing an outcome does not.
 */
static struct drover_client *lists, *claims, *updates;

static const char **groups; /* to claim from */
static size_t group_count, group_cap;
static struct arena names; /* of the groups */

/* The task that a thread has. */
struct claimed {
    struct drover_result result;
    struct drover_hold *hold;
    bool patient; /* there are tasks, but others have them: wait for one */
    char id[64], group[1200], attempt[64], client[64];
};

/* Groups. */

/* The group that a task belongs to, and how often it has been tried. */
struct place {
    struct str group;
    int64_t tried;
};

static struct place place_of(const char *group)
{
    struct place p = {str_of(group), 0};
    const char *at = group, *next;
    for (; (next = strstr(at, RETRY)); at = next + 1)
        if (option_digits(next + strlen(RETRY), 1, INT32_MAX, &p.tried)) {
            p.group.len = (size_t)(next - group);
            break;
        }
    return p;
}

static void add_group(const char *name)
{
    for (size_t i = 0; i < group_count; i++)
        if (!strcmp(groups[i], name))
            return;
    mem_grow(groups, group_count, group_cap);
    groups[group_count++] = arena_text(&names, str_of(name));
}

/* Retry groups that a worker with more attempts has left behind. */
static void add_left_behind(const struct drover_groups *all, const char *group)
{
    for (size_t i = 0; i < all->count; i++) {
        struct place p = place_of(all->names[i]);
        if (p.tried && str_eq(p.group, str_of(group)))
            add_group(all->names[i]);
    }
}

/* Errors that would be the same the next time. */
static bool is_permanent(int err)
{
    return err == DROVER_BAD_ARGUMENT || err == DROVER_NO_AUTH || err == DROVER_REFUSED;
}

static int find_groups(const struct cmd_call *call)
{
    struct drover_groups all;
    struct drover_error e;
    bool away = false;
    int err;

    while ((err = drover_client_groups(lists, &all, &e))) {
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
    for (int i = 0; i < call->count; i++) {
        add_group(call->operands[i]);
        for (int64_t n = 1; n < worker_options.attempts; n++)
            add_group(arena_printf(&names, "%s" RETRY "%" PRId64, call->operands[i], n));
        add_left_behind(&all, call->operands[i]);
    }
    drover_groups_release(&all);
    return CMD_OK;
}

/* Taking and settling. */

static enum worker_taken take(struct worker_thread *t, struct worker_item *ret_item)
{
    struct claimed *c = t->own;
    struct drover_claim claim = {
        .groups = groups,
        .group_count = group_count,
        .duration_ms = lease_ms,
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
    struct place p = place_of(task->group);
    c->hold = drover_client_hold(updates, task, lease_ms);
    snprintf(c->id, sizeof c->id, "DROVER_TASK_ID=%" PRId64, task->id);
    snprintf(c->group, sizeof c->group, "DROVER_TASK_GROUP=%.*s", STR_ARGS(p.group));
    snprintf(c->attempt, sizeof c->attempt, "DROVER_TASK_ATTEMPT=%" PRId64, p.tried + 1);
    snprintf(c->client, sizeof c->client, "DROVER_CLIENT_ID=%" PRId64, drover_client_id(updates));
    *ret_item = (struct worker_item){.input = {task->data, task->data_len},
                                     .variables = {c->id, c->group, c->attempt, c->client},
                                     .attempt = p.tried + 1};
    snprintf(ret_item->name, sizeof ret_item->name, "task %" PRId64, task->id);
    return WORKER_TAKEN;
}

static bool renew(struct worker_thread *t)
{
    return !drover_hold_lost(((struct claimed *)t->own)->hold);
}

static int send_update(struct worker_thread *t, const struct drover_update *u)
{
    struct drover_result r = {0};
    struct drover_error e;
    int err = drover_client_update(updates, u, &r, &e);
    if (!err || err == DROVER_REFUSED)
        drover_result_release(&r);
    if (err)
        err_set(&t->error, err, "the result could not be stored: %s", e.text);
    return err;
}

/* Moves the task to the group for its next attempt, or to the dead ones. */
static int move_task(struct worker_thread *t, struct worker_item *item, int64_t id, bool dead)
{
    struct claimed *c = t->own;
    const struct drover_task *task = c->result.tasks;
    struct place p = place_of(task->group);
    CLEANUP(buf_release) struct buf group = {0};
    buf_put_str(&group, p.group);
    if (dead)
        buf_printf(&group, "/dead");
    else
        buf_printf(&group, RETRY "%" PRId64, p.tried + 1);
    const struct drover_task moved = {.group = buf_text(&group),
                                      .data = task->data,
                                      .data_len = task->data_len,
                                      .timespec = dead ? 0 : -item->back_off_ms};
    snprintf(c->group, sizeof c->group, "moved to %s", moved.group);
    item->where = c->group;
    return send_update(t, &(struct drover_update){
                              .adds = &moved, .add_count = 1, .deletes = &id, .delete_count = 1});
}

static int settle(struct worker_thread *t, struct worker_item *item, enum worker_outcome outcome)
{
    struct claimed *c = t->own;
    const struct drover_task *task = c->result.tasks;
    int64_t id = task->id;
    int err = drover_hold_release(c->hold, &id);
    if (err) {
        err_set(&t->error, err, "the claim ended while the command ran: %s",
                drover_err_message(err));
    } else if (outcome == WORKER_DONE) {
        err = send_update(t, &(struct drover_update){.deletes = &id, .delete_count = 1});
    } else if (outcome == WORKER_RELEASED) { /* an update without a timespec ends the claim */
        struct drover_task same = {.id = id, .data = task->data, .data_len = task->data_len};
        err = send_update(t, &(struct drover_update){.updates = &same, .update_count = 1});
    } else {
        err = move_task(t, item, id, outcome == WORKER_DEAD);
    }
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
    free(groups);
    arena_release(&names);
}

static int run_work(const struct cmd_call *call)
{
    const struct worker_source source = {
        .attempts = 5,
        .own_size = sizeof(struct claimed),
        .tick_ms = TICK_MS,
        .take = take,
        .renew = renew,
        .settle = settle,
        .is_empty = is_empty,
    };
    worker_begin(source.attempts);
    int status = open_clients(call);
    if (!status)
        status = find_groups(call);
    if (!status)
        status = worker_run(&source, call);
    release();
    return status;
}

const struct cmd cmd_work = CMD_INIT(
    "work", "run a command for each task of a group", "GROUP...",
    "Claims tasks of the groups and runs the command for each, with the data of the task on\n"
    "its standard input and DROVER_TASK_ID, DROVER_TASK_GROUP and DROVER_TASK_ATTEMPT in its\n"
    "environment. The claim is renewed while the command runs. Exit status 0 deletes the\n"
    "task; any other moves it to GROUP/retry/N, where it waits for the next attempt. On TERM\n"
    "or INT the running tasks are released.",
    CMD_OPTIONS(WORKER_OPTIONS("After N failed attempts a task moves to GROUP/dead. Default: 5."),
                {"for", "TIME",
                 "Duration of the claim, which is renewed in time. Others can claim the task this\n"
                 "long after a worker dies. Default: 30s.",
                 option_span, &lease_ms, 500, 24 * HOUR_MS}),
    CMD_REMOTE, run_work, .takes_command = true);
