/*
 * term - output for a terminal: colours, widths, escapes for text that would disturb it, and rows
 * in aligned columns. The commands print texts from outside by these functions only.
 *
 *     static const struct table_column COLUMNS[] = {{"ID", .right = true}, {"GROUP"}, {"DATA"}};
 *     CLEANUP(table_release) struct table t = {.columns = COLUMNS, .column_count = 3};
 *     table_cell(&t, TERM_PLAIN, "%lld", id); table_text(&t, TERM_PLAIN, group); ...
 *     table_print(&t, stdout);
 */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/escape.h"
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

/*
 * Whether the locale of the user has UTF-8. With term_set_ascii(true), term_put_safe() writes only
 * ASCII: other characters as escapes, and "~" for what is cut off.
 */
bool term_is_utf8(void);
void term_set_ascii(bool ascii);

/* The escape sequence that begins a colour; TERM_PLAIN ends one. */
const char *term_colour(enum term_colour colour);

/* How many columns a terminal has; 0: it is none, and lines may have any length. */
size_t term_columns(FILE *to);

/* How many columns text takes, as term_put_safe() writes it. */
size_t term_width(struct str text);

/*
 * Appends text with escapes: what escape.h says, and a backslash that would read as an escape,
 * become \n, \t, \\ or \xNN. At most max_width columns; "…" stands for what is cut off.
 */
void term_put_safe(struct buf *b, struct str text, size_t max_width);

/* The same in a colour, if coloured is true and the colour is not TERM_PLAIN. */
void term_paint(struct buf *b, bool coloured, enum term_colour colour, struct str text,
                size_t max_width);

/*
 * Everything from outside that is not put together with term_put_safe() is printed by these. On a
 * terminal it is escaped; elsewhere it stays as it is, for programs. The second adds a newline.
 */
void term_write(FILE *to, struct str text, enum escape_style style);
void term_line(FILE *to, struct str text, enum escape_style style);

/* Bytes of a command, as they are, also on a terminal. 0, or -1 with errno. */
int term_copy(int fd, struct str bytes);

/*
 * A line on stderr, as one write, always escaped: a name from outside does not make another line.
 */
void term_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void term_vsay(const char *prefix, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

/*
 * The status: a line at the end of the output on a terminal, which is rewritten. What the functions
 * above and below write to stderr goes above it. Only for a terminal; else it is not shown.
 */
bool term_can_status(void);
void term_status(const char *line); /* "": removes it */

/* Writes what a command has written to its descriptor 1 or 2 to ours, unchanged. */
void term_pass(int fd, struct str bytes);

/*
 * A table. Cells are added in order, row by row. On a terminal the widest columns are cut until a
 * line fits; elsewhere everything is printed in full. Text is escaped (term_put_safe). Without rows
 * nothing is printed, not even the heads.
 */
enum { TABLE_COLUMNS_MAX = 16 };

struct table_column {
    const char *name;
    bool right; /* aligned at the right, as numbers are */
};

struct table {
    const struct table_column *columns;
    size_t column_count, value_count, value_cap;
    struct table_value *values;
    struct arena arena;
};

void table_release(struct table *t);

/* The next cell. The text is copied. */
void table_text(struct table *t, enum term_colour colour, struct str text);
void table_cell(struct table *t, enum term_colour colour, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void table_print(const struct table *t, FILE *to);

/* The same for a screen: no line is longer than so many columns; the last columns are left out. */
void table_put(const struct table *t, size_t columns, bool coloured, struct buf *b);

#endif
