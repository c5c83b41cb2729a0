/*
 * Group commit.
 *
 * Records gather in the open batch. Who writes (journal_write.c) takes it as a round, with the batches of
 * segments that filled up meanwhile before it, writes, syncs, and raises `durable`. Who waits sleeps on
 * one of two futexes: the round under way has one, the round that gathers has the other, so that a
 * finished round wakes exactly those whom it concerns. (A condition variable woke everybody twice and
 * made them queue for its mutex.)
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "keeper/journal/format.h"
#include "keeper/journal/journal_impl.h"
#include "keeper/journal/record.h"
#include "keeper/journal/segment.h"

enum {
    RETRY_FULL_DISK_MS = 200,
    YIELDS = 3,
    HOLD_FROM = 16, /* records that were not on disk at a time: with fewer, to wait costs more */
    HOLD_MAX = 64,  /* records that are held: more gain nothing */
};

void journal_open_gate(struct journal *j, unsigned gate)
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
    journal_open_gate(j, 0);
    journal_open_gate(j, 1);
}

/* Makes the segment that comes next. Under the lock, which it releases while it does. */
static void prepare_next(struct journal *j)
{
    struct err_info why;
    uint64_t number = j->prepared;
    int fd, err;

    pthread_mutex_unlock(j->lock);
    err = segment_make(j->o.fs, j->o.dir, j->o.store, number, j->o.segment_len, &fd, &why);
    if (err && err != DROVER_DISK_FULL)
        journal_fail(j, why.text); /* before others learn of it, who know less */
    pthread_mutex_lock(j->lock);
    j->prepare_error = err;
    if (!err)
        j->prepared_fd = fd;
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
    atomic_init(&j->pen_taken, true); /* until the thread has it ready */
    err = segment_make(o->fs, o->dir, o->store, o->segment, o->segment_len, &fd, ret_error);
    if (err)
        return err;
    j->salt = record_salt(o->store);
    j->first_segment = o->oldest;
    j->last_lsn = j->taken_lsn = j->marked_lsn = o->last_lsn;
    atomic_init(&j->durable, o->last_lsn);
    atomic_init(&j->wanted_lsn, o->last_lsn);
    j->full_end = &j->full;
    j->open = batch_new(j, fd, o->segment, FORMAT_HEADER_LEN);
    cond_init(&j->work);
    cond_init(&j->room);
    cond_init(&j->prepare);
    thread_must_start(&j->writer, "journal-write", journal_writer_main, j);
    thread_must_start(&j->preparer, "journal-prepare", preparer_main, j);
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
        if (j->pending > JOURNAL_PENDING_MAX || disk_is_late(j)) {
            journal_want(j);
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

/* One that was told is not told again. */
static void tell_writer(struct journal *j)
{
    if (!j->writer_rests)
        return;
    j->writer_rests = false;
    pthread_cond_signal(&j->work);
}

static bool may_be_held(const struct journal *j)
{
    return j->holds && j->last_lag > HOLD_FROM && j->last_lsn - j->taken_lsn < HOLD_MAX;
}

void journal_append(struct journal *j, const struct changes *c, enum journal_care care)
{
    struct batch *b = j->open;
    size_t before = b->bytes.len;
    int64_t lag = c->zxid - atomic_load(&j->durable);

    assert(c->zxid == j->last_lsn + 1);
    if (!batch_has_records(b)) {
        b->since_ms = clock_boot_ms();
        if (!j->unsynced_since_ms)
            j->unsynced_since_ms = b->since_ms;
    }
    record_put_changes(&b->bytes, j->salt, c, lag);
    b->last_lsn = j->last_lsn = c->zxid;
    j->pending += b->bytes.len - before;
    j->records++;
    if (j->lag < lag)
        j->lag = lag;
    if (care == JOURNAL_HELD && may_be_held(j))
        return;
    atomic_store(&j->wanted_lsn, c->zxid);
    if (care != JOURNAL_WAITED || j->o.mode != LOCAL_STRICT || atomic_load(&j->crowded))
        tell_writer(j);
}

void journal_hold(struct journal *j, bool holds)
{
    j->holds = holds && j->o.mode == LOCAL_STRICT;
    if (!holds)
        journal_want(j);
}

int64_t journal_held(const struct journal *j)
{
    return j->last_lsn - atomic_load(&j->wanted_lsn);
}

void journal_want(struct journal *j)
{
    if (!journal_held(j))
        return;
    atomic_store(&j->wanted_lsn, j->last_lsn);
    tell_writer(j);
}

struct journal_ticket journal_ticket(const struct journal *j, int64_t lsn)
{
    /* In a round that was taken, or in the one that gathers. */
    uint32_t round = lsn <= j->taken_lsn ? j->round - 1 : j->round;

    return (struct journal_ticket){lsn, round & 1};
}

/*
 * Where many wait, others have changes of their own to make before the disk answers. Letting them go first
 * costs less than to sleep and be woken, and when the turn comes back the round is often on disk.
 */
static void let_others_go_first(const struct journal *j, int64_t lsn)
{
    if (!atomic_load(&j->crowded))
        return;
    for (int i = 0; i < YIELDS && atomic_load(&j->durable) < lsn; i++)
        sched_yield();
}

static int wait_for(struct journal *j, struct journal_ticket t)
{
    let_others_go_first(j, t.lsn);
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
    if (atomic_load(&j->durable) < t.lsn)
        journal_write_oneself(j, t.lsn);
    if (atomic_load(&j->wanted_lsn) < t.lsn) {
        pthread_mutex_lock(j->lock);
        journal_want(j);
        pthread_mutex_unlock(j->lock);
    }
    return wait_for(j, t);
}

int journal_wait_durable(struct journal *j, int64_t lsn)
{
    struct journal_ticket t;

    pthread_mutex_lock(j->lock);
    t = journal_ticket(j, lsn);
    if (j->sync_wanted < lsn)
        j->sync_wanted = lsn;
    journal_want(j);
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
