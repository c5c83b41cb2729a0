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
#ifndef BATCH_ADOPT_H
#define BATCH_ADOPT_H

#include <stdbool.h>
#include <stdint.h>

enum { ADOPT_UNBORN_MAX = 256, ADOPT_LOOK_MS = 100 };

enum adopt_source { ADOPT_BATCHES, ADOPT_SMALL, ADOPT_LARGE, ADOPT_SOURCES };

struct call;

/* What a process has seen of a source so far; in the depot, under its lock. */
struct adopted {
    int64_t next; /* items below this number have been looked at */
    int64_t unborn[ADOPT_UNBORN_MAX];
    int unborn_count;
    bool missed; /* there were more: the next sweep looks at all items */
    int64_t looked_ms;
};

/* Looks at items that are new, and at those that were not born. */
int adopt_new(struct call *c, enum adopt_source source);

/* Puts right the lists of items that were moved by their status alone. Reads every item listed. */
int adopt_sweep(struct call *c, enum adopt_source source);

#endif
