/*
 * The work is the same every time, so that a fault at the nth operation can reach every place in
 * it.
 */
#include "fault_run.h"

#include <stdio.h>

enum { STEPS = 22, DATA_LEN = 18000 };

static const char *path_of(int step, char *buf, size_t len)
{
    snprintf(buf, len, "/%d", step % 6);
    return buf;
}

/* What a killed process may leave: a few records, the last one torn, a temporary file. */
void fault_run_before(struct image *ret_image)
{
    char *dir = dir_make();
    struct store *s = store_new();
    struct fs_faulty *quick = fs_faulty_new();
    struct buf *bytes;
    size_t end;

    must(store_open(s, dir, &quick->fs));
    must(store_connect(s));
    must(keeper_create(s->k, "/before", STR("the fault"), 0, NULL));
    store_leave(s);
    store_free(s);
    fs_faulty_free(quick);
    image_read(ret_image, dir);
    dir_remove(dir);
    bytes = image_find(ret_image, image_name(ret_image, "journal-", 0));
    for (end = bytes->len; !bytes->p[end - 1]; end--)
        ;
    memset(bytes->p + (end + 7) / 8 * 8, 'T', 20);
    buf_put(image_add(ret_image, "snapshot.tmp"), "unfinished", 10);
}

/* Whether the transaction is in the tree, acknowledged or not. */
static void note(struct fault_run *r, int err)
{
    history_note(&r->past, r->s);
    if (!err)
        r->acknowledged = store_zxid(r->s);
}

static int change_once(struct fault_run *r, int step)
{
    static char data[DATA_LEN];
    struct str whole = {data, sizeof data};
    char path[16];
    int err;

    memset(data, 'a' + step % 26, sizeof data);
    path_of(step, path, sizeof path);
    if (step < 6)
        err = keeper_create(r->s->k, path, whole, 0, NULL);
    else
        err = keeper_set(r->s->k, path, whole, KEEPER_ANY_VERSION, NULL);
    note(r, err);
    return err;
}

static int snapshot_once(struct fault_run *r, int step)
{
    (void)step;
    return local_snapshot(r->s->l);
}

/* Repeats one step until the disk has room for it. */
struct attempt {
    struct fault_run *r;
    int (*once)(struct fault_run *r, int step);
    int step;
    int err;
};

static bool is_decided(void *arg)
{
    struct attempt *a = arg;

    a->err = a->once(a->r, a->step);
    if (a->err != DROVER_DISK_FULL)
        return true;
    a->r->refused++;
    if (keeper_exists(a->r->s->k, "/before", NULL)) /* reads go on */
        a->err = DROVER_UNKNOWN;
    return a->err != DROVER_DISK_FULL;
}

static int attempt(struct fault_run *r, int (*once)(struct fault_run *, int), int step)
{
    struct attempt a = {r, once, step, 0};

    wait_until(is_decided, &a);
    return a.err;
}

static int work(struct fault_run *r)
{
    int err = 0;

    for (int step = 0; step < STEPS && !err; step++) {
        err = attempt(r, change_once, step);
        if (!err && step % 6 == 5)
            err = attempt(r, snapshot_once, step);
    }
    return err;
}

static int connect_once(struct fault_run *r, int step)
{
    int err = store_connect(r->s);

    (void)step;
    note(r, err);
    return err;
}

/* Every call must fail after the final failure. */
static bool all_get_io(struct fault_run *r)
{
    struct keeper_op op = keeper_op_check("/before", KEEPER_ANY_VERSION);
    struct keeper_names names = {0};
    struct keeper *k = r->s->k, *other;
    struct buf data = {0};
    bool all = keeper_get(k, "/before", &data, NULL) == DROVER_IO &&
               keeper_exists(k, "/not there", NULL) == DROVER_IO &&
               keeper_children(k, "/", &names, NULL) == DROVER_IO &&
               keeper_set(k, "/before", STR("x"), KEEPER_ANY_VERSION, NULL) == DROVER_IO &&
               keeper_create(k, "/more", STR("x"), 0, NULL) == DROVER_IO &&
               keeper_delete(k, "/before", KEEPER_ANY_VERSION) == DROVER_IO &&
               keeper_multi(k, &op, 1, NULL) == DROVER_IO && keeper_sync(k, "/") == DROVER_IO &&
               local_connect(r->s->l, NULL, &other) == DROVER_IO &&
               local_snapshot(r->s->l) == DROVER_IO;

    buf_release(&data);
    keeper_names_release(&names);
    return all;
}

static bool has_ended(void *arg)
{
    return atomic_load(&((struct fault_run *)arg)->s->fatals) > 0;
}

/* A fault may hit a thread of the store's own, just before this check. */
static void wait_for_the_end(struct fault_run *r)
{
    r->hit = fs_faulty_hit(r->f);
    if (r->err == DROVER_IO)
        wait_until(has_ended, r);
    r->fatals = atomic_load(&r->s->fatals);
    if (r->fatals && r->s->k)
        r->not_silent = !all_get_io(r);
}

void fault_run(struct fault_run *r, const struct image *before, const struct fs_fault *fault)
{
    *r = (struct fault_run){.dir = dir_make(), .f = fs_faulty_new(), .s = store_new()};
    r->before = before;
    image_write(before, r->dir);
    r->f->recording = true;
    fs_faulty_arm(r->f, fault);
    r->open_err = store_open(r->s, r->dir, &r->f->fs);
    if (r->open_err) {
        r->hit = r->end_hit = fs_faulty_hit(r->f);
        return;
    }
    note(r, 0);
    r->err = attempt(r, connect_once, 0);
    if (!r->err)
        r->err = work(r);
    wait_for_the_end(r);
    store_leave(r->s);
    r->end_hit = fs_faulty_hit(r->f);
}

void fault_run_release(struct fault_run *r)
{
    fs_faulty_free(r->f);
    store_free(r->s);
    history_release(&r->past);
    dir_remove(r->dir);
}

static void check_dir(struct fault_run *r, const char *dir, const char *what)
{
    struct err_info error;
    const char *want;
    int64_t zxid;
    char *text;

    if (dir_text(dir, &text, &zxid, &error))
        fail_msg("%s: the start is refused: %s", what, error.text);
    if (zxid < r->acknowledged)
        fail_msg("%s: ends at %lld, but %lld was acknowledged", what, (long long)zxid,
                 (long long)r->acknowledged);
    want = history_at(&r->past, zxid);
    if (want)
        expect_text(what, want, text);
    else if (r->past.len)
        fail_msg("%s: transaction %lld was never there", what, (long long)zxid);
    free(text);
}

/* The fault is gone: the store can be opened again. */
static void check_start(struct fault_run *r)
{
    struct fs_faulty *quick = fs_faulty_new();
    struct store *s = store_new();

    if (store_open(s, r->dir, &quick->fs))
        fail_msg("a healthy start is refused: %s", s->error.text);
    must(store_connect(s));
    must(keeper_set(s->k, "/before", STR("works again"), KEEPER_ANY_VERSION, NULL));
    store_leave(s);
    fs_faulty_free(quick);
    store_free(s);
}

static void check_power_failure(struct fault_run *r)
{
    char *dir = dir_make();
    struct image im;
    struct disk d;

    disk_init(&d, r->before);
    for (size_t i = 0; i < r->f->event_count; i++)
        disk_apply(&d, &r->f->events[i]);
    disk_image(&d, DISK_SYNCED, NULL, &im);
    image_write(&im, dir);
    check_dir(r, dir, "after a power failure");
    image_release(&im);
    disk_release(&d);
    dir_remove(dir);
}

void fault_run_check(struct fault_run *r)
{
    check_dir(r, r->dir, "after the fault");
    if (!r->open_err && !r->fatals)
        return;
    check_power_failure(r);
    check_start(r);
}
