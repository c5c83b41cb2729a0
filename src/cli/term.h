/*
 * term - what is different when a person looks: colour, width, times in words, and text that cannot
 * play tricks on the terminal.
 */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/str.h"

enum term_colour {
    TERM_PLAIN,
    TERM_BOLD,
    TERM_DIM,
    TERM_RED,
    TERM_GREEN,
    TERM_YELLOW,
    TERM_BLUE,
};

/* Whether a stream may be coloured: it is a terminal, not a dumb one, and NO_COLOR is not set. */
bool term_has_colour(FILE *to);

/* The escape sequence that begins a colour; TERM_PLAIN ends one. */
const char *term_colour(enum term_colour colour);

/* How many columns a terminal has; 0: it is none, and lines may be as long as they like. */
size_t term_columns(FILE *to);

/*
 * How many columns text takes. What is not printable counts as term_put_safe() writes it, and what is
 * not UTF-8 too.
 */
size_t term_width(struct str text);

/*
 * Appends text as it can be shown: control characters, bytes that are not UTF-8 and a backslash that
 * would be mistaken for one of those become \n, \t, \\ or \xNN. At most max_width columns; what is cut
 * off shows as "…".
 */
void term_put_safe(struct buf *b, struct str text, size_t max_width);

/* "5s", "12m", "3h", "4d": a span in one unit, rounded down. Less than a second: "<1s". */
void term_put_span(struct buf *b, int64_t span_ms);

/* A moment as seen from now: "in 5s", "12m ago", "now". */
void term_put_moment(struct buf *b, int64_t now_ms, int64_t at_ms);

#endif
