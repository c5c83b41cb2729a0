/* Creating, opening and closing a world. */
#include "world/world.h"

#include <stdlib.h>

#include "base/mem.h"
#include "world/impl.h"

int world_read(struct keeper *k, struct arena *a, const char *path, struct str *ret_data,
               struct keeper_stat *ret_stat)
{
    CLEANUP(buf_release) struct buf data = {0};
    int err = keeper_get(k, path, &data, ret_stat);

    if (!err)
        *ret_data = arena_take(a, &data);
    return err;
}

void world_warn(struct world *w, const char *list, struct str key, const char *why)
{
    enum { WARNED_MAX = 10000 };
    struct buf line = {0};
    uint32_t hash, at;
    bool is_new;

    if (!w->o.note)
        return;
    buf_printf(&line, "%s/%.*s is skipped: %s", list, STR_ARGS(key), why);
    hash = map_hash_str(buf_str(&line));
    pthread_mutex_lock(&w->warning);
    is_new = w->warned.count < WARNED_MAX && !map_first(&w->warned, hash, &at);
    if (is_new)
        map_add(&w->warned, hash, 1);
    pthread_mutex_unlock(&w->warning);
    if (is_new)
        w->o.note(w->o.arg, buf_text(&line));
    buf_release(&line);
}

int world_commit(struct world *w, struct keeper *k, struct txn *t)
{
    uint32_t changes = 0;

    for (int i = 0; i < t->count; i++)
        changes += (t->ops[i].kind == KEEPER_CREATE || t->ops[i].kind == KEEPER_DELETE) &&
                   str_starts(t->ops[i].path, STR(WORLD_PENDING "/"));
    list_view_expect(w->pending, changes);
    int err = txn_commit(t, k, 0);
    list_view_done(w->pending, changes, err);
    return err;
}

void world_tell(struct world *w, const struct world_change *c)
{
    if (w->o.told)
        w->o.told(w->o.arg, c);
}

bool world_is_stale(int err)
{
    return err == DROVER_NO_NODE || err == DROVER_EXISTS || err == DROVER_BAD_VERSION;
}

int world_gave_up(struct err_info *e)
{
    return err_set(e, DROVER_BAD_VERSION, "other clients keep changing this task: try again");
}

int world_explain(struct err_info *e, int err)
{
    return err_set(e, err, "%s", drover_err_message(err));
}

static int make_missing(struct keeper *k, struct arena *a, const char *const *paths, size_t count)
{
    struct txn t = {.a = a};
    int err = 0;

    for (size_t i = 0; i < count && !err; i++)
        err = txn_create_missing(&t, k, paths[i]);
    return err ? err : txn_commit(&t, k, 0);
}

int world_init(struct keeper *k, struct str name, struct err_info *ret_error)
{
    const char *paths[] = {WORLD_PENDING, WORLD_WORKING, WORLD_COMPLETED, NULL};
    struct arena a = {0};
    int err = world_check_world(name, ret_error);

    if (err)
        return err;
    paths[3] = world_root_path(&a, name);
    err = DROVER_EXISTS;
    for (int i = 0; i < WORLD_TRIES && (err == DROVER_EXISTS || err == DROVER_UNKNOWN); i++)
        err = make_missing(k, &a, paths, 4); /* other clients may create them at the same time */
    arena_release(&a);
    return err ? world_explain(ret_error, err) : 0;
}

int world_open(struct keeper *k, struct str name, const struct world_options *o,
               struct world **ret_world, struct err_info *ret_error)
{
    struct world *w;
    struct arena a = {0};
    TRY(world_check_world(name, ret_error));
    w = mem_zalloc(sizeof *w);
    pthread_mutex_init(&w->warning, NULL);
    w->name = mem_dup(name.p, name.len);
    if (o)
        w->o = *o;
    w->root = world_root_path(&a, name);
    w->root = mem_dup(w->root, strlen(w->root));
    arena_release(&a);
    w->index = world_index_new(w->root);
    w->k = k;
    w->pending = world_pending_new(w);
    int err = keeper_exists(k, w->root, NULL);
    if (err) {
        world_close(w);
        return err == DROVER_NO_NODE
                   ? err_set(ret_error, err, "there is no world '%.*s'", STR_ARGS(name))
                   : world_explain(ret_error, err);
    }
    *ret_world = w;
    return 0;
}

void world_close(struct world *w)
{
    list_view_free(w->pending);
    arena_release(&w->scratch);
    world_index_free(w->index);
    map_release(&w->warned);
    pthread_mutex_destroy(&w->warning);
    free(w->name);
    free(w->root);
    free(w);
}

const char *world_root(const struct world *w)
{
    return w->root;
}

const char *world_state_name(enum world_state s)
{
    static const char *const names[] = {
        [WORLD_IS_PENDING] = "pending",
        [WORLD_IS_WORKING] = "working",
        [WORLD_IS_COMPLETED] = "completed",
        [WORLD_IS_NONE] = "none",
    };

    return names[s];
}
