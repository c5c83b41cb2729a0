/*
 * The watches of a connection: one entry per path, with the modes that the client asked for. A
 * change that concerns several entries is reported once, and only if the client may read the node.
 * One-shot modes end with the event, reported or not.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/wire/wire_impl.h"

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

static void drop(struct wire_watch *w)
{
    struct wire_conn *c = w->c;
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

/* The access list of a node that has just been changed, and may be deleted by now. */
static struct str acl_of(const struct local *l, struct str path)
{
    struct tree_view v;
    if (!tree_look(&l->tree, path, &v))
        return v.acl;
    for (size_t i = l->changes.count; i--;)
        if (l->changes.list[i].kind == CHANGE_DELETE && str_eq(l->changes.list[i].path, path))
            return l->changes.list[i].acl;
    return STR("");
}

static bool may_hear(struct wire_conn *c, struct str path)
{
    struct str acl = acl_of(c->w->l, path);
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
