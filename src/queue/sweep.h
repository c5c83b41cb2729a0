/*
 * sweep - removes messages older than the retention, periodically, on a thread of its own.
 *
 * The error queue has a retention of its own. Whether a message was handled does not matter.
 * Messages of a queue that is removed are swept once, when it is removed.
 */
#ifndef QUEUE_SWEEP_H
#define QUEUE_SWEEP_H

#include "server/context.h"

#define SWEEP_RETENTION_MS (INT64_C(3) * 24 * 3600 * 1000)
#define SWEEP_ERROR_RETENTION_MS (INT64_C(30) * 24 * 3600 * 1000)

enum { SWEEP_EVERY_MIN_MS = 1000, SWEEP_EVERY_MAX_MS = 10 * 60 * 1000 };

struct queue_sweep;

struct queue_sweep_options {
    struct context *context;
    const char *ns;
    int64_t retention_ms, error_retention_ms;
};

struct queue_sweep *queue_sweep_start(const struct queue_sweep_options *o);
void queue_sweep_free(struct queue_sweep *s);

#endif
