/*
 * adopt - batches and access items that foreign clients made or moved, brought into the lists below
 * /drover, where they are looked for.
 *
 * A foreign client makes an item step by step: the node, then what stands in it. One that is seen
 * before it has a status that can be read is not born yet: it is remembered, and looked at again every
 * tenth of a second that somebody asks for such items, and batches every second by drover serve. Not by
 * a watch: each would be one more for a client to send when it reconnects, and what never gets a
 * status would have one for ever.
 */
#ifndef BATCH_INDEX_H
#define BATCH_INDEX_H

#include <stdbool.h>
#include <stdint.h>

enum { BATCH_INCOMPLETE_MAX = 256, BATCH_INCOMPLETE_RETRY_MS = 100 };

enum batch_source { BATCH_SOURCE_BATCHES, BATCH_SOURCE_SMALL, BATCH_SOURCE_LARGE, BATCH_SOURCES };

struct batch_call;

/* What a process has seen of a source so far; in the store, under its lock. */
struct batch_index_state {
    int64_t next; /* items below this number have been looked at */
    int64_t incomplete[BATCH_INCOMPLETE_MAX];
    int incomplete_count;
    bool missed; /* there were more: the next sweep looks at all items */
    int64_t looked_ms;
};

/* Looks at items that are new, and at those that were not born. */
int batch_index_refresh(struct batch_call *c, enum batch_source source);

/* Puts right the lists of items that were moved by their status alone. Reads every item listed. */
int batch_index_sweep(struct batch_call *c, enum batch_source source);

#endif
