/*
 * Reads and changes count alike: a crash can fall after any of them. Watches pass as long as it is
 * alive and are not counted, because they change nothing.
 */
#include "keeper_cutter.h"

#include <stdlib.h>

static struct cutter *cutter_of(struct keeper *k)
{
    return (struct cutter *)k;
}

enum verdict { PASS, CUT, DONE_AND_CUT };

static enum verdict count_call(struct cutter *c)
{
    c->calls++;
    if (c->cut)
        return c->once ? PASS : CUT;
    if (c->left-- > 0)
        return PASS;
    c->cut = true;
    return c->after ? DONE_AND_CUT : CUT;
}

static enum verdict next_call(struct cutter *c)
{
    enum verdict verdict;

    pthread_mutex_lock(&c->lock);
    verdict = count_call(c);
    pthread_mutex_unlock(&c->lock);
    return verdict;
}

static int get(struct keeper *k, struct str path, struct buf *ret_data,
               struct keeper_stat *ret_stat)
{
    struct cutter *c = cutter_of(k);

    return next_call(c) == PASS ? c->inner->ops->get(c->inner, path, ret_data, ret_stat) : c->err;
}

static int children(struct keeper *k, struct str path, struct buf *ret_text, size_t *ret_count,
                    struct keeper_stat *ret_stat)
{
    struct cutter *c = cutter_of(k);

    if (next_call(c) != PASS)
        return c->err;
    return c->inner->ops->children(c->inner, path, ret_text, ret_count, ret_stat);
}

static int multi(struct keeper *k, const struct keeper_op *ops, size_t count,
                 struct keeper_result *results)
{
    struct cutter *c = cutter_of(k);
    enum verdict verdict = next_call(c);

    if (verdict == PASS)
        return c->inner->ops->multi(c->inner, ops, count, results);
    if (verdict == DONE_AND_CUT) {
        c->inner->ops->multi(c->inner, ops, count, results);
        keeper_results_release(results, count);
    }
    for (size_t i = 0; i < count; i++)
        results[i] = (struct keeper_result){.err = c->err};
    return c->err;
}

static int commit(struct keeper *k, const struct keeper_op *ops, size_t count, keeper_done_fn *done,
                  void *arg)
{
    struct cutter *c = cutter_of(k);
    enum verdict verdict = next_call(c);

    if (verdict == PASS)
        return keeper_commit(c->inner, ops, count, done, arg);
    if (verdict == DONE_AND_CUT) {
        struct keeper_result *results = calloc(count, sizeof *results);
        c->inner->ops->multi(c->inner, ops, count, results);
        keeper_results_release(results, count);
        free(results);
    }
    return c->err;
}

static int sync_path(struct keeper *k, struct str path)
{
    struct cutter *c = cutter_of(k);

    return next_call(c) == PASS ? c->inner->ops->sync(c->inner, path) : c->err;
}

static int watch(struct keeper *k, struct str path, enum keeper_watch_kind kind,
                 keeper_watch_fn *fn, void *arg, struct keeper_watch **ret_watch)
{
    struct cutter *c = cutter_of(k);

    if (c->cut && !c->once)
        return c->err;
    return c->inner->ops->watch(c->inner, path, kind, fn, arg, ret_watch);
}

static void unwatch(struct keeper *k, struct keeper_watch *w)
{
    keeper_unwatch(cutter_of(k)->inner, w);
}

static void dispatch(struct keeper *k)
{
    keeper_dispatch(cutter_of(k)->inner);
}

static void close_cutter(struct keeper *k, bool end_session)
{
    (void)k, (void)end_session;
}

static const struct keeper_ops CUTTER_OPS = {
    .get = get,
    .children = children,
    .multi = multi,
    .commit = commit,
    .sync = sync_path,
    .watch = watch,
    .unwatch = unwatch,
    .dispatch = dispatch,
    .close = close_cutter,
};

void cutter_init(struct cutter *c, struct keeper *inner, int left, int err, bool after)
{
    *c = (struct cutter){.inner = inner, .left = left, .err = err, .after = after};
    pthread_mutex_init(&c->lock, NULL);
    c->base = (struct keeper){&CUTTER_OPS, inner->session};
}
