/*
 * index - what is known of a world's tree, so that finding parents does not walk it every time.
 *
 * Every change that adds a task to the tree also sets the world's root node (to the data it has), so
 * its version counts them. As long as all versions up to the one there now were this process's own,
 * the index is whole and finding is a look-up; otherwise, and when it has not been done for twenty
 * times as long as it takes, the tree is walked. So the cost of walking stays below a twentieth,
 * except while several servers add tasks to one world in turn. What foreign tools add below the top,
 * without setting the root, is seen with the next walk: when nothing matched, or after that time.
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

/* A task of the tree that matched, and its name as the expression saw it. In the arena. */
struct world_match {
    const char *path;
    struct str name, type;
};

struct world_matches {
    struct world_match *list;
    size_t count;
};

/* NO_NODE when there is no such world. No match is no error. In the order of the paths. */
int world_index_find(struct world_index *a, struct keeper *k, struct arena *arena,
                     struct expression *name, struct expression *type,
                     struct world_matches *ret_matches, struct err_info *ret_error);

/*
 * Around every change that may add tasks: begin before it is sent; end with the paths that are in the
 * tree now and the version that the root got, or with none and -1 when nothing happened.
 */
void world_index_begin(struct world_index *a);
void world_index_end(struct world_index *a, char *const *paths, size_t count, int32_t root_version);

#endif
