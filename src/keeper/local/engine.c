/* Opening and closing a store, changing its tree, ending its sessions, taking its snapshots. */
#include "keeper/local/engine.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include "keeper/journal/format.h"
#include "keeper/journal/record.h"
#include "keeper/journal/recover.h"
#include "keeper/path.h"

enum {
    CLOSE_MAX = 512 * 1024,     /* bytes of deletions in one transaction that ends a session */
    SEGMENTS_PER_CLOSE_MAX = 4, /* and never more than a quarter of a segment */
    REAP_STEPS = 1000,          /* containers and TTL nodes to look at before others get the lock */
    SLICE_BYTES = 64 * 1024,    /* of a snapshot, under the lock */
    QUOTA_NOTE_MS = 1000,
};

static void fatal_default(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "drover: %s\n", line);
    _exit(1);
}

static int64_t wall_default(void *arg)
{
    (void)arg;
    return clock_wall_ms();
}

static int admit(struct local *l, size_t record_len)
{
    return engine_has_journal(l) ? journal_admit(&l->journal, record_len) : 0;
}

/* Enough has changed for a new snapshot. */
static bool checkpoint_is_due(const struct local *l)
{
    return l->since_snapshot >= l->o.snapshot_every &&
           l->since_snapshot >= (int64_t)l->tree.nodes.count;
}

/* Appends the changes of the tree to the journal and fires the watches. */
static void publish(struct local *l, enum journal_writer writer)
{
    if (!l->changes.count)
        return;
    if (engine_has_journal(l)) {
        journal_append(&l->journal, &l->changes, writer);
        l->since_snapshot++;
        if (checkpoint_is_due(l))
            pthread_cond_broadcast(&l->snapshot);
    }
    for (size_t i = 0; i < l->changes.count; i++)
        watches_fire(&l->watches, &l->changes.list[i]);
}

/* A limit of a quota was exceeded: once a second the operator is told of the last one. */
static void note_quota(struct local *l)
{
    int64_t now_ms = clock_boot_ms();
    if (l->o.note && now_ms >= l->quota_due_ms) {
        l->quota_due_ms = now_ms + QUOTA_NOTE_MS;
        l->o.note(l->o.arg, buf_text(&l->tree.quota_note));
    }
    l->tree.quota_note.len = 0;
}

int engine_apply(struct local *l, int64_t session, const struct acl_who *who,
                 const struct keeper_op *ops, size_t count, struct keeper_result *results,
                 enum journal_writer writer)
{
    size_t size = keeper_request_size(ops, count);
    int err = size > RECORD_MAX ? DROVER_TOO_BIG : admit(l, record_bound(size));
    struct tree_user user = {sessions_find(&l->tree.sessions, session), who};
    if (!err && !user.session)
        err = DROVER_SESSION_EXPIRED;
    if (err) {
        for (size_t i = 0; i < count; i++)
            results[i].err = err;
        return err;
    }
    err = tree_apply(&l->tree, &user, l->o.wall_ms(l->o.arg), ops, count, results, &l->changes);
    if (!err)
        publish(l, writer);
    if (l->tree.quota_note.len)
        note_quota(l);
    return err;
}

int engine_session_open(struct local *l, int32_t timeout_ms, struct tree_session **ret_session)
{
    char password[KEEPER_PASSWORD_LEN];
    TRY(admit(l, record_bound(128)));
    random_fill(password, sizeof password);
    struct tree_session *s =
        tree_session_open(&l->tree, l->o.wall_ms(l->o.arg), timeout_ms, password, &l->changes);
    session_touch(s, clock_boot_ms());
    pthread_cond_broadcast(&l->tick);
    publish(l, JOURNAL_WRITER);
    *ret_session = s;
    return 0;
}

/* Bytes of deletions in one transaction that ends a session. */
static size_t close_len(const struct local *l)
{
    size_t part = l->o.segment_len / SEGMENTS_PER_CLOSE_MAX;
    return part < CLOSE_MAX ? part : CLOSE_MAX;
}

static int admit_close(struct local *l)
{
    return admit(l, record_bound(close_len(l) + PATH_MAX_LEN + 128));
}

int engine_session_end(struct local *l, int64_t session)
{
    int more = 1;
    while (more) {
        TRY(admit_close(l));
        struct tree_session *s = sessions_find(&l->tree.sessions, session);
        if (!s)
            return 0;
        more = tree_session_close(&l->tree, s, l->o.wall_ms(l->o.arg), close_len(l), &l->changes);
        publish(l, JOURNAL_WRITER);
    }
    local_session_ended(l, session);
    if (l->session_ended)
        l->session_ended(l->session_ended_arg, session);
    return 0;
}

void engine_listen(struct local *l, void (*fn)(void *arg, int64_t session), void *arg)
{
    LOCKED(&l->lock);
    l->session_ended = fn;
    l->session_ended_arg = arg;
}

/*
 * Waits for room in the journal first: a sign of life of the session may come meanwhile. If the
 * disk is full, the end of a session cannot be recorded: its timeout starts again.
 */
static int expire(struct local *l, int64_t session, int64_t now_ms)
{
    int err = admit_close(l);
    struct tree_session *s = sessions_find(&l->tree.sessions, session);
    if (!err && (!s || s->pins || s->deadline_ms > now_ms))
        return 0;
    if (!err)
        err = engine_session_end(l, session);
    s = err ? sessions_find(&l->tree.sessions, session) : NULL;
    if (s)
        session_touch(s, now_ms);
    return err;
}

/*
 * Deletes containers and TTL nodes that may go: a part of them, so that others get the lock. Waits
 * for room in the journal first, because that may release the lock. With a full disk it tries
 * again later.
 */
static void reap(struct local *l, int64_t now_ms)
{
    CLEANUP(buf_release) struct buf path = {0};
    int64_t wall_ms = l->o.wall_ms(l->o.arg);
    struct tree_user nobody = {0};
    struct keeper_result unused = {0};
    enum tree_reap found = REAP_END;
    if (now_ms >= l->reap_due_ms) {
        tree_reap_begin(&l->tree);
        l->reap_due_ms = now_ms + l->o.reap_ms;
    }
    if (!admit(l, record_bound(PATH_MAX_LEN + 128)))
        found = tree_reap_next(&l->tree, wall_ms, REAP_STEPS, &path);
    if (found == REAP_FOUND) {
        struct keeper_op op = keeper_op_delete(buf_text(&path), KEEPER_ANY_VERSION);
        if (tree_apply(&l->tree, &nobody, wall_ms, &op, 1, &unused, &l->changes) == 0)
            publish(l, JOURNAL_WRITER);
    }
    l->reaping = found != REAP_END;
}

static void *ticker_main(void *arg)
{
    struct local *l = arg;
    LOCKED(&l->lock);
    l->reap_due_ms = clock_boot_ms() + l->o.reap_ms;
    while (!l->stop) {
        int64_t due_ms = sessions_next_deadline(&l->tree.sessions);
        struct tree_session *s;
        int64_t wake_ms = due_ms < l->reap_due_ms ? due_ms : l->reap_due_ms;
        bool stopped = cond_wait_noticing_stops(&l->tick, &l->lock, l->reaping ? 0 : wake_ms);
        int64_t now_ms = clock_boot_ms();
        if (l->reaping || now_ms >= l->reap_due_ms)
            reap(l, now_ms);
        if (stopped)
            sessions_touch_all(&l->tree.sessions, now_ms);
        while (!l->stop && (s = sessions_expired(&l->tree.sessions, now_ms)))
            if (expire(l, s->id, now_ms))
                break;
    }
    return NULL;
}

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
    uint64_t before = (uint64_t)l->stats.snapshot_zxid, before_segment = l->snapshot_segment;
    pthread_mutex_lock(&l->lock);
    l->stats.snapshot_zxid = (int64_t)header->number;
    l->snapshot_segment = header->replay_from;
    l->stats.snapshots++;
    pthread_mutex_unlock(&l->lock);
    if (!before)
        return 0;
    TRY(format_remove_before(l->o.fs, l->dir, FORMAT_SNAPSHOT, before, ret_error));
    return format_remove_before(l->o.fs, l->dir, FORMAT_SEGMENT, before_segment, ret_error);
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
    int err = journal_rotate(&l->journal, &header.replay_from);
    header.number = (uint64_t)l->tree.zxid;
    pthread_mutex_unlock(&l->lock);
    if (!err)
        err = write_file(l, &header, &why);
    if (!err)
        err = retire(l, &header, &why);
    if (err_is_shortage(err))
        note_shortage(l, why.text);
    else if (err)
        journal_fail(&l->journal, why.text);
    pthread_mutex_lock(&l->lock);
    if (!err)
        summary_add(&l->snapshot_ms, clock_boot_ms() - start_ms);
    return err;
}

static void *checkpoint_main(void *arg)
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

static int open_journal(struct local *l, const struct recovery *r, struct err_info *ret_error)
{
    struct journal_options o = {
        .fs = l->o.fs,
        .dir = l->dir,
        .strict = l->o.mode == LOCAL_STRICT,
        .flush_ms = LOCAL_FLUSH_MS,
        .segment_len = l->o.segment_len,
        .segment = r->next_segment,
        .mark = recovery_claims(r, r->next_segment - 1),
        .fatal = l->o.fatal,
        .arg = l->o.arg,
    };
    if (!o.mark.store)
        random_fill(&o.mark.store, sizeof o.mark.store);
    return journal_open(&l->journal, &o, &l->gate, ret_error);
}

/* Recovers the tree from the directory. */
static int open_dir(struct local *l, struct err_info *ret_error)
{
    struct recover_hooks hooks = {.note = l->o.note, .arg = l->o.arg};
    CLEANUP(recovery_release) struct recovery r = {0};
    TRY(format_dir_make(l->dir, ret_error));
    TRY(dirlock_take(&l->dirlock, l->dir, true, ret_error));
    TRY(recover_read(l->dir, &hooks, &r, ret_error));
    TRY(recover_trim(l->o.fs, l->dir, &r, ret_error));
    TRY(open_journal(l, &r, ret_error));
    l->tree = r.tree;
    r.tree = (struct tree){0};
    l->stats.recovered_records = r.records;
    l->stats.recovered_nodes = l->tree.nodes.count;
    l->since_snapshot = (int64_t)r.records;
    if (r.has_snapshot) {
        l->stats.snapshot_zxid = (int64_t)r.snapshot.header.number;
        l->snapshot_segment = r.snapshot.header.replay_from;
    }
    return 0;
}

static void set_defaults(struct local_options *o)
{
    o->snapshot_every = o->snapshot_every ? o->snapshot_every : LOCAL_SNAPSHOT_EVERY;
    o->segment_len = o->segment_len ? o->segment_len : LOCAL_SEGMENT_LEN;
    if (o->segment_len < LOCAL_SEGMENT_LEN_MIN)
        o->segment_len = LOCAL_SEGMENT_LEN_MIN;
    o->segment_len -= o->segment_len % RECORD_ALIGN;
    o->reap_ms = o->reap_ms ? o->reap_ms : LOCAL_REAP_MS;
    o->fs = o->fs ? o->fs : &fs_system;
    o->wall_ms = o->wall_ms ? o->wall_ms : wall_default;
    o->fatal = o->fatal ? o->fatal : fatal_default;
}

static void local_free(struct local *l)
{
    watches_release(&l->watches);
    changes_release(&l->changes);
    tree_release(&l->tree);
    dirlock_release(&l->dirlock);
    pthread_cond_destroy(&l->tick);
    pthread_cond_destroy(&l->snapshot);
    pthread_mutex_destroy(&l->lock);
    free(l->dir);
    free(l);
}

int local_open(const struct local_options *o, struct local **ret_local, struct err_info *ret_error)
{
    struct local *l = mem_zalloc(sizeof *l);
    int err = 0;

    l->o = *o;
    dirlock_init(&l->dirlock);
    set_defaults(&l->o);
    /* Usually held for less than a microsecond, so waiters spin before they sleep. */
    l->lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
    l->gate.lock = &l->lock;
    cond_init(&l->tick);
    cond_init(&l->snapshot);
    if (engine_has_journal(l)) {
        l->dir = mem_dup(o->dir, strlen(o->dir));
        err = open_dir(l, ret_error);
    } else {
        tree_init(&l->tree);
    }
    if (err) {
        local_free(l);
        return err;
    }
    sessions_touch_all(&l->tree.sessions, clock_boot_ms());
    thread_must_start(&l->ticker, "keeper-sessions", ticker_main, l);
    if (engine_has_journal(l))
        thread_must_start(&l->snapshotter, "keeper-snapshot", checkpoint_main, l);
    *ret_local = l;
    return 0;
}

void local_close(struct local *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->tick);
    pthread_cond_broadcast(&l->snapshot);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->ticker, NULL);
    if (engine_has_journal(l)) {
        pthread_join(l->snapshotter, NULL);
        journal_close(&l->journal);
    }
    local_free(l);
}

void local_bind(struct local *l)
{
    l->inside = (struct acl_who){.inside = true};
    l->who = &l->inside;
}

void local_reserve(struct local *l, const char *path)
{
    LOCKED(&l->lock);
    assert(l->tree.reserved_count < TREE_RESERVED_MAX);
    l->tree.reserved[l->tree.reserved_count++] = str_of(path);
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

void local_set_defers(struct local *l, bool defers)
{
    LOCKED(&l->lock);
    journal_set_defers(&l->journal, defers);
}

int64_t local_deferred(struct local *l)
{
    LOCKED(&l->lock);
    return journal_deferred(&l->journal);
}

bool local_write_deferred(struct local *l)
{
    LOCKED(&l->lock);
    return journal_write_deferred(&l->journal);
}

void local_stats(struct local *l, struct local_stats *ret_stats)
{
    LOCKED(&l->lock);
    *ret_stats = l->stats;
    ret_stats->zxid = l->tree.zxid;
    ret_stats->durable_zxid = atomic_load(&l->gate.durable);
    ret_stats->nodes = l->tree.nodes.count;
    ret_stats->sessions = l->tree.sessions.count;
    ret_stats->ephemerals = l->tree.ephemerals;
    ret_stats->watches = l->watches.count;
    ret_stats->journal_records = l->journal.records;
    ret_stats->journal_bytes = l->journal.bytes;
    ret_stats->journal_syncs = l->journal.syncs;
}
