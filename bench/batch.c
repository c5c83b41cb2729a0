/*
 * bench/batch - consumers move the jobs of batches from Pending to Completed.
 *
 * Prints a table of measurements and what they are compared with. There are three ways: "in hand",
 * where a consumer acquires a job and keeps its lock through all states; "by state", where it
 * acquires the job for each state, like daemons that do one step each (two transactions a step);
 * and "bare", the same transactions sent by the same number of threads without reading or deciding
 * anything, which is the best that the keeper can do. Then it measures one acquire with 1,000 and
 * with 100,000 jobs in the list.
 *
 *     batch [--batches N] [--jobs N] [--consumers N] [--keeper zk://...|--ensemble] [--memory]
 *           [--lists]
 *
 * On the embedded keeper it uses a directory below the current one, in strict mode, and removes it;
 * --memory uses no disk, --lists does only the last measurement. --ensemble is the keeper that
 * test/zookeeper/zk.py started. On an ensemble it works below the chroot of the URL, which must be
 * empty.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "batch/item.h"
#include "bench.h"
#include "keeper/local/local.h"
#include "keeper/zookeeper/zookeeper.h"

enum { CONSUMERS_MAX = 256, STEPS = 7 };

static int batches = 10000, jobs_each = 10, consumers = 8;
static const char *url;
static enum local_mode mode = LOCAL_STRICT;
static char dir[64];
static struct local *local;
static struct batch_store *store;

static void check_why(int err, const char *what, const struct err_info *why)
{
    if (err >= 0)
        return;
    fprintf(stderr, "bench: %s: %s %s\n", what, drover_err_name(err), why ? why->text : "");
    exit(1);
}

static struct keeper *connect_keeper(void)
{
    struct zookeeper_options zo = {.auth = NULL};
    struct keeper_options ko = {.timeout_ms = 0};
    struct err_info why = {""};
    struct keeper *k;

    if (url)
        check_why(zookeeper_connect(url, &zo, &ko, &k, &why), "connect", &why);
    else
        check_why(local_connect(local, NULL, &k), "connect", NULL);
    return k;
}

static void open_all(void)
{
    struct batch_store_options o = {.machines = NULL};
    struct local_options lo = {.mode = mode, .dir = mode == LOCAL_NONE ? NULL : dir};
    struct err_info why = {""};

    snprintf(dir, sizeof dir, "bench-batch.%d", (int)getpid());
    if (!url)
        check_why(local_open(&lo, &local, &why), "open", &why);
    store = batch_store_open(&o);
}

static void close_all(void)
{
    char command[128];

    batch_store_close(store);
    if (!local)
        return;
    local_close(local);
    local = NULL;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command))
        exit(1);
}

/* One thread and its session. */
struct worker {
    pthread_t thread;
    struct keeper *k;
    struct arena a;
    struct err_info why;
    struct batch_call c;
    int64_t done;
    int number;
};

static struct worker workers[CONSUMERS_MAX];

static void *start(struct worker *w, int number)
{
    w->number = number;
    w->done = 0;
    w->k = connect_keeper();
    w->c = (struct batch_call){store, w->k, &w->a, &w->why};
    return w;
}

/* Runs fn on every consumer and returns the rate per second. */
static double run_all(void *(*fn)(void *))
{
    double began;
    int64_t done = 0;

    for (int i = 0; i < consumers; i++)
        start(&workers[i], i);
    began = now_s();
    for (int i = 0; i < consumers; i++)
        pthread_create(&workers[i].thread, NULL, fn, &workers[i]);
    for (int i = 0; i < consumers; i++) {
        pthread_join(workers[i].thread, NULL);
        done += workers[i].done;
    }
    began = now_s() - began;
    for (int i = 0; i < consumers; i++) {
        keeper_close(workers[i].k);
        arena_release(&workers[i].a);
    }
    return (double)done / began;
}

/* Filling. */

static void *fill(void *arg)
{
    struct worker *w = arg;
    const struct json *config;
    struct batch_job_spec *specs = mem_zalloc((size_t)jobs_each * sizeof *specs);
    char(*jids)[BATCH_ID_LEN + 1] = mem_alloc((size_t)jobs_each * sizeof *jids);
    char bid[BATCH_ID_LEN + 1];

    for (int b = w->number; b < batches; b += consumers) {
        arena_reset(&w->a);
        config =
            json_parse(&w->a,
                       STR("{\"profile_name\":\"merritt_demo_content\",\"submitter\":\"bench\","
                           "\"payload_url\":\"http://localhost/payload.zip\"}"),
                       &w->why);
        check_why(batch_item_new(&w->c, BATCH_KIND_BATCH, config, bid), "batch", &w->why);
        for (int i = 0; i < jobs_each; i++)
            specs[i] = (struct batch_job_spec){.configuration = config, .priority = (b + i) % 100};
        check_why(batch_job_create(&w->c, str_of(bid), specs, (size_t)jobs_each, NULL, jids),
                  "jobs", &w->why);
        w->done += jobs_each;
    }
    free(specs);
    free(jids);
    return NULL;
}

static double fill_all(void)
{
    struct worker w = {.number = 0};

    start(&w, 0);
    check_why(batch_store_init(&w.c), "init", &w.why);
    keeper_close(w.k);
    arena_release(&w.a);
    return run_all(fill);
}

/* Driving. */

static void *drive_in_hand(void *arg)
{
    struct worker *w = arg;
    struct batch_item j;
    int got, state;

    while ((got = batch_item_acquire(&w->c, BATCH_KIND_JOB, store->machines.job.first, &j)) == 1) {
        for (int i = 0; i < STEPS; i++, w->done++) {
            struct batch_move m = {
                .state = STR("next"), .priority = -1, .token = j.token, .keep = i < STEPS - 1};

            check_why(batch_item_move(&w->c, BATCH_KIND_JOB, str_of(j.id), &m, &state), "move",
                      &w->why);
        }
        arena_reset(&w->a);
    }
    check_why(got, "acquire", &w->why);
    return NULL;
}

/* Each consumer acquires from the last states first, until every list is empty. */
static void *drive_by_state(void *arg)
{
    struct worker *w = arg;
    const struct batch_machine *machine = &store->machines.job;
    int order[STEPS], at = machine->first, idle = 0, state;
    struct batch_item j;

    for (int i = STEPS - 1; i >= 0; i--, at = machine->states[at].success)
        order[i] = at;
    while (idle < STEPS) {
        for (int i = 0; i < STEPS; i++) {
            struct batch_move m = {.state = STR("next"), .priority = -1};
            int got = batch_item_acquire(&w->c, BATCH_KIND_JOB, order[(i + w->number) % STEPS], &j);

            check_why(got, "acquire", &w->why);
            idle = got ? 0 : idle + 1;
            if (!got)
                continue;
            m.token = j.token;
            check_why(batch_item_move(&w->c, BATCH_KIND_JOB, str_of(j.id), &m, &state), "move",
                      &w->why);
            w->done++;
            arena_reset(&w->a);
        }
    }
    return NULL;
}

/* Bare: the same transactions on separate nodes of the same shape. */

static const struct str STATUS =
    STR("{\"status\":\"Estimating\",\"last_successful_status\":\"Pending\","
        "\"last_modification_date\":\"2026-01-01T00:00:00.000Z\",\"retry_count\":0}");

static void bare_take(struct worker *w, const char *list, int *version)
{
    struct batch_txn t = {.txn = {.a = &w->a}};

    txn_set(&t.txn, OP_ANY, STATUS, (*version)++, "/jobs/bare%d/status", w->number);
    txn_create(&t.txn, OP_ANY, NO_BYTES, KEEPER_EPHEMERAL, "/jobs/bare%d/lock", w->number);
    txn_check(&t.txn, OP_ANY, KEEPER_ANY_VERSION, "/jobs/states/%s/bare-%d", list, w->number);
    txn_check(&t.txn, OP_ANY, KEEPER_ANY_VERSION, "/jobs/bare%d", w->number);
    txn_set(&t.txn, OP_ANY, NO_BYTES, 0, "/jobs/bare%d/lock", w->number);
    check_why(txn_commit(&t.txn, w->k, OP_ANY), "bare lock", NULL);
}

static void bare_move(struct worker *w, int at, bool keep, int *version)
{
    const struct batch_machine *machine = &store->machines.job;
    const char *from = machine->states[at].dir,
               *to = machine->states[machine->states[at].success].dir;
    struct batch_txn t = {.txn = {.a = &w->a}};

    if (keep)
        txn_check(&t.txn, OP_ANY, KEEPER_ANY_VERSION, "/jobs/bare%d/lock", w->number);
    else
        txn_delete(&t.txn, OP_ANY, KEEPER_ANY_VERSION, "/jobs/bare%d/lock", w->number);
    txn_set(&t.txn, OP_ANY, STATUS, (*version)++, "/jobs/bare%d/status", w->number);
    txn_delete(&t.txn, OP_ANY, KEEPER_ANY_VERSION, "/jobs/states/%s/bare-%d", from, w->number);
    txn_create(&t.txn, OP_ANY, NO_BYTES, 0, "/jobs/states/%s/bare-%d", to, w->number);
    check_why(txn_commit(&t.txn, w->k, OP_ANY), "bare move", NULL);
}

/* From the first state to the last, repeatedly, with one lock in all or one for each state. */
static void bare_jobs(struct worker *w, bool relock)
{
    const struct batch_machine *machine = &store->machines.job;
    struct batch_txn first = {.txn = {.a = &w->a}};
    int version = 0;

    txn_create(&first.txn, OP_ANY, NO_BYTES, 0, "/jobs/bare%d", w->number);
    txn_create(&first.txn, OP_ANY, STATUS, 0, "/jobs/bare%d/status", w->number);
    check_why(txn_commit(&first.txn, w->k, OP_ANY), "bare", NULL);
    for (int n = 0; n < batches * jobs_each / consumers; n++) {
        struct batch_txn t = {.txn = {.a = &w->a}};
        int at = machine->first;

        txn_create(&t.txn, OP_ANY, NO_BYTES, 0, "/jobs/states/%s/bare-%d", machine->states[at].dir,
                   w->number);
        if (n > 0)
            txn_delete(&t.txn, OP_ANY, KEEPER_ANY_VERSION, "/jobs/states/completed/bare-%d",
                       w->number);
        check_why(txn_commit(&t.txn, w->k, OP_ANY), "bare job", NULL);
        for (int i = 0; i < STEPS; i++, at = machine->states[at].success, w->done++) {
            if (relock || i == 0)
                bare_take(w, machine->states[at].dir, &version);
            bare_move(w, at, !relock && i < STEPS - 1, &version);
        }
        arena_reset(&w->a);
    }
}

static void *bare_in_hand(void *arg)
{
    bare_jobs(arg, false);
    return NULL;
}

static void *bare_by_state(void *arg)
{
    ((struct worker *)arg)->number += CONSUMERS_MAX; /* separate nodes if both run on one tree */
    bare_jobs(arg, true);
    return NULL;
}

/*
 * Acquiring from a long list. The cost is CPU time: the wait for the disk does not depend on the
 * length of the list, and differs from run to run. Each job is unlocked, so that every attempt
 * finds the same list.
 */

static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct cost {
    double cpu_us, wall_us;
};

static struct cost acquire_cost(int list_len)
{
    enum { TRIES = 2000 };
    struct worker w = {.number = 0};
    double cpu = 0, wall = 0;
    struct batch_item j;

    batches = list_len / 100;
    jobs_each = 100;
    open_all();
    fill_all();
    start(&w, 0);
    for (int i = -1; i < TRIES; i++) { /* the first reads the list */
        double cpu_began = cpu_s(), began = now_s();

        if (batch_item_acquire(&w.c, BATCH_KIND_JOB, store->machines.job.first, &j) != 1)
            check_why(-1, "acquire", &w.why);
        cpu += i < 0 ? 0 : cpu_s() - cpu_began;
        wall += i < 0 ? 0 : now_s() - began;
        check_why(batch_item_unlock(&w.c, BATCH_KIND_JOB, str_of(j.id), j.token), "release",
                  &w.why);
        check_why(batch_job_set_priority(&w.c, str_of(j.id), 99, 0), "priority", &w.why);
        arena_reset(&w.a);
    }
    keeper_close(w.k);
    arena_release(&w.a);
    close_all();
    return (struct cost){cpu / TRIES * 1e6, wall / TRIES * 1e6};
}

static void compare_lists(void)
{
    struct cost few = acquire_cost(1000), many = acquire_cost(100000);

    printf("| acquire, 1,000 jobs in the state   | %7.1f us CPU, %7.1f us |\n", few.cpu_us,
           few.wall_us);
    printf(
        "| acquire, 100,000 jobs in the state | %7.1f us CPU, %7.1f us | CPU: %.2f of the first, "
        "at most 2 |\n",
        many.cpu_us, many.wall_us, many.cpu_us / few.cpu_us);
}

static void drive(const char *name, void *(*fn)(void *), double *ret_rate)
{
    double filled, rate;

    open_all();
    filled = fill_all();
    rate = run_all(fn);
    printf("| %-20s | %9.0f transitions/s | jobs made: %.0f/s |\n", name, rate, filled);
    fflush(stdout);
    *ret_rate = rate;
    close_all();
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"batches", 1, NULL, 'b'},  {"jobs", 1, NULL, 'j'},  {"consumers", 1, NULL, 'c'},
        {"keeper", 1, NULL, 'k'},   {"lists", 0, NULL, 'l'}, {"memory", 0, NULL, 'm'},
        {"ensemble", 0, NULL, 'e'}, {NULL, 0, NULL, 0},
    };
    double in_hand, by_state, bare_hand, bare_state;
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (o == 'b')
            batches = atoi(optarg);
        else if (o == 'j')
            jobs_each = atoi(optarg);
        else if (o == 'c')
            consumers = atoi(optarg);
        else if (o == 'k')
            url = optarg;
        else if (o == 'l')
            batches = 0;
        else if (o == 'm')
            mode = LOCAL_NONE;
        else if (o == 'e')
            url = getenv("DROVER_TEST_ZK");
        else
            return 2;
    }
    if (batches) {
        drive("in hand", drive_in_hand, &in_hand);
        drive("by state", drive_by_state, &by_state);
        drive("bare, in hand", bare_in_hand, &bare_hand);
        drive("bare, by state", bare_by_state, &bare_state);
        printf("| in hand: %.2f of bare | by state: %.2f of bare | at least 0.5 on an ensemble |\n",
               in_hand / bare_hand, by_state / bare_state);
    }
    if (!url)
        compare_lists();
    return 0;
}
