/*
 * parallel - calls a function for many indexes at once, on several threads.
 *
 *   parallel_run(count, read_one, &args) calls read_one(&args, 0), read_one(&args, 1), ...
 *
 * For calls that wait: a keeper serves one call per thread, and an ensemble is a round trip away.
 */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stddef.h>

/* Calls fn for 0 to count - 1 in any order, and returns when all calls have returned. */
void parallel_run(size_t count, void (*fn)(void *arg, size_t i), void *arg);

#endif
