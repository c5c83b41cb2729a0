/*
 * parallel - many blocking calls at once: a keeper call blocks its thread, and an ensemble is far
 * away.
 *
 *     parallel_run(count, read_one, &args);       read_one(&args, 0), read_one(&args, 1), ...
 */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stddef.h>

/*
 * Returns when all calls have returned. They run in no order, from several threads if there are
 * many.
 */
void parallel_run(size_t count, void (*fn)(void *arg, size_t i), void *arg);

#endif
