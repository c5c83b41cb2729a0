/*
 * A crash between any two file operations of a store that fills segments, takes snapshots, drops
 * the files that they replace, meets a full disk, and starts. The operations are recorded once;
 * then for each prefix of them the images that a crash there may leave are written to a directory,
 * and a start must find a state that the tree was in, with everything that had been acknowledged.
 *
 * The snapshots are fuzzy on purpose: before each of their operations the tree is changed.
 */
#include <errno.h>
#include <stdio.h>

#include "scene.h"

enum { MIXTURES = 2 };

/* Four snapshots with work before, during and after each: the last two drop what is old. */
static struct scene *record_snapshots(const char *dir, enum local_mode mode)
{
    struct scene *sc = scene_open(dir, mode);

    for (int snapshot = 0; snapshot < 4; snapshot++) {
        for (int i = 0; i < 8 + 10 * (snapshot == 0); i++)
            scene_step(sc);
        atomic_store(&sc->eager, true);
        must(local_snapshot(sc->s->l));
        atomic_store(&sc->eager, false);
    }
    for (int i = 0; i < 5; i++)
        scene_step(sc);
    assert_int_equal(0, atomic_load(&sc->failed));
    assert_int_equal(0, atomic_load(&sc->s->fatals));
    scene_close(sc);
    return sc;
}

static const struct fs_fault FULL = {FS_PWRITE, 1, FAULT_TORN, ENOSPC, true, "journal.tmp"};

static struct local_stats stats_of(const struct scene *sc)
{
    struct local_stats stats;

    local_stats(sc->s->l, &stats);
    return stats;
}

static bool has_reserve(void *arg)
{
    return stats_of(arg).reserve_bytes == LOCAL_SEGMENT_LEN_MIN;
}

/*
 * Twice the disk is full: what does not add goes on, and a snapshot uses the reserve, ours or one
 * that the store has taken because it makes room.
 */
static struct scene *record_full_disk(const char *dir)
{
    struct scene *sc = scene_open(dir, LOCAL_STRICT);

    sc->met_full_disk = true;
    for (int snapshot = 0; snapshot < 2; snapshot++) {
        wait_until(has_reserve, sc);
        uint64_t before = stats_of(sc).snapshots;
        fs_faulty_arm(sc->f, &FULL);
        atomic_store(&sc->failed, 0);
        for (int refused = 0; refused < 20; refused += atomic_load(&sc->failed) != 0)
            scene_step(sc);
        expect_err(DROVER_DISK_FULL, atomic_load(&sc->failed));
        atomic_store(&sc->eager, true);
        if (local_snapshot(sc->s->l))
            assert_true(stats_of(sc).snapshots > before);
        atomic_store(&sc->eager, false);
        fs_faulty_arm(sc->f, NULL);
    }
    wait_until(has_reserve, sc);
    assert_int_equal(0, atomic_load(&sc->s->fatals));
    scene_close(sc);
    return sc;
}

static void label_event(struct buf *label, const struct scene *sc, size_t at, const char *left)
{
    label->len = 0;
    buf_printf(label, "after event %zu (", at);
    fs_event_text(&sc->f->events[at], label);
    buf_printf(label, "), %s", left);
}

/* A crash after this event. */
struct crash {
    const struct scene *sc;
    size_t at;
    const struct disk *d;
    const struct history *past;
    int64_t at_least;
};

/* It leaves this; and the newest snapshot may turn out to be unreadable on top of it. */
static void check_left(const char *dir, const struct crash *c, enum disk_left left, bool work_on,
                       struct rng *rng)
{
    struct expectation e = {c->past, c->at_least, work_on, NULL};
    struct buf label = {0};
    struct image im;
    const char *newest;

    disk_image(c->d, left, rng, &im);
    label_event(&label, c->sc, c->at, disk_left_name(left));
    e.label = buf_text(&label);
    scene_check(dir, &im, &e);
    newest = image_name(&im, "snapshot-", -1);
    if (newest && left == DISK_ALL && !c->sc->met_full_disk) {
        image_remove(&im, newest);
        buf_printf(&label, ", without the newest snapshot");
        e.label = buf_text(&label);
        scene_check(dir, &im, &e);
    }
    image_release(&im);
    buf_release(&label);
}

/*
 * Everything that a crash may leave; one of them is worked on, in turn, because that takes longer.
 */
static void check_crash(const char *dir, const struct crash *c, struct rng *rng)
{
    int count = disk_is_synced(c->d) ? 1 : DISK_MIXED + (soaking() ? 20 : MIXTURES);

    for (int i = 0; i < count; i++) {
        enum disk_left left = i < DISK_MIXED ? (enum disk_left)i : DISK_MIXED;

        check_left(dir, c, left, soaking() || c->at % 5 == (size_t)i, rng);
    }
}

static void check_crashes(const struct scene *sc, enum local_mode mode, uint64_t seed)
{
    struct rng rng = {seed};
    size_t stride = short_run_stride(4); /* of the crash points that are checked */
    if (sc->met_full_disk && !soaking()) /* it has more of them, which resemble each other */
        stride *= 3;
    char *dir = dir_make();
    struct disk d;

    disk_init(&d, &sc->before);
    for (size_t i = 0; i < sc->f->event_count; i++) {
        struct crash c = {sc, i, &d, &sc->past, 0};

        if (mode == LOCAL_STRICT)
            c.at_least = scene_acknowledged(sc, i + 1);
        if (disk_apply(&d, &sc->f->events[i]) && i % stride == 0)
            check_crash(dir, &c, &rng);
    }
    disk_release(&d);
    dir_remove(dir);
}

static void run(enum local_mode mode, bool is_full)
{
    uint64_t seed = seed_or(1);
    char *dir = dir_make();
    struct scene *sc = is_full ? record_full_disk(dir) : record_snapshots(dir, mode);

    fprintf(stderr, "seed %llu, %zu events\n", (unsigned long long)seed, sc->f->event_count);
    check_crashes(sc, mode, seed);
    scene_free(sc);
    dir_remove(dir);
}

static void any_point_of_a_snapshot_strict(void **state)
{
    (void)state;
    run(LOCAL_STRICT, false);
}

static void any_point_of_a_snapshot_opportunistic(void **state)
{
    (void)state;
    run(LOCAL_OPPORTUNISTIC, false);
}

static void any_point_on_a_full_disk(void **state)
{
    (void)state;
    run(LOCAL_STRICT, true);
}

/*
 * Starts that are cut short. A start shows what it found, so from then on that must survive a power
 * failure, also what the run before had written and not synced. `depth` more starts are killed at
 * each of their events, each on what the one before left; d is what the disk holds. With a fault,
 * the first of them find a full disk: they go on in the last segment, or use the reserve.
 */
static void check_starts(const struct disk *d, const struct history *past, int64_t at_least,
                         int depth, const struct fs_fault *fault, struct rng *rng)
{
    char *dir = dir_make(), *scratch = dir_make();
    struct disk next;
    struct image im;
    struct scene *sc;
    struct history all;

    disk_image(d, DISK_ALL, NULL, &im);
    image_write(&im, dir);
    image_release(&im);
    sc = scene_open_with(dir, LOCAL_STRICT, fault);
    scene_step(sc);
    scene_close(sc);
    history_join(&all, past, &sc->past);
    disk_copy(&next, d);
    disk_restart(&next);
    for (size_t i = 0; i < sc->f->event_count; i++) {
        struct crash c = {sc, i, &next, &all, scene_acknowledged(sc, i + 1)};

        if (c.at_least < at_least)
            c.at_least = at_least;
        if (!disk_apply(&next, &sc->f->events[i]))
            continue;
        check_left(scratch, &c, DISK_SYNCED, false, rng);
        if (!disk_is_synced(&next))
            check_left(scratch, &c, DISK_MIXED, false, rng);
        if (depth)
            check_starts(&next, &all, c.at_least, depth - 1, NULL, rng);
    }
    disk_release(&next);
    history_release(&all);
    scene_free(sc);
    dir_remove(scratch);
    dir_remove(dir);
}

/* Whether the disk holds records here that were written and are not synced. */
static bool is_unsynced_write(const struct fs_event *e)
{
    return e->op == FS_PWRITE && strncmp(e->name, "journal-", 8) == 0;
}

static void check_starts_after_kills(int depth, const struct fs_fault *fault)
{
    struct rng rng = {seed_or(1)};
    char *dir = dir_make();
    struct scene *sc = scene_open(dir, LOCAL_STRICT);
    struct disk d;

    for (int i = 0; i < (soaking() ? 12 : 1); i++)
        scene_step(sc);
    scene_close(sc);
    disk_init(&d, &sc->before);
    for (size_t i = 0; i < sc->f->event_count; i++) {
        disk_apply(&d, &sc->f->events[i]);
        if (is_unsynced_write(&sc->f->events[i]))
            check_starts(&d, &sc->past, scene_acknowledged(sc, i + 1), depth, fault, &rng);
    }
    disk_release(&d);
    scene_free(sc);
    dir_remove(dir);
}

static void any_point_of_a_start_after_a_kill(void **state)
{
    (void)state;
    check_starts_after_kills(is_short_run() ? 0 : 1, NULL);
}

static void any_point_of_a_start_on_a_full_disk(void **state)
{
    (void)state;
    check_starts_after_kills(soaking() ? 1 : 0, &FULL);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(any_point_of_a_snapshot_strict),
        cmocka_unit_test(any_point_of_a_snapshot_opportunistic),
        cmocka_unit_test(any_point_on_a_full_disk),
        cmocka_unit_test(any_point_of_a_start_after_a_kill),
        cmocka_unit_test(any_point_of_a_start_on_a_full_disk),
    };

    return run_group(tests);
}
