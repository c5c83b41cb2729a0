/* impl - the inside of struct world, and what its files share. */
#ifndef WORLD_IMPL_H
#define WORLD_IMPL_H

#include <pthread.h>

#include "base/map.h"
#include "keeper/list_view.h"
#include "keeper/txn.h"
#include "world/expression.h"
#include "world/world.h"

enum { WORLD_TRIES = 100 }; /* of a transaction whose preconditions others keep changing */

struct world {
    char *name, *root;
    struct world_options o;
    struct world_index *index;
    struct keeper *k; /* watched */
    struct list_view *pending;
    struct arena scratch; /* for classifying pending nodes; under the lock of the view */

    pthread_mutex_t warning; /* guards the rest */
    struct map warned;       /* hashes of the nodes that were warned about */
};

/* Reads a node into the arena. */
int world_read(struct keeper *k, struct arena *a, const char *path, struct str *ret_data,
               struct keeper_stat *ret_stat);

/* Flags of the entries of the pending list, as this process knows it: */
enum {
    PENDING_PLAIN = 1,   /* the node holds what world_record_make() says, so it need not be read */
    PENDING_FOREIGN = 2, /* a task of another world, which blocks nothing here */
};

/* What the pending node of a key is. */
void world_classify(struct world *w, struct arena *a, struct str key, struct str data,
                    const struct keeper_stat *stat, struct list_class *ret_class);

/* Commits a transaction that may create or delete pending nodes, and tells the view how many. */
int world_commit(struct world *w, struct keeper *k, struct txn *t);

/*
 * The working node of a task that has failed. plan_mark adds its creation to a transaction.
 * plan_unmark adds its deletion: 1; 0: the working node is missing, or a claim. A claim has the
 * same version, 0, so the transaction must set or delete the pending node at the version seen.
 */
void world_plan_mark(struct txn *t, int name, const char *working);
int world_plan_unmark(struct txn *t, struct keeper *k, struct str key, struct err_info *e);

/* Warns about an invalid node of a list, once. */
void world_warn(struct world *w, const char *list, struct str key, const char *why);

/* Publishes a state change. */
static inline void world_tell(struct world *w, const struct world_change *c)
{
    if (w->o.told)
        w->o.told(w->o.arg, c);
}

/* Whether a transaction failed because a node changed meanwhile: read again and retry. */
static inline bool world_is_stale(int err)
{
    return err == DROVER_NO_NODE || err == DROVER_EXISTS || err == DROVER_BAD_VERSION;
}

/* The error after WORLD_TRIES. */
static inline int world_gave_up(struct err_info *e)
{
    return err_set(e, DROVER_BAD_VERSION, "other clients keep changing this task: try again");
}

/* The arguments of a %.*s for a key in a message, which has room for so much. */
#define KEY_ARGS(key) (int)((key).len < 300 ? (key).len : 300), (key).p

/* The tree index (index.c). Safe from any thread. */

struct world_index *world_index_new(const char *root); /* borrowed */
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
