/*
 * loop_delay - how long turns of the loop take, which is how long an event may wait for its turn.
 *
 * A turn begins when the loop has waited for events, and ends before it waits again. A turn that is
 * shorter than a tick of the kernel's coarse clock (mostly 4 ms) may count as 0.
 */
#ifndef SERVER_LOOP_DELAY_H
#define SERVER_LOOP_DELAY_H

#include <uv.h>

#include "http/metrics.h"

struct loop_delay {
    uv_prepare_t before;
    uv_check_t after;
    uint64_t woke_ms; /* when the turn that is under way began */
    struct histogram *turns;
};

/* Before the handles of others: libuv runs the newest handle of a kind first. */
void loop_delay_open(struct loop_delay *d, uv_loop_t *loop, struct metrics *m);

/* Run the loop until the handles are gone. */
void loop_delay_close(struct loop_delay *d);

#endif
