/*
 * The tree index: the paths of a world's tasks, so that finding parents does not walk the tree.
 *
 * Every change that adds a task also sets the world's root node (to the data it has), so the root's
 * version counts these changes. While all versions since the last walk were this process's own, the
 * index is complete and finding is a lookup. Otherwise the tree is walked, and also if the last
 * walk is twenty times as long ago as it took. So walking costs at most a twentieth of the time,
 * except while several servers add tasks to one world in turn. Tasks that other tools add without
 * setting the root are seen with the next walk: when nothing matched, or after that time.
 *
 * Paths are in one map by path and one by the last part. The index was built at root version
 * `version` and has seen `own` changes since; the highest of their versions is `newest`. If version
 * + own == newest, every change in between was this process's own.
 */
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "keeper/path.h"
#include "world/impl.h"

enum {
    WALK_SHARE = 20,      /* walking takes at most one part in so many of the time */
    OWN_PATIENCE_MS = 100 /* waits this long for own changes in flight */
};

struct world_index {
    const char *root;
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
    a->root = root;
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
    a->len = 0;
}

void world_index_free(struct world_index *a)
{
    forget(a);
    free(a->places);
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
    mem_grow(a->places, a->len, a->cap);
    a->places[a->len++] = path;
    map_add(&a->by_path, map_hash_str(str_of(path)), a->len);
    map_add(&a->by_node, map_hash_str(path_name(str_of(path))), a->len);
}

/* The walk: level by level, reading the children of a whole level in parallel. */

struct index_read {
    struct keeper *k;
    const char *parent;
    struct keeper_names names;
    int err;
};

static void read_children(void *arg, size_t i)
{
    struct index_read *r = (struct index_read *)arg + i;
    r->err = keeper_children(r->k, r->parent, &r->names, NULL);
}

/* Adds the children of the parents. A parent that has gone has none. */
static int walk_level(struct world_index *a, struct keeper *k, const char *const *parents,
                      size_t count)
{
    struct index_read *reads = mem_alloc(count * sizeof *reads);
    int err = 0;
    for (size_t i = 0; i < count; i++) /* before add_place(), which may move the parents */
        reads[i] = (struct index_read){.k = k, .parent = parents[i]};
    parallel_run(count, read_children, reads);
    for (struct index_read *r = reads; r < reads + count; r++) {
        if (r->err && r->err != DROVER_NO_NODE)
            err = r->err;
        for (size_t i = 0; i < r->names.count; i++) {
            struct buf path = {0};
            buf_printf(&path, "%s/%s", r->parent, r->names.names[i]);
            buf_text(&path);
            add_place(a, path.p);
        }
        keeper_names_release(&r->names);
    }
    free(reads);
    return err;
}

static int walk(struct world_index *a, struct keeper *k, int32_t version)
{
    int64_t began_us = now_us();
    a->walked = false;
    forget(a);
    TRY(walk_level(a, k, &a->root, 1));
    for (uint32_t from = 0, to; from < a->len; from = to) {
        to = a->len;
        TRY(walk_level(a, k, (const char *const *)a->places + from, to - from));
    }
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
    mem_grow(s->found.list, s->found.count, s->cap);
    s->found.list[s->found.count++] = (struct world_match){arena_text(s->arena, str_of(path)),
                                                           {arena_text(s->arena, name), name.len},
                                                           {arena_text(s->arena, type), type.len}};
}

static int is_match(struct index_search *s, struct str name, struct str type)
{
    int is = expression_match(s->name, name, s->e);
    return is == 1 ? expression_match(s->type, type, s->e) : is;
}

/* Adds a place if one way to split its name matches. */
static int match_place(struct index_search *s, const char *path)
{
    struct str node = path_name(str_of(path)), name, type;
    int is = 0;
    for (size_t at = 0; !is && world_split_name(node, &at, &name, &type);)
        is = is_match(s, name, type);
    if (is == 1)
        add_match(s, path, name, type);
    return is < 0 ? is : 0;
}

static void match_plain(struct index_search *s, struct str name, struct str type)
{
    struct str node = str_of(arena_printf(s->arena, "%.*s_%.*s", STR_ARGS(name), STR_ARGS(type)));
    uint32_t hash = map_hash_str(node);
    for (uint32_t at, ref = map_first(&s->a->by_node, hash, &at); ref;
         ref = map_next(&s->a->by_node, hash, &at))
        if (str_eq(path_name(str_of(s->a->places[ref - 1])), node))
            add_match(s, s->a->places[ref - 1], name, type);
}

static int match_all(struct index_search *s)
{
    struct str name = expression_plain(s->name), type = expression_plain(s->type);
    s->found.count = 0;
    if (name.p && type.p)
        match_plain(s, name, type);
    else
        for (uint32_t i = 0; i < s->a->len; i++)
            TRY(match_place(s, s->a->places[i]));
    return 0;
}

static int find(struct index_search *s, struct keeper *k)
{
    struct keeper_stat root;
    bool walked;
    TRY(keeper_sync(k, s->a->root));
    TRY(keeper_exists(k, s->a->root, &root));
    LOCKED(&s->a->lock);
    TRY(refresh(s->a, k, root.version, &walked));
    TRY(match_all(s));
    if (s->found.count || walked)
        return 0;
    TRY(walk(s->a, k, root.version));
    return match_all(s);
}

/*
 * "a_b_t" may be a of type b_t, or a_b of type t. The record of the task tells, if it is in a list;
 * otherwise the way in which it matched counts. 1: it is a match.
 */
static int settle_name(struct index_search *s, struct keeper *k, struct world_match *m)
{
    static const char *const lists[] = {WORLD_PENDING, WORLD_COMPLETED};
    CLEANUP(buf_release) struct buf data = {0};
    struct world_record r;
    int err = DROVER_NO_NODE;

    if (!memchr(m->name.p, '_', m->name.len) && !memchr(m->type.p, '_', m->type.len))
        return 1;
    struct str key = str_of(world_key(s->arena, s->a->root, str_of(m->path)));
    for (int i = 0; i < 2 && err == DROVER_NO_NODE; i++)
        err = keeper_get(k, world_list_path(s->arena, lists[i], key), &data, NULL);
    if (err && err != DROVER_NO_NODE)
        return err;
    if (err || world_record_read(s->arena, buf_str(&data), key, &r))
        return 1;
    m->name = (struct str){arena_text(s->arena, r.name), r.name.len};
    m->type = (struct str){arena_text(s->arena, r.type), r.type.len};
    return is_match(s, m->name, m->type);
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
    int is = find(&s, k);
    size_t count = 0;
    for (size_t i = 0; i < s.found.count && is >= 0; i++) {
        is = settle_name(&s, k, &s.found.list[i]);
        if (is == 1)
            s.found.list[count++] = s.found.list[i];
    }
    struct world_match *list = arena_alloc(arena, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++)
        list[i] = s.found.list[i];
    free(s.found.list);
    if (is < 0)
        return is;
    qsort(list, count, sizeof *list, by_path);
    *ret_matches = (struct world_matches){list, count};
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
