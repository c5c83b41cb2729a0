/* A map from paths to lists of watches. */
#include "keeper/tree/watch.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/path.h"

static const struct {
    bool fires;
    enum keeper_event event;
    bool fires_parent;
} EVENTS[] = {
    [CHANGE_CREATE] = {true, KEEPER_EVENT_CREATED, true},
    [CHANGE_SET] = {true, KEEPER_EVENT_CHANGED, false},
    [CHANGE_DELETE] = {true, KEEPER_EVENT_DELETED, true},
    [CHANGE_SET_ACL] = {0}, /* the last kind */
};

/* A cheap hash, by which most changes are found to have no watch. */
static uint8_t mark_of(struct str path)
{
    return (uint8_t)(path.len * 31 + (unsigned char)path.p[path.len - 1]);
}

/* The ref of a path's place; 0: no watches. */
static uint32_t find(const struct tree_watches *ws, struct str path)
{
    if (!ws->marks[mark_of(path)])
        return 0;
    uint32_t hash = map_hash_str(path);
    for (uint32_t at, ref = map_first(&ws->index, hash, &at); ref;
         ref = map_next(&ws->index, hash, &at))
        if (str_eq(str_of(ws->places[ref - 1].path), path))
            return ref;
    return 0;
}

static uint32_t add_place(struct tree_watches *ws, struct str path)
{
    uint32_t ref = ws->free;
    if (ref) {
        ws->free = ws->places[ref - 1].next_free;
    } else {
        mem_grow(ws->places, ws->len, ws->cap);
        ref = ++ws->len;
    }
    ws->places[ref - 1] = (struct tree_watch_place){.path = mem_dup(path.p, path.len)};
    map_add(&ws->index, map_hash_str(path), ref);
    ws->marks[mark_of(path)]++;
    return ref;
}

void watches_release(struct tree_watches *ws)
{
    for (uint32_t i = 0; i < ws->len; i++)
        assert(!ws->places[i].path);
    free(ws->places);
    map_release(&ws->index);
    *ws = (struct tree_watches){0};
}

void watches_add(struct tree_watches *ws, struct tree_watch *w, struct str path)
{
    uint32_t found = find(ws, path), ref = found ? found : add_place(ws, path);
    struct tree_watch_place *place = &ws->places[ref - 1];
    w->path = place->path;
    w->next = place->first;
    place->first = w;
    ws->count++;
    ws->recursive += w->recursive;
}

void watches_remove(struct tree_watches *ws, struct tree_watch *w)
{
    uint32_t ref = find(ws, str_of(w->path));
    struct tree_watch_place *place = &ws->places[ref - 1];
    struct tree_watch **link = &place->first;
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    ws->count--;
    ws->recursive -= w->recursive;
    if (place->first)
        return;
    struct str path = str_of(place->path);
    map_remove(&ws->index, map_hash_str(path), ref);
    ws->marks[mark_of(path)]--;
    free(place->path);
    *place = (struct tree_watch_place){.next_free = ws->free};
    ws->free = ref;
}

/* Calls the watches on `place` for an event of `path`, which is the same or below it. */
static void fire_at(struct tree_watches *ws, struct str place, struct str path,
                    enum keeper_event event)
{
    uint32_t ref = find(ws, place);
    bool below = path.len > place.len && event != KEEPER_EVENT_CHILDREN;
    struct tree_watch *next;
    for (struct tree_watch *w = ref ? ws->places[ref - 1].first : NULL; w; w = next) {
        next = w->next;
        if (w->events & WATCH_EVENT(event) && (!below || w->recursive))
            w->fire(w, event, path);
    }
}

void watches_fire(struct tree_watches *ws, const struct tree_change *c)
{
    enum keeper_event event = EVENTS[c->kind].event;
    struct str up = c->path;
    if (!ws->count || !EVENTS[c->kind].fires)
        return;
    ws->changes++;
    ws->firing = c;
    fire_at(ws, c->path, c->path, event);
    while (ws->recursive && up.len > 1) {
        up = path_parent(up);
        fire_at(ws, up, c->path, event);
    }
    if (EVENTS[c->kind].fires_parent)
        fire_at(ws, path_parent(c->path), path_parent(c->path), KEEPER_EVENT_CHILDREN);
}
