/* Replies as people read them: tables by columns, single words, objects. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/human.h"
#include "cli/verb.h"

static int print_item(const struct json *v)
{
    CLEANUP(buf_release) struct buf b = {0};

    if (v->kind == JSON_TEXT) {
        term_put_safe(&b, v->text, SIZE_MAX);
        puts(buf_text(&b));
    } else if (v->kind == JSON_INT) {
        printf("%" PRId64 "\n", v->number);
    }
    json_each(item, json_list(v))
        print_item(item);
    return CMD_OK;
}

int verb_print_word(const struct json *reply)
{
    return reply && reply->first ? print_item(reply->first) : CMD_OK;
}

int verb_print_words(const struct json *reply)
{
    return reply ? print_item(reply) : CMD_OK;
}

int verb_print_state(const struct json *reply)
{
    return print_item(&(struct json){.kind = JSON_TEXT, .text = json_text_of(reply, "state")});
}

int verb_print_members(const struct json *reply)
{
    const struct json *v = reply ? reply->first : NULL;

    if (!v || v->kind != JSON_OBJECT)
        return CMD_OK;
    json_each(member, v) {
        CLEANUP(buf_release) struct buf b = {0};

        buf_printf(&b, "%.*s: ", STR_ARGS(member->key));
        if (member->kind == JSON_TEXT)
            term_put_safe(&b, member->text, SIZE_MAX);
        else
            json_put(&b, member);
        puts(buf_text(&b));
    }
    return CMD_OK;
}

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
        {"working", TERM_YELLOW},  {"owned", TERM_YELLOW},    {"incipient", TERM_DIM},
        {"skipped", TERM_DIM},
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

    if (truth)
        table_text(t, c->colour, (struct str){c->word, len});
    else
        table_text(t, c->colour, str_of(c->word[len] ? c->word + len + 1 : ""));
}

static void put_state(struct table *t, struct str state)
{
    table_text(t, verb_colour(state), verb_state_word(state));
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
        table_cell(t, c->colour, "%" PRId64, number);
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
    case VERB_OWNED:
        put_state(t, number > clock_wall_ms() ? STR("owned") : STR("available"));
        break;
    case VERB_TOOK:
        table_cell(t, c->colour, "%s", time_taken(out, v));
        break;
    case VERB_FLAG:
        put_flag(t, c, v && v->kind == JSON_BOOL && v->truth);
        break;
    case VERB_FAILURES:
        table_cell(t, number ? TERM_RED : TERM_PLAIN, "%" PRId64, number);
        break;
    case VERB_PRIORITY:
        table_cell(t, c->colour, "%02" PRId64, number);
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

void verb_print_rows(const struct json *list, const struct verb_column *columns, size_t rows_max)
{
    struct table_column heads[TABLE_COLUMNS_MAX];
    size_t count = 0;

    for (; columns[count].head.name; count++)
        heads[count] = columns[count].head;
    CLEANUP(table_release) struct table t = {.columns = heads, .column_count = count};
    json_each(item, json_list(list))
        for (size_t i = 0;
             i < count && item->kind == JSON_OBJECT && t.value_count < rows_max * count; i++)
            put_cell(&t, &columns[i], find_member(item, columns[i].member));
    table_print(&t, stdout);
}

void verb_print_columns(const struct json *list, const struct verb_column *columns)
{
    verb_print_rows(list, columns, UINT32_MAX);
}
