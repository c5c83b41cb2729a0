/*
 * A map from paths to lists. Which change tells which kind of watch what is a table.
 */
#include "keeper/watch.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/path.h"

enum {
    DATA = 1 << KEEPER_WATCH_DATA,
    EXISTS = 1 << KEEPER_WATCH_EXISTS,
    CHILDREN = 1 << KEEPER_WATCH_CHILDREN,
};

static const struct {
    int kinds; /* of the watches on the node itself */
    enum keeper_event event;
    int parent_kinds;
} CONCERNS[] = {
    [CHANGE_CREATE] = {DATA | EXISTS | CHILDREN, KEEPER_EVENT_CREATED, CHILDREN},
    [CHANGE_SET] = {DATA, KEEPER_EVENT_CHANGED, 0},
    [CHANGE_DELETE] = {DATA | EXISTS | CHILDREN, KEEPER_EVENT_DELETED, CHILDREN},
    [CHANGE_SESSION_OPEN] = {0},
    [CHANGE_SESSION_CLOSE] = {0},
    [CHANGE_SET_ACL] = {0},
};

/* The position of a path's list, plus one; 0: nobody watches it. */
static uint32_t find(const struct watches *ws, struct str path)
{
    uint32_t hash = map_hash_str(path);

    for (uint32_t at, ref = map_first(&ws->index, hash, &at); ref;
         ref = map_next(&ws->index, hash, &at))
        if (str_eq(str_of(ws->places[ref - 1]->path), path))
            return ref;
    return 0;
}

static uint32_t take_position(struct watches *ws)
{
    if (ws->free_len)
        return ws->free[--ws->free_len];
    if (ws->len == ws->cap) {
        ws->cap = ws->cap ? ws->cap * 2 : 16;
        ws->places = mem_realloc(ws->places, ws->cap * sizeof *ws->places);
    }
    return ws->len++;
}

static void give_position(struct watches *ws, uint32_t at)
{
    if (ws->free_len == ws->free_cap) {
        ws->free_cap = ws->free_cap ? ws->free_cap * 2 : 16;
        ws->free = mem_realloc(ws->free, ws->free_cap * sizeof *ws->free);
    }
    ws->free[ws->free_len++] = at;
}

void watches_release(struct watches *ws)
{
    for (uint32_t i = 0; i < ws->len; i++)
        assert(!ws->places[i]);
    free(ws->places);
    free(ws->free);
    map_release(&ws->index);
    *ws = (struct watches){0};
}

void watches_add(struct watches *ws, struct watch *w, struct str path)
{
    uint32_t ref = find(ws, path);
    struct watch_place *place;

    if (!ref) {
        ref = take_position(ws) + 1;
        place = mem_zalloc(sizeof *place);
        place->path = mem_dup(path.p, path.len);
        ws->places[ref - 1] = place;
        map_add(&ws->index, map_hash_str(path), ref);
    }
    place = ws->places[ref - 1];
    w->path = place->path;
    w->next = place->first;
    place->first = w;
    ws->count++;
}

void watches_remove(struct watches *ws, struct watch *w)
{
    uint32_t ref = find(ws, str_of(w->path));
    struct watch_place *place = ws->places[ref - 1];
    struct watch **link = &place->first;

    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    ws->count--;
    if (place->first)
        return;
    map_remove(&ws->index, map_hash_str(str_of(place->path)), ref);
    ws->places[ref - 1] = NULL;
    give_position(ws, ref - 1);
    free(place->path);
    free(place);
}

static void fire_at(struct watches *ws, struct str path, int kinds, enum keeper_event event,
                    watch_fire_fn *fire, void *arg)
{
    uint32_t ref = kinds ? find(ws, path) : 0;

    if (!ref)
        return;
    for (struct watch *w = ws->places[ref - 1]->first; w; w = w->next)
        if (kinds & 1 << w->kind)
            fire(arg, w, event);
}

void watches_fire(struct watches *ws, const struct change *c, watch_fire_fn *fire, void *arg)
{
    if (!ws->count || !CONCERNS[c->kind].kinds)
        return;
    fire_at(ws, c->path, CONCERNS[c->kind].kinds, CONCERNS[c->kind].event, fire, arg);
    if (CONCERNS[c->kind].parent_kinds)
        fire_at(ws, path_parent(c->path), CONCERNS[c->kind].parent_kinds, KEEPER_EVENT_CHILDREN,
                fire, arg);
}
