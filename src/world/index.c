/*
 * Paths, in one map by path and one by the last part. The index was built at root version `version`
 * and has seen `own` changes since; the highest of their versions is `newest`. If version + own ==
 * newest, every change in between was this process's own.
 */
#include "world/index.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"
#include "keeper/path.h"
#include "world/name.h"
#include "world/record.h"

enum {
    WALK_SHARE = 20,      /* walking takes at most one part in so many of the time */
    OWN_PATIENCE_MS = 100 /* waits this long for own changes in flight */
};

struct world_index {
    char *root;
    pthread_mutex_t lock;
    pthread_cond_t settled; /* an own change has returned */
    int underway;
    char **places; /* refs start at 1 */
    uint32_t len, cap;
    struct map by_path, by_node;
    bool walked;
    int32_t version, own, newest;
    int64_t walked_us, walk_us;
};

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct world_index *world_index_new(const char *root)
{
    struct world_index *a = mem_zalloc(sizeof *a);

    a->root = mem_dup(root, strlen(root));
    pthread_mutex_init(&a->lock, NULL);
    cond_init(&a->settled);
    return a;
}

/* Under the lock, as all static functions here. */
static void forget(struct world_index *a)
{
    for (uint32_t i = 0; i < a->len; i++)
        free(a->places[i]);
    map_release(&a->by_path);
    map_release(&a->by_node);
    a->by_path = a->by_node = (struct map){0};
    a->len = 0;
}

void world_index_free(struct world_index *a)
{
    if (!a)
        return;
    forget(a);
    free(a->places);
    free(a->root);
    pthread_cond_destroy(&a->settled);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static bool is_known(const struct world_index *a, struct str path)
{
    uint32_t hash = map_hash_str(path);

    for (uint32_t at, ref = map_first(&a->by_path, hash, &at); ref;
         ref = map_next(&a->by_path, hash, &at))
        if (str_eq(str_of(a->places[ref - 1]), path))
            return true;
    return false;
}

/* Takes ownership of the path. */
static void add_place(struct world_index *a, char *path)
{
    if (is_known(a, str_of(path))) {
        free(path);
        return;
    }
    if (a->len == a->cap) {
        a->cap = a->cap ? a->cap * 2 : 64;
        a->places = mem_realloc(a->places, a->cap * sizeof *a->places);
    }
    a->places[a->len++] = path;
    map_add(&a->by_path, map_hash_str(str_of(path)), a->len);
    map_add(&a->by_node, map_hash_str(path_name(str_of(path))), a->len);
}

/* The walk: level by level, reading the children of a whole level in parallel. */

struct index_level {
    struct keeper *k;
    char **parents; /* of the level above */
    struct keeper_names *names;
    int *errs;
};

static void read_children(void *arg, size_t i)
{
    struct index_level *l = arg;

    l->errs[i] = keeper_children(l->k, l->parents[i], &l->names[i], NULL);
}

/* Adds the children of the parents. A parent that has gone has none. */
static int walk_level(struct world_index *a, struct keeper *k, char **parents, size_t count)
{
    struct index_level l = {k, parents, mem_zalloc(count * sizeof *l.names),
                            mem_zalloc(count * sizeof *l.errs)};
    int err = 0;

    parallel_run(count, read_children, &l);
    for (size_t i = 0; i < count; i++) {
        if (l.errs[i] && l.errs[i] != DROVER_NO_NODE)
            err = l.errs[i];
        for (size_t j = 0; j < l.names[i].count; j++) {
            struct buf path = {0};

            buf_printf(&path, "%s/%s", l.parents[i], l.names[i].names[j]);
            buf_text(&path);
            add_place(a, path.p);
        }
        keeper_names_release(&l.names[i]);
    }
    free(l.names);
    free(l.errs);
    return err;
}

static int walk(struct world_index *a, struct keeper *k, int32_t version)
{
    int64_t began_us = now_us();
    uint32_t from = 0, to = 0;

    a->walked = false;
    forget(a);
    int err = walk_level(a, k, &a->root, 1);
    while (!err && a->len > to) {
        char **level;

        from = to;
        to = a->len;
        level = mem_alloc((to - from) * sizeof *level); /* add_place() may move the array */
        memcpy(level, a->places + from, (to - from) * sizeof *level);
        err = walk_level(a, k, level, to - from);
        free(level);
    }
    if (err)
        return err;
    a->walked = true;
    a->version = a->newest = version;
    a->own = 0;
    a->walked_us = now_us();
    a->walk_us = a->walked_us - began_us;
    return 0;
}

static bool is_whole(const struct world_index *a, int32_t version)
{
    return a->walked && a->version + a->own == a->newest && a->newest >= version;
}

/* Brings the index up to date. *ret_walked: the tree was walked just now. */
static int refresh(struct world_index *a, struct keeper *k, int32_t version, bool *ret_walked)
{
    int64_t patience_ms = clock_boot_ms() + OWN_PATIENCE_MS;

    *ret_walked = false;
    while (a->walked && a->underway && !is_whole(a, version) && clock_boot_ms() < patience_ms)
        cond_wait_until(&a->settled, &a->lock, patience_ms);
    if (is_whole(a, version) && now_us() - a->walked_us < WALK_SHARE * a->walk_us)
        return 0;
    *ret_walked = true;
    return walk(a, k, version);
}

/* Matching. */

struct index_search {
    struct world_index *a;
    struct arena *arena;
    struct expression *name, *type;
    struct world_matches found;
    size_t cap;
    struct err_info *e;
};

static void add_match(struct index_search *s, const char *path, struct str name, struct str type)
{
    if (s->found.count == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 16;
        s->found.list = mem_realloc(s->found.list, s->cap * sizeof *s->found.list);
    }
    struct world_match *m = &s->found.list[s->found.count++];
    m->path = arena_text(s->arena, str_of(path));
    m->name = (struct str){arena_text(s->arena, name), name.len};
    m->type = (struct str){arena_text(s->arena, type), type.len};
}

/* 1: one way to split the name matches, and was added. */
static int match_place(struct index_search *s, const char *path)
{
    struct str node = path_name(str_of(path)), name, type;
    size_t at = 0;

    while (world_split_name(node, &at, &name, &type)) {
        int is = expression_match(s->name, name, s->e);
        if (is == 1)
            is = expression_match(s->type, type, s->e);
        if (is < 0)
            return is;
        if (is) {
            add_match(s, path, name, type);
            return 1;
        }
    }
    return 0;
}

static int match_plain(struct index_search *s)
{
    struct str name = expression_text(s->name), type = expression_text(s->type);
    struct str node = str_of(arena_printf(s->arena, "%.*s_%.*s", STR_ARGS(name), STR_ARGS(type)));
    uint32_t hash = map_hash_str(node);

    for (uint32_t at, ref = map_first(&s->a->by_node, hash, &at); ref;
         ref = map_next(&s->a->by_node, hash, &at))
        if (str_eq(path_name(str_of(s->a->places[ref - 1])), node))
            add_match(s, s->a->places[ref - 1], name, type);
    return 0;
}

static int match_all(struct index_search *s)
{
    int is = 0;

    s->found.count = 0;
    if (expression_is_plain(s->name) && expression_is_plain(s->type))
        return match_plain(s);
    for (uint32_t i = 0; i < s->a->len && is >= 0; i++)
        is = match_place(s, s->a->places[i]);
    return is < 0 ? is : 0;
}

static int find(struct index_search *s, struct keeper *k)
{
    struct keeper_stat root;
    bool walked;
    int err = keeper_sync(k, s->a->root);
    if (!err)
        err = keeper_exists(k, s->a->root, &root);
    if (err)
        return err;
    LOCKED(&s->a->lock);
    err = refresh(s->a, k, root.version, &walked);
    if (!err)
        err = match_all(s);
    if (!err && !s->found.count && !walked) {
        err = walk(s->a, k, root.version);
        if (!err)
            err = match_all(s);
    }
    return err;
}

/*
 * "a_b_t" may be a of type b_t, or a_b of type t. The record of the task tells, if it is in a list;
 * otherwise the way in which it matched counts.
 */
static int settle_name(struct index_search *s, struct keeper *k, struct world_match *m,
                       bool *ret_is)
{
    static const char *const lists[] = {WORLD_PENDING, WORLD_COMPLETED};
    const char *key = world_key(s->arena, s->a->root, str_of(m->path));
    struct world_record r;
    struct buf data = {0};
    int err = DROVER_NO_NODE, is = 1;

    *ret_is = true;
    if (!memchr(m->name.p, '_', m->name.len) && !memchr(m->type.p, '_', m->type.len))
        return 0;
    for (int i = 0; i < 2 && err == DROVER_NO_NODE; i++)
        err = keeper_get(k, world_list_path(s->arena, lists[i], str_of(key)), &data, NULL);
    if (!err && !world_record_read(s->arena, buf_str(&data), str_of(key), &r)) {
        m->name = (struct str){arena_text(s->arena, r.name), r.name.len};
        m->type = (struct str){arena_text(s->arena, r.type), r.type.len};
        is = expression_match(s->name, m->name, s->e);
        if (is == 1)
            is = expression_match(s->type, m->type, s->e);
        *ret_is = is == 1;
    }
    buf_release(&data);
    if (is < 0)
        return is;
    return err == DROVER_NO_NODE ? 0 : err;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct world_match *)a)->path, ((const struct world_match *)b)->path);
}

int world_index_find(struct world_index *a, struct keeper *k, struct arena *arena,
                     struct expression *name, struct expression *type,
                     struct world_matches *ret_matches, struct err_info *ret_error)
{
    struct index_search s = {.a = a, .arena = arena, .name = name, .type = type, .e = ret_error};
    struct world_matches settled;
    int err = find(&s, k);

    settled.list = arena_alloc(arena, (s.found.count + 1) * sizeof *settled.list);
    settled.count = 0;
    for (size_t i = 0; i < s.found.count && !err; i++) {
        bool is;

        err = settle_name(&s, k, &s.found.list[i], &is);
        if (!err && is)
            settled.list[settled.count++] = s.found.list[i];
    }
    free(s.found.list);
    if (err)
        return err;
    qsort(settled.list, settled.count, sizeof *settled.list, by_path);
    *ret_matches = settled;
    return 0;
}

void world_index_begin(struct world_index *a)
{
    LOCKED(&a->lock);
    a->underway++;
}

void world_index_end(struct world_index *a, char *const *paths, size_t count, int32_t root_version)
{
    LOCKED(&a->lock);
    a->underway--;
    for (size_t i = 0; i < count && a->walked; i++)
        add_place(a, mem_dup(paths[i], strlen(paths[i])));
    if (root_version > a->version && a->walked) {
        a->own++;
        a->newest = root_version > a->newest ? root_version : a->newest;
    }
    pthread_cond_broadcast(&a->settled);
}
