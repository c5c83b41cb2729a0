/*
 * refusals - counts what was refused because a limit was reached, and says when it is time to log
 * it: the first one at once, then all since the last line together. Zero-initialise.
 */
#ifndef BASE_REFUSALS_H
#define BASE_REFUSALS_H

#include <stdint.h>

enum { REFUSALS_SAID_MS = 10 * 1000 };

struct refusals {
    uint64_t count;  /* ever */
    uint64_t unsaid; /* since the last line */
    int64_t said_ms; /* when that was; 0: never */
};

/* One more. Returns how many there were since the last line; 0: it is too early for another. */
static inline uint64_t refusals_add(struct refusals *r, int64_t now_ms)
{
    r->count++;
    r->unsaid++;
    if (r->said_ms && now_ms - r->said_ms < REFUSALS_SAID_MS)
        return 0;
    uint64_t unsaid = r->unsaid;
    r->unsaid = 0;
    r->said_ms = now_ms;
    return unsaid;
}

#endif
