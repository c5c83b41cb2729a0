/*
 * table - rows in aligned columns.
 *
 *     static const struct table_column COLUMNS[] = {{"ID", .right = true}, {"GROUP"}, {"DATA"}};
 *     struct table t;
 *     table_init(&t, COLUMNS, 3);
 *     table_cell(&t, TERM_PLAIN, "%lld", id); table_text(&t, TERM_PLAIN, group); ...
 *     table_print(&t, stdout);
 *     table_release(&t);
 *
 * Cells are added in order, row by row. On a terminal the widest columns are cut until a line fits;
 * elsewhere everything is printed in full. Text is escaped (term_put_safe). Without rows nothing is
 * printed, not even the heads.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/str.h"
#include "cli/term.h"

enum { TABLE_COLUMNS_MAX = 16 };

struct table_column {
    const char *name;
    bool right; /* aligned at the right, as numbers are */
};

struct table_value;

struct table {
    const struct table_column *columns;
    size_t column_count, value_count, value_cap;
    struct table_value *values;
    struct arena arena;
};

void table_init(struct table *t, const struct table_column *columns, size_t column_count);
void table_release(struct table *t);

/* The next cell. The text is copied. */
void table_text(struct table *t, enum term_colour colour, struct str text);
void table_cell(struct table *t, enum term_colour colour, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void table_print(struct table *t, FILE *to);

#endif
