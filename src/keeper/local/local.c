/*
 * Keepers on the embedded store: each is a session, a callback queue and its watches.
 *
 * Everything happens on the caller's thread under the store's lock. What a call saw decides which
 * LSN it waits for at the gate: a read that found its node waits for the transactions that made the
 * node what it is; an answer that depends on something being absent waits for the last transaction.
 */
#include "keeper/local/local.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "keeper/local/callback_queue.h"
#include "keeper/local/engine.h"
#include "keeper/tree/quota.h"

struct local_keeper {
    struct keeper base;
    struct local *l;
    bool ended; /* the session is over */
    struct callback_queue callbacks;
    LIST_HEAD(, local_watch) watches;
    struct keeper_result *results; /* of apply */
    size_t results_cap;
    LIST_ENTRY(local_keeper) link; /* in local.keepers */
};

struct local_watch {
    struct tree_watch w;
    struct local_keeper *k;
    keeper_watch_fn *fn;
    void *arg;
    char *path;
    bool listed;             /* in the store's table: until the session ends */
    _Atomic unsigned queued; /* bit set of events in the callback queue: one of a kind is enough */
    _Atomic bool forgotten;  /* removed from inside its own callback */
    LIST_ENTRY(local_watch) link; /* in local_keeper.watches */
};

static struct local_keeper *keeper_of(struct keeper *k)
{
    return (struct local_keeper *)k;
}

/* The LSN that an answer about a node waits for, or one about there being none. */
static int64_t seen(const struct local *l, struct str path, int err, const struct keeper_stat *stat)
{
    if (err || quota_may_change(&l->tree, path))
        return l->tree.zxid;
    return stat->mzxid > stat->pzxid ? stat->mzxid : stat->pzxid;
}

/* Begins a call: locks the store, unless the session is over. */
static int enter(struct local_keeper *k)
{
    pthread_mutex_lock(&k->l->lock);
    if (!k->ended)
        return 0;
    pthread_mutex_unlock(&k->l->lock);
    return DROVER_SESSION_EXPIRED;
}

/* Ends a call that saw lsn and found err: unlocks, and returns when the answer may leave. */
static int leave(struct local_keeper *k, int64_t lsn, int err)
{
    struct gate_ticket ticket = gate_ticket(&k->l->gate, lsn);
    pthread_mutex_unlock(&k->l->lock);
    int failed = gate_wait(&k->l->gate, ticket);
    return failed ? failed : err;
}

/* A node, if its access list lets this process read it. */
static int look(const struct local *l, struct str path, struct tree_view *ret_view)
{
    TRY(tree_look(&l->tree, path, ret_view));
    return !l->who || acl_allows(ret_view->acl, ACL_READ, l->who) ? 0 : DROVER_NO_AUTH;
}

static int get(struct keeper *base, struct str path, struct buf *ret_data,
               struct keeper_stat *ret_stat)
{
    struct local_keeper *k = keeper_of(base);
    struct tree_view v;
    TRY(enter(k));
    /* Whether a node exists may be asked by anybody, as in ZooKeeper. */
    int err = ret_data ? look(k->l, path, &v) : tree_look(&k->l->tree, path, &v);
    if (!err)
        *ret_stat = v.stat;
    if (!err && ret_data) {
        ret_data->len = 0;
        buf_put_str(ret_data, v.data);
    }
    return leave(k, seen(k->l, path, err, ret_stat), err);
}

static int children(struct keeper *base, struct str path, struct buf *ret_text, size_t *ret_count,
                    struct keeper_stat *ret_stat)
{
    struct local_keeper *k = keeper_of(base);
    struct tree_view v;
    TRY(enter(k));
    int err = look(k->l, path, &v);
    if (!err)
        err = tree_children(&k->l->tree, path, ret_text, ret_count, ret_stat);
    return leave(k, seen(k->l, path, err, ret_stat), err);
}

static int multi(struct keeper *base, const struct keeper_op *ops, size_t count,
                 struct keeper_result *results)
{
    struct local_keeper *k = keeper_of(base);
    pthread_mutex_lock(&k->l->lock);
    int err =
        engine_apply(k->l, k->base.session.id, k->l->who, ops, count, results, JOURNAL_WAITER);
    int failed = leave(k, k->l->tree.zxid, 0);
    if (!failed)
        return err;
    keeper_results_release(results, count);
    for (size_t i = 0; i < count; i++)
        results[i] = (struct keeper_result){.err = failed};
    return failed;
}

/* The answer to a commit. */
struct commit_callback {
    struct callback callback;
    keeper_done_fn *done;
    void *arg;
    int err;
    size_t count;
    struct keeper_result results[];
};

static void commit_run(struct callback *callback, int failed)
{
    struct commit_callback *c = (struct commit_callback *)callback;
    for (size_t i = 0; failed && i < c->count; i++)
        c->results[i].err = failed;
    c->done(c->arg, failed ? failed : c->err, c->results, c->count);
    keeper_results_release(c->results, c->count);
    free(c);
}

static int commit(struct keeper *base, const struct keeper_op *ops, size_t count,
                  keeper_done_fn *done, void *arg)
{
    struct local_keeper *k = keeper_of(base);
    struct local *l = k->l;
    struct commit_callback *c = mem_zalloc(sizeof *c + count * sizeof *c->results);
    *c = (struct commit_callback){{.run = commit_run}, .done = done, .arg = arg, .count = count};
    LOCKED(&l->lock);
    c->err = engine_apply(l, k->base.session.id, k->l->who, ops, count, c->results, JOURNAL_WRITER);
    c->callback.ticket = gate_ticket(&l->gate, l->tree.zxid);
    callback_queue_post(&k->callbacks, &c->callback);
    return 0;
}

/* The results are discarded; the array is reused, so that this allocates nothing. */
int keeper_apply(struct keeper *base, const struct keeper_op *ops, size_t count, int64_t *ret_zxid)
{
    struct local_keeper *k = keeper_of(base);
    struct local *l = k->l;
    LOCKED(&l->lock);
    if (count > k->results_cap) {
        k->results_cap = count * 2;
        k->results = mem_realloc(k->results, k->results_cap * sizeof *k->results);
    }
    memset(k->results, 0, count * sizeof *k->results);
    int err = engine_apply(l, k->base.session.id, k->l->who, ops, count, k->results, JOURNAL_DEFER);
    keeper_results_release(k->results, count);
    *ret_zxid = l->tree.zxid;
    return err;
}

int keeper_peek(struct keeper *base, struct str path, struct buf *b)
{
    struct local_keeper *k = keeper_of(base);
    struct tree_view v;
    LOCKED(&k->l->lock);
    TRY(tree_look(&k->l->tree, path, &v));
    buf_put_str(b, v.data);
    return 0;
}

int keeper_passed(struct keeper *base, int64_t zxid)
{
    struct local_keeper *k = keeper_of(base);
    int state = gate_state(&k->l->gate, zxid);
    if (state || !k->callbacks.wake)
        return state;
    LOCKED(&k->l->lock);
    callback_queue_wake_at(&k->callbacks, zxid);
    return 0;
}

int keeper_wait(struct keeper *base, int64_t zxid)
{
    struct local_keeper *k = keeper_of(base);
    pthread_mutex_lock(&k->l->lock);
    return leave(k, zxid, 0);
}

int keeper_flush(struct keeper *base)
{
    struct local *l = keeper_of(base)->l;
    pthread_mutex_lock(&l->lock);
    int64_t zxid = l->tree.zxid;
    pthread_mutex_unlock(&l->lock);
    return gate_wait_synced(&l->gate, zxid);
}

bool keeper_may_lose(struct keeper *base)
{
    return keeper_of(base)->l->o.mode == LOCAL_OPPORTUNISTIC;
}

/* The store's lock is the order: a call that starts now sees everything done before. */
static int sync_path(struct keeper *base, struct str path)
{
    struct local_keeper *k = keeper_of(base);
    (void)path;
    TRY(enter(k));
    return leave(k, k->l->tree.zxid, 0);
}

/* One event for a watch. */
struct watch_callback {
    struct callback callback;
    struct local_watch *w;
    enum keeper_event event;
};

static void watch_free(struct local_watch *w)
{
    free(w->path);
    free(w);
}

static void watch_run(struct callback *callback, int failed)
{
    struct watch_callback *event = (struct watch_callback *)callback;
    struct local_watch *w = event->w;
    atomic_fetch_and(&w->queued, ~(1u << event->event));
    if (!failed)
        w->fn(w->arg, event->event, w->path);
    if (atomic_load(&w->forgotten))
        watch_free(w);
    free(event);
}

static void watch_drop(struct callback *callback)
{
    free(callback);
}

/* Posts an event, unless one of its kind is in the queue already. */
static void fire(struct tree_watch *watch, enum keeper_event event, struct str path)
{
    struct local_watch *w = (struct local_watch *)watch;
    const struct local *l = w->k->l;
    unsigned bit = 1u << event;
    (void)path;
    if (atomic_fetch_or(&w->queued, bit) & bit)
        return;
    struct watch_callback *c = mem_alloc(sizeof *c);
    *c = (struct watch_callback){{.ticket = gate_ticket(&l->gate, l->tree.zxid),
                                  .subject = w,
                                  .run = watch_run,
                                  .drop = watch_drop},
                                 .w = w,
                                 .event = event};
    callback_queue_post(&w->k->callbacks, &c->callback);
}

void local_session_ended(struct local *l, int64_t session)
{
    for (struct local_keeper *k = LIST_FIRST(&l->keepers); k; k = LIST_NEXT(k, link)) {
        if (k->base.session.id != session || k->ended)
            continue;
        k->ended = true;
        for (struct local_watch *w = LIST_FIRST(&k->watches); w; w = LIST_NEXT(w, link)) {
            watches_remove(&l->watches, &w->w);
            w->listed = false;
            fire(&w->w, KEEPER_EVENT_EXPIRED, str_of(w->path));
        }
    }
}

/* The events after which the call that a kind of watch is named after may answer differently. */
static const int EVENTS[] = {
    [KEEPER_WATCH_DATA] = WATCH_EVENT(KEEPER_EVENT_CREATED) | WATCH_EVENT(KEEPER_EVENT_CHANGED) |
                          WATCH_EVENT(KEEPER_EVENT_DELETED),
    [KEEPER_WATCH_EXISTS] = WATCH_EVENT(KEEPER_EVENT_CREATED) | WATCH_EVENT(KEEPER_EVENT_DELETED),
    [KEEPER_WATCH_CHILDREN] = WATCH_EVENT(KEEPER_EVENT_CREATED) |
                              WATCH_EVENT(KEEPER_EVENT_DELETED) |
                              WATCH_EVENT(KEEPER_EVENT_CHILDREN),
};

static int watch(struct keeper *base, struct str path, enum keeper_watch_kind kind,
                 keeper_watch_fn *fn, void *arg, struct keeper_watch **ret_watch)
{
    struct local_keeper *k = keeper_of(base);
    TRY(enter(k));
    struct local_watch *w = mem_alloc(sizeof *w);
    *w = (struct local_watch){.w = {.events = EVENTS[kind], .fire = fire},
                              .k = k,
                              .fn = fn,
                              .arg = arg,
                              .path = mem_dup(path.p, path.len),
                              .listed = true};
    LIST_INSERT_HEAD(&k->watches, w, link);
    watches_add(&k->l->watches, &w->w, path);
    *ret_watch = (struct keeper_watch *)w;
    pthread_mutex_unlock(&k->l->lock);
    return 0;
}

static void unwatch(struct keeper *base, struct keeper_watch *handle)
{
    struct local_watch *w = (struct local_watch *)handle;
    struct local_keeper *k = keeper_of(base);
    pthread_mutex_lock(&k->l->lock);
    LIST_REMOVE(w, link);
    if (w->listed)
        watches_remove(&k->l->watches, &w->w);
    pthread_mutex_unlock(&k->l->lock);
    if (callback_queue_withdraw(&k->callbacks, w))
        atomic_store(&w->forgotten, true);
    else
        watch_free(w);
}

static void dispatch(struct keeper *base)
{
    callback_queue_dispatch(&keeper_of(base)->callbacks);
}

/* Removes a keeper from the store's list; its session now lives until its timeout. */
static void detach(struct local *l, struct local_keeper *k)
{
    struct tree_session *s = k->ended ? NULL : sessions_find(&l->tree.sessions, k->base.session.id);
    LIST_REMOVE(k, link);
    if (s) {
        s->pins--;
        session_touch(s, clock_boot_ms());
    }
}

static void close_keeper(struct keeper *base, bool end_session)
{
    struct local_keeper *k = keeper_of(base);
    struct local *l = k->l;
    while (!LIST_EMPTY(&k->watches))
        unwatch(base, (struct keeper_watch *)LIST_FIRST(&k->watches));
    pthread_mutex_lock(&l->lock);
    detach(l, k);
    if (end_session && !k->ended)
        engine_session_end(l, k->base.session.id); /* if the disk is full, its timeout ends it */
    pthread_cond_broadcast(&l->tick);
    leave(k, l->tree.zxid, 0);
    callback_queue_close(&k->callbacks);
    free(k->results);
    free(k);
}

static const struct keeper_ops LOCAL_OPS = {
    .get = get,
    .children = children,
    .multi = multi,
    .commit = commit,
    .sync = sync_path,
    .watch = watch,
    .unwatch = unwatch,
    .dispatch = dispatch,
    .close = close_keeper,
    .has_gate = true,
};

/* A new session, or the one to resume. Under the lock. */
static int find_session(struct local *l, const struct keeper_options *o, struct tree_session **ret)
{
    int32_t wanted_ms = o->timeout_ms ? o->timeout_ms : KEEPER_TIMEOUT_DEFAULT_MS;
    if (!o->resume.id)
        return engine_session_open(l, keeper_granted_timeout(wanted_ms), ret);
    struct tree_session *s = sessions_find(&l->tree.sessions, o->resume.id);
    if (!s || memcmp(s->password, o->resume.password, KEEPER_PASSWORD_LEN) != 0)
        return DROVER_SESSION_EXPIRED;
    *ret = s;
    return 0;
}

int local_connect(struct local *l, const struct keeper_options *o, struct keeper **ret_keeper)
{
    static const struct keeper_options none;
    struct tree_session *s;

    o = o ? o : &none;
    pthread_mutex_lock(&l->lock);
    int err = find_session(l, o, &s);
    if (err) {
        pthread_mutex_unlock(&l->lock);
        return err;
    }
    s->pins++;
    struct local_keeper *k = mem_alloc(sizeof *k);
    *k = (struct local_keeper){.base = {&LOCAL_OPS, {.id = s->id, .timeout_ms = s->timeout_ms}},
                               .l = l};
    memcpy(k->base.session.password, s->password, KEEPER_PASSWORD_LEN);
    callback_queue_init(&k->callbacks, &l->gate, o);
    LIST_INSERT_HEAD(&l->keepers, k, link);
    err = leave(k, l->tree.zxid, 0);
    if (err)
        keeper_abandon(&k->base);
    else
        *ret_keeper = &k->base;
    return err;
}

void local_set_intervals(struct local *l, int64_t snapshot_every, int64_t reap_ms)
{
    LOCKED(&l->lock);
    l->o.snapshot_every = snapshot_every ? snapshot_every : LOCAL_SNAPSHOT_EVERY;
    l->o.reap_ms = reap_ms ? reap_ms : LOCAL_REAP_MS;
    l->reap_due_ms = clock_boot_ms() + l->o.reap_ms;
    pthread_cond_broadcast(&l->tick);
}

size_t local_sessions(struct local *l)
{
    LOCKED(&l->lock);
    return l->tree.sessions.count;
}

bool local_snapshotting(struct local *l)
{
    LOCKED(&l->lock);
    return l->snapshotting || l->snapshots_tried < l->snapshots_wanted;
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
    if (!engine_has_journal(l))
        return;
    ret_stats->is_full = journal_shortage(&l->journal) != 0;
    ret_stats->reserve_bytes = (uint64_t)l->journal.reserved * l->journal.reserve.piece_len;
    ret_stats->replay_segments =
        journal_segment(&l->journal) - (l->snapshot_segment ? l->snapshot_segment : 1) + 1;
    ret_stats->rounds = &l->journal.rounds;
    ret_stats->snapshot_times = &l->snapshot_times;
}

bool local_has_failed(struct local *l)
{
    return atomic_load(&l->gate.failed);
}
