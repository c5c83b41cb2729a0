/*
 * chore - something that is done from time to time, on a thread of its own.
 *
 * The first time comes after the interval, and each interval begins when the chore was done. A long one
 * looks at chore_is_ending() now and then: chore_end() waits for it.
 */
#ifndef BASE_CHORE_H
#define BASE_CHORE_H

#include <stdbool.h>
#include <stdint.h>

struct chore;

/* NULL, with a line in the log: the system has no more threads, and it is never done. */
struct chore *chore_start(int64_t every_ms, void (*fn)(struct chore *c, void *arg), void *arg);
bool chore_is_ending(struct chore *c);
void chore_end(struct chore *c); /* NULL: nothing to end */

#endif
