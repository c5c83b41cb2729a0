/* Does everything on both sides and compares. */
#include "player.h"

#include <stdio.h>

static void expect_stat(const char *what, struct keeper_stat want, struct keeper_stat got)
{
    char texts[2][200];
    const struct keeper_stat *stats[] = {&want, &got};

    for (int i = 0; i < 2; i++)
        snprintf(texts[i], sizeof texts[i],
                 "c%lld m%lld p%lld ct%lld mt%lld o%lld v%d cv%d av%d len%d children%d",
                 (long long)stats[i]->czxid, (long long)stats[i]->mzxid, (long long)stats[i]->pzxid,
                 (long long)stats[i]->ctime_ms, (long long)stats[i]->mtime_ms,
                 (long long)stats[i]->ephemeral_owner, stats[i]->version, stats[i]->cversion,
                 stats[i]->aversion, stats[i]->data_len, stats[i]->child_count);
    expect_text(what, texts[0], texts[1]);
}

static void open_store(struct player *p)
{
    struct local_options o = store_options(p->s, p->dir, &p->f->fs);
    struct local_stats stats;

    o.mode = p->mode;
    if (store_open_with(p->s, &o))
        fail_msg("the start is refused: %s", p->s->error.text);
    local_stats(p->s->l, &stats);
    assert_int_equal(p->model.zxid, stats.zxid);
    assert_int_equal(p->model.count, stats.nodes);
    p->snapshots += stats.snapshot_zxid > 0;
    snapper_use(&p->snapper, p->s->l);
}

void player_open(struct player *p, enum local_mode mode, uint64_t seed)
{
    *p = (struct player){.mode = mode, .s = store_new(), .dir = dir_make(), .rng = {seed}};
    model_init(&p->model);
    p->f = fs_faulty_new();
    p->f->before = snapper_before;
    p->f->before_arg = &p->snapper;
    snapper_start(&p->snapper, seed);
    open_store(p);
    player_session_open(p, &p->sessions[0]);
}

static void close_store(struct player *p)
{
    snapper_use(&p->snapper, NULL);
    expect_err(0, p->snapper.err);
    store_leave(p->s);
    assert_int_equal(0, atomic_load(&p->s->fatals));
}

void player_close(struct player *p)
{
    for (int i = 0; i < PLAYER_SESSIONS_MAX; i++)
        if (p->sessions[i].k)
            player_session_close(p, &p->sessions[i]);
    close_store(p);
    snapper_stop(&p->snapper);
    store_free(p->s);
    fs_faulty_free(p->f);
    model_release(&p->model);
    dir_remove(p->dir);
}

static void connect_as(struct player *p, struct player_session *s,
                       const struct keeper_session *name)
{
    struct keeper_options o = {.timeout_ms = KEEPER_TIMEOUT_MAX_MS};

    if (name)
        o.resume = *name;
    must(local_connect(p->s->l, &o, &s->k));
}

void player_session_open(struct player *p, struct player_session *s)
{
    connect_as(p, s, NULL);
    keeper_session(s->k, &s->name);
    s->id = model_session_open(&p->model);
    assert_int_equal(s->id, s->name.id);
}

void player_session_close(struct player *p, struct player_session *s)
{
    keeper_close(s->k);
    model_session_close(&p->model, s->id);
    *s = (struct player_session){0};
}

void player_session_leave(struct player *p, struct player_session *s)
{
    (void)p;
    keeper_abandon(s->k);
    s->k = NULL;
}

void player_session_resume(struct player *p, struct player_session *s)
{
    connect_as(p, s, &s->name);
}

void player_multi(struct player *p, struct player_session *s, const struct keeper_op *ops,
                  size_t count, bool later)
{
    struct keeper_result want[PLAYER_OPS_MAX] = {{0}}, got[PLAYER_OPS_MAX] = {{0}};
    int64_t now_ms = atomic_fetch_add(&p->s->wall_ms, 1) + 1;
    int want_err = model_apply(&p->model, s->id, now_ms, ops, count, want);
    int err = (later ? commit_and_wait : keeper_multi)(s->k, ops, count, got);

    if (atomic_load(&p->s->fatals))
        fail_msg("the store has ended: %s", p->s->fatal);
    expect_err(want_err, err);
    for (size_t i = 0; i < count; i++) {
        expect_err(want[i].err, got[i].err);
        expect_text("path", want[i].path ? want[i].path : "", got[i].path ? got[i].path : "");
        expect_stat(want[i].path ? want[i].path : "stat", want[i].stat, got[i].stat);
    }
    assert_int_equal(p->model.zxid, store_zxid(p->s));
    keeper_results_release(want, count);
    keeper_results_release(got, count);
}

static void look_at_children(struct player *p, struct keeper *k, const char *path)
{
    char *want = model_children(&p->model, path);
    struct keeper_names names = {0};
    struct keeper_stat stat;
    struct buf got = {0};

    must(keeper_children(k, path, &names, &stat));
    for (size_t i = 0; i < names.count; i++)
        buf_printf(&got, "%s ", names.names[i]);
    expect_text(path, want, buf_text(&got));
    expect_stat(path, model_stat(&p->model, model_find(&p->model, path)), stat);
    keeper_names_release(&names);
    buf_release(&got);
    free(want);
}

void player_look(struct player *p, struct keeper *k, const char *path)
{
    const struct model_node *n = model_find(&p->model, path);
    struct keeper_stat stat;
    struct buf data = {0};

    expect_err(n ? 0 : DROVER_NO_NODE, keeper_get(k, path, &data, &stat));
    if (n) {
        expect_stat(path, model_stat(&p->model, n), stat);
        if (data.len != n->data.len || (data.len && memcmp(data.p, n->data.p, data.len) != 0))
            fail_msg("%s holds other data", path);
        look_at_children(p, k, path);
    }
    buf_release(&data);
}

void player_look_at_all(struct player *p, struct keeper *k)
{
    struct local_stats stats;

    local_stats(p->s->l, &stats);
    assert_int_equal(p->model.count, stats.nodes);
    for (size_t i = 0; i < p->model.count; i++)
        player_look(p, k, p->model.nodes[i].path);
}

/* All sessions and all nodes are as before. */
static void come_back(struct player *p)
{
    struct player_session *any = &p->sessions[0];

    open_store(p);
    for (int i = 0; i < PLAYER_SESSIONS_MAX; i++)
        if (p->sessions[i].id)
            player_session_resume(p, &p->sessions[i]);
    if (!any->id)
        player_session_open(p, any);
    player_look_at_all(p, any->k);
}

void player_restart(struct player *p)
{
    for (int i = 0; i < PLAYER_SESSIONS_MAX; i++) {
        if (!p->sessions[i].k)
            continue;
        if (rng_below(&p->rng, 2))
            player_session_close(p, &p->sessions[i]);
        else
            player_session_leave(p, &p->sessions[i]);
    }
    close_store(p);
    come_back(p);
}

static bool is_durable(void *arg)
{
    struct player *p = arg;
    struct local_stats stats;

    local_stats(p->s->l, &stats);
    return stats.durable_zxid == stats.zxid;
}

void player_kill(struct player *p)
{
    struct image im;

    snapper_use(&p->snapper, NULL);
    wait_until(is_durable, p);
    image_read(&im, p->dir);
    if (image_name(&im, "snapshot-", 1) && rng_below(&p->rng, 2))
        image_remove(&im, image_name(&im, "snapshot-", -1));
    for (int i = 0; i < PLAYER_SESSIONS_MAX; i++)
        if (p->sessions[i].k)
            player_session_leave(p, &p->sessions[i]);
    close_store(p);
    dir_remove(p->dir);
    p->dir = dir_make();
    image_write(&im, p->dir);
    image_release(&im);
    come_back(p);
}
