/*
 * progress - shows the progress of a graph: on a terminal one status line that is overwritten, with
 * counts, the latest node and the time left; elsewhere plain lines.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/str.h"

struct progress {
    FILE *to;
    size_t columns; /* 0: no terminal */
    bool coloured;
    bool line; /* the status line is shown */
    uint32_t total, ended, running;
    int64_t started_ms;
    int64_t expected_ms; /* of all nodes that have not ended, from earlier runs; 0: unknown */
    uint32_t jobs;       /* the most nodes that have run at a time */
};

void progress_init(struct progress *p, FILE *to, uint32_t total, int64_t now_ms);

/* Writes the status line with the name of a node. Does nothing if there is no terminal. */
void progress_line(struct progress *p, struct str name);

/* Prints a line that stays, in place of the status line. */
void progress_say(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Removes the status line. */
void progress_clear(struct progress *p);

#endif
