/*
 * Snapshots while changes go on.
 *
 * The journal starts a new segment; then the nodes are written in the order of their numbers, one
 * slice at a time under the lock. Changes that a slice misses are in the journal from that segment
 * on. The journal must be synced up to the last transaction that a slice may have seen before the
 * file gets its name. Otherwise a crash could leave a snapshot with half of a transaction that the
 * journal lost.
 *
 * Two snapshots are kept, and the segments from the one that the older snapshot names. A damaged
 * snapshot thus costs time and nothing else.
 */
#include "base/thread.h"
#include "keeper/journal/snapshot.h"
#include "keeper/local/engine.h"

enum { SLICE_BYTES = 64 * 1024 };

static int write_content(struct local *l, struct snapshot_writer *w, struct err_info *ret_error)
{
    for (bool more = true; more;) {
        pthread_mutex_lock(&l->lock);
        more = snapshot_put(w, &l->tree, SLICE_BYTES);
        pthread_mutex_unlock(&l->lock);
        TRY(snapshot_flush(w, ret_error));
    }
    pthread_mutex_lock(&l->lock);
    int64_t seen = l->tree.zxid;
    pthread_mutex_unlock(&l->lock);
    if (gate_wait_synced(&l->gate, seen))
        return err_set(ret_error, DROVER_IO, "the journal has failed");
    return snapshot_end(w, seen, ret_error);
}

static int write_file(struct local *l, const struct format_header *header,
                      struct err_info *ret_error)
{
    struct snapshot_writer w;
    int err = snapshot_begin(&w, l->o.fs, l->dir, header, ret_error);
    if (!err)
        err = write_content(l, &w, ret_error);
    if (err)
        snapshot_abandon(&w);
    return err;
}

/* `header` is now the newest snapshot; the previous one is kept too. */
static int retire(struct local *l, const struct format_header *header, struct err_info *ret_error)
{
    uint64_t before = (uint64_t)l->snapshot_zxid, before_segment = l->snapshot_segment;
    pthread_mutex_lock(&l->lock);
    l->snapshot_zxid = (int64_t)header->number;
    l->snapshot_segment = header->replay_from;
    l->snapshots_done++;
    pthread_mutex_unlock(&l->lock);
    if (!before)
        return 0;
    TRY(format_remove_before(l->o.fs, l->dir, FORMAT_SNAPSHOT, before, ret_error));
    return format_remove_before(l->o.fs, l->dir, FORMAT_SEGMENT, before_segment, ret_error);
}

static void note_full_disk(const struct local *l, const char *why)
{
    CLEANUP(buf_release) struct buf line = {0};
    buf_printf(&line, "snapshot: %s; the journal is kept, trying again later", why);
    if (l->o.note)
        l->o.note(l->o.arg, buf_text(&line));
}

/* Under the lock, which it releases while it works. */
static int checkpoint(struct local *l)
{
    struct format_header header = {.kind = FORMAT_SNAPSHOT, .store = l->journal.o.store};
    struct err_info why = {"the disk is full"};

    l->since_snapshot = 0;
    if (atomic_load(&l->gate.failed))
        return DROVER_IO;
    if (l->tree.zxid == l->snapshot_zxid)
        return 0;
    int err = journal_rotate(&l->journal, &header.replay_from);
    header.number = (uint64_t)l->tree.zxid;
    pthread_mutex_unlock(&l->lock);
    if (!err)
        err = write_file(l, &header, &why);
    if (!err)
        err = retire(l, &header, &why);
    if (err == DROVER_DISK_FULL)
        note_full_disk(l, why.text);
    else if (err)
        journal_fail(&l->journal, why.text);
    pthread_mutex_lock(&l->lock);
    return err;
}

void *checkpoint_main(void *arg)
{
    struct local *l = arg;
    LOCKED(&l->lock);
    while (!l->stop) {
        uint64_t asked = l->snapshots_wanted;
        if (l->snapshots_tried == asked && !checkpoint_is_due(l)) {
            pthread_cond_wait(&l->snapshot, &l->lock);
            continue;
        }
        l->snapshotting = true;
        l->snapshot_error = checkpoint(l);
        l->snapshotting = false;
        l->snapshots_tried = asked;
        pthread_cond_broadcast(&l->snapshot);
    }
    return NULL;
}

bool local_snapshotting(struct local *l)
{
    LOCKED(&l->lock);
    return l->snapshotting || l->snapshots_tried < l->snapshots_wanted;
}

int local_snapshot(struct local *l)
{
    if (!engine_has_journal(l))
        return DROVER_BAD_ARGUMENT;
    LOCKED(&l->lock);
    uint64_t mine = ++l->snapshots_wanted;
    pthread_cond_broadcast(&l->snapshot);
    while (l->snapshots_tried < mine && !l->stop)
        pthread_cond_wait(&l->snapshot, &l->lock);
    return l->stop ? DROVER_CLOSED : l->snapshot_error;
}
