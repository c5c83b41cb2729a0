/* impl - the inside of struct world, and what its files share. */
#ifndef WORLD_IMPL_H
#define WORLD_IMPL_H

#include <pthread.h>

#include "base/map.h"
#include "world/index.h"
#include "world/name.h"
#include "world/pending.h"
#include "world/world.h"

enum { WORLD_TRIES = 100 }; /* of a transaction whose preconditions others keep changing */

struct world {
    char *name, *root;
    struct world_options o;
    struct world_index *index;
    struct pending *pending;

    pthread_mutex_t noting; /* guards the rest */
    struct map noted;       /* hashes of invalid completed nodes that were reported */
};

/* Reads a node into the arena. */
int world_read(struct keeper *k, struct arena *a, const char *path, struct str *ret_data,
               struct keeper_stat *ret_stat);

/* Publishes a state change. */
void world_tell(struct world *w, const struct world_change *c);

/* Whether a transaction failed because a node changed meanwhile: read again and retry. */
bool world_is_stale(int err);

/* The error after WORLD_TRIES. */
int world_gave_up(struct err_info *e);

/* The generic message for an error of the keeper. */
int world_explain(struct err_info *e, int err);

#endif
