/*
 * Group commit.
 *
 * Records are appended to the open run. Whoever writes (journal_write.c) takes it as a round,
 * preceded by the runs of segments that filled up meanwhile, writes, syncs, and raises the gate.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "keeper/journal/format.h"
#include "keeper/journal/journal_impl.h"
#include "keeper/journal/record.h"
#include "keeper/journal/recover.h"

enum {
    START_PART = 64, /* of a segment: room for what a start writes */
    SHARE_FROM = 16, /* records not on disk at once: with fewer, waiting for others costs more */
    SHARE_MAX = 64,  /* deferred records: more gain nothing */
    FAST_ROUND_US = 1000, /* a round that a loop may wait for */
};

void journal_fail(struct journal *j, const char *line)
{
    if (!gate_shut(j->gate))
        return;
    j->o.fatal(j->o.arg, line);
    pthread_mutex_lock(j->lock);
    pthread_cond_broadcast(&j->progress);
    pthread_cond_broadcast(&j->prepare);
    gate_notify(j->gate);
    pthread_mutex_unlock(j->lock);
    gate_wake_all(j->gate);
}

/* The last segment of the run before has enough room for a start. */
static bool may_reuse(const struct journal *j)
{
    const struct recover_segment *last = j->o.last;
    return last && last->file_len - last->valid_len >= j->o.segment_len / START_PART;
}

/*
 * On a full disk the last segment takes the next records, or a piece of the reserve does. Changes
 * that add are refused from the start.
 */
static int first_when_full(struct journal *j, struct journal_run *ret_run,
                           struct err_info *ret_error)
{
    const struct journal_options *o = &j->o;
    struct journal_run run = {.segment = o->segment, .segment_len = j->reserve.piece_len};
    if (may_reuse(j) && !recover_reuse(o->fs, o->dir, o->last, &run.fd, ret_error)) {
        run.segment = o->last->number;
        run.segment_len = o->last->file_len;
        run.at = (off_t)o->last->valid_len;
    } else if (j->reserve.count) {
        TRY(reserve_take(&j->reserve, o->segment, &run.fd, ret_error));
    } else {
        return err_set(ret_error, DROVER_DISK_FULL, "%s", j->prepare_why.text);
    }
    *ret_run = run;
    return 0;
}

/* Where the first record goes. */
static int make_first(struct journal *j, struct journal_run *ret_run, struct err_info *ret_error)
{
    const struct journal_options *o = &j->o;
    struct journal_run run = {.segment = o->segment, .segment_len = o->segment_len};
    int err = segment_make(o->fs, o->dir, o->mark.store, o->segment, o->segment_len, &run.fd,
                           &j->prepare_why);
    if (err && err != DROVER_DISK_FULL)
        return err_set(ret_error, err, "%s", j->prepare_why.text);
    j->prepare_error = err;
    if (err)
        TRY(first_when_full(j, &run, ret_error));
    if (!run.at && o->last) {
        err = recover_cut(o->fs, o->dir, o->last, ret_error);
        if (err) {
            o->fs->close(o->fs, run.fd);
            return err;
        }
    }
    run.at = run.at ? run.at : FORMAT_HEADER_LEN;
    *ret_run = run;
    return 0;
}

int journal_open(struct journal *j, const struct journal_options *o, struct gate *gate,
                 struct err_info *ret_error)
{
    struct journal_run first;
    *j = (struct journal){.o = *o, .gate = gate, .lock = gate->lock, .prepared_fd = -1};
    j->mark = (struct mark_file){.fs = o->fs, .dir = o->dir, .fd = -1};
    histogram_init(&j->rounds, &HISTOGRAM_LATENCY);
    atomic_init(&j->token_taken, true); /* until the writer has initialised it */
    reserve_open(&j->reserve, o->fs, o->dir, o->mark.store, o->segment_len);
    TRY(make_first(j, &first, ret_error));
    j->o.last = NULL; /* borrowed for this call */
    j->reserved = j->reserve.count;
    j->prepared = first.segment + 1;
    j->claims = o->mark;
    j->claims.begun = first.segment;
    int err = journal_mark(j, true, ret_error);
    if (err) {
        o->fs->close(o->fs, first.fd);
        mark_close(&j->mark);
        return err;
    }
    j->salt = record_salt(o->mark.store);
    j->last_lsn = j->taken_lsn = j->marked_lsn = o->mark.lsn;
    atomic_init(&j->released_lsn, o->mark.lsn);
    gate->journal = j;
    gate->strict = o->strict;
    atomic_store(&gate->durable, o->mark.lsn);
    j->first = j->open = run_new(j, &first, first.at);
    cond_init(&j->work);
    cond_init(&j->progress);
    cond_init(&j->prepare);
    thread_must_start(&j->writer, "journal-write", journal_writer_main, j);
    thread_must_start(&j->preparer, "journal-prepare", journal_preparer_main, j);
    return 0;
}

static void runs_free(struct journal_run *b)
{
    while (b) {
        struct journal_run *next = b->next;
        buf_release(&b->bytes);
        free(b);
        b = next;
    }
}

/* The next segment was not needed. */
static void drop_prepared(struct journal *j)
{
    CLEANUP(mem_free) char *path = format_path(j->o.dir, FORMAT_SEGMENT, j->prepared);
    if (j->prepared_fd < 0)
        return;
    j->o.fs->close(j->o.fs, j->prepared_fd);
    if (j->prepared_len == j->reserve.piece_len && j->reserve.count < RESERVE_PIECES)
        reserve_put_back(&j->reserve, j->prepared);
    else
        j->o.fs->unlink(j->o.fs, path);
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
    drop_prepared(j);
    mark_close(&j->mark);
    runs_free(j->first);
    runs_free(j->spare);
    pthread_cond_destroy(&j->work);
    pthread_cond_destroy(&j->progress);
    pthread_cond_destroy(&j->prepare);
}

/* The open run ends with its segment; the prepared segment begins. */
static void next_segment(struct journal *j)
{
    struct journal_run next = {
        .fd = j->prepared_fd, .segment = j->prepared, .segment_len = j->prepared_len};
    j->open->next = run_new(j, &next, FORMAT_HEADER_LEN);
    j->open = j->open->next;
    j->prepared_fd = -1;
    j->prepared++;
    pthread_cond_signal(&j->prepare);
    pthread_cond_signal(&j->work);
}

static bool disk_is_late(const struct journal *j)
{
    return !j->o.strict && j->unsynced_since_ms &&
           clock_boot_ms() > j->unsynced_since_ms + j->o.flush_ms;
}

/* Once is enough: it does not wait again before it has looked. */
static void signal_writer(struct journal *j)
{
    if (!j->writer_waits)
        return;
    j->writer_waits = false;
    pthread_cond_signal(&j->work);
}

/* Leaves the deferred records to the writer. */
static void release_deferred(struct journal *j)
{
    if (!journal_deferred(j))
        return;
    atomic_store(&j->released_lsn, j->last_lsn);
    signal_writer(j);
}

/* During a shortage the next segment may be a piece: it is not begun for what does not fit. */
static bool may_begin_next(const struct journal *j, size_t record_len)
{
    return j->prepared_fd >= 0 &&
           (!j->prepare_error || record_len <= j->prepared_len - FORMAT_HEADER_LEN);
}

int journal_admit(struct journal *j, size_t record_len, enum reserve_use use)
{
    if (record_len > j->o.segment_len - FORMAT_HEADER_LEN)
        return DROVER_TOO_BIG;
    for (;;) {
        if (journal_failed(j))
            return DROVER_IO;
        if (j->pending > JOURNAL_PENDING_MAX || disk_is_late(j)) {
            release_deferred(j);
            pthread_cond_signal(&j->work);
            pthread_cond_wait(&j->progress, j->lock);
            continue;
        }
        if (use == RESERVE_GROWS && journal_shortage(j))
            return j->prepare_error;
        if (record_len <= journal_room(j))
            return 0;
        if (may_begin_next(j, record_len))
            next_segment(j);
        else if (j->prepare_error && !journal_want_piece(j, record_len, use))
            return j->prepare_error;
        else
            pthread_cond_wait(&j->progress, j->lock);
    }
}

static bool may_share(const struct journal *j)
{
    return j->last_lag > SHARE_FROM && j->last_lsn - j->taken_lsn < SHARE_MAX;
}

/* The only record, nothing being written, and a disk that answers quickly. */
static bool may_write_alone(const struct journal *j)
{
    return j->last_lag <= 1 && j->last_lsn == j->taken_lsn + 1 && !atomic_load(&j->token_taken) &&
           j->round_us < FAST_ROUND_US;
}

void journal_append(struct journal *j, const struct tree_changes *c, enum journal_writer who)
{
    struct journal_run *b = j->open;
    size_t before = b->bytes.len;
    int64_t lag = c->zxid - journal_durable(j);

    assert(c->zxid == j->last_lsn + 1);
    if (!run_has_records(b)) {
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
    if (who == JOURNAL_DEFER && j->defers && (may_share(j) || may_write_alone(j)))
        return;
    atomic_store(&j->released_lsn, c->zxid);
    if (who != JOURNAL_WAITER || !j->o.strict || atomic_load(&j->crowded))
        signal_writer(j);
}

void journal_set_defers(struct journal *j, bool defers)
{
    j->defers = defers && j->o.strict;
    if (!defers)
        release_deferred(j);
}

int64_t journal_deferred(const struct journal *j)
{
    return j->last_lsn - atomic_load(&j->released_lsn);
}

bool journal_write_deferred(struct journal *j)
{
    if (!journal_deferred(j))
        return false;
    if (!may_write_alone(j) || journal_failed(j)) {
        release_deferred(j);
        return false;
    }
    atomic_store(&j->released_lsn, j->last_lsn);
    journal_write_round(j);
    return true;
}

unsigned journal_round(const struct journal *j, int64_t lsn)
{
    /* In a round that was taken, or in the open one. */
    return (lsn <= j->taken_lsn ? j->round - 1 : j->round) & 1;
}

void journal_hasten(struct journal *j, int64_t lsn)
{
    if (!atomic_load(&j->token_taken) && !atomic_load(&j->crowded)) {
        LOCKED(j->lock);
        if (!atomic_load(&j->token_taken) && !journal_failed(j) && j->taken_lsn < lsn)
            journal_write_round(j);
    }
    if (atomic_load(&j->released_lsn) < lsn) {
        LOCKED(j->lock);
        release_deferred(j);
    }
}

struct gate_ticket journal_request_sync(struct journal *j, int64_t lsn)
{
    LOCKED(j->lock);
    if (j->sync_wanted < lsn)
        j->sync_wanted = lsn;
    release_deferred(j);
    pthread_cond_signal(&j->work);
    return (struct gate_ticket){lsn, journal_round(j, lsn)};
}

int journal_rotate(struct journal *j, uint64_t *ret_segment)
{
    if (j->open->at + (off_t)j->open->bytes.len == FORMAT_HEADER_LEN) { /* it has no records */
        *ret_segment = j->open->segment;
        return 0;
    }
    while (j->prepared_fd < 0 && !journal_failed(j)) {
        if (j->prepare_error && !journal_want_piece(j, 0, RESERVE_FREES))
            return j->prepare_error;
        pthread_cond_wait(&j->progress, j->lock);
    }
    if (journal_failed(j))
        return DROVER_IO;
    next_segment(j);
    *ret_segment = j->open->segment;
    return 0;
}

uint64_t journal_segment(const struct journal *j)
{
    return j->open->segment;
}
