/*
 * sweep - removes tasks that were completed long ago, from time to time, on a thread of its own.
 *
 * The document keeps completed tasks; a world that goes on for ever needs an end to that, and on an
 * ensemble a list of children must not grow beyond 1 MB. So it is an option (--world-retention). A task
 * goes with its node in the tree, and after those below it: a parent stays as long as it has children.
 */
#ifndef WORLD_SWEEP_H
#define WORLD_SWEEP_H

#include "server/context.h"
#include "world/registry.h"

enum { WORLD_SWEEP_MIN_MS = 500, WORLD_SWEEP_MAX_MS = 10 * 60 * 1000 };

struct world_sweep;

struct world_sweep *world_sweep_start(struct context *h, struct world_registry *registry,
                                      int64_t retention_ms);
void world_sweep_free(struct world_sweep *s);

#endif
