/*
 * The preparer: a thread that makes the reserve and the next segment ahead of need, and makes a
 * piece of the reserve the next segment when there is no room for one.
 *
 * Without room it tries again every RETRY_MS. prepare_error stays until everything is made, so a
 * shortage does not seem to end when a part of it succeeds.
 */
#include "base/clock.h"
#include "base/thread.h"
#include "keeper/journal/format.h"
#include "keeper/journal/journal_impl.h"
#include "keeper/journal/record.h"

enum { RETRY_MS = 200 };

/* With less room in the open segment, the largest changes would be refused and others not. */
static size_t ample_room(const struct journal *j)
{
    size_t largest = record_bound(RECORD_MAX), half = j->o.segment_len / 2;
    return largest < half ? largest : half;
}

int journal_shortage(const struct journal *j)
{
    bool ample = j->reserved == RESERVE_PIECES && journal_room(j) >= ample_room(j);
    return ample ? 0 : j->prepare_error;
}

bool journal_want_piece(struct journal *j, size_t record_len, enum reserve_use use)
{
    if (j->prepare_error != DROVER_DISK_FULL || j->prepared_fd >= 0 ||
        !reserve_allows(use, j->reserved) || record_len > j->reserve.piece_len - FORMAT_HEADER_LEN)
        return false;
    j->piece_wanted = true;
    pthread_cond_signal(&j->prepare);
    return true;
}

static bool is_incomplete(const struct journal *j)
{
    return j->reserved < RESERVE_PIECES || j->prepared_fd < 0;
}

/* Makes one file: a piece if one is missing, else the next segment. Returns its length. */
static size_t make_file(struct journal *j, int *ret_fd, int *ret_err, struct err_info *ret_why)
{
    const struct journal_options *o = &j->o;
    *ret_fd = -1;
    if (j->reserve.count < RESERVE_PIECES) {
        *ret_err = reserve_make(&j->reserve, ret_why);
        return j->reserve.piece_len;
    }
    *ret_err =
        segment_make(o->fs, o->dir, o->mark.store, j->prepared, o->segment_len, ret_fd, ret_why);
    return o->segment_len;
}

static size_t take_piece(struct journal *j, int *ret_fd, int *ret_err, struct err_info *ret_why)
{
    *ret_fd = -1;
    *ret_err = reserve_take(&j->reserve, j->prepared, ret_fd, ret_why);
    return j->reserve.piece_len;
}

/* Makes a file without the lock, and reports the result. */
static void prepare(struct journal *j,
                    size_t (*make)(struct journal *, int *, int *, struct err_info *))
{
    struct err_info why;
    int fd, err;
    pthread_mutex_unlock(j->lock);
    size_t len = make(j, &fd, &err, &why);
    if (err && !err_is_shortage(err))
        journal_fail(j, why.text); /* first: callers that see prepare_error know no reason */
    pthread_mutex_lock(j->lock);
    j->reserved = j->reserve.count;
    if (fd >= 0) {
        j->prepared_fd = fd;
        j->prepared_len = len;
    }
    if (err) {
        j->prepare_error = err;
        j->prepare_why = why;
        j->prepare_due_ms = clock_boot_ms() + RETRY_MS;
    } else if (!is_incomplete(j)) {
        j->prepare_error = 0;
    }
    pthread_cond_broadcast(&j->progress);
}

static void yield_room(struct journal *j)
{
    pthread_mutex_unlock(j->lock);
    reserve_release(&j->reserve);
    pthread_mutex_lock(j->lock);
    j->reserved = j->reserve.count;
    j->yielded = true;
    pthread_cond_broadcast(&j->progress);
}

void journal_yield(struct journal *j)
{
    j->yields = true;
    pthread_cond_signal(&j->prepare);
    while (!j->yielded && !j->stop && !journal_failed(j))
        pthread_cond_wait(&j->progress, j->lock);
}

void journal_resume(struct journal *j)
{
    j->yields = j->yielded = false;
    pthread_cond_signal(&j->prepare);
}

static void tell_shortage(struct journal *j)
{
    int shortage = journal_shortage(j);
    if (shortage == j->shortage_told)
        return;
    j->shortage_told = shortage;
    j->o.shortage_changed(j->o.shortage_arg);
}

static void step(struct journal *j)
{
    bool makes = !j->yields && is_incomplete(j);
    if (j->piece_wanted && j->prepared_fd < 0) {
        j->piece_wanted = false;
        prepare(j, take_piece);
    } else if (j->yields && !j->yielded) {
        yield_room(j);
    } else if (makes && clock_boot_ms() >= j->prepare_due_ms) {
        prepare(j, make_file);
    } else {
        cond_wait_until(&j->prepare, j->lock, makes ? j->prepare_due_ms : INT64_MAX);
    }
}

void *journal_preparer_main(void *arg)
{
    struct journal *j = arg;
    LOCKED(j->lock);
    while (!j->stop && !journal_failed(j)) {
        tell_shortage(j);
        step(j);
    }
    return NULL;
}
