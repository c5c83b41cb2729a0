/*
 * watch - who wants to hear of which path, and what a change means to them.
 *
 * Pure: it finds the watches that a change concerns and calls each; delivering is their business. A
 * watch is owned by whoever added it, who fills in what it listens for:
 *
 *   CREATED, CHANGED, DELETED   of the node itself; with `recursive` also of everything below it
 *   CHILDREN                    a child came or went
 */
#ifndef KEEPER_TREE_WATCH_H
#define KEEPER_TREE_WATCH_H

#include "base/map.h"
#include "keeper/tree/tree.h"

struct tree_watch {
    int events; /* bits: WATCH_EVENT() */
    bool recursive;

    /* path is that of the node changed. May remove this watch, and no other. */
    void (*fire)(struct tree_watch *w, enum keeper_event event, struct str path);

    char *path;
    struct tree_watch *next; /* on the same path */
};

#define WATCH_EVENT(event) (1 << (event))

/* The watches of one path. */
struct tree_watch_place {
    char *path;
    struct tree_watch *first;
};

struct tree_watches {
    struct tree_watch_place **places; /* NULL where one was removed */
    uint32_t len, cap;
    uint32_t *free;
    uint32_t free_len, free_cap;
    struct map index;
    uint64_t count, recursive;
    uint64_t
        changes; /* fired so far: who has several watches tells one change from the next by it */
};

void watches_release(struct tree_watches *ws);

/* Fills in w->path, which stays valid until watches_remove. */
void watches_add(struct tree_watches *ws, struct tree_watch *w, struct str path);
void watches_remove(struct tree_watches *ws, struct tree_watch *w);

/* Tells each watch that a change of the tree concerns. */
void watches_fire(struct tree_watches *ws, const struct tree_change *c);

#endif
