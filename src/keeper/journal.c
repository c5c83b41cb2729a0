/*
 * Group commit.
 *
 * Records gather in the open batch. The writer takes it as a round, with the batches of segments that
 * filled up meanwhile before it, writes, syncs, and raises `durable`. Who waits sleeps on one of two
 * futexes: the round under way has one, the round that gathers has the other, so that a finished
 * round wakes exactly those whom it concerns. (A condition variable woke everybody twice and made
 * them queue for its mutex.)
 *
 * Opportunistic mode writes every GATHER_MS and syncs every FLUSH_TARGET_MS; when the oldest record that is
 * not on disk is LOCAL_FLUSH_MS old all the same, because the disk is slow, changes are held back.
 *
 * When the journal has rested for MARK_AFTER_MS, a mark is written (not synced: it costs nothing)
 * that proves to the next start that everything before it was on disk.
 */
#include "keeper/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/mem.h"
#include "keeper/blocks.h"
#include "keeper/format.h"
#include "keeper/record.h"
#include "keeper/segment.h"

enum {
    FLUSH_TARGET_MS = LOCAL_FLUSH_MS / 4,
    MARK_AFTER_MS = 50,
    GATHER_MS = 2,
    PENDING_MAX = 8 * 1024 * 1024,
    RETRY_FULL_DISK_MS = 200,
};

/* A run of records for one place in one segment. */
struct batch {
    struct buf bytes;
    int fd;
    uint64_t segment;
    off_t at;
    int64_t last_lsn;
    int64_t since_ms; /* when its first record came */
    struct batch *next;
};

static void gate_open(struct journal *j, unsigned gate)
{
    atomic_fetch_add(&j->gates[gate], 1);
    syscall(SYS_futex, &j->gates[gate], FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void gate_wait(struct journal *j, unsigned gate, uint32_t seen)
{
    syscall(SYS_futex, &j->gates[gate], FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void journal_fail(struct journal *j, const char *line)
{
    if (atomic_exchange(&j->failed, true))
        return;
    j->o.fatal(j->o.arg, line);
    pthread_mutex_lock(j->lock);
    pthread_cond_broadcast(&j->room);
    pthread_cond_broadcast(&j->prepare);
    pthread_mutex_unlock(j->lock);
    gate_open(j, 0);
    gate_open(j, 1);
}

static void fail(struct journal *j, const char *what, uint64_t segment, int errnum)
{
    char line[512];

    snprintf(line, sizeof line,
             "journal: %s %s/journal-%010llu: %s; nothing more is acknowledged, ending", what,
             j->o.dir, (unsigned long long)segment, strerror(errnum));
    journal_fail(j, line);
}

static struct batch *batch_new(struct journal *j, int fd, uint64_t segment, off_t at)
{
    struct batch *b = j->spare;

    if (b)
        j->spare = b->next;
    else
        b = mem_zalloc(sizeof *b);
    b->bytes.len = 0;
    b->fd = fd;
    b->segment = segment;
    b->at = at;
    b->last_lsn = 0;
    b->next = NULL;
    return b;
}

static bool has_records(const struct batch *b)
{
    return b->last_lsn != 0;
}

/* Takes everything that waits to be written, in order. Under the lock. */
static struct batch *take_round(struct journal *j)
{
    struct batch *taken = j->open, *first = j->full;

    j->open = batch_new(j, taken->fd, taken->segment, taken->at + (off_t)taken->bytes.len);
    if (first) {
        *j->full_end = taken;
        taken = first;
    }
    j->full = NULL;
    j->full_end = &j->full;
    j->taken_lsn = j->last_lsn;
    j->pending = 0;
    j->round++;
    return taken;
}

/* What only the writer knows. */
struct writer {
    int fd;
    uint64_t segment;
    int64_t written_lsn;
    int64_t since_ms; /* of the oldest record written and not synced, 0: none */
    bool dirty;       /* something was written and not synced, if only a mark */
    bool direct;      /* past the cache, by `blocks` */
    struct blocks blocks;
};

/*
 * In strict mode every write is synced at once, so that the cache is only a detour. In the other
 * modes it gathers what has not to be on disk yet.
 */
static int writer_take(struct journal *j, struct writer *w, const struct batch *b)
{
    const struct fs *fs = j->o.fs;

    w->fd = b->fd;
    w->segment = b->segment;
    w->direct = j->o.mode == LOCAL_STRICT && fs->direct && fs->direct(fs, b->fd) == 0;
    if (w->direct && blocks_begin(&w->blocks, b->fd, b->at) < 0) {
        fail(j, "cannot read", b->segment, errno);
        return DROVER_IO;
    }
    return 0;
}

static int writer_sync(struct journal *j, struct writer *w)
{
    if (j->o.fs->fdatasync(j->o.fs, w->fd) < 0) {
        fail(j, "cannot sync", w->segment, errno);
        return DROVER_IO;
    }
    w->since_ms = 0;
    w->dirty = false;
    return 0;
}

/* The old segment must be on disk before the new one shows a record. */
static int writer_move(struct journal *j, struct writer *w, const struct batch *b)
{
    if (w->segment == b->segment)
        return 0;
    if (w->dirty && writer_sync(j, w))
        return DROVER_IO;
    j->o.fs->close(j->o.fs, w->fd);
    return writer_take(j, w, b);
}

static int writer_put(struct journal *j, struct writer *w, const struct batch *b)
{
    if (w->direct)
        return blocks_append(&w->blocks, j->o.fs, b->fd, b->bytes.p, b->bytes.len, b->at);
    return fs_write_all(j->o.fs, b->fd, b->bytes.p, b->bytes.len, b->at);
}

static int write_batch(struct journal *j, struct writer *w, const struct batch *b)
{
    if (writer_move(j, w, b))
        return DROVER_IO;
    if (writer_put(j, w, b) < 0) {
        fail(j, "cannot write", b->segment, errno);
        return DROVER_IO;
    }
    w->dirty = true;
    if (has_records(b)) {
        w->written_lsn = b->last_lsn;
        if (!w->since_ms)
            w->since_ms = b->since_ms;
    }
    return 0;
}

static int write_round(struct journal *j, struct writer *w, const struct batch *round)
{
    int err = 0;

    for (const struct batch *b = round; b; b = b->next) {
        if (!err && b->bytes.len)
            err = write_batch(j, w, b);
        if (b->next && b->segment != w->segment) /* over, and nothing of it was written */
            j->o.fs->close(j->o.fs, b->fd);
    }
    return err;
}

static bool sync_is_due(const struct journal *j, const struct writer *w)
{
    if (!w->since_ms)
        return false;
    return j->o.mode == LOCAL_STRICT || j->stop || j->sync_wanted > atomic_load(&j->durable) ||
           clock_boot_ms() >= w->since_ms + FLUSH_TARGET_MS;
}

static void round_done(struct journal *j, struct batch *round, uint64_t bytes)
{
    j->bytes += bytes;
    while (round) {
        struct batch *next = round->next;

        if (round->bytes.cap > PENDING_MAX)
            buf_release(&round->bytes);
        round->next = j->spare;
        j->spare = round;
        round = next;
    }
    pthread_cond_broadcast(&j->room);
}

/* When the first record came that has not been written yet, 0: there is none. */
static int64_t oldest_record_ms(const struct journal *j)
{
    for (const struct batch *b = j->full; b; b = b->next)
        if (has_records(b))
            return b->since_ms;
    return has_records(j->open) ? j->open->since_ms : 0;
}

/* Under the lock, which it releases while it writes. */
static int write_and_sync(struct journal *j, struct writer *w)
{
    unsigned gate = j->round & 1;
    struct batch *round = take_round(j);
    uint64_t bytes = 0;
    bool synced = false;
    int err;

    for (const struct batch *b = round; b; b = b->next)
        bytes += b->bytes.len;
    pthread_mutex_unlock(j->lock);
    err = write_round(j, w, round);
    pthread_mutex_lock(j->lock);
    round_done(j, round, bytes);
    if (!err && sync_is_due(j, w)) {
        pthread_mutex_unlock(j->lock);
        err = writer_sync(j, w);
        if (!err) {
            atomic_store(&j->durable, w->written_lsn);
            gate_open(j, gate);
            if (j->o.mode != LOCAL_STRICT)
                gate_open(j, !gate);
            synced = true;
        }
        pthread_mutex_lock(j->lock);
    }
    if (synced) {
        j->syncs++;
        j->unsynced_since_ms = oldest_record_ms(j);
        pthread_cond_broadcast(&j->room);
        if (j->on_durable)
            j->on_durable(j->on_durable_arg);
    }
    return err;
}

static bool nothing_to_write(const struct journal *j)
{
    return !j->full && !j->open->bytes.len;
}

/* Puts a mark behind records that are on disk. Where there is no room for one, there is none. */
static void put_mark(struct journal *j)
{
    size_t used = (size_t)j->open->at + j->open->bytes.len;

    j->marked_lsn = j->last_lsn;
    if (used + RECORD_HEADER_LEN <= j->o.segment_len)
        record_put_mark(&j->open->bytes, j->salt, j->last_lsn);
}

static bool mark_is_wanted(const struct journal *j)
{
    return j->marked_lsn < j->last_lsn && atomic_load(&j->durable) == j->last_lsn;
}

/* Nothing is to be written or synced now: wait for a record, a sync that falls due, or rest. */
static void writer_rest(struct journal *j, const struct writer *w, int64_t wrote_ms)
{
    int64_t until_ms = INT64_MAX;

    if (w->since_ms)
        until_ms = w->since_ms + FLUSH_TARGET_MS;
    else if (mark_is_wanted(j))
        until_ms = wrote_ms + MARK_AFTER_MS;
    if (!w->since_ms && until_ms <= clock_boot_ms()) {
        put_mark(j);
        return;
    }
    j->writer_rests = true;
    cond_wait_until(&j->work, j->lock, until_ms);
    j->writer_rests = false;
}

/* In opportunistic mode nobody waits, so that records may gather and leave with fewer writes. */
static void writer_gather(struct journal *j)
{
    int64_t until_ms = clock_boot_ms() + GATHER_MS;

    if (j->o.mode == LOCAL_OPPORTUNISTIC && !j->stop && j->sync_wanted <= atomic_load(&j->durable))
        cond_wait_until(&j->work, j->lock, until_ms);
}

static void *writer_main(void *arg)
{
    struct journal *j = arg;
    const struct batch *first;
    struct writer w = {0};
    int64_t wrote_ms = clock_boot_ms();
    int err;

    pthread_mutex_lock(j->lock);
    first = j->full ? j->full : j->open; /* this thread may start after a segment was filled */
    pthread_mutex_unlock(j->lock);
    err = writer_take(j, &w, first);
    pthread_mutex_lock(j->lock);
    while (!err) {
        if (!nothing_to_write(j) || sync_is_due(j, &w)) {
            err = write_and_sync(j, &w);
            wrote_ms = clock_boot_ms();
            if (!err)
                writer_gather(j);
        } else if (j->stop) {
            break;
        } else {
            writer_rest(j, &w, wrote_ms);
        }
    }
    if (!err && mark_is_wanted(j)) {
        put_mark(j);
        w.since_ms = clock_boot_ms();
        write_and_sync(j, &w);
    }
    for (const struct batch *b = j->full; b; b = b->next) /* after a failure */
        if (b->segment != w.segment)
            j->o.fs->close(j->o.fs, b->fd);
    if (j->open->segment != w.segment) /* one that no record has reached */
        j->o.fs->close(j->o.fs, j->open->fd);
    j->o.fs->close(j->o.fs, w.fd);
    pthread_mutex_unlock(j->lock);
    blocks_release(&w.blocks);
    return NULL;
}

/* Makes the segment that comes next. Under the lock, which it releases while it does. */
static void prepare_next(struct journal *j)
{
    struct err_info why;
    uint64_t number = j->prepared;
    int fd, err;

    pthread_mutex_unlock(j->lock);
    err = segment_make(j->o.fs, j->o.dir, j->o.store, number, j->o.segment_len, &fd, &why);
    pthread_mutex_lock(j->lock);
    j->prepare_error = err;
    if (!err) {
        j->prepared_fd = fd;
    } else if (err != DROVER_DISK_FULL) {
        pthread_mutex_unlock(j->lock);
        journal_fail(j, why.text);
        pthread_mutex_lock(j->lock);
    }
    pthread_cond_broadcast(&j->room);
}

static void *preparer_main(void *arg)
{
    struct journal *j = arg;

    pthread_mutex_lock(j->lock);
    while (!j->stop && !atomic_load(&j->failed)) {
        if (j->prepared_fd >= 0) {
            pthread_cond_wait(&j->prepare, j->lock);
            continue;
        }
        prepare_next(j);
        if (j->prepare_error && !j->stop)
            cond_wait_until(&j->prepare, j->lock, clock_boot_ms() + RETRY_FULL_DISK_MS);
    }
    pthread_mutex_unlock(j->lock);
    return NULL;
}

int journal_open(struct journal *j, const struct journal_options *o, pthread_mutex_t *lock,
                 struct err_info *ret_error)
{
    int fd, err;

    *j = (struct journal){.o = *o, .lock = lock, .prepared_fd = -1, .prepared = o->segment + 1};
    err = segment_make(o->fs, o->dir, o->store, o->segment, o->segment_len, &fd, ret_error);
    if (err)
        return err;
    j->salt = record_salt(o->store);
    j->first_segment = o->oldest;
    j->last_lsn = j->taken_lsn = j->marked_lsn = o->last_lsn;
    atomic_init(&j->durable, o->last_lsn);
    j->full_end = &j->full;
    j->open = batch_new(j, fd, o->segment, FORMAT_HEADER_LEN);
    cond_init(&j->work);
    cond_init(&j->room);
    cond_init(&j->prepare);
    pthread_create(&j->writer, NULL, writer_main, j);
    pthread_create(&j->preparer, NULL, preparer_main, j);
    return 0;
}

static void batches_free(struct batch *b)
{
    while (b) {
        struct batch *next = b->next;

        buf_release(&b->bytes);
        free(b);
        b = next;
    }
}

void journal_close(struct journal *j)
{
    pthread_mutex_lock(j->lock);
    j->stop = true;
    pthread_cond_broadcast(&j->work);
    pthread_cond_broadcast(&j->prepare);
    pthread_mutex_unlock(j->lock);
    pthread_join(j->writer, NULL);
    pthread_join(j->preparer, NULL);
    if (j->prepared_fd >= 0) { /* never used: the next start need not find it */
        char *path = format_path(j->o.dir, FORMAT_SEGMENT, j->prepared);

        j->o.fs->close(j->o.fs, j->prepared_fd);
        j->o.fs->unlink(j->o.fs, path);
        free(path);
    }
    batches_free(j->open);
    batches_free(j->full);
    batches_free(j->spare);
    pthread_cond_destroy(&j->work);
    pthread_cond_destroy(&j->room);
    pthread_cond_destroy(&j->prepare);
}

/* The open batch ends with its segment; the prepared one begins. */
static void next_segment(struct journal *j)
{
    struct batch *old = j->open;

    j->open = batch_new(j, j->prepared_fd, j->prepared, FORMAT_HEADER_LEN);
    *j->full_end = old;
    j->full_end = &old->next;
    j->prepared_fd = -1;
    j->prepared++;
    pthread_cond_signal(&j->prepare);
    pthread_cond_signal(&j->work);
}

static bool disk_is_late(const struct journal *j)
{
    return j->o.mode == LOCAL_OPPORTUNISTIC && j->unsynced_since_ms &&
           clock_boot_ms() > j->unsynced_since_ms + LOCAL_FLUSH_MS;
}

int journal_admit(struct journal *j, size_t record_len)
{
    if (record_len > j->o.segment_len - FORMAT_HEADER_LEN)
        return DROVER_TOO_BIG;
    for (;;) {
        if (atomic_load(&j->failed))
            return DROVER_IO;
        if (j->pending > PENDING_MAX || disk_is_late(j)) {
            pthread_cond_signal(&j->work);
            pthread_cond_wait(&j->room, j->lock);
            continue;
        }
        if ((size_t)j->open->at + j->open->bytes.len + record_len <= j->o.segment_len)
            return 0;
        if (j->prepared_fd >= 0)
            next_segment(j);
        else if (j->prepare_error)
            return j->prepare_error;
        else
            pthread_cond_wait(&j->room, j->lock);
    }
}

void journal_append(struct journal *j, const struct changes *c)
{
    struct batch *b = j->open;
    size_t before = b->bytes.len;

    assert(c->zxid == j->last_lsn + 1);
    if (!has_records(b)) {
        b->since_ms = clock_boot_ms();
        if (!j->unsynced_since_ms)
            j->unsynced_since_ms = b->since_ms;
        if (j->writer_rests)
            pthread_cond_signal(&j->work);
    }
    record_put_changes(&b->bytes, j->salt, c, c->zxid - atomic_load(&j->durable));
    b->last_lsn = j->last_lsn = c->zxid;
    j->pending += b->bytes.len - before;
    j->records++;
}

struct journal_ticket journal_ticket(const struct journal *j, int64_t lsn)
{
    /* In a round that was taken, or in the one that gathers. */
    uint32_t round = lsn <= j->taken_lsn ? j->round - 1 : j->round;

    return (struct journal_ticket){lsn, round & 1};
}

static int wait_for(struct journal *j, struct journal_ticket t)
{
    for (;;) {
        uint32_t seen = atomic_load(&j->gates[t.gate]);

        if (atomic_load(&j->failed))
            return DROVER_IO;
        if (atomic_load(&j->durable) >= t.lsn)
            return 0;
        gate_wait(j, t.gate, seen);
    }
}

int journal_wait(struct journal *j, struct journal_ticket t)
{
    if (j->o.mode != LOCAL_STRICT)
        return atomic_load(&j->failed) ? DROVER_IO : 0;
    return wait_for(j, t);
}

int journal_wait_durable(struct journal *j, int64_t lsn)
{
    struct journal_ticket t;

    pthread_mutex_lock(j->lock);
    t = journal_ticket(j, lsn);
    if (j->sync_wanted < lsn)
        j->sync_wanted = lsn;
    pthread_cond_signal(&j->work);
    pthread_mutex_unlock(j->lock);
    return wait_for(j, t);
}

int journal_rotate(struct journal *j, uint64_t *ret_segment)
{
    while (j->prepared_fd < 0 && !atomic_load(&j->failed)) {
        if (j->prepare_error)
            return j->prepare_error;
        pthread_cond_wait(&j->room, j->lock);
    }
    if (atomic_load(&j->failed))
        return DROVER_IO;
    next_segment(j);
    *ret_segment = j->open->segment;
    return 0;
}

int journal_drop(struct journal *j, uint64_t segment, struct err_info *ret_error)
{
    while (j->first_segment < segment) {
        if (format_remove(j->o.fs, j->o.dir, FORMAT_SEGMENT, j->first_segment) < 0 &&
            errno != ENOENT)
            return err_set_errno(ret_error, errno, "cannot remove %s/journal-%010llu", j->o.dir,
                                 (unsigned long long)j->first_segment);
        j->first_segment++;
    }
    return 0;
}
