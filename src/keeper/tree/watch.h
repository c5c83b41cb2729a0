/*
 * watch - the watches on paths, and the events of a change.
 *
 * Pure: it finds the watches of a change and calls each; delivery is up to them. The caller owns a
 * watch and fills in its events:
 *
 *   CREATED, CHANGED, DELETED   of the node itself; with `recursive` also of everything below it
 *   CHILDREN                    a child was created or deleted
 */
#ifndef KEEPER_TREE_WATCH_H
#define KEEPER_TREE_WATCH_H

#include "base/map.h"
#include "keeper/tree/tree.h"

struct tree_watch {
    int events; /* bits: WATCH_EVENT() */
    bool recursive;

    /* path is that of the changed node. May remove this watch, but no other. */
    void (*fire)(struct tree_watch *w, enum keeper_event event, struct str path);

    char *path;
    struct tree_watch *next; /* on the same path */
};

#define WATCH_EVENT(event) (1 << (event))

/* The watches of one path. */
struct tree_watch_place {
    char *path; /* NULL: free */
    struct tree_watch *first;
    uint32_t next_free;
};

struct tree_watches {
    struct tree_watch_place *places; /* refs start at 1 */
    uint32_t len, cap, free;
    struct map index;
    uint32_t marks[UINT8_MAX + 1]; /* how many places have a path with this cheap hash */
    uint64_t count, recursive;
    uint64_t changes; /* fired so far: a user with several watches tells changes apart by it */
    const struct tree_change *firing; /* the last one, which is in the list of its transaction */
};

void watches_release(struct tree_watches *ws);

/* Sets w->path, which is valid until watches_remove. */
void watches_add(struct tree_watches *ws, struct tree_watch *w, struct str path);
void watches_remove(struct tree_watches *ws, struct tree_watch *w);

/* Calls each watch that a change of the tree concerns. */
void watches_fire(struct tree_watches *ws, const struct tree_change *c);

#endif
