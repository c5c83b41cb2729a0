/*
 * drover work - runs a command for each task of a group. A job is a thread that claims a task, runs the
 * command with the task's data on its standard input while the client renews, and then says in one
 * transaction what came of it.
 *
 * How often a task has been tried is kept in the store and survives every worker, without a change to
 * the data: it is the name of the group that the task waits in. After its first failure a task of G goes
 * to G/retry/1, owned and thus out of reach until its back-off is over, after the second to G/retry/2,
 * and so on, and in the end to G/dead. Workers claim from G and its retry groups alike. (A number in the
 * data would show to everybody else who reads it, and a second task that counts could not name the
 * first, whose id changes.) Deleting in the one group and adding to the other is one transaction. What
 * ends with the worker itself, by a signal or a crash, does not count as an attempt.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/cmd.h"
#include "cli/http_client.h"
#include "cli/task_share.h"
#include "drover.h"

enum {
    JOBS_MAX = 256,
    ATTEMPTS_MAX = 100,
    WAIT_MS = 60 * 1000,
    CLAIM_RETRY_MS =
        10 * 1000, /* with the same requestid; then it is said that the server is away */
    EMPTY_WAIT_MS = 500,
    PAUSE_MS = 1000,
    TICK_MS = 250,
};

#define HOUR_MS (INT64_C(3600) * 1000)
#define RETRY "/retry/"

struct work {
    struct client_options client;
    int64_t jobs, lease_ms, attempts, back_off_ms;
    bool until_empty, verbose;
    char **command;

    /*
     * The same client three times: looking around is not tried again, so that it is said at once when
     * there is no server; it ends with a signal, and so do claims; what finishes a task does not.
     */
    struct drover_client *looks, *claims, *updates;
    char **groups; /* to claim from */
    size_t group_count;

    atomic_size_t done, failed, lost;
    atomic_bool ended, broken, away;
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* One line, whole, whichever job says it. */
static void say(const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fprintf(stderr, "drover: %s\n", line);
}

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

static void add_group(struct work *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add_group(struct work *w, const char *fmt, ...)
{
    va_list ap;
    char *name;

    va_start(ap, fmt);
    if (vasprintf(&name, fmt, ap) < 0)
        err_fatal("out of memory");
    va_end(ap);
    for (size_t i = 0; i < w->group_count; i++)
        if (!strcmp(w->groups[i], name)) {
            free(name);
            return;
        }
    w->groups = mem_realloc(w->groups, (w->group_count + 1) * sizeof *w->groups);
    w->groups[w->group_count++] = name;
}

/* Those that a worker with more attempts has left behind are worked on too. */
static void add_left_behind(struct work *w, const struct drover_groups *all, const char *group)
{
    for (size_t i = 0; i < all->count; i++) {
        struct place p = place_of(all->names[i]);

        if (p.tried && str_eq(p.group, str_of(group)))
            add_group(w, "%s", all->names[i]);
    }
}

/* Some errors will be the same the next time. */
static bool is_hopeless(int err)
{
    return err == DROVER_BAD_ARGUMENT || err == DROVER_NO_AUTH || err == DROVER_REFUSED;
}

/* Said once when the server goes away, and once when it is back. */
static void note_away(struct work *w, const char *why)
{
    if (!atomic_exchange(&w->away, true))
        say("%s", why);
    child_pause(PAUSE_MS);
}

static void note_back(struct work *w)
{
    if (w->away && atomic_exchange(&w->away, false))
        say("the server is back");
}

static int find_groups(struct work *w, int argc, char **argv)
{
    struct drover_groups all;
    struct drover_error e;
    int err;

    while ((err = drover_client_groups(w->looks, &all, &e))) {
        if (is_hopeless(err))
            return client_error("%s", e.text);
        if (child_signal())
            return CMD_FAILURE;
        note_away(w, e.text);
    }
    note_back(w);
    for (int i = 1; i < argc; i++) {
        add_group(w, "%s", argv[i]);
        for (int64_t n = 1; n < w->attempts; n++)
            add_group(w, "%s" RETRY "%" PRId64, argv[i], n);
        add_left_behind(w, &all, argv[i]);
    }
    drover_groups_release(&all);
    return CMD_OK;
}

/* What came of a task. */

static bool keep(struct work *w, const struct drover_update *u, int64_t id, const char *what)
{
    struct drover_result r = {0};
    struct drover_error e;
    int err = drover_client_update(w->updates, u, &r, &e);

    if (!err || err == DROVER_REFUSED)
        drover_result_release(&r);
    if (err)
        say("task %" PRId64 ": %s, but that could not be kept: %s", id, what, e.text);
    return !err;
}

static void finish(struct work *w, int64_t id)
{
    struct drover_update u = {.deletes = &id, .delete_count = 1};

    if (!keep(w, &u, id, "done")) {
        w->lost++;
        return;
    }
    w->done++;
    if (w->verbose)
        say("task %" PRId64 ": done", id);
}

/* As if nobody had claimed it. */
static void give_back(struct work *w, const struct drover_task *t, int64_t id)
{
    struct drover_task same = {.id = id, .data = t->data, .data_len = t->data_len};
    struct drover_update u = {.updates = &same, .update_count = 1};

    if (keep(w, &u, id, "given back"))
        say("task %" PRId64 ": given back", id);
}

/* From attempt to attempt twice as long. */
static int64_t back_off(const struct work *w, int64_t tried)
{
    int64_t ms = w->back_off_ms;

    for (int64_t i = 1; i < tried && ms < HOUR_MS; i++)
        ms *= 2;
    return ms < HOUR_MS ? ms : HOUR_MS;
}

static void put_off(struct work *w, const struct drover_task *t, int64_t id, int status)
{
    struct place p = place_of(t->group);
    int64_t tried = p.tried + 1;
    struct drover_task moved = {.data = t->data, .data_len = t->data_len};
    struct drover_update u = {.adds = &moved, .add_count = 1, .deletes = &id, .delete_count = 1};
    bool dead = tried >= w->attempts;
    struct buf group = {0};

    buf_put_str(&group, p.group);
    if (dead) {
        buf_printf(&group, "/dead");
    } else {
        buf_printf(&group, RETRY "%" PRId64, tried);
        moved.timespec = -back_off(w, tried);
    }
    moved.group = buf_text(&group);
    w->failed++;
    if (!keep(w, &u, id, "failed"))
        w->lost++;
    else if (dead)
        say("task %" PRId64 ": exit status %d in attempt %" PRId64 " of %" PRId64 ", moved to %s",
            id, status, tried, w->attempts, moved.group);
    else
        say("task %" PRId64 ": exit status %d in attempt %" PRId64 " of %" PRId64
            ", again in %" PRId64 " ms",
            id, status, tried, w->attempts, -moved.timespec);
    buf_release(&group);
}

/* Running. */

static bool still_held(void *arg)
{
    return !drover_hold_lost(arg);
}

static int run_command(struct work *w, const struct drover_task *t, struct drover_hold *hold,
                       int *ret_status, struct err_info *ret_error)
{
    char id[64], group[1200], attempt[64], client[64];
    const char *const variables[] = {id, group, attempt, client, NULL};
    struct place p = place_of(t->group);
    struct child_options o = {
        .argv = w->command,
        .input = {t->data, t->data_len},
        .variables = variables,
        .tick_ms = TICK_MS,
        .tick = still_held,
        .arg = hold,
    };

    snprintf(id, sizeof id, "DROVER_TASK_ID=%" PRId64, t->id);
    snprintf(group, sizeof group, "DROVER_TASK_GROUP=%.*s", (int)p.group.len, p.group.p);
    snprintf(attempt, sizeof attempt, "DROVER_TASK_ATTEMPT=%" PRId64, p.tried + 1);
    snprintf(client, sizeof client, "DROVER_CLIENT_ID=%" PRId64, drover_client_id(w->updates));
    return child_run(&o, ret_status, ret_error);
}

/* The worker itself is of no use: its command does not start. */
static void give_up(struct work *w, const char *why)
{
    if (!atomic_exchange(&w->broken, true))
        client_error("%s", why);
}

static void work_on(struct work *w, const struct drover_task *t)
{
    struct drover_hold *hold = drover_client_hold(w->updates, t, w->lease_ms);
    struct err_info e = {""};
    int status = 0, err, lost;
    int64_t id = t->id;

    err = run_command(w, t, hold, &status, &e);
    lost = drover_hold_release(hold, &id);
    if (lost) {
        w->lost++;
        say("task %" PRId64 ": lost while the command ran: %s", t->id, drover_err_message(lost));
    } else if (err || e.text[0]) {
        give_back(w, t, id);
        give_up(w, e.text);
    } else if (!status) {
        finish(w, id);
    } else if (child_signal()) {
        give_back(w, t, id);
    } else {
        put_off(w, t, id, status);
    }
}

/* A job. */

/* Whether any task is left, whoever has it. */
static bool all_empty(struct work *w)
{
    for (size_t i = 0; i < w->group_count; i++) {
        struct drover_result r;
        int count = drover_client_list(w->updates, w->groups[i], 1, 1, &r, NULL);

        if (count >= 0)
            drover_result_release(&r);
        if (count != 0)
            return false;
    }
    return true;
}

/* patient: to wait for a task, because there are some that others have. */
static void claim_and_work(struct work *w, bool *patient)
{
    struct drover_claim claim = {
        .groups = (const char *const *)w->groups,
        .group_count = w->group_count,
        .duration_ms = w->lease_ms,
        .wait_ms = !w->until_empty ? WAIT_MS
                   : *patient      ? EMPTY_WAIT_MS
                                   : 0,
    };
    struct drover_result r = {0};
    struct drover_error e;
    int got = drover_client_claim(w->claims, &claim, &r, &e);

    if (got >= 0)
        note_back(w);
    *patient = got == 0;
    if (got > 0) {
        work_on(w, &r.tasks[0]);
    } else if (got == 0) {
        if (w->until_empty && all_empty(w))
            w->ended = true;
    } else if (is_hopeless(got)) {
        give_up(w, e.text);
    } else if (got != DROVER_CLOSED) {
        note_away(w, e.text);
    }
    if (got >= 0 || got == DROVER_REFUSED)
        drover_result_release(&r);
}

static void *do_job(void *arg)
{
    struct work *w = arg;
    bool patient = false;

    while (!w->ended && !w->broken && !child_signal())
        claim_and_work(w, &patient);
    return NULL;
}

static void run_jobs(struct work *w)
{
    pthread_t threads[JOBS_MAX];
    int64_t started = 0;

    while (started < w->jobs && !thread_start(&threads[started], "task-job", do_job, w, NULL))
        started++;
    if (started < w->jobs)
        say("only %" PRId64 " of %" PRId64 " jobs could be started", started, w->jobs);
    for (int64_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* The command. */

static bool open_client(const struct client_config *config, const struct drover_client_options *o,
                        struct drover_client **ret_client)
{
    struct drover_client_options all = *o;
    struct drover_error e;
    int err;

    all.server = config->server;
    all.token = config->token;
    err = drover_client_open(&all, ret_client, &e);
    if (err)
        client_error("%s", e.text);
    return !err;
}

static bool open_clients(struct work *w)
{
    struct drover_client_options updates = {0}, claims = {.retry_ms = CLAIM_RETRY_MS},
                                 looks = {.retry_ms = -1};
    struct client_config config;

    if (!client_configure(&w->client, &config) || !open_client(&config, &updates, &w->updates))
        return false;
    claims.stop_fd = looks.stop_fd = child_stop_fd();
    claims.clientid = looks.clientid = drover_client_id(w->updates);
    return open_client(&config, &claims, &w->claims) && open_client(&config, &looks, &w->looks);
}

static void release(struct work *w)
{
    if (w->looks)
        drover_client_close(w->looks);
    if (w->claims)
        drover_client_close(w->claims);
    if (w->updates)
        drover_client_close(w->updates);
    for (size_t i = 0; i < w->group_count; i++)
        free(w->groups[i]);
    free(w->groups);
}

static int work(struct work *w, int argc, char **argv)
{
    int status = CMD_FAILURE;

    child_catch_signals();
    if (open_clients(w))
        status = find_groups(w, argc, argv);
    if (!status) {
        run_jobs(w);
        say("%zu done, %zu failed, %zu lost", w->done, w->failed, w->lost);
        status = w->broken ? CMD_FAILURE : CMD_OK;
    }
    release(w);
    return status;
}

int cmd_work(int argc, char **argv)
{
    struct work w = {.jobs = 1, .lease_ms = 30 * 1000, .attempts = 5, .back_off_ms = 1000};
    const struct option options[] = {
        {"jobs", "N", "Run up to that many commands at once. Default: 1.", option_number, &w.jobs,
         1, JOBS_MAX},
        {"attempts", "N", "After that many failures a task goes to GROUP/dead. Default: 5.",
         option_number, &w.attempts, 1, ATTEMPTS_MAX},
        {"backoff", "TIME",
         "How long a task waits after its first failure; after each further one twice as\n"
         "long, at most an hour. Default: 1s.",
         option_span, &w.back_off_ms, 1, HOUR_MS},
        {"for", "TIME",
         "Claim for that long, and renew in time. When this worker dies, others can have\n"
         "the task after that. Default: 30s.",
         option_span, &w.lease_ms, 500, 24 * HOUR_MS},
        {"until-empty", NULL, "End when the groups have no tasks left.", option_flag,
         &w.until_empty},
        {"verbose", NULL, "Say which tasks were done, too.", option_flag, &w.verbose},
        CLIENT_SERVER_OPTIONS(w.client),
    };
    const struct cmd cmd = {
        .name = "work",
        .operands = "GROUP...",
        .operands_min = 1,
        .operands_max = 100,
        .command = &w.command,
        .about =
            "Claims tasks of the groups and runs the command for each, with the task's data on "
            "its\n"
            "standard input. Exit status 0 deletes the task; any other gives it back to wait in\n"
            "GROUP/retry/N, and after the last attempt moves it to GROUP/dead. The claim is "
            "renewed\n"
            "while the command runs. The command finds DROVER_TASK_ID, DROVER_TASK_GROUP and\n"
            "DROVER_TASK_ATTEMPT in its environment. TERM and INT are handed on to it, and what "
            "it\n"
            "did not finish is given back.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    return work(&w, argc, argv);
}
