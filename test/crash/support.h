/*
 * support - what the crash tests share: seeds, waiting, and assertions about errors.
 *
 * Assertions belong to the test's own thread. Hooks and other threads record errors, and the test
 * checks them.
 */
#ifndef CRASH_SUPPORT_H
#define CRASH_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/err.h"
#include "base/mem.h"
#include "files.h"

enum { PATIENCE_MS = 60000 /* after this, something hangs */ };

/* Numbers that the same seed gives again. */
struct rng {
    uint64_t state;
};

uint64_t rng_next(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t limit);

/* DROVER_SEED, or this one; and whether DROVER_SOAK asks for long runs. */
uint64_t seed_or(uint64_t usual);
bool soaking(void);

/*
 * Whether tests that repeat themselves are to do less: under ThreadSanitizer, where programs take
 * ten times as long, and in `make check`, which sets DROVER_CHECK.
 */
bool is_short_run(void);
size_t short_run_stride(size_t stride); /* of a loop over every point: 1, or this in a short run */

/*
 * Runs the tests and gives the exit status. A failed one has left everything as it was: then the
 * directories are removed here (not with DROVER_KEEP), and nobody is told of the memory.
 */
#define run_group(tests) run_group_of((tests), sizeof(tests) / sizeof *(tests))
int run_group_of(struct CMUnitTest *tests, size_t count);

/* Describes the current step for a failure message; done() ends it. */
void doing(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void done(void);

#define expect_err(want, got) expect_err_at((want), (got), #got, __FILE__, __LINE__)
#define must(call) expect_err(0, call)
void expect_err_at(int want, int got, const char *what, const char *file, int line);

/* Waits for a condition; fails the test when it takes too long. */
typedef bool condition_fn(void *arg);
#define wait_until(condition, arg) wait_until_at((condition), (arg), __FILE__, __LINE__)
void wait_until_at(condition_fn *condition, void *arg, const char *file, int line);

#endif
