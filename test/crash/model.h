/*
 * model - the simplest possible tree: a list of nodes, searched from the front, copied before a
 * transaction and restored if it fails. It has no journal, no snapshot, no hash and no undo. The
 * keeper must give the same answers.
 */
#ifndef CRASH_MODEL_H
#define CRASH_MODEL_H

#include "keeper/keeper.h"

enum { MODEL_PATH_MAX = 96 };

struct model_node {
    char path[MODEL_PATH_MAX];
    struct str data;         /* borrowed: the test's data lives for ever */
    struct keeper_stat stat; /* child_count and data_len are filled in by model_stat */
    int32_t creations;       /* of children */
};

struct model {
    struct model_node *nodes;
    size_t count;
    int64_t zxid;
};

void model_init(struct model *m);
void model_release(struct model *m);

/* NULL: there is none. */
struct model_node *model_find(const struct model *m, const char *path);
struct keeper_stat model_stat(const struct model *m, const struct model_node *n);

/* The names of the children, sorted, each with a blank behind it. To be freed. */
char *model_children(const struct model *m, const char *path);

/* A transaction, as keeper_multi. */
int model_apply(struct model *m, int64_t session, int64_t now_ms, const struct keeper_op *ops,
                size_t count, struct keeper_result *results);

/* The id is that of the transaction. */
int64_t model_session_open(struct model *m);
void model_session_close(struct model *m, int64_t session);

#endif
