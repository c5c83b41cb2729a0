/*
 * progress - shows how a graph gets on, to people: as ninja does on a terminal (one line that is
 * written over, with counts, what runs and the time left), as plain lines elsewhere.
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
    bool line; /* something stands on the line that will be written over */
    uint32_t total, ended, running;
    int64_t started_ms;
    int64_t expected_ms; /* of all that have not ended, by earlier runs; 0: not known */
    uint32_t jobs;       /* how many ran at once, at most */
};

void progress_init(struct progress *p, FILE *to, uint32_t total, int64_t now_ms);

/* Writes the line anew: what was started last, or ended. Nothing where there is no terminal. */
void progress_line(struct progress *p, struct str name, int64_t now_ms);

/* A line that stays. Ends the one that is written over. */
void progress_say(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The line goes. */
void progress_clear(struct progress *p);

#endif
