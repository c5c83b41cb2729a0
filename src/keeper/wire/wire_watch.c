/*
 * The watches of a connection: one entry per path, with the modes that the client asked for. A
 * change that concerns several entries is reported once, and only if the client may read the node.
 * One-shot modes end with the event, reported or not.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/wire/wire_impl.h"
#include "keeper/wire/wire_report.h"

struct wire_watch {
    struct tree_watch watch;
    struct wire_conn *c;
    uint32_t at; /* in the connection's list */
    int modes;
};

#define E(event) WATCH_EVENT(KEEPER_EVENT_##event)

static const struct {
    int mode, events;
} MODES[] = {
    {WIRE_WATCH_DATA, E(CREATED) | E(CHANGED) | E(DELETED)},
    {WIRE_WATCH_CHILDREN, E(CHILDREN) | E(DELETED)},
    {WIRE_WATCH_PERSISTENT & WIRE_WATCH_ON_DATA, E(CREATED) | E(CHANGED) | E(DELETED)},
    {WIRE_WATCH_PERSISTENT & WIRE_WATCH_ON_CHILDREN, E(CHILDREN) | E(DELETED)},
    {WIRE_WATCH_RECURSIVE & WIRE_WATCH_ON_DATA, E(CREATED) | E(CHANGED) | E(DELETED)},
    {WIRE_WATCH_RECURSIVE & WIRE_WATCH_ON_CHILDREN, E(DELETED)},
};

enum { MODE_COUNT = sizeof MODES / sizeof *MODES };

/* ZooKeeper's numbers. */
static const int EVENT_TYPES[] = {
    [KEEPER_EVENT_CREATED] = 1,
    [KEEPER_EVENT_DELETED] = 2,
    [KEEPER_EVENT_CHANGED] = 3,
    [KEEPER_EVENT_CHILDREN] = 4,
};

enum { STATE_CONNECTED = 3, XID_WATCH = -1 };

void wire_watch_tell(struct wire_conn *c, enum keeper_event event, struct str path, int64_t lsn)
{
    if (!c->events.len) {
        wire_note(c);
        uv_async_send(&c->w->news);
    }
    jute_put_i32(&c->events, (int32_t)(28 + path.len));
    jute_put_i32(&c->events, XID_WATCH);
    jute_put_i64(&c->events, -1);
    jute_put_i32(&c->events, 0);
    jute_put_i32(&c->events, EVENT_TYPES[event]);
    jute_put_i32(&c->events, STATE_CONNECTED);
    jute_put_bytes(&c->events, path);
    c->event_count++;
    if (c->events_lsn < lsn)
        c->events_lsn = lsn;
}

static struct wire_watch *find(struct wire_conn *c, struct str path)
{
    uint32_t hash = map_hash_str(path);
    for (uint32_t at, ref = map_first(&c->watch_index, hash, &at); ref;
         ref = map_next(&c->watch_index, hash, &at))
        if (str_eq(str_of(c->watches[ref - 1]->watch.path), path))
            return c->watches[ref - 1];
    return NULL;
}

/*
 * Counts the modes that an entry gets instead of those that it has. ZooKeeper has two tables of
 * watches, on data and on children. Its count is of both; its lists, and the summary, are of the
 * first.
 */
static void recount(struct wire_watch *w, int modes)
{
    int first = !!(modes & WIRE_WATCH_ON_DATA) - !!(w->modes & WIRE_WATCH_ON_DATA);
    int second = !!(modes & WIRE_WATCH_ON_CHILDREN) - !!(w->modes & WIRE_WATCH_ON_CHILDREN);
    w->c->listed += (uint32_t)first;
    w->c->w->watch_count += (uint64_t)(first + second);
}

static void drop(struct wire_watch *w)
{
    struct wire_conn *c = w->c;
    recount(w, 0);
    struct wire_watch *last = c->watches[c->watch_len - 1];
    map_remove(&c->watch_index, map_hash_str(str_of(w->watch.path)), w->at + 1);
    watches_remove(&c->w->l->watches, &w->watch);
    if (last != w) { /* moves the last one to its place */
        map_remove(&c->watch_index, map_hash_str(str_of(last->watch.path)), last->at + 1);
        last->at = w->at;
        c->watches[last->at] = last;
        map_add(&c->watch_index, map_hash_str(str_of(last->watch.path)), last->at + 1);
    }
    c->watch_len--;
    free(w);
}

/*
 * The access list that a node had when the change happened that is being told. A later operation of
 * the same transaction may have deleted the node, and made another of its path.
 */
static struct str acl_of(const struct local *l, struct str path)
{
    const struct tree_change *end = l->changes.list + l->changes.count;
    struct tree_view v;
    for (const struct tree_change *c = l->watches.firing; c && c < end; c++)
        if (c->kind == CHANGE_DELETE && str_eq(c->path, path))
            return c->acl;
    return tree_look(&l->tree, path, &v) ? STR("") : v.acl;
}

static bool may_hear(struct wire_conn *c, struct str path)
{
    struct str acl = acl_of(c->w->l, path);
    if (!wire_may(c, path, ROLE_READ))
        return false;
    return !acl.len || acl_allows(acl, ACL_READ, &c->who);
}

static void tell_once(struct wire_conn *c, enum keeper_event event, struct str path)
{
    uint64_t change = c->w->l->watches.changes;
    if ((c->told_of == change && c->told == event) || !may_hear(c, path))
        return;
    c->told_of = change;
    c->told = event;
    wire_watch_tell(c, event, path, c->w->l->tree.zxid);
}

static void fire(struct tree_watch *watch, enum keeper_event event, struct str path)
{
    struct wire_watch *w = (struct wire_watch *)watch;
    bool below = !str_eq(path, str_of(w->watch.path));
    int heard = 0;
    for (int i = 0; i < MODE_COUNT; i++)
        if (MODES[i].events & WATCH_EVENT(event))
            heard |= w->modes & MODES[i].mode;
    if (below)
        heard &= WIRE_WATCH_RECURSIVE;
    if (heard)
        tell_once(w->c, event, path);
    int spent = heard & (WIRE_WATCH_DATA | WIRE_WATCH_CHILDREN);
    if (spent)
        wire_watch_remove(w->c, path, spent);
}

/*
 * The table of watches counts the recursive ones, so an entry is removed and added again when that
 * changes.
 */
static void set_modes(struct wire_watch *w, struct str path, int modes)
{
    bool recursive = modes & WIRE_WATCH_RECURSIVE;
    if (w->watch.recursive != recursive) {
        watches_remove(&w->c->w->l->watches, &w->watch);
        w->watch.recursive = recursive;
        watches_add(&w->c->w->l->watches, &w->watch, path);
    }
    recount(w, modes);
    w->modes = modes;
    w->watch.events = 0;
    for (int i = 0; i < MODE_COUNT; i++)
        if (modes & MODES[i].mode)
            w->watch.events |= MODES[i].events;
}

void wire_watch_add(struct wire_conn *c, struct str path, int mode)
{
    struct wire_watch *w = find(c, path);
    if (!w) {
        mem_grow(c->watches, c->watch_len, c->watch_cap);
        w = mem_alloc(sizeof *w);
        *w = (struct wire_watch){.watch.fire = fire, .c = c, .at = c->watch_len};
        c->watches[c->watch_len++] = w;
        map_add(&c->watch_index, map_hash_str(path), w->at + 1);
        watches_add(&c->w->l->watches, &w->watch, path);
    }
    set_modes(w, path, w->modes | mode);
}

bool wire_watch_has(struct wire_conn *c, struct str path, int modes)
{
    struct wire_watch *w = find(c, path);
    return w && w->modes & modes;
}

bool wire_watch_remove(struct wire_conn *c, struct str path, int modes)
{
    struct wire_watch *w = find(c, path);
    if (!w || !(w->modes & modes))
        return false;
    if (w->modes & ~modes)
        set_modes(w, path, w->modes & ~modes);
    else
        drop(w);
    return true;
}

void wire_watch_clear(struct wire_conn *c)
{
    while (c->watch_len)
        drop(c->watches[c->watch_len - 1]);
    free(c->watches);
    map_release(&c->watch_index);
    c->watches = NULL;
    c->watch_cap = 0;
}

/* The words wchs, wchc and wchp. */

static const struct wire_watch *listed(const struct tree_watch *watch)
{
    const struct wire_watch *w = (const struct wire_watch *)watch;
    return watch->fire == fire && w->modes & WIRE_WATCH_ON_DATA ? w : NULL;
}

/* The first watch of a path, from `watch` on, that is listed. */
static const struct wire_watch *next_listed(const struct tree_watch *watch)
{
    while (watch && !listed(watch))
        watch = watch->next;
    return watch ? listed(watch) : NULL;
}

void wire_put_watch_summary(struct wire *w, struct report *r)
{
    LOCKED(&w->l->lock);
    const struct tree_watches *ws = &w->l->watches;
    const struct wire_conn *c;
    int64_t connections = 0, paths = 0, watches = 0;
    TAILQ_FOREACH(c, &w->conns, link) {
        connections += c->listed > 0;
        watches += c->listed;
    }
    for (uint32_t i = 0; i < ws->len; i++)
        paths += ws->places[i].path && next_listed(ws->places[i].first);
    report_line(r,
                "%" PRId64 " connections watching %" PRId64 " paths\nTotal watches:%" PRId64 "\n",
                connections, paths, watches);
    report_int(r, NULL, "num_connections", connections);
    report_int(r, NULL, "num_paths", paths);
    report_int(r, NULL, "num_total_watches", watches);
}

void wire_put_watches(struct wire *w, struct report *r)
{
    LOCKED(&w->l->lock);
    const struct wire_conn *c;
    char id[REPORT_ID_LEN];
    report_open(r, "session_id_to_watched_paths", '{');
    TAILQ_FOREACH(c, &w->conns, link) {
        if (!c->listed || report_is_full(r))
            continue;
        report_list_open(r, report_id(id, c->session), "\n");
        for (uint32_t i = 0; i < c->watch_len && !report_is_full(r); i++)
            if (listed(&c->watches[i]->watch))
                report_list_item(r, str_of(c->watches[i]->watch.path));
        report_list_close(r);
    }
    report_close(r, '}');
    report_line(r, "\n");
    report_cut(r);
}

void wire_put_watches_by_path(struct wire *w, struct report *r)
{
    LOCKED(&w->l->lock);
    const struct tree_watches *ws = &w->l->watches;
    char id[REPORT_ID_LEN];
    report_open(r, "path_to_session_ids", '{');
    for (uint32_t i = 0; i < ws->len && !report_is_full(r); i++) {
        const struct tree_watch_place *place = &ws->places[i];
        const struct wire_watch *each = place->path ? next_listed(place->first) : NULL;
        if (!each)
            continue;
        report_list_open(r, str_of(place->path), "\n");
        for (; each; each = next_listed(each->watch.next))
            report_list_item(r, report_id(id, each->c->session));
        report_list_close(r);
    }
    report_close(r, '}');
    report_line(r, "\n");
    report_cut(r);
}
