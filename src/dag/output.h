/*
 * output - keeps what a command prints, up to a cap, with a clear mark where it was cut. Pure.
 */
#ifndef DAG_OUTPUT_H
#define DAG_OUTPUT_H

#include "dag/runner.h"

void output_put(struct run_output *o, const char *p, size_t len, size_t cap_len);

/* How much of the text may be cut off at len without breaking a character: len or a little less. */
size_t output_whole(const char *p, size_t len);

#endif
