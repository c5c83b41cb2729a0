/*
 * A subsession has a list of its ephemeral nodes, and a map that finds them by path. An entry is
 * added when the node was created, or when the outcome is unknown (then with czxid 0 and the data,
 * which identify the node later), and dropped when this subsession deletes the node. Other clients
 * may delete it too: then the entry is stale, which does no harm because a new node at that path
 * has another czxid.
 */
#include "keeper/subsession.h"

#include <stdlib.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"

enum { LEAVE_MAX = 500 }; /* deletions in one transaction */

struct subsession_node {
    char *path;
    int64_t czxid;   /* 0: unknown, as is whether the node was created */
    struct buf data; /* if czxid is 0 */
};

/* The host's watch, listed so that closing removes it. */
struct subsession_watch {
    LIST_ENTRY(subsession_watch) link;
    struct keeper_watch *host;
};

struct subsession {
    struct keeper base;
    struct keeper *host;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t quiet; /* no commit is in flight */
    int commits;
    struct subsession_node *nodes; /* ref is the index plus 1 */
    uint32_t node_len, node_cap;
    struct map by_path;
    LIST_HEAD(, subsession_watch) watches;
};

static struct subsession *subsession_of(struct keeper *k)
{
    return (struct subsession *)k;
}

/* The list, under the lock. */

static uint32_t node_find(struct subsession *l, struct str path)
{
    uint32_t hash = map_hash_str(path);
    for (uint32_t at, ref = map_first(&l->by_path, hash, &at); ref;
         ref = map_next(&l->by_path, hash, &at))
        if (str_eq(str_of(l->nodes[ref - 1].path), path))
            return ref;
    return 0;
}

/* The last node takes its place. ref 0: nothing to drop. */
static void node_drop(struct subsession *l, uint32_t ref)
{
    if (!ref)
        return;
    struct subsession_node *n = &l->nodes[ref - 1], *last = &l->nodes[l->node_len - 1];
    map_remove(&l->by_path, map_hash_str(str_of(n->path)), ref);
    free(n->path);
    buf_release(&n->data);
    if (n != last) {
        *n = *last;
        map_remove(&l->by_path, map_hash_str(str_of(n->path)), l->node_len);
        map_add(&l->by_path, map_hash_str(str_of(n->path)), ref);
    }
    l->node_len--;
}

static void node_put(struct subsession *l, struct str path, int64_t czxid, struct str data)
{
    node_drop(l, node_find(l, path));
    mem_grow(l->nodes, l->node_len, l->node_cap);
    struct subsession_node *n = &l->nodes[l->node_len++];
    *n = (struct subsession_node){.path = mem_dup(path.p, path.len), .czxid = czxid};
    if (!czxid)
        buf_put_str(&n->data, data);
    map_add(&l->by_path, map_hash_str(path), l->node_len);
}

/*
 * What the operations did, or may have done. With KEEPER_NO_STAT, the czxid may be 0. A sequential
 * node whose path is unknown cannot be listed.
 */
static void note(struct subsession *l, const struct keeper_op *ops, size_t count, int err,
                 const struct keeper_result *results)
{
    if (err && err != DROVER_UNKNOWN)
        return;
    LOCKED(&l->lock);
    for (size_t i = 0; i < count; i++) {
        const struct keeper_op *op = &ops[i];
        bool creates = op->kind == KEEPER_CREATE && (op->flags & KEEPER_EPHEMERAL);
        if (creates && !err)
            node_put(l, str_of(results[i].path), results[i].stat.czxid, op->data);
        else if (creates && !(op->flags & KEEPER_SEQUENTIAL))
            node_put(l, op->path, 0, op->data);
        else if (op->kind == KEEPER_DELETE && !err)
            node_drop(l, node_find(l, op->path));
    }
}

/* Calls that the host executes. */

static int get(struct keeper *k, struct str path, struct buf *ret_data,
               struct keeper_stat *ret_stat)
{
    struct keeper *host = subsession_of(k)->host;
    return host->ops->get(host, path, ret_data, ret_stat);
}

static int children(struct keeper *k, struct str path, struct buf *ret_text, size_t *ret_count,
                    struct keeper_stat *ret_stat)
{
    struct keeper *host = subsession_of(k)->host;
    return host->ops->children(host, path, ret_text, ret_count, ret_stat);
}

static int multi(struct keeper *k, const struct keeper_op *ops, size_t count,
                 struct keeper_result *results)
{
    struct subsession *l = subsession_of(k);
    int err = l->host->ops->multi(l->host, ops, count, results);
    note(l, ops, count, err, results);
    return err;
}

static int sync_path(struct keeper *k, struct str path)
{
    struct keeper *host = subsession_of(k)->host;
    return host->ops->sync(host, path);
}

/* A commit in flight, with a copy of its operations: their results change the list. */
struct subsession_commit {
    struct subsession *l;
    keeper_done_fn *done;
    void *arg;
    struct arena arena; /* paths and data of the operations */
    struct keeper_op ops[];
};

static void commit_free(struct subsession_commit *p)
{
    struct subsession *l = p->l;
    arena_release(&p->arena);
    free(p);
    LOCKED(&l->lock);
    if (!--l->commits)
        pthread_cond_broadcast(&l->quiet);
}

static void on_committed(void *arg, int err, const struct keeper_result *results, size_t count)
{
    struct subsession_commit *p = arg;
    note(p->l, p->ops, count, err, results);
    p->done(p->arg, err, results, count);
    commit_free(p);
}

static int commit(struct keeper *k, const struct keeper_op *ops, size_t count, keeper_done_fn *done,
                  void *arg)
{
    struct subsession *l = subsession_of(k);
    struct subsession_commit *p = mem_alloc(sizeof *p + count * sizeof *ops);
    *p = (struct subsession_commit){.l = l, .done = done, .arg = arg};
    for (size_t i = 0; i < count; i++) {
        p->ops[i] = ops[i];
        p->ops[i].path.p = arena_text(&p->arena, ops[i].path);
        p->ops[i].data.p = arena_text(&p->arena, ops[i].data);
    }
    pthread_mutex_lock(&l->lock);
    l->commits++;
    pthread_mutex_unlock(&l->lock);
    int err = l->host->ops->commit(l->host, ops, count, on_committed, p);
    if (err)
        commit_free(p);
    return err;
}

static void watch_unlink(struct subsession *l, struct subsession_watch *w)
{
    LOCKED(&l->lock);
    LIST_REMOVE(w, link);
}

/*
 * fn may remove the watch while the call that sets it is still running, so the list and *ret_watch
 * are filled in before the host is called.
 */
static int watch(struct keeper *k, struct str path, enum keeper_watch_kind kind,
                 keeper_watch_fn *fn, void *arg, struct keeper_watch **ret_watch)
{
    struct subsession *l = subsession_of(k);
    struct subsession_watch *w = mem_zalloc(sizeof *w);
    struct keeper_watch *before = *ret_watch;
    pthread_mutex_lock(&l->lock);
    LIST_INSERT_HEAD(&l->watches, w, link);
    pthread_mutex_unlock(&l->lock);
    *ret_watch = (struct keeper_watch *)w;
    int err = l->host->ops->watch(l->host, path, kind, fn, arg, &w->host);
    if (err) {
        *ret_watch = before;
        watch_unlink(l, w);
        free(w);
    }
    return err;
}

static void unwatch(struct keeper *k, struct keeper_watch *handle)
{
    struct subsession_watch *w = (struct subsession_watch *)handle;
    struct subsession *l = subsession_of(k);
    watch_unlink(l, w);
    keeper_unwatch(l->host, w->host);
    free(w);
}

static void dispatch(struct keeper *k)
{
    keeper_dispatch(subsession_of(k)->host);
}

/* Closing. */

/* Whether the node still exists and is the one that this subsession created. */
static int node_is_ours(struct subsession *l, const struct subsession_node *n, bool *ret_ours)
{
    struct keeper_stat stat;
    CLEANUP(buf_release) struct buf data = {0};
    int err = keeper_get(l->host, n->path, n->czxid ? NULL : &data, &stat);
    if (err)
        *ret_ours = false;
    else if (n->czxid)
        *ret_ours = stat.czxid == n->czxid;
    else
        *ret_ours = stat.ephemeral_owner == l->host->session.id &&
                    str_eq(buf_str(&data), buf_str(&n->data));
    return err == DROVER_NO_NODE ? 0 : err;
}

/*
 * Deletes up to LEAVE_MAX nodes. NO_NODE: another client deleted one of them first.
 *
 * It goes from the last node down, so a node that is not ours is replaced by one that is: those to
 * delete are always the last ones.
 */
static int leave_some(struct subsession *l)
{
    struct keeper_op ops[LEAVE_MAX];
    size_t n = 0;
    for (uint32_t ref = l->node_len; ref && n < LEAVE_MAX; ref--) {
        bool ours;
        TRY(node_is_ours(l, &l->nodes[ref - 1], &ours));
        if (ours)
            ops[n++] = keeper_op_delete(l->nodes[ref - 1].path, KEEPER_ANY_VERSION);
        else
            node_drop(l, ref);
    }
    if (n)
        TRY(keeper_multi(l->host, ops, n, NULL));
    while (n--)
        node_drop(l, l->node_len);
    return 0;
}

/* Under the lock: waits until no commit is in flight. */
static void wait_quiet(struct subsession *l)
{
    while (l->commits)
        pthread_cond_wait(&l->quiet, &l->lock);
}

int subsession_leave(struct keeper *k)
{
    struct subsession *l = subsession_of(k);
    int err = 0;
    LOCKED(&l->lock);
    wait_quiet(l);
    while (l->node_len && (!err || err == DROVER_NO_NODE))
        err = leave_some(l);
    return err == DROVER_NO_NODE ? 0 : err;
}

static void close_subsession(struct keeper *k, bool end_session)
{
    struct subsession *l = subsession_of(k);
    while (!LIST_EMPTY(&l->watches))
        unwatch(k, (struct keeper_watch *)LIST_FIRST(&l->watches));
    if (end_session)
        subsession_leave(k);
    pthread_mutex_lock(&l->lock);
    wait_quiet(l);
    while (l->node_len)
        node_drop(l, l->node_len);
    pthread_mutex_unlock(&l->lock);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->quiet);
    map_release(&l->by_path);
    free(l->nodes);
    free(l);
}

static const struct keeper_ops SUBSESSION_OPS = {
    get, children, multi, commit, sync_path, watch, unwatch, dispatch, close_subsession,
};

int subsession_open(struct keeper *host, int32_t timeout_ms, struct keeper **ret_keeper)
{
    struct subsession *l = mem_alloc(sizeof *l);
    *l = (struct subsession){{&SUBSESSION_OPS, {.timeout_ms = timeout_ms}}, .host = host};
    random_fill(&l->base.session.id, sizeof l->base.session.id);
    random_fill(l->base.session.password, sizeof l->base.session.password);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->quiet, NULL);
    *ret_keeper = &l->base;
    return 0;
}
