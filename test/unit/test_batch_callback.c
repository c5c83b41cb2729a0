/*
 * The hook of a report, with a crash at every keeper call before it and after it: the state changes
 * once, status-report holds what was reported, and all calls for one report have the same key.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "batch/server.h"
#include "batch_tree.h"
#include "keeper/local/local.h"
#include "keeper_cutter.h"

struct scene {
    struct local *local;
    struct keeper *k, *victim;
    struct batch_store *store;
    struct arena a;
    struct err_info why;
    struct batch_call c;
    char bid[BATCH_ID_LEN + 1];
    char keys[64]; /* the file that the hook writes to */

    /* The callback thread. */
    struct batch_callbacks *callbacks;
    struct batch_watcher *watcher;
    struct keeper *lent;
    pthread_mutex_t lock;
    pthread_cond_t scan_done;
    int scans, events, warnings;
    int looks;                       /* of the watcher, whether somebody waits */
    int available;                   /* how often items of a list could be acquired */
    const struct batch_view *waited; /* the list that a request waits for; NULL: none */
};

static void ok(struct scene *s, int err)
{
    if (err < 0)
        fail_msg("%s (%s)", drover_err_name(err), s->why.text);
}

static void on_stale(void *arg)
{
    batch_watcher_stale(((struct scene *)arg)->watcher);
}

static void on_available(void *arg, const struct batch_view *v, uint32_t count)
{
    struct scene *s = arg;

    (void)v;
    pthread_mutex_lock(&s->lock);
    s->available += (int)count;
    pthread_cond_signal(&s->scan_done);
    pthread_mutex_unlock(&s->lock);
}

/* A batch of two jobs, one failed and one completed: its report is due. */
static void begin(struct scene *s)
{
    struct local_options lo = {.mode = LOCAL_NONE};
    struct batch_store_options o = {.available = on_available, .stale = on_stale, .arg = s};
    const struct json *v;
    struct batch_job_spec specs[2];
    char jids[2][BATCH_ID_LEN + 1];
    struct batch_move m = {.state = STR("fail"), .priority = -1};
    int to;

    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->scan_done);
    snprintf(s->keys, sizeof s->keys, "callback-keys.%d", (int)getpid());
    unlink(s->keys);
    assert_int_equal(local_open(&lo, &s->local, &s->why), 0);
    assert_int_equal(local_connect(s->local, NULL, &s->k), 0);
    assert_int_equal(local_connect(s->local, NULL, &s->victim), 0);
    s->store = batch_store_open(&o);
    s->c = (struct batch_call){s->store, s->k, &s->a, &s->why};
    ok(s, batch_store_init(&s->c));
    v = json_parse(&s->a, STR("{\"configuration\":{}}"), &s->why);
    ok(s, batch_item_new(&s->c, BATCH_KIND_BATCH, v, s->bid));
    ok(s, batch_job_read_spec(&s->c, v, &specs[0]));
    specs[1] = specs[0];
    ok(s, batch_job_create(&s->c, str_of(s->bid), specs, 2, NULL, jids));
    ok(s, batch_item_move(&s->c, BATCH_KIND_JOB, str_of(jids[0]), &m, &to));
    m.state = STR("next");
    for (int i = 0; i < 7; i++)
        ok(s, batch_item_move(&s->c, BATCH_KIND_JOB, str_of(jids[1]), &m, &to));
}

static void end(struct scene *s)
{
    keeper_close(s->k);
    batch_store_close(s->store);
    local_close(s->local);
    arena_release(&s->a);
    unlink(s->keys);
    pthread_cond_destroy(&s->scan_done);
    pthread_mutex_destroy(&s->lock);
}

static struct keeper *lend(void *arg)
{
    return ((struct scene *)arg)->lent;
}

/* After each scan. */
static void give_back(void *arg, struct keeper *k)
{
    struct scene *s = arg;

    (void)k;
    pthread_mutex_lock(&s->lock);
    s->scans++;
    pthread_cond_signal(&s->scan_done);
    pthread_mutex_unlock(&s->lock);
}

static int ready(void *arg, struct batch_call *c)
{
    (void)arg, (void)c;
    return 0;
}

static size_t count_waiting(void *arg, const struct batch_view *v)
{
    struct scene *s = arg;

    LOCKED(&s->lock);
    s->looks++;
    pthread_cond_signal(&s->scan_done);
    return s->waited == v;
}

static void wake(void *arg, const struct batch_view *v, uint32_t max)
{
    (void)arg, (void)v, (void)max;
}

static void due(void *arg, const struct batch_report *r)
{
    struct scene *s = arg;

    assert_string_equal(r->batch, s->bid);
    s->events++;
}

static void warn(void *arg, const char *line)
{
    (void)line;
    ((struct scene *)arg)->warnings++;
}

/* Starts the callback thread with that keeper, and waits for its first scan. */
static void start(struct scene *s, struct keeper *k, const char *hook, bool watch)
{
    struct batch_thread_options o = {.store = s->store,
                                     .borrow = lend,
                                     .give_back = give_back,
                                     .ready = ready,
                                     .waiting = count_waiting,
                                     .wake = wake,
                                     .due = due,
                                     .warn = warn,
                                     .arg = s,
                                     .hook = hook};

    s->lent = k;
    s->scans = 0;
    o.callbacks = s->callbacks = batch_callbacks_open(&o);
    pthread_mutex_lock(&s->lock);
    while (!s->scans)
        pthread_cond_wait(&s->scan_done, &s->lock);
    pthread_mutex_unlock(&s->lock);
    s->watcher = watch ? batch_watcher_open(&o) : NULL;
}

static void scan(struct scene *s, struct keeper *k, const char *hook)
{
    start(s, k, hook, false);
    batch_callbacks_close(s->callbacks);
}

/* Waits until a count is higher. False: it is not, after that time. */
static bool exceeds(struct scene *s, const int *count, int before, int64_t ms)
{
    int64_t end_ms = clock_boot_ms() + ms;

    LOCKED(&s->lock);
    while (*count <= before && clock_boot_ms() < end_ms)
        cond_wait_until(&s->scan_done, &s->lock, end_ms);
    return *count > before;
}

/* Returns after half a second in which the watcher did not run: how often it looked. */
static int wait_until_quiet(struct scene *s)
{
    int looks = 0;

    while (exceeds(s, &s->looks, looks, 500))
        looks++;
    return looks;
}

/* The number of calls of the hook; all must have the key of the one report. */
static int count_calls(struct scene *s, int64_t number)
{
    char line[128], wanted[128];
    FILE *f = fopen(s->keys, "re");
    int count = 0;

    snprintf(wanted, sizeof wanted, "%s-%lld\n", s->bid, (long long)number);
    while (f && fgets(line, sizeof line, f)) {
        assert_string_equal(line, wanted);
        count++;
    }
    if (f)
        fclose(f);
    return count;
}

static const char *state_of(struct scene *s)
{
    struct batch_item b;

    ok(s, batch_item_get(&s->c, BATCH_KIND_BATCH, str_of(s->bid), &b));
    return s->store->machines.batch.states[b.status.state].name;
}

/* Returns true if the report makes fewer than n calls. */
static bool cut_at(int n, int err, bool after, bool once)
{
    struct cutter cut;
    struct scene s;
    int64_t number;
    char hook[128], *text;
    int calls;
    bool over, reported;

    begin(&s);
    ok(&s, batch_report_number(&s.c, str_of(s.bid), s.store->batch.reporting, &number));
    snprintf(hook, sizeof hook, "echo $DROVER_REPORT >> %s", s.keys);
    cutter_init(&cut, s.victim, n, err, after);
    cut.once = once;
    scan(&s, &cut.base, hook);
    keeper_close(s.victim);
    tree_check(s.k);
    calls = count_calls(&s, number);
    reported = strcmp(state_of(&s), "Failed") == 0;
    if (!reported)
        assert_string_equal(state_of(&s), "Reporting");
    if (reported && calls != 1)
        fail_msg("cut at call %d: it was reported, but the hook ran %d times", n, calls);
    over = !cut.cut;

    scan(&s, s.k, hook); /* another server finishes it, and repeats nothing */
    assert_string_equal(state_of(&s), "Failed");
    if (count_calls(&s, number) != (reported ? 1 : calls + 1))
        fail_msg("cut at call %d: the hook ran %d times, %d of them before", n,
                 count_calls(&s, number), calls);
    text = tree_text(s.k, "/batches/bid0000000000/status-report");
    assert_string_equal(
        text, "/batches/bid0000000000/status-report {\"failed_jobs\":[\"jid0000000001\"]}\n");
    free(text);
    tree_check(s.k);
    end(&s);
    return over;
}

static void cut_everywhere(int err, bool after, bool once)
{
    int n = 0;

    while (!cut_at(n, err, after, once))
        n++;
    assert_true(n > 10);
}

static void a_crash_before_every_call(void **state)
{
    (void)state;
    cut_everywhere(DROVER_SESSION_EXPIRED, false, false);
}

static void a_crash_after_every_call(void **state)
{
    (void)state;
    cut_everywhere(DROVER_SESSION_EXPIRED, true, false);
}

static void a_connection_that_breaks_at_every_call(void **state)
{
    (void)state;
    cut_everywhere(DROVER_UNKNOWN, false, true);
    cut_everywhere(DROVER_UNKNOWN, true, true);
}

static void a_hook_that_fails_leaves_the_batch_due(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    scan(&s, s.victim, "exit 3");
    assert_string_equal(state_of(&s), "Reporting");
    assert_int_equal(s.warnings, 1);
    assert_int_equal(s.events, 1);
    assert_int_equal(keeper_exists(s.k, "/batches/bid0000000000/lock", NULL), DROVER_NO_NODE);
    scan(&s, s.victim, NULL); /* no hook: external reporters report */
    assert_string_equal(state_of(&s), "Reporting");
    keeper_close(s.victim);
    tree_check(s.k);
    end(&s);
}

/*
 * While a request waits, the keeper is not read: a job whose lock ended with its session, and a new
 * entry of another client, are found by watches.
 */
static void a_waiting_request_reads_nothing(void **state)
{
    enum { QUIET_MS = 1500 }; /* more than one second, and than the first parking times */
    struct batch_job_spec spec = {.priority = 50};
    struct keeper *holder;
    struct batch_view *v;
    struct batch_item item;
    struct cutter counter;
    struct scene s;
    char jid[1][BATCH_ID_LEN + 1];

    (void)state;
    begin(&s);
    cutter_init(&counter, s.victim, 1 << 30, 0, false);
    v = &s.store->kinds[BATCH_KIND_JOB].views[s.store->machines.job.first];
    spec.configuration = json_parse(&s.a, STR("{}"), &s.why);
    ok(&s, batch_item_new(&s.c, BATCH_KIND_BATCH, spec.configuration, s.bid));
    ok(&s, batch_job_create(&s.c, str_of(s.bid), &spec, 1, NULL, jid));
    assert_int_equal(local_connect(s.local, NULL, &holder), 0);
    ok(&s, keeper_create(holder, arena_printf(&s.a, "/jobs/%s/lock", jid[0]), STR(""),
                         KEEPER_EPHEMERAL, NULL));
    memcpy(s.bid, "bid0000000000", sizeof s.bid); /* the one whose report is due */
    ok(&s, batch_item_acquire(&s.c, BATCH_KIND_JOB, s.store->machines.job.first, &item));

    start(&s, &counter.base, NULL, true);
    pthread_mutex_lock(&s.lock);
    s.waited = v;
    pthread_mutex_unlock(&s.lock);
    batch_watcher_want(s.watcher, v);
    int looks = wait_until_quiet(&s), calls = counter.calls;
    assert_false(exceeds(&s, &s.looks, looks, QUIET_MS));
    assert_int_equal(counter.calls, calls);

    s.available = 0;
    keeper_close(holder); /* its lock goes with its session */
    assert_true(exceeds(&s, &s.available, 0, 10000));
    assert_int_equal(batch_item_acquire(&s.c, BATCH_KIND_JOB, s.store->machines.job.first, &item),
                     1);
    assert_string_equal(item.id, jid[0]);
    wait_until_quiet(&s);
    s.available = 0;
    ok(&s, keeper_create(s.k, "/jobs/states/pending/50-jid0000000099", STR(""), 0, NULL));
    assert_true(exceeds(&s, &s.available, 0, 10000));
    ok(&s, keeper_delete(s.k, "/jobs/states/pending/50-jid0000000099", -1));
    batch_watcher_close(s.watcher);
    batch_callbacks_close(s.callbacks);
    keeper_close(s.victim);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_before_every_call),
        cmocka_unit_test(a_crash_after_every_call),
        cmocka_unit_test(a_connection_that_breaks_at_every_call),
        cmocka_unit_test(a_hook_that_fails_leaves_the_batch_due),
        cmocka_unit_test(a_waiting_request_reads_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
