/*
 * The freshness of a view, and the calls on it. list_entry.c keeps the entries.
 *
 * The check. Let C be the cversion that the list has if only this process changes it. Before the
 * stat is read, C counts the changes that are done; afterwards, C plus the changes in flight is the
 * most that can have happened. A cversion between the two is explained by own changes; any other
 * shows another client. Changes in flight during a reading may be counted in it or not: they are
 * the slack, which is settled at the first check during which nothing is in flight.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "keeper/list_view_impl.h"

struct list_view *list_view_new(const struct list_view_options *o)
{
    struct list_view *v = mem_zalloc(sizeof *v);
    v->o = *o;
    list_watch_init(&v->watches[0], o->dir, KEEPER_WATCH_CHILDREN, o->changed, o->arg);
    list_watch_init(&v->watches[1], o->locks, KEEPER_WATCH_CHILDREN, o->changed, o->arg);
    v->parked = (struct heap){.moved = list_entry_moved, .arg = v};
    pthread_mutex_init(&v->lock, NULL);
    cond_init(&v->loaded_one);
    return v;
}

void list_view_free(struct list_view *v)
{
    list_view_unwatch(v);
    list_watch_release(&v->watches[0]);
    list_watch_release(&v->watches[1]);
    list_entries_release(v);
    pthread_cond_destroy(&v->loaded_one);
    pthread_mutex_destroy(&v->lock);
    free(v);
}

/* Unlocks, and reports the groups that have new free entries. */
void list_view_unlock(struct list_view *v)
{
    while (v->o.ready && v->ready_count) {
        struct list_group *g = &v->groups[v->ready[--v->ready_count] - 1];
        struct str name = str_of(g->name);
        uint32_t count = g->became_free;
        g->became_free = 0;
        pthread_mutex_unlock(&v->lock);
        v->o.ready(v->o.arg, name, count);
        pthread_mutex_lock(&v->lock);
    }
    pthread_mutex_unlock(&v->lock);
}

/* Changes of this process. */

void list_view_expect(struct list_view *v, uint32_t changes)
{
    LOCKED(&v->lock);
    v->expected += changes;
}

void list_view_done(struct list_view *v, uint32_t changes, int err)
{
    LOCKED(&v->lock);
    v->expected -= changes;
    if (err == DROVER_UNKNOWN)
        v->loaded = false;
    if (!err) {
        v->cversion += changes;
        v->late_changes += v->loading ? changes : 0;
    }
}

void list_view_add(struct list_view *v, struct str name, const struct list_class *c,
                   int32_t version)
{
    pthread_mutex_lock(&v->lock);
    list_entry_put(v, name, c, version);
    list_view_unlock(v);
}

/* Reading nodes. */

struct list_reader {
    struct keeper *k;
    const char *dir;
    char *const *names;
    struct list_node *nodes;
};

static void read_node(void *arg, size_t i)
{
    struct list_reader *r = arg;
    CLEANUP(buf_release) struct buf path = {0};
    buf_printf(&path, "%s/%s", r->dir, r->names[i]);
    struct list_node *n = &r->nodes[i];
    n->err = keeper_get(r->k, buf_text(&path), &n->data, &n->stat);
}

int list_nodes_read(struct list_nodes *n, struct keeper *k, const char *dir, char *const *names,
                    size_t count)
{
    *n = (struct list_nodes){count, mem_zalloc((count + 1) * sizeof *n->nodes)};
    parallel_run(count, read_node, &(struct list_reader){k, dir, names, n->nodes});
    for (size_t i = 0; i < count; i++)
        if (n->nodes[i].err && n->nodes[i].err != DROVER_NO_NODE)
            return n->nodes[i].err;
    return 0;
}

void list_nodes_release(struct list_nodes *n)
{
    for (size_t i = 0; i < n->count; i++)
        buf_release(&n->nodes[i].data);
    free(n->nodes);
    *n = (struct list_nodes){0};
}

/* Reading the list. All of this is under the lock, which is released around keeper calls. */

/* Marks the known names; returns the others and, with `again`, the idle ones. */
static size_t choose(struct list_view *v, const struct keeper_names *names, bool again,
                     char **chosen)
{
    size_t count = 0;
    for (size_t i = 0; i < names->count; i++) {
        uint32_t ref = list_entry_find(v, str_of(names->names[i]));
        if (ref)
            v->entries[ref].seen = v->reading;
        if (!ref || (again && v->entries[ref].state == LIST_IDLE))
            chosen[count++] = names->names[i];
    }
    return count;
}

static void classify(struct list_view *v, struct str name, struct str data,
                     const struct keeper_stat *stat)
{
    uint32_t ref = list_entry_find(v, name);
    struct list_class c = {0};
    if (ref && v->entries[ref].state != LIST_IDLE)
        return; /* this process has added it meanwhile */
    v->o.classify(v->o.arg, name, data, stat, &c);
    list_entry_put(v, name, &c, stat ? stat->version : 0);
}

static int read_entries(struct list_view *v, struct keeper *k, char **names, size_t count)
{
    struct list_nodes n = {0};
    if (!v->o.data) {
        for (size_t i = 0; i < count; i++)
            classify(v, str_of(names[i]), STR(""), NULL);
        return 0;
    }
    pthread_mutex_unlock(&v->lock);
    int err = list_nodes_read(&n, k, v->o.dir, names, count);
    pthread_mutex_lock(&v->lock);
    for (size_t i = 0; i < count && !err; i++)
        if (!n.nodes[i].err)
            classify(v, str_of(names[i]), buf_str(&n.nodes[i].data), &n.nodes[i].stat);
    list_nodes_release(&n);
    return err;
}

/*
 * Removes what is gone and, if the list was read, what is not in it. Entries that are being tried
 * are left to their callers.
 */
static void sweep(struct list_view *v, bool was_read)
{
    for (uint32_t ref = 1; ref <= v->len; ref++) {
        const struct list_entry *e = &v->entries[ref];
        if (e->state == LIST_GONE || (was_read && e->state != LIST_UNUSED &&
                                      e->state != LIST_TAKEN && e->seen != v->reading))
            list_entry_remove(v, ref);
    }
}

static int load(struct list_view *v, struct keeper *k)
{
    int64_t began_ms = clock_boot_ms();
    bool again = v->counts[LIST_IDLE] && began_ms >= v->reread_ms;
    struct keeper_names names = {0};
    struct keeper_stat stat;
    char **chosen;

    v->loading = true;
    v->reading++;
    v->late_changes = 0;
    pthread_mutex_unlock(&v->lock);
    int err = keeper_children(k, v->o.dir, &names, &stat);
    pthread_mutex_lock(&v->lock);
    if (!err) {
        chosen = mem_alloc((names.count + 1) * sizeof *chosen);
        err = read_entries(v, k, chosen, choose(v, &names, again, chosen));
        free(chosen);
        keeper_names_release(&names);
    }
    sweep(v, !err);
    if (!err) {
        v->cversion = stat.cversion;
        v->slack = v->late_changes + v->expected;
        v->loaded = true;
        v->checked_ms = clock_boot_ms();
        v->rest_until_ms = v->checked_ms + LIST_REST * (v->checked_ms - began_ms);
    }
    if (!err && again)
        v->reread_ms = v->checked_ms + LIST_REREAD_MS + 2 * LIST_REST * (v->checked_ms - began_ms);
    v->loading = false;
    pthread_cond_broadcast(&v->loaded_one);
    return err;
}

/* 1: another client has changed the list, or (exact) may have. */
static int check(struct list_view *v, struct keeper *k, bool exact)
{
    struct keeper_stat stat;
    int64_t least = v->cversion;
    bool quiet = !v->expected;

    pthread_mutex_unlock(&v->lock);
    int err = keeper_exists(k, v->o.dir, &stat);
    pthread_mutex_lock(&v->lock);
    if (err)
        return err;
    quiet = quiet && !v->expected && v->cversion == least;
    if (quiet && v->slack) {
        if ((uint32_t)stat.child_count != v->by_name.count || exact)
            return 1;
        v->cversion = stat.cversion;
        v->slack = 0;
        return 0;
    }
    if (exact)
        return !quiet || stat.cversion != v->cversion || !v->loaded;
    return stat.cversion < least ||
           stat.cversion > v->cversion + (int64_t)v->expected + (int64_t)v->slack;
}

/* Frees the locked entries that are no longer in `locks`. */
static int check_locks(struct list_view *v, struct keeper *k, bool must)
{
    int64_t began_ms = clock_boot_ms();
    struct keeper_names names = {0};
    struct keeper_stat stat;
    if (!v->o.locks || !v->counts[LIST_LOCKED] || (!must && began_ms < v->locks_rest_until_ms))
        return 0;
    uint32_t reading = ++v->locks_reading;
    pthread_mutex_unlock(&v->lock);
    int err = keeper_children(k, v->o.locks, &names, &stat);
    pthread_mutex_lock(&v->lock);
    if (err)
        return err;
    list_entries_unlock(v, &names, reading);
    keeper_names_release(&names);
    v->locks_rest_until_ms = clock_boot_ms() + LIST_REST * (clock_boot_ms() - began_ms);
    return 0;
}

/* A list that another thread is reading is used as it is. */
static int refresh(struct list_view *v, struct keeper *k)
{
    int64_t now_ms = clock_boot_ms();
    if (v->loading)
        return 0;
    if (v->loaded && now_ms - v->checked_ms < LIST_FRESH_MS && v->counts[LIST_FREE])
        return 0;
    v->checked_ms = now_ms;
    int changed = v->loaded ? check(v, k, false) : 1;
    if (changed > 0 && !v->loading &&
        (!v->loaded || !v->counts[LIST_FREE] || now_ms >= v->rest_until_ms))
        changed = load(v, k);
    return changed < 0 ? changed : check_locks(v, k, false);
}

static int refresh_exactly(struct list_view *v, struct keeper *k)
{
    pthread_mutex_unlock(&v->lock);
    int err = keeper_sync(k, v->o.dir);
    pthread_mutex_lock(&v->lock);
    while (v->loading)
        pthread_cond_wait(&v->loaded_one, &v->lock);
    if (!err)
        err = !v->loaded || (v->counts[LIST_IDLE] && clock_boot_ms() >= v->reread_ms)
                  ? 1
                  : check(v, k, true);
    while (v->loading)
        pthread_cond_wait(&v->loaded_one, &v->lock);
    if (err > 0)
        err = load(v, k);
    return err ? err : check_locks(v, k, true);
}

int list_view_refresh(struct list_view *v, struct keeper *k, bool must)
{
    pthread_mutex_lock(&v->lock);
    int err = must ? refresh_exactly(v, k) : refresh(v, k);
    list_view_unlock(v);
    return err;
}
