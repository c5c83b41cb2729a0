/*
 * limits - what a command may use: CPU time, memory, open files, processes.
 */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include "base/option.h"

enum limit_kind { LIMIT_CPU, LIMIT_MEMORY, LIMIT_FILES, LIMIT_PROCESSES, LIMIT_KINDS };

/* CPU time in ms, memory in bytes, open files, processes. 0: no limit. */
struct limits {
    int64_t of[LIMIT_KINDS];
};

extern const char *const LIMIT_NAMES[LIMIT_KINDS]; /* "cpu", "memory", "files", "processes" */

bool limits_any(const struct limits *l);

/* "2s", "64 MiB", "100", as people write it. Returns out, of HUMAN_SIZE bytes. */
const char *limit_text(char *out, enum limit_kind kind, int64_t value);

/* The rows of --limit-... for a struct limits. */
#define LIMIT_OPTIONS(limits)                                                                      \
    OPTION("limit-cpu", "TIME",                                                                    \
           "The CPU time that a command may use, of all its processes together.", option_span,     \
           &(limits).of[LIMIT_CPU], 1, INT64_MAX),                                                 \
        OPTION("limit-memory", "SIZE", "The memory that a command may use: 64M, 2G.", option_size, \
               &(limits).of[LIMIT_MEMORY], 1, INT64_MAX),                                          \
        OPTION("limit-files", "N", "How many files each process of a command may have open.",      \
               option_number, &(limits).of[LIMIT_FILES], 1, INT32_MAX),                            \
        OPTION("limit-processes", "N", "How many processes and threads a command may have.",       \
               option_number, &(limits).of[LIMIT_PROCESSES], 1, INT32_MAX)

#endif
