/*
 * The simulated keeper: the real tree, behind a connection that is slow, breaks and loses answers.
 */
#include "sim.h"

#include <stdlib.h>

static struct sim_keeper *of(struct keeper *base)
{
    return (struct sim_keeper *)base;
}

/*
 * Time passes and others act. A worker that is paused meanwhile does not continue before it is
 * resumed.
 */
static void pass(struct sim_keeper *k)
{
    struct sim *w = k->world;
    int64_t until_ms = w->now_ms;

    if (!k->worker || !w->o.faults || w->nest >= NEST_MAX)
        return;
    if (sim_random(w, 4) == 0)
        until_ms += (int64_t)sim_random(w, sim_random(w, 20) ? 10 : 300);
    w->nest++;
    if (w->chaos && sim_random(w, 100) == 0) /* the connection breaks now */
        sim_cut_off(w, k->worker, (int64_t)sim_random(w, 2 * (uint64_t)w->o.timeout_ms));
    sim_run_until(w, until_ms);
    while (k->worker->alive && k->worker->resume_ms > w->now_ms)
        sim_run_until(w, k->worker->resume_ms);
    w->nest--;
}

/* Whether a request gets through: 0, or the error that the caller gets. */
static int arrive(struct sim_keeper *k)
{
    struct sim *w = k->world;

    w->calls++;
    if (!k->worker)
        return 0;
    pass(k);
    if (!k->worker->alive)
        return DROVER_CLOSED;
    if (k->worker->cut_off)
        return DROVER_UNKNOWN;
    if (!k->session)
        return DROVER_SESSION_EXPIRED;
    k->worker->heard_ms = w->now_ms;
    return 0;
}

/* Whether the answer gets through. */
static int answer(struct sim_keeper *k, int err)
{
    if (!k->worker)
        return err;
    pass(k);
    if (!k->worker->alive)
        return DROVER_CLOSED;
    return k->worker->cut_off ? DROVER_UNKNOWN : err;
}

static int get(struct keeper *base, struct str path, struct buf *ret_data, struct keeper_stat *stat)
{
    struct sim_keeper *k = of(base);
    struct tree_view v;
    int err = arrive(k);

    if (err)
        return err;
    err = tree_look(&k->world->tree, path, &v);
    if (!err)
        *stat = v.stat;
    if (!err && ret_data) {
        ret_data->len = 0;
        buf_put_str(ret_data, v.data);
    }
    return answer(k, err);
}

static int children(struct keeper *base, struct str path, struct buf *ret_text, size_t *ret_count,
                    struct keeper_stat *ret_stat)
{
    struct sim_keeper *k = of(base);
    int err = arrive(k);

    return err ? err
               : answer(k, tree_children(&k->world->tree, path, ret_text, ret_count, ret_stat));
}

static int all_get(struct keeper_result *results, size_t count, int err)
{
    keeper_results_release(results, count);
    for (size_t i = 0; i < count; i++)
        results[i] = (struct keeper_result){.err = err};
    return err;
}

static int multi(struct keeper *base, const struct keeper_op *ops, size_t count,
                 struct keeper_result *results)
{
    struct sim_keeper *k = of(base);
    struct sim *w = k->world;
    struct tree_user user = {0};
    int err = arrive(k), answered;

    if (!err && k->worker && w->o.faults && sim_random(w, 200) == 0)
        err = DROVER_UNKNOWN; /* the request was lost */
    if (err)
        return all_get(results, count, err);
    user.session = k->session ? sessions_find(&w->tree.sessions, k->session) : NULL;
    err = tree_apply(&w->tree, &user, w->now_ms, ops, count, results, &w->changes);
    if (!err)
        sim_changed(w, &w->changes, k->worker);
    answered = answer(k, err);
    if (k->worker && w->o.faults && sim_random(w, 200) == 0)
        answered = DROVER_UNKNOWN; /* the answer was lost */
    return answered == err ? err : all_get(results, count, answered);
}

static int sync(struct keeper *base, struct str path)
{
    (void)path;
    return arrive(of(base));
}

static const struct keeper_ops OPS = {
    .get = get, .children = children, .multi = multi, .sync = sync};

void sim_keeper_init(struct sim_keeper *k, struct sim *w, struct sim_worker *worker)
{
    *k = (struct sim_keeper){.base = {&OPS}, .world = w, .worker = worker};
}

void sim_keeper_open(struct sim_keeper *k)
{
    static const char password[KEEPER_PASSWORD_LEN];
    struct sim *w = k->world;

    k->session = tree_session_open(&w->tree, w->now_ms, 1, password, &w->changes)->id;
}

void sim_keeper_expire(struct sim_keeper *k)
{
    struct sim *w = k->world;
    struct tree_session *s = sessions_find(&w->tree.sessions, k->session);

    k->session = 0;
    tree_session_close(&w->tree, s, w->now_ms, SIZE_MAX, &w->changes);
    sim_changed(w, &w->changes, NULL);
}
