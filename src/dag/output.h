/*
 * output - stores the output of a command up to a cap, with a mark where it was truncated. Pure.
 */
#ifndef DAG_OUTPUT_H
#define DAG_OUTPUT_H

#include "dag/runner.h"

void output_put(struct run_output *o, const char *p, size_t len, size_t cap_len);

/* The longest prefix of at most len bytes that does not split a UTF-8 character. */
size_t output_whole(const char *p, size_t len);

#endif
