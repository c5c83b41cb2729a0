/*
 * Strict: the thread of a transaction appends its record before it commits. Opportunistic
 * ("later"): records are queued, and a thread appends them in order.
 *
 * Appends and the beginning of a snapshot are serialised, so the records appended after the
 * beginning are the ones to replay onto the snapshot. A snapshot ends when all transactions of
 * which it can have a part are appended: no crash leaves half of one.
 */
#include "task/own_journal.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"
#include "task/request_log.h"
#include "task/task_tree.h"

enum { VERSION = 1, NODE_IS = 1, NODE_GONE = 2, PUT_BYTES = 64 * 1024, IDLE_MS = 60 * 1000 };

struct own_journal_record {
    struct own_journal_record *next;
    struct buf bytes;
};

struct own_journal {
    struct drover_journal j;
    struct keeper *keeper;
    bool later;
    int64_t snapshot_every;
    void (*barrier)(void *arg);
    void *barrier_arg;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    struct own_journal_record *first, **end;
    uint64_t queued, appended; /* records, ever */
    int failed;                /* the journal's error: no further record is accepted */
    int64_t since_snapshot;
    uint64_t asked, tried; /* snapshots */
    int snapshot_err;
    bool closing;

    struct periodic *writer, *snapshotter; /* woken when there is something to do */
    pthread_mutex_t order;                 /* held during each call of the journal */
};

/* Records. */

static void put_node(struct buf *b, int kind, struct str path, struct str data)
{
    buf_put_u8(b, (uint8_t)kind);
    buf_put_u8(b, (uint8_t)path.len);
    buf_put_u8(b, (uint8_t)(path.len >> 8));
    buf_put_str(b, path);
    if (kind != NODE_IS)
        return;
    buf_put_u32(b, (uint32_t)data.len);
    buf_put_str(b, data);
}

static void encode(struct buf *b, const struct keeper_op *ops, size_t count)
{
    buf_put_u8(b, VERSION);
    for (size_t i = 0; i < count; i++)
        if (ops[i].kind != KEEPER_CHECK)
            put_node(b, ops[i].kind == KEEPER_DELETE ? NODE_GONE : NODE_IS, ops[i].path,
                     ops[i].data);
}

static int apply_node(struct keeper *k, int kind, char *path, struct str data)
{
    if (kind == NODE_GONE) {
        int err = keeper_delete(k, path, KEEPER_ANY_VERSION);
        return err == DROVER_NO_NODE ? 0 : err;
    }
    int err = keeper_set(k, path, data, KEEPER_ANY_VERSION, NULL);
    if (err != DROVER_NO_NODE)
        return err;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        keeper_create(k, path, STR(""), 0, NULL); /* a parent, which may exist */
        *slash = '/';
    }
    return keeper_create(k, path, data, 0, NULL);
}

static int on_record(void *arg, const void *bytes, size_t len)
{
    struct own_journal *j = arg;
    struct reader r = {bytes, len, false};
    if (reader_u8(&r) != VERSION)
        return DROVER_DAMAGED;
    while (r.left) {
        int kind = reader_u8(&r);
        size_t path_len = reader_u8(&r);
        path_len |= (size_t)reader_u8(&r) << 8;
        struct str path = reader_bytes(&r, path_len);
        struct str data = kind == NODE_IS ? reader_bytes(&r, reader_u32(&r)) : STR("");
        if (r.bad || (kind != NODE_IS && kind != NODE_GONE))
            return DROVER_DAMAGED;
        CLEANUP(mem_free) char *text = mem_dup(path.p, path.len);
        TRY(apply_node(j->keeper, kind, text, data));
    }
    return 0;
}

/* Appending. */

static int tell(struct own_journal *j, const struct buf *b)
{
    LOCKED(&j->order);
    return j->j.append(j->j.arg, b->p, b->len);
}

static void gather(struct own_journal *j, struct buf *b)
{
    struct own_journal_record *r = mem_alloc(sizeof *r);
    *r = (struct own_journal_record){.bytes = *b};
    *b = (struct buf){0};
    *j->end = r;
    j->end = &r->next;
    j->queued++;
    periodic_wake(j->writer);
}

int own_journal_append(void *arg, const struct keeper_op *ops, size_t count)
{
    struct own_journal *j = arg;
    CLEANUP(buf_release) struct buf b = {0};
    encode(&b, ops, count);
    int err = j->later ? 0 : tell(j, &b);
    LOCKED(&j->lock);
    if (j->later)
        gather(j, &b);
    if (err)
        j->failed = DROVER_IO;
    if (++j->since_snapshot >= j->snapshot_every && j->tried == j->asked) {
        j->asked++;
        periodic_wake(j->snapshotter);
    }
    return j->failed;
}

int own_journal_append_now(void *arg, const struct keeper_op *ops, size_t count)
{
    struct own_journal *j = arg;
    CLEANUP(buf_release) struct buf b = {0};
    encode(&b, ops, count);
    return tell(j, &b) ? DROVER_IO : 0;
}

static struct own_journal_record *take(struct own_journal *j)
{
    LOCKED(&j->lock);
    struct own_journal_record *r = j->first;
    if (r)
        j->first = r->next;
    if (!j->first)
        j->end = &j->first;
    return r;
}

static void append_queued(struct periodic *p, void *arg)
{
    struct own_journal *j = arg;
    (void)p;
    for (struct own_journal_record *r; (r = take(j)); free(r)) {
        int err = j->failed ? 0 : tell(j, &r->bytes);
        buf_release(&r->bytes);
        LOCKED(&j->lock);
        if (err)
            j->failed = DROVER_IO;
        j->appended++;
        pthread_cond_broadcast(&j->changed);
    }
}

/* Waits until every record that is queued now is in the journal. */
static int wait_for_appends(struct own_journal *j)
{
    LOCKED(&j->lock);
    uint64_t all = j->queued;
    while (j->appended < all)
        pthread_cond_wait(&j->changed, &j->lock);
    return j->later ? j->failed : 0;
}

/* Snapshots. */

static int flush(struct own_journal *j, struct buf *b)
{
    LOCKED(&j->order);
    int err = j->j.snapshot_put(j->j.arg, b->p, b->len);
    b->len = 0;
    buf_put_u8(b, VERSION);
    return err;
}

/* A node that was deleted meanwhile is in the journal as deleted. */
static int put_below(struct own_journal *j, const char *path, struct buf *b)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    CLEANUP(buf_release) struct buf data = {0};
    int err = keeper_get(j->keeper, path, &data, NULL);
    if (!err)
        put_node(b, NODE_IS, str_of(path), buf_str(&data));
    if (!err && b->len >= PUT_BYTES)
        err = flush(j, b);
    if (!err)
        err = keeper_children(j->keeper, path, &names, NULL);
    for (size_t i = 0; !err && i < names.count; i++) {
        CLEANUP(buf_release) struct buf below = {0};
        buf_printf(&below, "%s/%s", path, names.names[i]);
        err = put_below(j, buf_text(&below), b);
    }
    return err == DROVER_NO_NODE ? 0 : err;
}

static int begin_snapshot(struct own_journal *j)
{
    LOCKED(&j->order);
    return j->j.snapshot_begin(j->j.arg);
}

static int end_snapshot(struct own_journal *j, int err)
{
    LOCKED(&j->order);
    int ended = j->j.snapshot_end(j->j.arg, err == 0);
    return err || !ended ? err : DROVER_IO;
}

static int take_snapshot(struct own_journal *j)
{
    CLEANUP(buf_release) struct buf b = {0};
    if (!j->j.snapshot_begin || !j->j.snapshot_put || !j->j.snapshot_end)
        return DROVER_UNIMPLEMENTED;
    if (begin_snapshot(j))
        return DROVER_IO;
    j->barrier(j->barrier_arg);
    buf_put_u8(&b, VERSION);
    int err = put_below(j, TASK_NODE_ROOT, &b);
    if (!err && b.len > 1)
        err = flush(j, &b);
    if (!err)
        err = wait_for_appends(j);
    return end_snapshot(j, err);
}

static uint64_t begin_asked(struct own_journal *j)
{
    LOCKED(&j->lock);
    j->since_snapshot = 0;
    return j->asked;
}

static void snapshot_if_asked(struct periodic *p, void *arg)
{
    struct own_journal *j = arg;
    (void)p;
    if (!own_journal_snapshotting(j))
        return;
    uint64_t asked = begin_asked(j);
    int err = take_snapshot(j);
    LOCKED(&j->lock);
    j->snapshot_err = err;
    j->tried = asked;
    pthread_cond_broadcast(&j->changed);
}

void own_journal_set_barrier(struct own_journal *j, void (*passed)(void *arg), void *arg)
{
    j->barrier = passed;
    j->barrier_arg = arg;
}

int own_journal_snapshot(struct own_journal *j)
{
    LOCKED(&j->lock);
    uint64_t mine = ++j->asked;
    periodic_wake(j->snapshotter);
    while (j->tried < mine && !j->closing)
        pthread_cond_wait(&j->changed, &j->lock);
    return j->tried < mine ? DROVER_CLOSED : j->snapshot_err;
}

int own_journal_snapshotting(struct own_journal *j)
{
    LOCKED(&j->lock);
    return j->tried < j->asked;
}

/* Opening and closing. */

static void release(struct own_journal *j)
{
    if (j->keeper)
        keeper_close(j->keeper);
    pthread_cond_destroy(&j->changed);
    pthread_mutex_destroy(&j->order);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

int own_journal_open(const struct drover_journal *drover, bool later, int64_t snapshot_every,
                     struct local *l, struct own_journal **ret_journal, struct err_info *e)
{
    struct own_journal *j = mem_zalloc(sizeof *j);
    int err = local_connect(l, NULL, &j->keeper);
    j->j = *drover;
    j->later = later;
    j->snapshot_every = snapshot_every ? snapshot_every : LOCAL_SNAPSHOT_EVERY;
    j->end = &j->first;
    pthread_mutex_init(&j->lock, NULL);
    pthread_mutex_init(&j->order, NULL);
    pthread_cond_init(&j->changed, NULL);
    if (!err)
        err = j->j.replay(j->j.arg, on_record, j);
    if (err) {
        release(j);
        return err_set(e, err < 0 ? err : DROVER_IO, "the journal could not be replayed: %s",
                       drover_err_message(err < 0 ? err : DROVER_IO));
    }
    j->snapshotter = periodic_start("task-snapshot", IDLE_MS, snapshot_if_asked, j);
    if (later)
        j->writer = periodic_start("task-journal", IDLE_MS, append_queued, j);
    *ret_journal = j;
    return 0;
}

void own_journal_close(struct own_journal *j)
{
    pthread_mutex_lock(&j->lock);
    j->closing = true;
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->lock);
    periodic_stop(j->writer);
    append_queued(NULL, j);
    periodic_stop(j->snapshotter);
    release(j);
}
