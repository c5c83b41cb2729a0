/*
 * environment - the environment of a command: a few of the server's variables, the position in the
 * DAG, and the node's own variables.
 */
#ifndef DAG_ENVIRONMENT_H
#define DAG_ENVIRONMENT_H

#include "base/arena.h"

struct environment {
    const char *url;      /* DROVER_URL; NULL: none */
    const char *node;     /* DROVER_NODE */
    const char *parent;   /* DROVER_PARENT: ids with commas, or "root" */
    const char *token;    /* "DROVER_RUN=...": unique to this run */
    const char *password; /* DROVER_TOKEN, to authenticate with the server; NULL: none */
};

/* In the arena, NULL-terminated. given, which may be NULL, overrides the server's variables. */
const char **environment_make(struct arena *a, const struct environment *e,
                              const char *const *given);

#endif
