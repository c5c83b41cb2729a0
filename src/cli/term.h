/*
 * term - output for a terminal: colours, widths, and escapes for text that would disturb it.
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

/* How many columns a terminal has; 0: it is none, and lines may have any length. */
size_t term_columns(FILE *to);

/*
 * How many columns text takes, as term_put_safe() writes it.
 */
size_t term_width(struct str text);

/*
 * Appends text with escapes: control characters, bytes that are not UTF-8, and a backslash that
 * would read as an escape become \n, \t, \\ or \xNN. At most max_width columns; "…" stands for what
 * is cut off.
 */
void term_put_safe(struct buf *b, struct str text, size_t max_width);

#endif
