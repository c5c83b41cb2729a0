/*
 * result - fills a struct drover_result, the answer to a transaction in the public interface. All
 * of it is in one arena, which drover_result_release() frees.
 */
#ifndef BASE_RESULT_H
#define BASE_RESULT_H

#include "base/arena.h"
#include "base/str.h"
#include "drover.h"

/* Empty, with space for that many. */
void result_init(struct drover_result *r, size_t task_max, size_t error_max);

/* Makes room for more tasks; *cap is for how many there is room now. */
void result_grow(struct drover_result *r, size_t *cap, size_t more);

/* Append a copy of a task, with the texts of rest, or of an error, up to the maximum. */
void result_add_task(struct drover_result *r, struct str group, struct str data,
                     const struct drover_task *rest);
void result_add_error(struct drover_result *r, struct str text);

/* Text of the public interface: NULL is empty; with len 0 it ends with a NUL. */
static inline struct str result_text(const char *text, size_t len)
{
    return text && len ? (struct str){text, len} : str_of(text ? text : "");
}

#endif
