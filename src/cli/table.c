/* Cells are stored until the widths are known, then printed row by row. */
#include "cli/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"

enum { GAP = 2, NARROWEST = 8 };

struct table_value {
    struct str text;
    enum term_colour colour;
};

void table_init(struct table *t, const struct table_column *columns, size_t column_count)
{
    assert(column_count <= TABLE_COLUMNS_MAX);
    *t = (struct table){.columns = columns, .column_count = column_count};
}

void table_release(struct table *t)
{
    free(t->values);
    arena_release(&t->arena);
}

static void add_value(struct table *t, enum term_colour colour, struct str text)
{
    if (t->value_count == t->value_cap) {
        t->value_cap = t->value_cap ? t->value_cap * 2 : 64;
        t->values = mem_realloc(t->values, t->value_cap * sizeof *t->values);
    }
    t->values[t->value_count++] = (struct table_value){text, colour};
}

void table_text(struct table *t, enum term_colour colour, struct str text)
{
    add_value(t, colour, (struct str){arena_text(&t->arena, text), text.len});
}

void table_cell(struct table *t, enum term_colour colour, const char *fmt, ...)
{
    va_list ap;
    char *text;

    va_start(ap, fmt);
    int len = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (len < 0)
        err_fatal("out of memory");
    table_text(t, colour, (struct str){text, (size_t)len});
    free(text);
}

/* Widths. */

static void natural_widths(const struct table *t, size_t widths[static TABLE_COLUMNS_MAX])
{
    for (size_t i = 0; i < t->column_count; i++)
        widths[i] = term_width(str_of(t->columns[i].name));
    for (size_t i = 0; i < t->value_count; i++) {
        size_t width = term_width(t->values[i].text), *column = &widths[i % t->column_count];

        *column = width > *column ? width : *column;
    }
}

/* Narrows the widest column by one, until the line fits or all are narrow. */
static void fit_widths(const struct table *t, size_t columns,
                       size_t widths[static TABLE_COLUMNS_MAX])
{
    size_t total = (t->column_count - 1) * GAP;

    for (size_t i = 0; i < t->column_count; i++)
        total += widths[i];
    while (total > columns) {
        size_t widest = 0;

        for (size_t i = 1; i < t->column_count; i++)
            if (widths[i] >= widths[widest])
                widest = i;
        if (widths[widest] <= NARROWEST)
            return;
        widths[widest]--;
        total--;
    }
}

/* Printing. */

struct table_style {
    const size_t *widths;
    bool colour, cut;
};

static void put_spaces(struct buf *b, size_t count)
{
    buf_printf(b, "%*s", (int)count, "");
}

static void put_cell(struct buf *b, const struct table *t, size_t column,
                     const struct table_value *v, const struct table_style *s)
{
    size_t width = s->widths[column], shown = term_width(v->text);
    size_t pad = shown < width ? width - shown : 0;
    bool last = column + 1 == t->column_count, coloured = s->colour && v->colour != TERM_PLAIN;

    if (t->columns[column].right)
        put_spaces(b, pad);
    if (coloured)
        buf_printf(b, "%s", term_colour(v->colour));
    term_put_safe(b, v->text, s->cut ? width : SIZE_MAX);
    if (coloured)
        buf_printf(b, "%s", term_colour(TERM_PLAIN));
    if (!t->columns[column].right && !last)
        put_spaces(b, pad);
    if (!last)
        put_spaces(b, GAP);
}

static void put_heads(struct buf *b, const struct table *t, const struct table_style *s)
{
    for (size_t i = 0; i < t->column_count; i++) {
        struct table_value head = {str_of(t->columns[i].name), TERM_BOLD};

        put_cell(b, t, i, &head, s);
    }
    buf_printf(b, "\n");
}

void table_print(struct table *t, FILE *to)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0}, columns = term_columns(to);
    struct table_style s = {.widths = widths, .colour = term_has_colour(to), .cut = columns > 0};
    struct buf b = {0};

    assert(t->value_count % t->column_count == 0);
    if (!t->value_count)
        return;
    natural_widths(t, widths);
    if (columns)
        fit_widths(t, columns, widths);
    put_heads(&b, t, &s);
    for (size_t i = 0; i < t->value_count; i++) {
        put_cell(&b, t, i % t->column_count, &t->values[i], &s);
        if ((i + 1) % t->column_count == 0)
            buf_printf(&b, "\n");
        if (b.len > 65536) {
            fwrite(b.p, 1, b.len, to);
            b.len = 0;
        }
    }
    fwrite(b.p, 1, b.len, to);
    buf_release(&b);
}
