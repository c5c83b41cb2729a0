/*
 * Creating, opening and closing a world.
 *
 * The pending list, as this process knows it, is a list_view whose groups are the types, ordered by
 * the transaction that created the node. zoott_w holds the locks. Tasks of other worlds and invalid
 * nodes are idle; both keep their names.
 */
#include "base/thread.h"
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
    CLEANUP(buf_release) struct buf line = {0};
    uint32_t at;

    if (!w->o.note)
        return;
    buf_printf(&line, "%s/%.*s is skipped: %s", list, STR_ARGS(key), why);
    uint32_t hash = map_hash_str(buf_str(&line));
    {
        LOCKED(&w->warning);
        if (w->warned.count >= WARNED_MAX || map_first(&w->warned, hash, &at))
            return;
        map_add(&w->warned, hash, 1);
    }
    w->o.note(w->o.arg, buf_text(&line));
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

static int make_missing(struct keeper *k, struct arena *a, const char *root)
{
    const char *paths[] = {WORLD_PENDING, WORLD_WORKING, WORLD_COMPLETED, root};
    struct txn t = {.a = a};
    for (int i = 0; i < 4; i++)
        TRY(txn_create_missing(&t, k, paths[i]));
    return txn_commit(&t, k, 0);
}

int world_init(struct keeper *k, struct str name, struct err_info *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    int err = DROVER_EXISTS;
    TRY(world_check_world(name, ret_error));
    for (int i = 0; i < WORLD_TRIES && (err == DROVER_EXISTS || err == DROVER_UNKNOWN); i++)
        err = make_missing(k, &a, world_root_path(&a, name)); /* others may create them too */
    return err ? err_explain(ret_error, err) : 0;
}

/* The view of the pending list. */

static bool is_plain(struct world *w, struct arena *a, struct str key, struct str type,
                     struct str data)
{
    struct world_record made;
    world_record_make(a, w->root, key, type, &made);
    return str_eq(world_record_write(a, &made), data);
}

void world_classify(struct world *w, struct arena *a, struct str key, struct str data,
                    const struct keeper_stat *stat, struct list_class *ret_class)
{
    struct world_record r;
    *ret_class = (struct list_class){.idle = true};
    if (world_record_read(a, data, key, &r))
        world_warn(w, WORLD_PENDING, key, "its data is not that of a pending task");
    else if (!world_record_is_of(&r, w->root))
        ret_class->flags = PENDING_FOREIGN;
    else if (!r.failed) /* otherwise idle: read again now and then, as others may queue it */
        *ret_class =
            (struct list_class){.order = stat->czxid,
                                .group = r.type,
                                .flags = is_plain(w, a, key, r.type, data) ? PENDING_PLAIN : 0};
}

/* Under the lock of the view, so one scratch arena is enough. */
static void classify(void *arg, struct str key, struct str data, const struct keeper_stat *stat,
                     struct list_class *ret_class)
{
    struct world *w = arg;
    arena_reset(&w->scratch);
    world_classify(w, &w->scratch, key, data, stat, ret_class);
}

static void on_ready(void *arg, struct str type, uint32_t count)
{
    struct world *w = arg;
    if (w->o.ready)
        w->o.ready(w->o.arg, type, count);
}

static void on_changed(void *arg)
{
    on_ready(arg, (struct str){0}, 1);
}

int world_open(struct keeper *k, struct str name, const struct world_options *o,
               struct world **ret_world, struct err_info *ret_error)
{
    TRY(world_check_world(name, ret_error));
    CLEANUP(arena_release) struct arena a = {0};
    const char *root = world_root_path(&a, name);
    struct world *w = mem_alloc(sizeof *w);

    *w = (struct world){.name = mem_dup(name.p, name.len),
                        .root = mem_dup(root, strlen(root)),
                        .o = o ? *o : (struct world_options){0},
                        .k = k};
    pthread_mutex_init(&w->warning, NULL);
    w->index = world_index_new(w->root);
    w->pending = list_view_new(&(struct list_view_options){.dir = WORLD_PENDING,
                                                           .locks = WORLD_WORKING,
                                                           .data = true,
                                                           .classify = classify,
                                                           .ready = on_ready,
                                                           .changed = on_changed,
                                                           .arg = w});
    int err = keeper_exists(k, w->root, NULL);
    if (err) {
        world_close(w);
        return err == DROVER_NO_NODE
                   ? err_set(ret_error, err, "there is no world '%.*s'", STR_ARGS(name))
                   : err_explain(ret_error, err);
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

const char *world_state_name(enum world_state s)
{
    static const char *const names[] = {
        [WORLD_IS_PENDING] = "pending",     [WORLD_IS_WORKING] = "working",
        [WORLD_IS_COMPLETED] = "completed", [WORLD_IS_FAILED] = "failed",
        [WORLD_IS_NONE] = "none",
    };
    return names[s];
}
