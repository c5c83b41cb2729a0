/*
 * chore - something that is done from time to time, on a thread of its own.
 *
 * The first time comes after the interval, and each interval begins when the chore was done. A long one
 * looks at chore_is_ending() now and then: chore_end() waits for it.
 */
#ifndef BASE_PERIODIC_H
#define BASE_PERIODIC_H

#include <stdbool.h>
#include <stdint.h>

struct periodic;

/* NULL, with a line in the log: the system has no more threads, and it is never done. */
struct periodic *periodic_start(int64_t every_ms, void (*fn)(struct periodic *c, void *arg),
                                void *arg);
bool periodic_is_stopping(struct periodic *c);
void periodic_stop(struct periodic *c); /* NULL: nothing to end */

#endif
