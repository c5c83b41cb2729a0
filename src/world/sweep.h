/*
 * sweep - removes tasks that were completed long ago, periodically, on a thread of its own.
 *
 * The document keeps completed tasks for ever. On an ensemble a list of children must not exceed 1
 * MB, so --world-retention limits it. A task is removed with its node in the tree, children first:
 * a parent stays while it has children.
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
