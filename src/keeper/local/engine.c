/* Opening and closing a store, changing its tree, ending its sessions. */
#include "keeper/local/engine.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
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
    SEGMENTS_PER_CLOSE_MAX = 8, /* and never more than half a piece of the reserve */
    REAP_STEPS = 1000,          /* containers and TTL nodes to look at before others get the lock */
    QUOTA_NOTE_MS = 1000,
    KEEPS_BYTES_MAX = 256, /* by which a change may let the tree grow and still not add */
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

static int admit(struct local *l, size_t record_len, enum reserve_use use)
{
    return engine_has_journal(l) ? journal_admit(&l->journal, record_len, use) : 0;
}

/*
 * What a transaction does to the tree. Adding to one node while others go is no growth: a finished
 * task leaves a note of its request.
 */
static enum reserve_use use_of(const struct tree *t, const struct keeper_op *ops, size_t count)
{
    struct tree_growth growth = tree_growth(t, ops, count);
    if (growth.bytes < 0)
        return RESERVE_FREES;
    return growth.nodes <= 0 && growth.bytes <= KEEPS_BYTES_MAX ? RESERVE_KEEPS : RESERVE_GROWS;
}

/* Looks at the transaction only if changes that add are refused. */
static int admit_change(struct local *l, const struct keeper_op *ops, size_t count, size_t size)
{
    int err = admit(l, record_bound(size), RESERVE_GROWS);
    if (!err_is_shortage(err))
        return err;
    enum reserve_use use = use_of(&l->tree, ops, count);
    return use == RESERVE_GROWS ? err : admit(l, record_bound(size), use);
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
    int err = size > RECORD_MAX ? DROVER_TOO_BIG : admit_change(l, ops, count, size);
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
    TRY(admit(l, record_bound(128), RESERVE_KEEPS));
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
    return admit(l, record_bound(close_len(l) + PATH_MAX_LEN + 128), RESERVE_FREES);
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
    if (!admit(l, record_bound(PATH_MAX_LEN + 128), RESERVE_FREES))
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

/* Under the lock. The snapshots may make room: checkpoint.c. */
static void on_shortage_changed(void *arg)
{
    CLEANUP(buf_release) struct buf line = {0};
    struct local *l = arg;
    int shortage = journal_shortage(&l->journal);
    if (shortage)
        buf_printf(&line, "%s: %s; changes that add are refused, deletions go on",
                   drover_err_message(shortage), l->journal.prepare_why.text);
    else
        buf_printf(&line, "there is room in %s again: all changes are accepted", l->dir);
    if (l->o.note)
        l->o.note(l->o.arg, buf_text(&line));
    pthread_cond_broadcast(&l->snapshot);
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
        .last = recovery_last(r),
        .mark = recovery_claims(r, r->next_segment - 1),
        .fatal = l->o.fatal,
        .arg = l->o.arg,
        .shortage_changed = on_shortage_changed,
        .shortage_arg = l,
    };
    if (!o.mark.store)
        random_fill(&o.mark.store, sizeof o.mark.store);
    return journal_open(&l->journal, &o, &l->gate, ret_error);
}

/* When the newest snapshot was written; 0: unknown. */
static int64_t snapshot_time_ms(const struct local *l)
{
    CLEANUP(mem_free)
    char *path = format_path(l->dir, FORMAT_SNAPSHOT, (uint64_t)l->stats.snapshot_zxid);
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_mtim.tv_sec * 1000 : 0;
}

/* Recovers the tree from the directory. */
static int open_dir(struct local *l, struct err_info *ret_error)
{
    struct recover_hooks hooks = {.note = l->o.note, .progress = l->o.progress, .arg = l->o.arg};
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
        l->stats.snapshot_ms = snapshot_time_ms(l);
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
    histogram_init(&l->snapshot_times, &HISTOGRAM_RUN);
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

int local_shortage(struct local *l)
{
    LOCKED(&l->lock);
    return engine_has_journal(l) ? journal_shortage(&l->journal) : 0;
}
