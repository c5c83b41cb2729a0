/* The states of all modules as people see them, and lists of objects as tables. */
#include <inttypes.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/human.h"
#include "cli/verb.h"

/* States. */

enum term_colour verb_colour(struct str state)
{
    static const struct {
        const char *state;
        enum term_colour colour;
    } rows[] = {
        {"Failed", TERM_RED},      {"failed", TERM_RED},      {"killed", TERM_RED},
        {"Completed", TERM_GREEN}, {"completed", TERM_GREEN}, {"finished", TERM_GREEN},
        {"available", TERM_GREEN}, {"Held", TERM_YELLOW},     {"running", TERM_YELLOW},
        {"working", TERM_YELLOW},  {"claimed", TERM_YELLOW},  {"retrying", TERM_YELLOW},
        {"incipient", TERM_DIM},   {"skipped", TERM_DIM},     {"delayed", TERM_DIM},
        {"done", TERM_DIM},        {"dead", TERM_RED},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (str_eq(state, str_of(rows[i].state)))
            return rows[i].colour;
    return TERM_PLAIN;
}

struct str verb_state_word(struct str state)
{
    return str_eq(state, STR("incipient")) ? STR("waiting") : state;
}

/* Tables. */

/* "status.message": the member of a member; NULL: the value itself. */
static const struct json *find_member(const struct json *v, const char *path)
{
    const char *dot = path ? strchr(path, '.') : NULL;
    char name[64];
    if (!path)
        return v;
    if (!dot)
        return json_get(v, path);
    snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
    return find_member(json_get(v, name), dot + 1);
}

static void put_list(struct table *t, enum term_colour colour, const struct json *list)
{
    CLEANUP(buf_release) struct buf b = {0};
    json_each(item, json_list(list))
        buf_printf(&b, "%s%.*s", b.len ? " " : "", STR_ARGS(item->text));
    table_text(t, colour, buf_str(&b));
}

static void put_flag(struct table *t, const struct verb_column *c, bool truth)
{
    size_t len = strcspn(c->word, "|");
    struct str yes = {c->word, len}, no = str_of(c->word + len + (c->word[len] == '|'));
    table_text(t, c->colour, truth ? yes : no);
}

static void put_state(struct table *t, struct str state)
{
    table_text(t, verb_colour(state), verb_state_word(state));
}

void verb_put_data(struct buf *b, const struct json *task)
{
    const struct json *bytes = json_get(task, "data64");
    if (bytes)
        base64_read(bytes->text, b);
    else
        buf_put_str(b, json_text_of(task, "data"));
}

static void put_data(struct table *t, const struct json *task)
{
    CLEANUP(buf_release) struct buf bytes = {0};
    verb_put_data(&bytes, task);
    table_text(t, TERM_PLAIN, buf_str(&bytes));
}

static const char *time_taken(char *out, const struct json *v)
{
    int64_t from = json_int_of(v, "started"), to = json_int_of(v, "ended");
    return from ? human_span(out, (to ? to : clock_wall_ms()) - from) : "";
}

static void put_cell(struct table *t, const struct verb_column *c, const struct json *v)
{
    int64_t number = v && v->kind == JSON_INT ? v->number : 0;
    struct str text = v && v->kind == JSON_TEXT ? v->text : STR("");
    const char *otherwise = c->otherwise ? c->otherwise : "";
    char out[HUMAN_SIZE] = "";

    switch (c->kind) {
    case VERB_NUMBER:
    case VERB_PRIORITY:
    case VERB_FAILURES:
        table_cell(t, c->kind == VERB_FAILURES && number ? TERM_RED : c->colour, "%0*" PRId64,
                   c->kind == VERB_PRIORITY ? 2 : 1, number);
        break;
    case VERB_COUNT:
        table_cell(t, c->colour, "%u", v ? v->count : 0);
        break;
    case VERB_SPAN:
        table_cell(t, c->colour, "%s", human_span(out, number));
        break;
    case VERB_TIME:
        table_cell(t, c->colour, "%s", number ? human_time(out, number) : "");
        break;
    case VERB_STATE:
        put_state(t, text);
        break;
    case VERB_DATA:
        put_data(t, v);
        break;
    case VERB_TOOK:
        table_cell(t, c->colour, "%s", time_taken(out, v));
        break;
    case VERB_FLAG:
        put_flag(t, c, v && v->kind == JSON_BOOL && v->truth);
        break;
    case VERB_RAW:
        table_text(t, c->colour, v ? v->raw : str_of(otherwise));
        break;
    case VERB_LIST:
        put_list(t, c->colour, v);
        break;
    case VERB_TEXT:
        table_text(t, c->colour, text.len ? text : str_of(otherwise));
    }
}

/* Fills a table, whose heads have room for TABLE_COLUMNS_MAX. */
static void fill_table(struct table *t, struct table_column *heads, const struct json *list,
                       const struct verb_column *columns, size_t rows_max)
{
    size_t count = 0;
    for (; columns[count].head.name; count++)
        heads[count] = columns[count].head;
    *t = (struct table){.columns = heads, .column_count = count};
    json_each(item, json_list(list))
        for (size_t i = 0;
             i < count && item->kind == JSON_OBJECT && t->value_count < rows_max * count; i++)
            put_cell(t, &columns[i], find_member(item, columns[i].member));
}

void verb_print_rows(const struct json *list, const struct verb_column *columns, size_t rows_max)
{
    struct table_column heads[TABLE_COLUMNS_MAX];
    CLEANUP(table_release) struct table t;
    fill_table(&t, heads, list, columns, rows_max);
    table_print(&t, stdout);
}

void verb_put_rows(const struct json *list, const struct verb_column *columns, size_t rows_max,
                   size_t width, bool coloured, struct buf *b)
{
    struct table_column heads[TABLE_COLUMNS_MAX];
    CLEANUP(table_release) struct table t;
    fill_table(&t, heads, list, columns, rows_max);
    table_put(&t, width, coloured, b);
}

void verb_print_columns(const struct json *list, const struct verb_column *columns)
{
    verb_print_rows(list, columns, UINT32_MAX);
}
