/*
 * periodic - calls a function at an interval, on a thread of its own.
 *
 * The first call comes one interval after the start, and each interval begins when the call before it has
 * returned. periodic_wake() makes the next call come at once. A long call checks periodic_is_stopping() now and then, because periodic_stop() waits for it.
 */
#ifndef BASE_PERIODIC_H
#define BASE_PERIODIC_H

#include <stdbool.h>
#include <stdint.h>

struct periodic;

/* The name is that of the thread. */
struct periodic *periodic_start(const char *name, int64_t every_ms,
                                void (*fn)(struct periodic *c, void *arg), void *arg);
bool periodic_is_stopping(struct periodic *c);
void periodic_wake(struct periodic *c);
void periodic_stop(struct periodic *c); /* NULL: does nothing */

#endif
