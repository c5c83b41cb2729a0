/*
 * Writing rounds.
 *
 * There is one write token. The thread that takes it (under the lock) writes a round, syncs it, and
 * releases it. Mostly that is the writer. In strict mode a caller that waits takes the token itself
 * when it is free: on a quiet store a change then costs a write and a sync, and no thread switch.
 * It writes one round; records that were appended meanwhile are left to the writer. When rounds
 * have many records, all is left to the writer: by the time it wakes, more records share its sync.
 *
 * Opportunistic mode writes every WRITE_EVERY_MS and syncs FLUSHES times in flush_ms. When the
 * oldest record that is not on disk is flush_ms old nevertheless, because the disk is slow,
 * journal_admit() blocks.
 *
 * When nothing was written for MARK_AFTER_MS, a mark is written (not synced, so it is cheap) that
 * proves to the next start that everything before it was on disk.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "keeper/journal/journal_impl.h"
#include "keeper/journal/record.h"

enum {
    SPACE_LEN = 16 * FS_BLOCK_LEN, /* of blocks */
    FLUSHES = 4,                   /* in flush_ms */
    MARK_AFTER_MS = 50,
    WRITE_EVERY_MS = 2,
    CROWD = 8,        /* records in a round */
    AVERAGE_OVER = 8, /* rounds, of round_us, */
    SLOW_US = 4000,   /* where a slower one counts as this: one alone is no slow disk */
};

static off_t block_of(off_t at)
{
    return at - at % FS_BLOCK_LEN;
}

int blocks_begin(struct blocks *b, int fd, off_t at)
{
    ssize_t n;
    if (!b->space)
        b->space = mem_aligned_alloc(FS_BLOCK_LEN, SPACE_LEN);
    b->at = block_of(at);
    do
        n = pread(fd, b->space, FS_BLOCK_LEN, b->at);
    while (n < 0 && errno == EINTR);
    if (n >= 0 && n < at - b->at)
        errno = EIO;
    return n < at - b->at ? -1 : 0;
}

int blocks_append(struct blocks *b, const struct fs *fs, int fd, const void *data, size_t len,
                  off_t at, bool *sync)
{
    const char *p = data;

    assert(block_of(at) == b->at);
    *sync = *sync && fs->pwrite_sync && (size_t)(at - b->at) + len <= SPACE_LEN;
    while (len) {
        size_t before = (size_t)(at - b->at);
        size_t part = len < SPACE_LEN - before ? len : SPACE_LEN - before, end = before + part;
        size_t whole = (end + FS_BLOCK_LEN - 1) / FS_BLOCK_LEN * FS_BLOCK_LEN;
        size_t last = end / FS_BLOCK_LEN * FS_BLOCK_LEN;

        memcpy(b->space + before, p, part);
        memset(b->space + end, 0, whole - end);
        if (fs_write_all(fs, fd, b->space, whole, b->at, *sync) < 0)
            return -1;
        memmove(b->space, b->space + last, end - last);
        b->at += (off_t)last;
        p += part;
        at += (off_t)part;
        len -= part;
    }
    return 0;
}

void blocks_release(struct blocks *b)
{
    free(b->space);
    b->space = NULL;
}

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Always IO. */
static int fail(struct journal *j, const char *what, uint64_t segment)
{
    int errnum = errno;
    char line[512];
    snprintf(line, sizeof line,
             "journal: %s %s/journal-%010llu: %s; nothing more is acknowledged, ending", what,
             j->o.dir, (unsigned long long)segment, strerror(errnum));
    journal_fail(j, line);
    return DROVER_IO;
}

int journal_mark(struct journal *j, bool sync, struct err_info *ret_error)
{
    int err = mark_put(&j->mark, &j->claims, sync, ret_error);
    return err == DROVER_DISK_FULL ? 0 : err;
}

/* Everything that was written is synced. Not under the lock. */
static int mark_written(struct journal *j, bool sync)
{
    struct err_info why;
    int err = journal_mark(j, sync, &why);
    if (err)
        journal_fail(j, why.text);
    return err ? DROVER_IO : 0;
}

struct journal_run *run_new(struct journal *j, const struct journal_run *like, off_t at)
{
    struct journal_run *b = j->spare;
    if (b)
        j->spare = b->next;
    else
        b = mem_zalloc(sizeof *b);
    b->bytes.len = 0; /* its memory is reused */
    *b = (struct journal_run){.bytes = b->bytes,
                              .fd = like->fd,
                              .segment = like->segment,
                              .segment_len = like->segment_len,
                              .at = at};
    return b;
}

/* Takes everything that is not written yet, in order. Under the lock. */
static struct journal_run *take_round(struct journal *j)
{
    struct journal_run *taken = j->first, *last = j->open;
    j->first = j->open = run_new(j, last, last->at + (off_t)last->bytes.len);
    atomic_store(&j->crowded, j->last_lsn - j->taken_lsn > CROWD);
    j->taken_lsn = j->last_lsn;
    if (j->lag) /* 0: only a mark */
        j->last_lag = j->lag;
    j->lag = 0;
    j->pending = 0;
    j->round++;
    return taken;
}

/*
 * Strict mode syncs each write at once, so it bypasses the page cache, and mostly syncs with the
 * write itself (RWF_DSYNC): a tenth faster than a separate sync, with a quarter less CPU time. In
 * the other modes the page cache collects writes that need not be on disk yet.
 */
static int token_set(struct journal *j, struct write_token *p, const struct journal_run *b)
{
    const struct fs *fs = j->o.fs;
    p->fd = b->fd;
    p->segment = b->segment;
    p->direct = j->o.strict && fs->direct && fs->direct(fs, b->fd) == 0;
    if (p->direct && blocks_begin(&p->blocks, b->fd, b->at) < 0)
        return fail(j, "cannot read", b->segment);
    return 0;
}

/* Makes what was written durable, if it is not already. */
static int token_sync(struct journal *j, struct write_token *p)
{
    if (p->dirty && j->o.fs->fdatasync(j->o.fs, p->fd) < 0)
        return fail(j, "cannot sync", p->segment);
    p->since_ms = 0;
    p->dirty = false;
    return 0;
}

/* The old segment must be on disk before the new one shows a record. */
static int token_move(struct journal *j, struct write_token *p, const struct journal_run *b)
{
    if (p->segment == b->segment)
        return 0;
    if (p->dirty)
        TRY(token_sync(j, p));
    j->o.fs->close(j->o.fs, p->fd);
    j->claims.begun = b->segment;
    TRY(token_set(j, p, b));
    return mark_written(j, false);
}

/*
 * A write that syncs itself covers only its own bytes. It is not enough when something before it is
 * not synced yet, such as a mark: the records would be on disk, behind a hole.
 */
static int token_put(struct journal *j, struct write_token *p, const struct journal_run *b)
{
    bool synced = run_has_records(b) && !p->dirty;
    if (!p->direct) {
        p->dirty = true;
        return fs_write_all(j->o.fs, b->fd, b->bytes.p, b->bytes.len, b->at, false);
    }
    if (blocks_append(&p->blocks, j->o.fs, b->fd, b->bytes.p, b->bytes.len, b->at, &synced) < 0)
        return -1;
    p->dirty = !synced;
    return 0;
}

static int write_run(struct journal *j, struct write_token *p, const struct journal_run *b)
{
    TRY(token_move(j, p, b));
    if (token_put(j, p, b) < 0)
        return fail(j, "cannot write", b->segment);
    if (run_has_records(b)) {
        j->claims.lsn = b->last_lsn;
        j->claims.segment = b->segment;
        j->claims.at = (uint64_t)b->at + b->bytes.len;
        p->since_ms = p->since_ms ? p->since_ms : b->since_ms;
    }
    return 0;
}

static int write_round(struct journal *j, struct write_token *p, const struct journal_run *round)
{
    int err = 0;
    for (const struct journal_run *b = round; b; b = b->next) {
        if (!err && b->bytes.len)
            err = write_run(j, p, b);
        if (b->next && b->segment != p->segment) /* full, and nothing of it was written */
            j->o.fs->close(j->o.fs, b->fd);
    }
    return err;
}

static bool sync_is_due(const struct journal *j)
{
    int64_t since_ms = j->write_token->since_ms;
    if (!since_ms)
        return false;
    return j->o.strict || j->stop || j->sync_wanted > journal_durable(j) ||
           clock_boot_ms() >= since_ms + j->o.flush_ms / FLUSHES;
}

static void round_done(struct journal *j, struct journal_run *round)
{
    while (round) {
        struct journal_run *next = round->next;
        j->bytes += round->bytes.len;
        if (round->bytes.cap > JOURNAL_PENDING_MAX)
            buf_release(&round->bytes);
        round->next = j->spare;
        j->spare = round;
        round = next;
    }
    pthread_cond_broadcast(&j->progress);
}

/* When the first record that is not written yet was appended, 0: there is none. */
static int64_t oldest_record_ms(const struct journal *j)
{
    for (const struct journal_run *b = j->first; b; b = b->next)
        if (run_has_records(b))
            return b->since_ms;
    return 0;
}

/* Under the lock, which it releases while it syncs. */
static int sync_round(struct journal *j, unsigned round)
{
    pthread_mutex_unlock(j->lock);
    int err = token_sync(j, j->write_token);
    if (!err)
        gate_raise(j->gate, j->claims.lsn, round);
    pthread_mutex_lock(j->lock);
    if (err)
        return err;
    j->syncs++;
    j->unsynced_since_ms = oldest_record_ms(j);
    pthread_cond_broadcast(&j->progress);
    gate_notify(j->gate);
    return 0;
}

/*
 * Takes the token, which must be free, and releases it. Under the lock, which it releases
 * meanwhile.
 */
static int write_and_sync(struct journal *j)
{
    unsigned number = j->round & 1;
    struct journal_run *round = take_round(j);
    int64_t start_us = now_us();
    uint64_t syncs = j->syncs;
    atomic_store(&j->token_taken, true);
    pthread_mutex_unlock(j->lock);
    int err = write_round(j, j->write_token, round);
    pthread_mutex_lock(j->lock);
    round_done(j, round);
    if (!err && sync_is_due(j))
        err = sync_round(j, number);
    j->write_token->wrote_ms = clock_boot_ms();
    int64_t took_us = now_us() - start_us;
    histogram_add(&j->rounds, (uint64_t)took_us * 1000);
    if (j->syncs > syncs)
        summary_add(&j->sync_ms, took_us / 1000);
    j->round_us += ((took_us < SLOW_US ? took_us : SLOW_US) - j->round_us) / AVERAGE_OVER;
    atomic_store(&j->token_taken, false);
    return err;
}

static bool nothing_to_write(const struct journal *j)
{
    return j->first == j->open && !j->open->bytes.len;
}

static bool all_is_deferred(const struct journal *j)
{
    return j->last_lsn > j->taken_lsn && atomic_load(&j->released_lsn) <= j->taken_lsn && !j->stop;
}

/*
 * Signals the writer if something is left for it, also its end; and if it sleeps without a timeout,
 * so that it writes the mark.
 */
void journal_write_round(struct journal *j)
{
    write_and_sync(j);
    if (!nothing_to_write(j) || j->stop || j->writer_sleeps || journal_failed(j))
        pthread_cond_signal(&j->work);
}

/* The writer. */

/* Appends a mark to records that are on disk, if the segment has room for it. */
static void put_mark(struct journal *j)
{
    j->marked_lsn = j->last_lsn;
    if (journal_room(j) >= RECORD_HEADER_LEN)
        record_put_mark(&j->open->bytes, j->salt, j->last_lsn);
}

static bool mark_is_wanted(const struct journal *j)
{
    return j->marked_lsn < j->last_lsn && journal_durable(j) == j->last_lsn;
}

/* Until it is signalled, or until_ms. */
static void writer_wait(struct journal *j, int64_t until_ms)
{
    j->writer_waits = true;
    j->writer_sleeps = until_ms == INT64_MAX;
    cond_wait_until(&j->work, j->lock, until_ms);
    j->writer_waits = j->writer_sleeps = false;
}

/* Nothing is to be written or synced now: waits for a record, or until a sync or a mark is due. */
static void writer_rest(struct journal *j)
{
    const struct write_token *p = j->write_token;
    if (p->since_ms)
        writer_wait(j, p->since_ms + j->o.flush_ms / FLUSHES);
    else if (!mark_is_wanted(j))
        writer_wait(j, INT64_MAX);
    else if (clock_boot_ms() < p->wrote_ms + MARK_AFTER_MS)
        writer_wait(j, p->wrote_ms + MARK_AFTER_MS);
    else
        put_mark(j);
}

/* In opportunistic mode no answer waits: lets records accumulate, for fewer writes. */
static void writer_pause(struct journal *j)
{
    if (!j->o.strict && !j->stop && j->sync_wanted <= journal_durable(j))
        cond_wait_until(&j->work, j->lock, clock_boot_ms() + WRITE_EVERY_MS);
}

/* Until journal_close(), or a failure. Under the lock. */
static void write_rounds(struct journal *j)
{
    while (!journal_failed(j)) {
        if (atomic_load(&j->token_taken)) {
            writer_wait(j, INT64_MAX);
        } else if ((!nothing_to_write(j) && !all_is_deferred(j)) || sync_is_due(j)) {
            if (!write_and_sync(j))
                writer_pause(j);
        } else if (j->stop) {
            break;
        } else {
            writer_rest(j);
        }
    }
}

/* After a failure there may be runs of segments that nothing was written to. */
static void close_segments(struct journal *j)
{
    uint64_t last = j->write_token->segment;
    for (const struct journal_run *b = j->first; b; b = b->next)
        if (b->segment != last)
            j->o.fs->close(j->o.fs, b->fd);
    j->o.fs->close(j->o.fs, j->write_token->fd);
}

void *journal_writer_main(void *arg)
{
    struct journal *j = arg;
    struct write_token write_token = {.wrote_ms = clock_boot_ms()};

    pthread_mutex_lock(j->lock); /* a segment may have filled up before this thread started */
    const struct journal_run *first = j->first;
    pthread_mutex_unlock(j->lock);
    int err = token_set(j, &write_token, first);
    pthread_mutex_lock(j->lock);
    j->write_token = &write_token;
    atomic_store(&j->token_taken, false);
    if (!err)
        write_rounds(j);
    while (atomic_load(&j->token_taken)) /* a caller writes, after a failure */
        writer_wait(j, INT64_MAX);
    if (!journal_failed(j) && mark_is_wanted(j)) {
        put_mark(j);
        write_token.since_ms = clock_boot_ms();
        write_and_sync(j);
    }
    close_segments(j);
    pthread_mutex_unlock(j->lock);
    if (!journal_failed(j) && journal_durable(j) == j->claims.lsn) {
        j->claims.sealed = j->claims.begun;
        mark_written(j, true);
    }
    blocks_release(&write_token.blocks);
    return NULL;
}
