/*
 * result - fills a struct drover_result, the answer of a transaction in the public interface. All of
 * it lies in one arena, which drover_result_release() frees.
 */
#ifndef BASE_RESULT_H
#define BASE_RESULT_H

#include "base/arena.h"
#include "base/str.h"
#include "drover.h"

/* Empty, with room for so many. Returns the arena that its text may be put into. */
struct arena *result_init(struct drover_result *r, size_t task_max, size_t error_max);

/* The next task or reason, copied. No more than there is room for. */
void result_add_task(struct drover_result *r, struct str group, struct str data,
                     const struct drover_task *rest);
void result_add_error(struct drover_result *r, struct str text);

#endif
