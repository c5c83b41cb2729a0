/*
 * ground - the nodes that modules need, and that other clients of the keeper can delete.
 *
 * A module names them when it opens, parents first. A node that has existed and is deleted is made
 * again at once, with a warning in the log, and /readyz answers 503 until it is there. A node that
 * no module has made yet is left alone.
 *
 *   ground_need  an empty node: it is created again
 *   ground_lead  a node that the leader makes when it loads its state: the leader loads again. On
 *                the embedded keeper ground_own protects these instead
 *   ground_own   a node that only this server changes, with everything below. On the embedded
 *                keeper clients of the ZooKeeper port may read it and change nothing; an ensemble
 *                cannot be told so
 *
 * In order: ground_open -> ground_need, ground_lead, ground_own -> ground_begin -> ground_close.
 * Paths are copied, except those of ground_own.
 */
#ifndef SERVER_GROUND_H
#define SERVER_GROUND_H

#include <stdbool.h>

struct context;

/* Sets context->ground. */
void ground_open(struct context *h);
void ground_need(struct context *h, const char *path);
void ground_lead(struct context *h, const char *path);
void ground_own(struct context *h, const char *path);
void ground_begin(struct context *h);

/* Whether nothing that was there is missing. */
bool ground_is_whole(const struct context *h);

/* Does nothing if it was not opened. */
void ground_close(struct context *h);

#endif
