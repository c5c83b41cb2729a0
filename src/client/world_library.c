/*
 * The worlds of the public interface: C strings in, lists with memory of their own out. Waiting
 * uses the change callback of world.h.
 */
#include "base/clock.h"
#include "base/thread.h"
#include "client/keeper_library.h"
#include "world/impl.h"

_Static_assert((int)DROVER_WORLD_PENDING == WORLD_IS_PENDING &&
                   (int)DROVER_WORLD_WORKING == WORLD_IS_WORKING &&
                   (int)DROVER_WORLD_COMPLETED == WORLD_IS_COMPLETED &&
                   (int)DROVER_WORLD_FAILED == WORLD_IS_FAILED &&
                   (int)DROVER_WORLD_NONE == WORLD_IS_NONE,
               "the states have one order");

struct drover_world {
    struct world *w;
    struct keeper *k;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t changes;
};

static struct str text_or(const char *text, const char *other)
{
    return str_of(text ? text : other);
}

static struct drover_world_list new_list(void)
{
    return (struct drover_world_list){.memory = mem_zalloc(sizeof(struct arena))};
}

void drover_world_list_release(struct drover_world_list *l)
{
    if (l->memory)
        arena_release(l->memory);
    free(l->memory);
    *l = (struct drover_world_list){0};
}

/* Gives the list to the caller, or releases it after an error. */
static int list_end(struct drover_world_list *l, int err, struct drover_world_list *ret_list)
{
    if (err < 0)
        drover_world_list_release(l);
    else
        *ret_list = *l;
    return err;
}

/* Sets the items; data: of each of them, p NULL: not read. */
static void put_items(struct drover_world_list *l, const struct world_item *items, size_t count,
                      struct str data)
{
    struct arena *a = l->memory;

    l->items = arena_alloc(a, (count + 1) * sizeof *l->items);
    l->count = count;
    for (size_t i = 0; i < count; i++) {
        const struct world_record *r = &items[i].record;

        l->items[i] = (struct drover_world_item){
            .node = arena_text(a, items[i].key),
            .name = arena_text(a, r->name),
            .type = arena_text(a, r->type),
            .path = arena_text(a, r->path),
            .parent = r->parent.p ? arena_text(a, r->parent) : NULL,
            .data = data.p ? arena_text(a, data) : NULL,
            .state = (enum drover_world_state)items[i].state,
            .since_ms = items[i].since_ms,
            .failures = r->failures,
            .error = r->error.p ? arena_text(a, r->error) : NULL,
            .attempts = r->attempts,
            .tries = r->tries,
        };
    }
}

/* Opening. */

int drover_world_init(struct drover_keeper *k, const char *world, struct drover_error *ret_error)
{
    return world_init(k->keeper, str_of(world), ret_error);
}

static void on_ready(void *arg, struct str type, uint32_t count)
{
    struct drover_world *w = arg;
    (void)type, (void)count;
    LOCKED(&w->lock);
    w->changes++;
    pthread_cond_broadcast(&w->changed);
}

int drover_world_open(struct drover_keeper *k, const char *world, struct drover_world **ret_world,
                      struct drover_error *ret_error)
{
    struct drover_world *w = mem_zalloc(sizeof *w);
    struct world_options o = {.ready = on_ready, .arg = w};
    w->k = k->keeper;
    pthread_mutex_init(&w->lock, NULL);
    cond_init(&w->changed);
    int err = world_open(w->k, str_of(world), &o, &w->w, ret_error);
    if (err)
        drover_world_close(w);
    else
        *ret_world = w;
    return err;
}

void drover_world_close(struct drover_world *w)
{
    if (w->w)
        world_close(w->w);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* Queueing. */

struct namer {
    drover_world_name_fn *fn;
    void *arg;
};

static struct str call_namer(void *arg, struct arena *a, struct str parent, struct str child)
{
    struct namer *n = arg;
    char *name = n->fn(n->arg, arena_text(a, parent), arena_text(a, child));
    struct str copy = {name ? arena_text(a, str_of(name)) : "", name ? strlen(name) : 0};
    free(name); /* a failed name function gives the empty name, which is refused */
    return copy;
}

/* type: of all of them; NULL: not known. */
static void put_paths(struct drover_world *w, struct drover_world_list *l,
                      const struct world_paths *paths, const char *type)
{
    l->items = arena_zalloc(l->memory, (paths->count + 1) * sizeof *l->items);
    l->count = paths->count;
    for (size_t i = 0; i < paths->count; i++)
        l->items[i] = (struct drover_world_item){
            .path = paths->list[i],
            .node = world_key(l->memory, w->w->root, str_of(paths->list[i])),
            .type = type ? arena_text(l->memory, str_of(type)) : NULL};
}

int drover_world_queue(struct drover_world *w, const struct drover_world_task *task,
                       const struct drover_world_match *parent, drover_world_name_fn *name_fn,
                       void *arg, struct drover_world_list *ret_list,
                       struct drover_error *ret_error)
{
    struct world_task t = {text_or(task->name, ""), text_or(task->type, ""),
                           text_or(task->data, "null"), task->attempts};
    struct world_parent p = {text_or(parent ? parent->name : NULL, ""),
                             text_or(parent ? parent->type : NULL, "")};
    struct namer namer = {name_fn, arg};
    struct drover_world_list l = new_list();
    struct world_paths paths;
    int err = world_queue(w->w, w->k, l.memory, &t, parent ? &p : NULL, name_fn ? call_namer : NULL,
                          &namer, &paths, ret_error);
    if (!err)
        put_paths(w, &l, &paths, t.type.p);
    return list_end(&l, err, ret_list);
}

int drover_world_find(struct drover_world *w, const struct drover_world_match *match,
                      struct drover_world_list *ret_list, struct drover_error *ret_error)
{
    struct world_parent p = {text_or(match->name, ""), text_or(match->type, "")};
    struct drover_world_list l = new_list();
    struct world_paths paths;
    int err = world_find(w->w, w->k, l.memory, &p, &paths, ret_error);
    if (!err)
        put_paths(w, &l, &paths, NULL);
    return list_end(&l, err, ret_list);
}

/* Handling. */

static uint64_t changes_seen(struct drover_world *w)
{
    LOCKED(&w->lock);
    return w->changes;
}

/* False: timed out. */
static bool wait_for_change(struct drover_world *w, uint64_t seen, int64_t end_ms)
{
    LOCKED(&w->lock);
    while (w->changes == seen && clock_boot_ms() < end_ms)
        cond_wait_until(&w->changed, &w->lock, end_ms);
    return w->changes != seen;
}

int drover_world_claim(struct drover_world *w, const char *const *types, size_t type_count,
                       int64_t wait_ms, struct drover_world_list *ret_list,
                       struct drover_error *ret_error)
{
    int64_t end_ms = clock_boot_ms() + (wait_ms > 0 ? wait_ms : 0);
    struct drover_world_list l = new_list();
    struct str *names = arena_alloc(l.memory, (type_count + 1) * sizeof *names);
    struct world_claim claim;
    uint64_t seen;
    int claimed;
    for (size_t i = 0; i < type_count; i++)
        names[i] = str_of(types[i]);
    do {
        seen = changes_seen(w);
        claimed = world_claim(w->w, w->k, l.memory, names, type_count, true, &claim, ret_error);
    } while (!claimed && wait_for_change(w, seen, end_ms));
    if (claimed == 1)
        put_items(&l,
                  &(struct world_item){
                      .key = claim.key, .state = WORLD_IS_WORKING, .record = claim.record},
                  1, claim.data);
    return list_end(&l, claimed, ret_list);
}

int drover_world_complete(struct drover_world *w, const char *node, struct drover_error *ret_error)
{
    bool again;
    TRY(world_complete(w->w, w->k, str_of(node), &again, ret_error));
    return again;
}

int drover_world_remove(struct drover_world *w, const char *node, struct drover_error *ret_error)
{
    return world_remove(w->w, w->k, str_of(node), INT64_MAX, ret_error);
}

int drover_world_release(struct drover_world *w, const char *node, struct drover_error *ret_error)
{
    return world_release(w->w, w->k, str_of(node), ret_error);
}

int drover_world_fail(struct drover_world *w, const char *node, const char *error,
                      struct drover_error *ret_error)
{
    bool failed = false;
    TRY(world_fail(w->w, w->k, str_of(node), text_or(error, ""), false, &failed, ret_error));
    return failed;
}

int drover_world_retry(struct drover_world *w, const char *node, struct drover_error *ret_error)
{
    return world_retry(w->w, w->k, str_of(node), ret_error);
}

/* Reading. */

int drover_world_ls(struct drover_world *w, enum drover_world_state state, const char *after,
                    size_t limit, struct drover_world_list *ret_list,
                    struct drover_error *ret_error)
{
    struct drover_world_list l = new_list();
    struct world_items items;
    int err = state < DROVER_WORLD_NONE
                  ? world_list(w->w, w->k, l.memory, (enum world_state)state, text_or(after, ""),
                               limit ? limit : SIZE_MAX, &items)
                  : DROVER_BAD_ARGUMENT;
    if (err) {
        err_explain(ret_error, err);
    } else {
        put_items(&l, items.list, items.count, (struct str){0});
        l.more = items.more;
    }
    return list_end(&l, err, ret_list);
}

int drover_world_get(struct drover_world *w, const char *node, struct drover_world_list *ret_list,
                     struct drover_error *ret_error)
{
    struct drover_world_list l = new_list();
    struct world_item item;
    struct str data;
    int err = world_get(w->w, w->k, l.memory, str_of(node), &item, &data, ret_error);
    if (!err)
        put_items(&l, &item, 1, data);
    return list_end(&l, err, ret_list);
}

struct walk {
    drover_world_walk_fn *fn;
    void *arg;
    int stopped; /* what fn returned */
};

static int visit(void *arg, struct str key, int depth, enum world_state state)
{
    struct walk *v = arg;
    v->stopped = v->fn(v->arg, key.p, depth, (enum drover_world_state)state);
    return v->stopped ? DROVER_CLOSED : 0;
}

int drover_world_walk(struct drover_world *w, drover_world_walk_fn *fn, void *arg,
                      struct drover_error *ret_error)
{
    struct walk v = {fn, arg, 0};
    int err = world_walk(w->w, w->k, visit, &v);
    return v.stopped ? v.stopped : err ? err_explain(ret_error, err) : 0;
}
