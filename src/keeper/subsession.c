/*
 * What a lodger remembers is a list of marks, one for each ephemeral node, found by its path through
 * a map. A mark is made when the creation is known to have happened, or when it is not known (czxid
 * 0, with the data, so that it can be told apart later), and dropped when this lodger deletes the
 * node. Others may delete it too: then the mark is stale, and does no harm because the czxid of
 * whatever is there by then is another.
 */
#include "keeper/subsession.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/random.h"

enum { LEAVE_TOGETHER_MAX = 500 }; /* deletions in one transaction */

struct mark {
    char *path;      /* NULL: free */
    int64_t czxid;   /* 0: not known, or not even whether it was made */
    struct buf data; /* of one that is not known */
    uint32_t next_free;
};

struct subsession {
    struct keeper base;
    struct keeper *host;
    struct keeper_session session;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t quiet; /* no commit is under way */
    int commits;
    struct mark *marks; /* refs start at 1 */
    uint32_t mark_len, mark_cap, free_mark;
    struct map by_path;
    struct keeper_watch *watches;
};

struct keeper_watch {
    struct keeper_watch *host; /* what the host calls it */
    keeper_watch_fn *fn;
    void *arg;
    struct keeper_watch *next;
};

static struct subsession *subsession_of(struct keeper *k)
{
    return (struct subsession *)k;
}

/* Marks, under the lock. */

static uint32_t mark_find(struct subsession *l, struct str path)
{
    uint32_t hash = map_hash_str(path);

    for (uint32_t at, ref = map_first(&l->by_path, hash, &at); ref;
         ref = map_next(&l->by_path, hash, &at))
        if (str_eq(str_of(l->marks[ref].path), path))
            return ref;
    return 0;
}

static void mark_drop(struct subsession *l, uint32_t ref)
{
    struct mark *m = &l->marks[ref];

    map_remove(&l->by_path, map_hash_str(str_of(m->path)), ref);
    free(m->path);
    m->path = NULL;
    buf_release(&m->data);
    m->next_free = l->free_mark;
    l->free_mark = ref;
}

static uint32_t mark_new(struct subsession *l)
{
    uint32_t ref = l->free_mark;

    if (ref) {
        l->free_mark = l->marks[ref].next_free;
        return ref;
    }
    if (l->mark_len + 1 >= l->mark_cap) {
        l->mark_cap = l->mark_cap ? l->mark_cap * 2 : 8;
        l->marks = mem_realloc(l->marks, l->mark_cap * sizeof *l->marks);
    }
    return ++l->mark_len;
}

static void mark_put(struct subsession *l, struct str path, int64_t czxid, struct str data)
{
    uint32_t ref = mark_find(l, path);

    if (ref)
        mark_drop(l, ref);
    ref = mark_new(l);
    l->marks[ref] = (struct mark){.path = mem_dup(path.p, path.len), .czxid = czxid};
    if (!czxid)
        buf_put_str(&l->marks[ref].data, data);
    map_add(&l->by_path, map_hash_str(path), ref);
}

static void note_done(struct subsession *l, const struct keeper_op *op,
                      const struct keeper_result *r)
{
    uint32_t ref;

    if (op->kind == KEEPER_CREATE && (op->flags & KEEPER_EPHEMERAL)) {
        mark_put(l, str_of(r->path), r->stat.czxid, op->data); /* 0 with KEEPER_NO_STAT */
    } else if (op->kind == KEEPER_DELETE) {
        ref = mark_find(l, op->path);
        if (ref)
            mark_drop(l, ref);
    }
}

static void note_unknown(struct subsession *l, const struct keeper_op *op)
{
    if (op->kind == KEEPER_CREATE && (op->flags & ~KEEPER_NO_STAT) == KEEPER_EPHEMERAL)
        mark_put(l, op->path, 0, op->data);
}

static void note(struct subsession *l, const struct keeper_op *ops, size_t count, int err,
                 const struct keeper_result *results)
{
    if (err && err != DROVER_UNKNOWN)
        return;
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < count; i++) {
        if (err)
            note_unknown(l, &ops[i]);
        else
            note_done(l, &ops[i], &results[i]);
    }
    pthread_mutex_unlock(&l->lock);
}

/* What passes through. */

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

/* A commit on its way, with what is needed to remember what it did. */
struct passage {
    struct subsession *l;
    keeper_done_fn *done;
    void *arg;
    struct buf text; /* paths and data of the operations */
    struct keeper_op ops[];
};

static struct passage *passage_new(struct subsession *l, const struct keeper_op *ops, size_t count)
{
    struct passage *p = mem_zalloc(sizeof *p + count * sizeof *ops);
    size_t at = 0;

    p->l = l;
    memcpy(p->ops, ops, count * sizeof *ops);
    for (size_t i = 0; i < count; i++) {
        buf_put_str(&p->text, ops[i].path);
        buf_put_str(&p->text, ops[i].data);
    }
    for (size_t i = 0; i < count; i++) {
        p->ops[i].path.p = p->text.p + at;
        p->ops[i].data.p = p->text.p + at + ops[i].path.len;
        at += ops[i].path.len + ops[i].data.len;
    }
    return p;
}

static void passage_free(struct passage *p)
{
    pthread_mutex_lock(&p->l->lock);
    if (!--p->l->commits)
        pthread_cond_broadcast(&p->l->quiet);
    pthread_mutex_unlock(&p->l->lock);
    buf_release(&p->text);
    free(p);
}

static void on_committed(void *arg, int err, const struct keeper_result *results, size_t count)
{
    struct passage *p = arg;

    note(p->l, p->ops, count, err, results);
    p->done(p->arg, err, results, count);
    passage_free(p);
}

static int commit(struct keeper *k, const struct keeper_op *ops, size_t count, keeper_done_fn *done,
                  void *arg)
{
    struct subsession *l = subsession_of(k);
    struct passage *p = passage_new(l, ops, count);
    int err;

    p->done = done;
    p->arg = arg;
    pthread_mutex_lock(&l->lock);
    l->commits++;
    pthread_mutex_unlock(&l->lock);
    err = l->host->ops->commit(l->host, ops, count, on_committed, p);
    if (err)
        passage_free(p);
    return err;
}

/*
 * A watch is the host's, with a hold on it for taking it back at the end. fn may take it back while
 * the call that sets it up is still under way, so everything stands before the host is asked.
 */

static void on_event(void *arg, enum keeper_event event, const char *path)
{
    struct keeper_watch *w = arg;

    w->fn(w->arg, event, path); /* which may free w */
}

static void watch_unlink(struct subsession *l, struct keeper_watch *w)
{
    struct keeper_watch **link = &l->watches;

    pthread_mutex_lock(&l->lock);
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    pthread_mutex_unlock(&l->lock);
}

static int watch(struct keeper *k, struct str path, enum keeper_watch_kind kind,
                 keeper_watch_fn *fn, void *arg, struct keeper_watch **ret_watch)
{
    struct subsession *l = subsession_of(k);
    struct keeper_watch *w = mem_zalloc(sizeof *w), *before = *ret_watch;
    int err;

    w->fn = fn;
    w->arg = arg;
    pthread_mutex_lock(&l->lock);
    w->next = l->watches;
    l->watches = w;
    pthread_mutex_unlock(&l->lock);
    *ret_watch = w;
    err = l->host->ops->watch(l->host, path, kind, on_event, w, &w->host);
    if (err) {
        *ret_watch = before;
        watch_unlink(l, w);
        free(w);
    }
    return err;
}

static void unwatch(struct keeper *k, struct keeper_watch *w)
{
    struct subsession *l = subsession_of(k);

    watch_unlink(l, w);
    keeper_unwatch(l->host, w->host);
    free(w);
}

static void session(struct keeper *k, struct keeper_session *ret_session)
{
    *ret_session = subsession_of(k)->session;
}

static void dispatch(struct keeper *k)
{
    keeper_dispatch(subsession_of(k)->host);
}

/* The end. */

/* Whether the node of a mark is there and this lodger's. */
static int mark_holds(struct subsession *l, const struct mark *m, bool *ret_holds)
{
    struct keeper_session host;
    struct keeper_stat stat;
    struct buf data = {0};
    int err = keeper_get(l->host, m->path, m->czxid ? NULL : &data, &stat);

    keeper_session(l->host, &host);
    if (err && err != DROVER_NO_NODE)
        return err;
    if (err)
        *ret_holds = false;
    else if (m->czxid)
        *ret_holds = stat.czxid == m->czxid;
    else
        *ret_holds = stat.ephemeral_owner == host.id &&
                     str_eq((struct str){data.p, data.len}, (struct str){m->data.p, m->data.len});
    buf_release(&data);
    return 0;
}

/* Deletes up to LEAVE_TOGETHER_MAX nodes. NO_NODE: another was quicker with one of them. */
static int leave_some(struct subsession *l)
{
    struct keeper_op ops[LEAVE_TOGETHER_MAX];
    uint32_t refs[LEAVE_TOGETHER_MAX];
    size_t n = 0;
    int err = 0;

    for (uint32_t ref = 1; ref <= l->mark_len && n < LEAVE_TOGETHER_MAX && !err; ref++) {
        bool holds = false;

        if (!l->marks[ref].path)
            continue;
        err = mark_holds(l, &l->marks[ref], &holds);
        if (!err && !holds) {
            mark_drop(l, ref);
        } else if (!err) {
            ops[n] = keeper_op_delete(l->marks[ref].path, KEEPER_ANY_VERSION);
            refs[n++] = ref;
        }
    }
    if (!err && n)
        err = keeper_multi(l->host, ops, n, NULL);
    for (size_t i = 0; !err && i < n; i++)
        mark_drop(l, refs[i]);
    return err;
}

int subsession_leave(struct keeper *k)
{
    struct subsession *l = subsession_of(k);
    int err = 0;

    pthread_mutex_lock(&l->lock);
    while (l->commits)
        pthread_cond_wait(&l->quiet, &l->lock);
    while (l->by_path.count && (!err || err == DROVER_NO_NODE))
        err = leave_some(l);
    pthread_mutex_unlock(&l->lock);
    return err == DROVER_NO_NODE ? 0 : err;
}

static void close_subsession(struct keeper *k, bool end_session)
{
    struct subsession *l = subsession_of(k);

    while (l->watches)
        unwatch(k, l->watches);
    if (end_session)
        subsession_leave(k);
    pthread_mutex_lock(&l->lock);
    while (l->commits)
        pthread_cond_wait(&l->quiet, &l->lock);
    for (uint32_t ref = 1; ref <= l->mark_len; ref++)
        if (l->marks[ref].path)
            mark_drop(l, ref);
    pthread_mutex_unlock(&l->lock);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->quiet);
    map_release(&l->by_path);
    free(l->marks);
    free(l);
}

static const struct keeper_ops LODGER_OPS = {
    .get = get,
    .children = children,
    .multi = multi,
    .commit = commit,
    .sync = sync_path,
    .watch = watch,
    .unwatch = unwatch,
    .session = session,
    .dispatch = dispatch,
    .close = close_subsession,
};

int subsession_open(struct keeper *host, int32_t timeout_ms, struct keeper **ret_keeper)
{
    struct subsession *l = mem_zalloc(sizeof *l);

    l->base.ops = &LODGER_OPS;
    l->host = host;
    random_fill(&l->session.id, sizeof l->session.id);
    random_fill(l->session.password, sizeof l->session.password);
    l->session.timeout_ms = timeout_ms;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->quiet, NULL);
    *ret_keeper = &l->base;
    return 0;
}
