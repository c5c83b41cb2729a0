/*
 * environment - what a command finds around it: a clean environment, where it is in the DAG, and what
 * its node gives.
 */
#ifndef DAG_ENVIRONMENT_H
#define DAG_ENVIRONMENT_H

#include "base/arena.h"

struct environment {
    const char *url;      /* DROVER_URL; NULL: none */
    const char *node;     /* DROVER_NODE */
    const char *parent;   /* DROVER_PARENT: ids with commas, or "root" */
    const char *token;    /* "DROVER_RUN=...": no other run has it */
    const char *password; /* DROVER_TOKEN, with which the server is asked; NULL: none */
};

/* In the arena, NULL-terminated. given, which may be NULL, goes before what we found around us. */
const char **environment_make(struct arena *a, const struct environment *e,
                              const char *const *given);

#endif
