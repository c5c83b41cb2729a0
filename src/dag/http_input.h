/*
 * http_input - a node that somebody is attached to (`drover exec`): its standard input, and that
 * its output waits for the reader.
 *
 * A node with data.attach true has a pipe as standard input, and its output is held (output.h)
 * until somebody has read it: one who is attached. When nobody is for ATTACH_PATIENCE_MS, its input
 * ends and its output is held no longer.
 *
 * Input arrives in pieces with offsets, so that one that is repeated counts once. At most
 * RUN_INPUT_LEN bytes wait here; a piece for which there is no room waits.
 */
#ifndef DAG_HTTP_INPUT_H
#define DAG_HTTP_INPUT_H

#include "dag/service.h"

enum { ATTACH_PATIENCE_MS = 10 * 1000 };

/* One who is attached. */
struct attach_guest {
    bool attached;
};

void attach_enter(struct dag *d, struct dag_node *n, struct attach_guest *g);
void attach_leave(struct dag *d, struct dag_node *n, struct attach_guest *g); /* n may be NULL */
void attach_read(struct dag *d, struct dag_node *n, struct attach_guest *g, uint64_t offset);

#endif
