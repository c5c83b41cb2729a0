/*
 * watch - who wants to hear of which path, and what a change means to them.
 *
 * Pure: it finds the watches that a change concerns and hands each to a function; delivering is
 * somebody else's business. A watch is owned by whoever added it.
 */
#ifndef KEEPER_WATCH_H
#define KEEPER_WATCH_H

#include "base/map.h"
#include "keeper/tree.h"

struct watch {
    enum keeper_watch_kind kind;
    char *path;
    struct watch *next; /* on the same path */
};

/* The watches of one path. */
struct watch_place {
    char *path;
    struct watch *first;
};

struct watches {
    struct watch_place **places; /* NULL where one was removed */
    uint32_t len, cap;
    uint32_t *free;
    uint32_t free_len, free_cap;
    struct map index;
    uint64_t count;
};

void watches_release(struct watches *ws);

/* Fills in w->path, which stays valid until watches_remove. */
void watches_add(struct watches *ws, struct watch *w, struct str path);
void watches_remove(struct watches *ws, struct watch *w);

/* Calls fire for each watch that a change of the tree concerns. */
typedef void watch_fire_fn(void *arg, struct watch *w, enum keeper_event event);

void watches_fire(struct watches *ws, const struct change *c, watch_fire_fn *fire, void *arg);

#endif
