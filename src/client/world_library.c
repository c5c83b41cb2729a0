/*
 * The worlds of the public interface: C strings in, lists with memory of their own out. Waiting
 * uses the change callback of world.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "client/keeper_library.h"
#include "world/impl.h"

_Static_assert((int)DROVER_WORLD_PENDING == WORLD_IS_PENDING &&
                   (int)DROVER_WORLD_WORKING == WORLD_IS_WORKING &&
                   (int)DROVER_WORLD_COMPLETED == WORLD_IS_COMPLETED &&
                   (int)DROVER_WORLD_NONE == WORLD_IS_NONE,
               "the states have one order");

struct drover_world {
    struct world *w;
    struct keeper *k;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t changes;
};

static int say(int err, const struct err_info *e, struct drover_error *ret_error)
{
    if (err < 0 && ret_error)
        snprintf(ret_error->text, sizeof ret_error->text, "%s",
                 e->text[0] ? e->text : drover_err_message(err));
    return err;
}

static struct str text_or(const char *text, const char *other)
{
    return str_of(text ? text : other);
}

/* A list and the arena of its text. */
static struct arena *list_begin(struct drover_world_list *l)
{
    struct arena *a = mem_zalloc(sizeof *a);

    *l = (struct drover_world_list){.memory = a};
    return a;
}

void drover_world_list_release(struct drover_world_list *l)
{
    if (l->memory)
        arena_release(l->memory);
    free(l->memory);
    *l = (struct drover_world_list){0};
}

static int list_end(struct drover_world_list *l, int err, struct drover_world_list *ret_list)
{
    if (err < 0)
        drover_world_list_release(l);
    else
        *ret_list = *l;
    return err;
}

static void item_of(struct arena *a, const struct world_item *from, struct drover_world_item *to)
{
    const struct world_record *r = &from->record;

    *to = (struct drover_world_item){
        .node = arena_text(a, from->key),
        .name = arena_text(a, r->name),
        .type = arena_text(a, r->type),
        .path = arena_text(a, r->path),
        .parent = r->parent.p ? arena_text(a, r->parent) : NULL,
        .state = (enum drover_world_state)from->state,
        .since_ms = from->since_ms,
        .failures = r->failures,
        .error = r->error.p ? arena_text(a, r->error) : NULL,
    };
}

/* Opening. */

int drover_world_init(struct drover_keeper *k, const char *world, struct drover_error *ret_error)
{
    struct err_info e = {""};

    return say(world_init(drover_keeper_inside(k), str_of(world), &e), &e, ret_error);
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
    struct err_info e = {""};

    w->k = drover_keeper_inside(k);
    pthread_mutex_init(&w->lock, NULL);
    cond_init(&w->changed);
    int err = world_open(w->k, str_of(world), &o, &w->w, &e);
    if (err)
        drover_world_close(w);
    else
        *ret_world = w;
    return say(err, &e, ret_error);
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

static void put_paths(struct drover_world *w, struct arena *a, const struct world_paths *paths,
                      struct drover_world_list *l)
{
    l->items = arena_zalloc(a, (paths->count + 1) * sizeof *l->items);
    l->count = paths->count;
    for (size_t i = 0; i < paths->count; i++) {
        l->items[i].path = paths->list[i];
        l->items[i].node = world_key(a, w->w->root, str_of(paths->list[i]));
    }
}

int drover_world_queue(struct drover_world *w, const struct drover_world_task *task,
                       const struct drover_world_match *parent, drover_world_name_fn *name_fn,
                       void *arg, struct drover_world_list *ret_list,
                       struct drover_error *ret_error)
{
    struct world_task t = {text_or(task->name, ""), text_or(task->type, ""),
                           text_or(task->data, "null")};
    struct world_parent p = {text_or(parent ? parent->name : NULL, ""),
                             text_or(parent ? parent->type : NULL, "")};
    struct namer namer = {name_fn, arg};
    struct err_info e = {""};
    struct drover_world_list l;
    struct arena *a = list_begin(&l);
    struct world_paths paths;
    int err = world_queue(w->w, w->k, a, &t, parent ? &p : NULL, name_fn ? call_namer : NULL,
                          &namer, &paths, &e);

    if (!err)
        put_paths(w, a, &paths, &l);
    for (size_t i = 0; !err && i < l.count; i++)
        l.items[i].type = arena_text(a, t.type);
    return say(list_end(&l, err, ret_list), &e, ret_error);
}

int drover_world_find(struct drover_world *w, const struct drover_world_match *match,
                      struct drover_world_list *ret_list, struct drover_error *ret_error)
{
    struct world_parent p = {text_or(match->name, ""), text_or(match->type, "")};
    struct err_info e = {""};
    struct drover_world_list l;
    struct arena *a = list_begin(&l);
    struct world_paths paths;
    int err = world_find(w->w, w->k, a, &p, &paths, &e);

    if (!err)
        put_paths(w, a, &paths, &l);
    return say(list_end(&l, err, ret_list), &e, ret_error);
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
    struct err_info e = {""};
    struct drover_world_list l;
    struct arena *a = list_begin(&l);
    struct str *names = arena_alloc(a, (type_count + 1) * sizeof *names);
    struct world_claim claim;
    uint64_t seen;
    int claimed;

    for (size_t i = 0; i < type_count; i++)
        names[i] = str_of(types[i]);
    do {
        seen = changes_seen(w);
        claimed = world_claim(w->w, w->k, a, names, type_count, true, &claim, &e);
    } while (!claimed && wait_for_change(w, seen, end_ms));
    if (claimed == 1) {
        l.items = arena_alloc(a, sizeof *l.items);
        l.count = 1;
        item_of(a,
                &(struct world_item){
                    .key = claim.key, .state = WORLD_IS_WORKING, .record = claim.record},
                l.items);
        l.items->data = arena_text(a, claim.data);
    }
    return say(list_end(&l, claimed, ret_list), &e, ret_error);
}

int drover_world_complete(struct drover_world *w, const char *node, struct drover_error *ret_error)
{
    struct err_info e = {""};
    bool again = false;
    int err = world_complete(w->w, w->k, str_of(node), &again, &e);

    return err ? say(err, &e, ret_error) : again;
}

int drover_world_remove(struct drover_world *w, const char *node, struct drover_error *ret_error)
{
    struct err_info e = {""};

    return say(world_remove(w->w, w->k, str_of(node), INT64_MAX, &e), &e, ret_error);
}

int drover_world_release(struct drover_world *w, const char *node, struct drover_error *ret_error)
{
    struct err_info e = {""};

    return say(world_release(w->w, w->k, str_of(node), &e), &e, ret_error);
}

int drover_world_fail(struct drover_world *w, const char *node, const char *error,
                      struct drover_error *ret_error)
{
    struct err_info e = {""};

    return say(world_fail(w->w, w->k, str_of(node), text_or(error, ""), &e), &e, ret_error);
}

/* Reading. */

int drover_world_ls(struct drover_world *w, enum drover_world_state state, const char *after,
                    size_t limit, struct drover_world_list *ret_list,
                    struct drover_error *ret_error)
{
    struct err_info e = {""};
    struct drover_world_list l;
    struct arena *a = list_begin(&l);
    struct world_items items;
    int err = state < DROVER_WORLD_NONE ? world_list(w->w, w->k, a, (enum world_state)state,
                                                     text_or(after, ""), limit, &items)
                                        : DROVER_BAD_ARGUMENT;

    if (!err) {
        l.items = arena_alloc(a, (items.count + 1) * sizeof *l.items);
        l.count = items.count;
        l.more = items.more;
        for (size_t i = 0; i < items.count; i++)
            item_of(a, &items.list[i], &l.items[i]);
    }
    return say(list_end(&l, err, ret_list), &e, ret_error);
}

int drover_world_get(struct drover_world *w, const char *node, struct drover_world_list *ret_list,
                     struct drover_error *ret_error)
{
    struct err_info e = {""};
    struct drover_world_list l;
    struct arena *a = list_begin(&l);
    struct world_item item;
    struct str data;
    int err = world_get(w->w, w->k, a, str_of(node), &item, &data, &e);

    if (!err) {
        l.items = arena_alloc(a, sizeof *l.items);
        l.count = 1;
        item_of(a, &item, l.items);
        l.items->data = arena_text(a, data);
    }
    return say(list_end(&l, err, ret_list), &e, ret_error);
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
    struct err_info e = {""};
    int err = world_walk(w->w, w->k, visit, &v);

    return v.stopped ? v.stopped : say(err, &e, ret_error);
}
