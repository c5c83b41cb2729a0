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
 *
 * On a full disk a snapshot is what makes room: it replaces the journal. So one is taken, also
 * without a request, when that would free a segment and there is room for it. It may use the room
 * of the reserve; if that is not enough, the older snapshot goes first, once the newer one was read
 * and is whole. Afterwards one snapshot is kept, and the reserve is made again.
 */
#include "keeper/local/engine.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "keeper/journal/format.h"
#include "keeper/journal/snapshot.h"

enum {
    SLICE_BYTES = 64 * 1024, /* of a snapshot, under the lock */
    RELIEF_EVERY_MS = 1000,
    RELIEF_AFTER_FAILURE_MS = 10 * 1000,
    USED_PIECES = 2, /* one of the reserve stays, one is the new segment */
};

bool checkpoint_is_due(const struct local *l)
{
    return l->since_snapshot >= l->o.snapshot_every &&
           l->since_snapshot >= (int64_t)l->tree.nodes.count;
}

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

/* Removes the snapshots before this one and the segments before the one that it names. */
static int remove_before(struct local *l, uint64_t snapshot, uint64_t segment,
                         struct err_info *ret_error)
{
    if (!snapshot)
        return 0;
    TRY(format_remove_before(l->o.fs, l->dir, FORMAT_SNAPSHOT, snapshot, ret_error));
    return format_remove_before(l->o.fs, l->dir, FORMAT_SEGMENT, segment, ret_error);
}

/* `header` is now the newest snapshot; the previous one is kept too, unless room is short. */
static int retire(struct local *l, const struct format_header *header, bool is_short,
                  struct err_info *ret_error)
{
    uint64_t before = (uint64_t)l->stats.snapshot_zxid, before_segment = l->snapshot_segment;
    pthread_mutex_lock(&l->lock);
    l->stats.snapshot_zxid = (int64_t)header->number;
    l->snapshot_segment = header->replay_from;
    l->stats.snapshots++;
    l->stats.snapshot_ms = l->o.wall_ms(l->o.arg);
    pthread_mutex_unlock(&l->lock);
    return is_short ? remove_before(l, header->number, header->replay_from, ret_error)
                    : remove_before(l, before, before_segment, ret_error);
}

/* Whether the newest snapshot can be read, as far as its sums tell. */
static bool newest_is_whole(const struct local *l)
{
    CLEANUP(mem_free)
    char *path = format_path(l->dir, FORMAT_SNAPSHOT, (uint64_t)l->stats.snapshot_zxid);
    CLEANUP(mem_free) char *piece = mem_alloc(SLICE_BYTES);
    struct snapshot_checker c = {0};
    FILE *in = fopen(path, "rbe");
    bool whole = in;
    for (size_t len; whole && (len = fread(piece, 1, SLICE_BYTES, in)) > 0;)
        whole = snapshot_check(&c, (struct str){piece, len});
    whole = whole && c.ended && !ferror(in);
    if (in)
        fclose(in);
    return whole;
}

/* Without the lock. The older snapshot is a spare: it goes if a new one needs its room. */
static int write_when_short(struct local *l, const struct format_header *header,
                            struct err_info *ret_error)
{
    pthread_mutex_lock(&l->lock);
    journal_yield(&l->journal);
    pthread_mutex_unlock(&l->lock);
    int err = write_file(l, header, ret_error);
    if (err == DROVER_DISK_FULL && l->stats.snapshot_zxid && newest_is_whole(l)) {
        err = remove_before(l, (uint64_t)l->stats.snapshot_zxid, l->snapshot_segment, ret_error);
        if (!err)
            err = write_file(l, header, ret_error);
    }
    if (!err)
        err = retire(l, header, true, ret_error);
    pthread_mutex_lock(&l->lock);
    journal_resume(&l->journal);
    pthread_mutex_unlock(&l->lock);
    return err;
}

/* Bytes on disk of the files of a kind whose numbers are lower. */
static uint64_t bytes_before(const struct local *l, const struct format_dir *files,
                             enum format_kind kind, uint64_t number)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < files->files[kind].count; i++) {
        CLEANUP(mem_free) char *path = format_path(l->dir, kind, files->files[kind].numbers[i]);
        struct stat st;
        if (files->files[kind].numbers[i] < number && !stat(path, &st))
            bytes += (uint64_t)st.st_size;
    }
    return bytes;
}

/* Whether a snapshot would fit and then free more than a segment. Releases the lock. */
static bool would_make_room(struct local *l)
{
    CLEANUP(format_dir_release) struct format_dir files = {0};
    uint64_t size = tree_size(&l->tree), segment = journal_segment(&l->journal);
    unsigned pieces = l->journal.reserved > USED_PIECES ? l->journal.reserved - USED_PIECES : 0;
    uint64_t reserve = (uint64_t)pieces * l->journal.reserve.piece_len;
    struct statvfs fs;
    pthread_mutex_unlock(&l->lock);
    bool known = !format_dir_read(l->dir, &files, NULL) && !statvfs(l->dir, &fs);
    uint64_t now = bytes_before(l, &files, FORMAT_SEGMENT, segment + 1) +
                   bytes_before(l, &files, FORMAT_SNAPSHOT, UINT64_MAX);
    uint64_t spare = bytes_before(l, &files, FORMAT_SEGMENT, l->snapshot_segment) +
                     bytes_before(l, &files, FORMAT_SNAPSHOT, (uint64_t)l->stats.snapshot_zxid);
    pthread_mutex_lock(&l->lock);
    return known && now > size + l->o.segment_len &&
           size < (uint64_t)fs.f_bavail * fs.f_frsize + reserve + spare;
}

static void note_shortage(const struct local *l, const char *why)
{
    CLEANUP(buf_release) struct buf line = {0};
    buf_printf(&line, "snapshot: %s; the journal is kept, trying again later", why);
    if (l->o.note)
        l->o.note(l->o.arg, buf_text(&line));
}

/* Under the lock, which it releases while it works. */
static int checkpoint(struct local *l)
{
    struct format_header header = {.kind = FORMAT_SNAPSHOT, .store = l->journal.o.mark.store};
    struct err_info why = {"the disk is full"};

    l->since_snapshot = 0;
    if (atomic_load(&l->gate.failed))
        return DROVER_IO;
    if (l->tree.zxid == l->stats.snapshot_zxid)
        return 0;
    int64_t start_ms = clock_boot_ms();
    bool is_short = journal_shortage(&l->journal) == DROVER_DISK_FULL;
    int err = journal_rotate(&l->journal, &header.replay_from);
    header.number = (uint64_t)l->tree.zxid;
    pthread_mutex_unlock(&l->lock);
    if (!err && is_short) {
        err = write_when_short(l, &header, &why);
    } else if (!err) {
        err = write_file(l, &header, &why);
        if (!err)
            err = retire(l, &header, false, &why);
    }
    if (err_is_shortage(err))
        note_shortage(l, why.text);
    else if (err)
        journal_fail(&l->journal, why.text);
    pthread_mutex_lock(&l->lock);
    int64_t took_ms = clock_boot_ms() - start_ms;
    if (!err) {
        summary_add(&l->snapshot_ms, took_ms);
        histogram_add(&l->snapshot_times, (uint64_t)took_ms * 1000000);
    }
    return err;
}

/*
 * During a shortage it looks once a second, also if nobody asks. relief_due_ms INT64_MAX: there is
 * none. May release the lock.
 */
static bool relief_is_due(struct local *l)
{
    int64_t now_ms = clock_boot_ms();
    if (journal_shortage(&l->journal) != DROVER_DISK_FULL)
        l->relief_due_ms = INT64_MAX;
    else if (l->relief_due_ms == INT64_MAX)
        l->relief_due_ms = now_ms;
    if (now_ms < l->relief_due_ms)
        return false;
    l->relief_due_ms = now_ms + RELIEF_EVERY_MS;
    return would_make_room(l);
}

void *checkpoint_main(void *arg)
{
    struct local *l = arg;
    LOCKED(&l->lock);
    while (!l->stop) {
        uint64_t asked = l->snapshots_wanted;
        if (l->snapshots_tried == asked && !checkpoint_is_due(l) && !relief_is_due(l)) {
            cond_wait_until(&l->snapshot, &l->lock, l->relief_due_ms);
            continue;
        }
        l->snapshotting = true;
        l->snapshot_error = checkpoint(l);
        if (l->snapshot_error == DROVER_DISK_FULL)
            l->relief_due_ms = clock_boot_ms() + RELIEF_AFTER_FAILURE_MS;
        l->snapshotting = false;
        l->snapshots_tried = asked;
        pthread_cond_broadcast(&l->snapshot);
    }
    return NULL;
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
