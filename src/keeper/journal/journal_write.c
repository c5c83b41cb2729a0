/*
 * Writing rounds.
 *
 * There is one pen, and who takes it (under the lock) writes a round, syncs it, and puts it back. Mostly
 * that is the journal's own thread. In strict mode a caller who waits takes it himself when nobody has it:
 * on a quiet store a change then costs a write and a sync, without waking a thread and being woken by it.
 * What has gathered while he wrote is left to the thread, so that nobody writes for ever. Where many wait
 * for each round, all is left to the thread: by the time it wakes, more have come to share its sync.
 *
 * Opportunistic mode writes every GATHER_MS and syncs every FLUSH_TARGET_MS; when the oldest record that is
 * not on disk is LOCAL_FLUSH_MS old all the same, because the disk is slow, changes are held back.
 *
 * When the journal has rested for MARK_AFTER_MS, a mark is written (not synced: it costs nothing)
 * that proves to the next start that everything before it was on disk.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "keeper/journal/journal_impl.h"
#include "keeper/journal/record.h"

enum {
    FLUSH_TARGET_MS = LOCAL_FLUSH_MS / 4,
    MARK_AFTER_MS = 50,
    GATHER_MS = 2,
    CROWD = 8, /* records in a round */
};

static void fail(struct journal *j, const char *what, uint64_t segment, int errnum)
{
    char line[512];

    snprintf(line, sizeof line,
             "journal: %s %s/journal-%010llu: %s; nothing more is acknowledged, ending", what,
             j->o.dir, (unsigned long long)segment, strerror(errnum));
    journal_fail(j, line);
}

struct batch *batch_new(struct journal *j, int fd, uint64_t segment, off_t at)
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
    atomic_store(&j->crowded, j->last_lsn - j->taken_lsn > CROWD);
    j->taken_lsn = j->last_lsn;
    if (j->lag) /* else it is a mark alone */
        j->last_lag = j->lag;
    j->lag = 0;
    j->pending = 0;
    j->round++;
    return taken;
}

/*
 * In strict mode every write is synced at once, so that the cache is only a detour, and mostly by the write
 * itself: that is a tenth quicker than a sync of its own, and a quarter cheaper. In the other modes the cache
 * gathers what has not to be on disk yet.
 */
static int token_set(struct journal *j, struct write_token *p, const struct batch *b)
{
    const struct fs *fs = j->o.fs;

    p->fd = b->fd;
    p->segment = b->segment;
    p->direct = j->o.mode == LOCAL_STRICT && fs->direct && fs->direct(fs, b->fd) == 0;
    if (p->direct && blocks_begin(&p->blocks, b->fd, b->at) < 0) {
        fail(j, "cannot read", b->segment, errno);
        return DROVER_IO;
    }
    return 0;
}

/* What was written is on disk afterwards, if it is not already. */
static int token_sync(struct journal *j, struct write_token *p)
{
    if (p->dirty && j->o.fs->fdatasync(j->o.fs, p->fd) < 0) {
        fail(j, "cannot sync", p->segment, errno);
        return DROVER_IO;
    }
    p->since_ms = 0;
    p->dirty = false;
    return 0;
}

/* The old segment must be on disk before the new one shows a record. */
static int token_move(struct journal *j, struct write_token *p, const struct batch *b)
{
    if (p->segment == b->segment)
        return 0;
    if (p->dirty && token_sync(j, p))
        return DROVER_IO;
    j->o.fs->close(j->o.fs, p->fd);
    return token_set(j, p, b);
}

/*
 * A write that syncs itself vouches for its own bytes alone. So it will not do when something before it is
 * still to be synced, such as a mark: the records would be on disk, behind a hole.
 */
static int token_put(struct journal *j, struct write_token *p, const struct batch *b)
{
    bool synced = batch_has_records(b) && !p->dirty;

    if (!p->direct) {
        p->dirty = true;
        return fs_write_all(j->o.fs, b->fd, b->bytes.p, b->bytes.len, b->at);
    }
    if (blocks_append(&p->blocks, j->o.fs, b->fd, b->bytes.p, b->bytes.len, b->at, &synced) < 0)
        return -1;
    p->dirty = !synced;
    return 0;
}

static int write_batch(struct journal *j, struct write_token *p, const struct batch *b)
{
    if (token_move(j, p, b))
        return DROVER_IO;
    if (token_put(j, p, b) < 0) {
        fail(j, "cannot write", b->segment, errno);
        return DROVER_IO;
    }
    if (batch_has_records(b)) {
        p->written_lsn = b->last_lsn;
        if (!p->since_ms)
            p->since_ms = b->since_ms;
    }
    return 0;
}

static int write_round(struct journal *j, struct write_token *p, const struct batch *round)
{
    int err = 0;

    for (const struct batch *b = round; b; b = b->next) {
        if (!err && b->bytes.len)
            err = write_batch(j, p, b);
        if (b->next && b->segment != p->segment) /* over, and nothing of it was written */
            j->o.fs->close(j->o.fs, b->fd);
    }
    return err;
}

static bool sync_is_due(const struct journal *j)
{
    int64_t since_ms = j->write_token->since_ms;

    if (!since_ms)
        return false;
    return j->o.mode == LOCAL_STRICT || j->stop || j->sync_wanted > atomic_load(&j->durable) ||
           clock_boot_ms() >= since_ms + FLUSH_TARGET_MS;
}

static void round_done(struct journal *j, struct batch *round, uint64_t bytes)
{
    j->bytes += bytes;
    while (round) {
        struct batch *next = round->next;

        if (round->bytes.cap > JOURNAL_PENDING_MAX)
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
        if (batch_has_records(b))
            return b->since_ms;
    return batch_has_records(j->open) ? j->open->since_ms : 0;
}

/* Under the lock, which it releases while it syncs. */
static int sync_round(struct journal *j, unsigned gate)
{
    int err;

    pthread_mutex_unlock(j->lock);
    err = token_sync(j, j->write_token);
    if (!err) {
        atomic_store(&j->durable, j->write_token->written_lsn);
        journal_open_gate(j, gate);
        if (j->o.mode != LOCAL_STRICT)
            journal_open_gate(j, !gate);
    }
    pthread_mutex_lock(j->lock);
    if (err)
        return err;
    j->syncs++;
    j->unsynced_since_ms = oldest_record_ms(j);
    pthread_cond_broadcast(&j->room);
    if (j->on_durable)
        j->on_durable(j->on_durable_arg);
    return 0;
}

/* Takes the pen, which must be free, and puts it back. Under the lock, which it releases meanwhile. */
static int write_and_sync(struct journal *j)
{
    unsigned gate = j->round & 1;
    struct batch *round = take_round(j);
    uint64_t bytes = 0;
    int err;

    atomic_store(&j->pen_taken, true);
    for (const struct batch *b = round; b; b = b->next)
        bytes += b->bytes.len;
    pthread_mutex_unlock(j->lock);
    err = write_round(j, j->write_token, round);
    pthread_mutex_lock(j->lock);
    round_done(j, round, bytes);
    if (!err && sync_is_due(j))
        err = sync_round(j, gate);
    j->write_token->wrote_ms = clock_boot_ms();
    atomic_store(&j->pen_taken, false);
    return err;
}

static bool nothing_to_write(const struct journal *j)
{
    return !j->full && !j->open->bytes.len;
}

static bool all_is_held(const struct journal *j)
{
    return j->last_lsn > j->taken_lsn && atomic_load(&j->wanted_lsn) <= j->taken_lsn && !j->stop;
}

/*
 * The thread is told when there is something left for it, also its end; and when it rests without a
 * time to wake, so that the mark comes.
 */
void journal_write_oneself(struct journal *j, int64_t lsn)
{
    if (atomic_load(&j->pen_taken) || atomic_load(&j->crowded))
        return;
    pthread_mutex_lock(j->lock);
    if (!atomic_load(&j->pen_taken) && !atomic_load(&j->failed) && j->taken_lsn < lsn) {
        write_and_sync(j);
        if (!nothing_to_write(j) || j->stop || j->writer_sleeps || atomic_load(&j->failed))
            pthread_cond_signal(&j->work);
    }
    pthread_mutex_unlock(j->lock);
}

/* The thread. */

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

/* Until it is told that there is something to do. */
static void writer_wait(struct journal *j, int64_t until_ms)
{
    j->writer_rests = true;
    j->writer_sleeps = until_ms == INT64_MAX;
    cond_wait_until(&j->work, j->lock, until_ms);
    j->writer_rests = j->writer_sleeps = false;
}

/* Nothing is to be written or synced now: wait for a record, a sync that falls due, or rest. */
static void writer_rest(struct journal *j)
{
    const struct write_token *p = j->write_token;
    int64_t until_ms = INT64_MAX;

    if (p->since_ms)
        until_ms = p->since_ms + FLUSH_TARGET_MS;
    else if (mark_is_wanted(j))
        until_ms = p->wrote_ms + MARK_AFTER_MS;
    if (!p->since_ms && until_ms <= clock_boot_ms()) {
        put_mark(j);
        return;
    }
    writer_wait(j, until_ms);
}

/* In opportunistic mode nobody waits, so that records may gather and leave with fewer writes. */
static void writer_gather(struct journal *j)
{
    int64_t until_ms = clock_boot_ms() + GATHER_MS;

    if (j->o.mode == LOCAL_OPPORTUNISTIC && !j->stop && j->sync_wanted <= atomic_load(&j->durable))
        cond_wait_until(&j->work, j->lock, until_ms);
}

/* Until the end, or until something fails. Under the lock. */
static void write_rounds(struct journal *j)
{
    while (!atomic_load(&j->failed)) {
        if (atomic_load(&j->pen_taken)) {
            writer_wait(j, INT64_MAX);
        } else if ((!nothing_to_write(j) && !all_is_held(j)) || sync_is_due(j)) {
            if (!write_and_sync(j))
                writer_gather(j);
        } else if (j->stop) {
            break;
        } else {
            writer_rest(j);
        }
    }
}

/* After a failure there may be batches for segments that no record has reached. */
static void close_segments(struct journal *j)
{
    uint64_t last = j->write_token->segment;

    for (const struct batch *b = j->full; b; b = b->next)
        if (b->segment != last)
            j->o.fs->close(j->o.fs, b->fd);
    if (j->open->segment != last)
        j->o.fs->close(j->o.fs, j->open->fd);
    j->o.fs->close(j->o.fs, j->write_token->fd);
}

void *journal_writer_main(void *arg)
{
    struct journal *j = arg;
    const struct batch *first;
    struct write_token write_token = {.wrote_ms = clock_boot_ms()};
    int err;

    pthread_mutex_lock(j->lock);
    first = j->full ? j->full : j->open; /* this thread may start after a segment was filled */
    pthread_mutex_unlock(j->lock);
    err = token_set(j, &write_token, first);
    pthread_mutex_lock(j->lock);
    j->write_token = &write_token;
    atomic_store(&j->pen_taken, false);
    if (!err)
        write_rounds(j);
    while (atomic_load(&j->pen_taken)) /* something failed meanwhile */
        writer_wait(j, INT64_MAX);
    if (!atomic_load(&j->failed) && mark_is_wanted(j)) {
        put_mark(j);
        write_token.since_ms = clock_boot_ms();
        write_and_sync(j);
    }
    close_segments(j);
    pthread_mutex_unlock(j->lock);
    blocks_release(&write_token.blocks);
    return NULL;
}
