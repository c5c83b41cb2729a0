/*
 * log - one line per event to stderr, from the edge only.
 *
 *   drover: warning: journal: cut 37 bytes ...
 *   drover: the disk is full status=507 method=POST path=/update
 *
 * or, after log_as_json(), for programs:
 *
 *   {"time":"2026-01-31T12:00:00.123Z","level":"error","message":"the disk is full",...}
 *
 * A line that follows itself is counted: "... (repeated 41 times)", or a member `repeated`.
 *
 * Core and library never log: they return errors, or call the `note` of their options.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A named detail of an error. */
struct log_field {
    const char *name;
    struct str value;
};

void log_error_with(const struct log_field *fields, size_t count, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* From now on, lines are JSON. Call it before other threads start. */
void log_as_json(void);

/* For tests: what tells when repetitions are counted anew. Default: clock_boot_ms. */
void log_use_clock(int64_t (*boot_ms)(void));

#endif
