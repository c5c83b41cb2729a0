/*
 * A power failure while threads write. Unlike a kill it loses what was written and not synced.
 * Strict mode loses nothing acknowledged; opportunistic mode loses at most what was acknowledged in
 * the last LOCAL_FLUSH_MS, also when the disk is so slow that changes must wait for that.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/thread.h"
#include "disk.h"
#include "fs_faulty.h"
#include "keeper/journal/recover.h"
#include "store.h"
#include "workload.h"

enum { SLOW_MS = 160, CRASHES = 20, SOAK_CRASHES = 500, STEPS_MIN = 20 };

struct power {
    struct store *s;
    struct fs_faulty *f;
    struct board *board;
    int64_t for_ms, until_ms; /* they write for so long, and a few steps at least */
    int64_t steps_max;        /* of each lane */
    _Atomic int running, err;
};

struct power_lane {
    struct power *p;
    int lane;
    pthread_t thread;
}; /* or, from LANES on, a reader */

/* Tells the recording how many acknowledgements a noter has noted. */
static void record_note(struct power *p, int noter)
{
    uint64_t count = atomic_load(&p->board->notes[noter].count);

    fs_faulty_note(p->f, (int64_t)(count * NOTERS) + noter);
}

static void *lane_main(void *arg)
{
    struct power_lane *l = arg;
    struct power *p = l->p;
    struct keeper *k = NULL;
    int err = local_connect(p->s->l, NULL, &k);

    for (int64_t n = 1;
         !err && n <= p->steps_max && (n <= STEPS_MIN || clock_boot_ms() < p->until_ms); n++) {
        err = workload_step(k, p->board, l->lane, n);
        if (!err)
            record_note(p, l->lane);
    }
    if (k)
        keeper_abandon(k);
    if (err)
        atomic_store(&p->err, err);
    atomic_fetch_sub(&p->running, 1);
    return NULL;
}

/* Looks at one lane after the other for as long as they write. */
static void *reader_main(void *arg)
{
    struct power_lane *l = arg;
    struct power *p = l->p;
    struct keeper *k = NULL;
    int err = local_connect(p->s->l, NULL, &k);

    for (int i = 0; !err && atomic_load(&p->running); i++) {
        uint64_t before = atomic_load(&p->board->notes[l->lane].count);

        err = workload_read(k, p->board, l->lane - LANES, i % LANES);
        if (atomic_load(&p->board->notes[l->lane].count) != before)
            record_note(p, l->lane);
    }
    if (k)
        keeper_abandon(k);
    if (err && err != DROVER_TOO_BIG)
        atomic_store(&p->err, err);
    return NULL;
}

/* Makes a sync of the journal slow. */
static void slow_disk(void *arg, enum fs_op op, const char *name)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int64_t until_ms = clock_boot_ms() + SLOW_MS;
    pthread_cond_t never;

    (void)arg, (void)name;
    if (op != FS_FDATASYNC)
        return;
    cond_init(&never);
    pthread_mutex_lock(&lock);
    while (clock_boot_ms() < until_ms)
        cond_wait_until(&never, &lock, until_ms);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&never);
}

/*
 * All the lanes write for a while. In opportunistic mode without snapshots and in one large
 * segment, since the end of either syncs the journal, whether it is time or not.
 */
static void record(struct power *p, const char *dir, enum local_mode mode)
{
    struct power_lane threads[NOTERS];
    struct local_options o = store_options(p->s, dir, &p->f->fs);

    o.mode = mode;
    if (mode == LOCAL_OPPORTUNISTIC)
        o.segment_len = 8 * 1024 * 1024;
    must(store_open_with(p->s, &o));
    must(store_connect(p->s));
    must(workload_prepare(p->s->k));
    p->until_ms = clock_boot_ms() + p->for_ms;
    atomic_store(&p->running, LANES);
    for (int i = 0; i < NOTERS; i++) {
        threads[i] = (struct power_lane){.p = p, .lane = i};
        if (pthread_create(&threads[i].thread, NULL, i < LANES ? lane_main : reader_main,
                           &threads[i]))
            abort();
    }
    while (mode == LOCAL_STRICT && atomic_load(&p->running))
        must(local_snapshot(p->s->l));
    for (int i = 0; i < NOTERS; i++)
        pthread_join(threads[i].thread, NULL);
    expect_err(0, atomic_load(&p->err));
    store_leave(p->s);
}

/* What had been acknowledged before this event. */
static struct board_view view_at(const struct power *p, size_t event)
{
    struct board_view v = {.board = p->board};

    for (size_t i = 0; i < event; i++) {
        const struct fs_event *e = &p->f->events[i];

        if (e->op == FS_NOTE)
            v.counts[e->at % NOTERS] = (uint64_t)(e->at / NOTERS);
    }
    return v;
}

static void check(const struct power *p, const struct disk *d, size_t event, enum local_mode mode,
                  enum disk_left left, struct rng *rng)
{
    static const struct recover_hooks silent;
    struct board_view view = view_at(p, event);
    char *dir = dir_make();
    struct err_info error;
    struct recovery r;
    struct image im;
    int64_t reached[LANES];

    disk_image(d, left, rng, &im);
    image_write(&im, dir);
    image_release(&im);
    if (recover_read(dir, &silent, &r, &error))
        fail_msg("the start is refused: %s", error.text);
    expect_prefix(&r.tree, &view, reached);
    if (mode == LOCAL_STRICT)
        expect_nothing_lost(&r.tree, &view);
    else
        expect_little_lost(&r.tree, &view);
    recovery_release(&r);
    dir_remove(dir);
}

/* From here on the lanes have their nodes. */
static size_t first_event(const struct power *p)
{
    size_t i = 0;

    while (p->f->events[i].op != FS_NOTE)
        i++;
    return i;
}

static void crash_here_and_there(const struct power *p, enum local_mode mode, struct rng *rng)
{
    size_t count = p->f->event_count, from = first_event(p);
    size_t crashes = soaking() ? SOAK_CRASHES : is_short_run() ? CRASHES / 3 : CRASHES;
    size_t next = from, crashed = 0;
    struct image nothing = {0};
    struct disk d;

    disk_init(&d, &nothing);
    for (size_t i = 0; i < count; i++) {
        disk_apply(&d, &p->f->events[i]);
        if (i < next)
            continue;
        doing("crash after event %zu of %zu", i, count);
        check(p, &d, i + 1, mode, DISK_SYNCED, rng);
        check(p, &d, i + 1, mode, DISK_MIXED, rng);
        next = i + 1 + rng_below(rng, (uint32_t)(2 * (count - from) / crashes + 1));
        crashed++;
    }
    done();
    disk_release(&d);
    assert_true(crashed > 2);
}

static void run(enum local_mode mode, int64_t for_ms, int64_t steps_max, bool slow)
{
    struct power p = {.s = store_new(), .f = fs_faulty_new(), .steps_max = steps_max};
    struct rng rng = {seed_or(1)};
    char *dir = dir_make();

    p.board = mem_zalloc(sizeof *p.board);
    p.for_ms = for_ms;
    p.f->recording = true;
    p.f->before = slow ? slow_disk : NULL;
    record(&p, dir, mode);
    fprintf(stderr, "seed %llu, %zu events\n", (unsigned long long)seed_or(1), p.f->event_count);
    crash_here_and_there(&p, mode, &rng);
    free(p.board);
    fs_faulty_free(p.f);
    store_free(p.s);
    dir_remove(dir);
}

static void strict_loses_nothing(void **state)
{
    (void)state;
    run(LOCAL_STRICT, PATIENCE_MS, 300, false);
}

static void opportunistic_loses_little(void **state)
{
    (void)state;
    run(LOCAL_OPPORTUNISTIC, 300, 20000, false);
}

static void opportunistic_loses_little_on_a_slow_disk(void **state)
{
    (void)state;
    run(LOCAL_OPPORTUNISTIC, 1000, 20000, true);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_loses_nothing),
        cmocka_unit_test(opportunistic_loses_little),
        cmocka_unit_test(opportunistic_loses_little_on_a_slow_disk),
    };

    return run_group(tests);
}
