/*
 * index - the tree index: the paths of a world's tasks, so that finding parents does not walk the
 * tree.
 *
 * Every change that adds a task also sets the world's root node (to the data it has), so the root's
 * version counts these changes. While all versions since the last walk were this process's own, the
 * index is complete and finding is a lookup. Otherwise the tree is walked, and also if the last
 * walk is twenty times as long ago as it took. So walking costs at most a twentieth of the time,
 * except while several servers add tasks to one world in turn. Tasks that other tools add without
 * setting the root are seen with the next walk: when nothing matched, or after that time.
 *
 * Safe from any thread.
 */
#ifndef WORLD_INDEX_H
#define WORLD_INDEX_H

#include "base/arena.h"
#include "base/err.h"
#include "keeper/keeper.h"
#include "world/expression.h"

struct world_index;

struct world_index *world_index_new(const char *root);
void world_index_free(struct world_index *a);

/* A task that matched, and its name as the expression saw it. In the arena. */
struct world_match {
    char *path;
    struct str name, type;
};

struct world_matches {
    struct world_match *list;
    size_t count;
};

/* NO_NODE if there is no such world. No match is no error. Sorted by path. */
int world_index_find(struct world_index *a, struct keeper *k, struct arena *arena,
                     struct expression *name, struct expression *type,
                     struct world_matches *ret_matches, struct err_info *ret_error);

/*
 * Around every change that may add tasks: begin before it is sent; end with the paths that are in
 * the tree now and the new version of the root, or with none and -1 if nothing happened.
 */
void world_index_begin(struct world_index *a);
void world_index_end(struct world_index *a, char *const *paths, size_t count, int32_t root_version);

#endif
