/* Each setting is a row; those of "backoff" and "rate" are members of an object of that name. */
#include "client/group_body.h"

#include <stdio.h>
#include <string.h>

enum setting_type { TYPE_FLAG, TYPE_NUMBER, TYPE_REAL, TYPE_TEXT };

struct setting_row {
    unsigned bit;
    const char *object, *name; /* object NULL: not in one */
    enum setting_type type;
    size_t offset;
    const char *no, *yes; /* of a flag: the words, if it is not true or false */
};

#define ROW(bit, object, name, type, member)                                                       \
    {                                                                                              \
        DROVER_SET_##bit, object, name, type, offsetof(struct drover_settings, member), NULL, NULL \
    }

/* Members of one object stand together. */
static const struct setting_row ROWS[] = {
    {DROVER_SET_FIFO, NULL, "order", TYPE_FLAG, offsetof(struct drover_settings, fifo), "random",
     "fifo"},
    ROW(FAIR, NULL, "fair", TYPE_FLAG, fair),
    ROW(PAUSED, NULL, "paused", TYPE_FLAG, paused),
    {DROVER_SET_EXPIRED_DIE, NULL, "expired", TYPE_FLAG,
     offsetof(struct drover_settings, expired_die), "remove", "dead"},
    ROW(ATTEMPTS, NULL, "attempts", TYPE_NUMBER, attempts),
    ROW(CLAIMS, NULL, "claims", TYPE_NUMBER, claims),
    ROW(BACKOFF, "backoff", "first", TYPE_NUMBER, backoff_ms),
    ROW(BACKOFF, "backoff", "factor", TYPE_REAL, backoff_factor),
    ROW(BACKOFF, "backoff", "max", TYPE_NUMBER, backoff_max_ms),
    ROW(BACKOFF, "backoff", "jitter", TYPE_REAL, backoff_jitter),
    ROW(LIMIT, NULL, "limit", TYPE_NUMBER, limit),
    ROW(LIMIT_PER_SHARE, NULL, "limit_per_share", TYPE_NUMBER, limit_per_share),
    ROW(RATE, "rate", "count", TYPE_NUMBER, rate),
    ROW(RATE, "rate", "per", TYPE_NUMBER, rate_ms),
    ROW(RATE, "rate", "burst", TYPE_NUMBER, rate_burst),
    ROW(KEEP_DONE, NULL, "keep_done", TYPE_NUMBER, keep_done_ms),
    ROW(KEEP_DEAD, NULL, "keep_dead", TYPE_NUMBER, keep_dead_ms),
    ROW(REMEMBER_KEYS, NULL, "remember_keys", TYPE_NUMBER, remember_keys_ms),
    ROW(MAX_TASKS, NULL, "max_tasks", TYPE_NUMBER, max_tasks),
    ROW(DEAD, NULL, "dead", TYPE_TEXT, dead),
};

enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

static void put_value(struct buf *b, const struct setting_row *row, const void *from)
{
    char number[40];
    const char *text;
    switch (row->type) {
    case TYPE_FLAG:
        if (row->yes)
            json_member_text(b, row->name, str_of(*(const int *)from ? row->yes : row->no));
        else
            json_member_bool(b, row->name, *(const int *)from != 0);
        break;
    case TYPE_NUMBER:
        json_member_int(b, row->name, *(const int64_t *)from);
        break;
    case TYPE_REAL:
        snprintf(number, sizeof number, "%.15g", *(const double *)from);
        json_member_raw(b, row->name, str_of(number));
        break;
    case TYPE_TEXT:
        text = *(const char *const *)from;
        json_member_text(b, row->name, str_of(text ? text : ""));
        break;
    }
}

static bool is_same(const char *a, const char *b)
{
    return a && b && !strcmp(a, b);
}

int group_body_put_settings(struct buf *b, const struct drover_settings *settings,
                            struct err_info *ret_error)
{
    if (settings->set & DROVER_SET_DEAD && settings->dead && !json_is_text(str_of(settings->dead)))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "dead is not UTF-8 text");
    json_open(b, '{');
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct setting_row *row = &ROWS[i];
        if (!(settings->set & row->bit))
            continue;
        if (row->object && (!i || !is_same(row->object, row[-1].object)))
            json_member_open(b, row->object, '{');
        put_value(b, row, (const char *)settings + row->offset);
        if (row->object && (i + 1 == ROW_COUNT || !is_same(row->object, row[1].object)))
            json_close(b, '}');
    }
    json_close(b, '}');
    return 0;
}

static void read_value(const struct setting_row *row, const struct json *v, struct arena *a,
                       void *to)
{
    if (row->type == TYPE_FLAG && (v->kind == JSON_BOOL || v->kind == JSON_TEXT))
        *(int *)to =
            v->kind == JSON_BOOL ? v->truth : row->yes && str_eq(v->text, str_of(row->yes));
    else if (row->type == TYPE_NUMBER && v->kind == JSON_INT)
        *(int64_t *)to = v->number;
    else if (row->type == TYPE_REAL && (v->kind == JSON_INT || v->kind == JSON_REAL))
        *(double *)to = v->kind == JSON_INT ? (double)v->number : v->real;
    else if (row->type == TYPE_TEXT && v->kind == JSON_TEXT && v->text.len)
        *(const char **)to = arena_text(a, v->text);
}

void group_body_read_settings(const struct json *v, struct arena *a,
                              struct drover_settings *settings)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct setting_row *row = &ROWS[i];
        const struct json *in = row->object ? json_get(v, row->object) : v;
        const struct json *member = json_get(in, row->name);
        if (member)
            read_value(row, member, a, (char *)settings + row->offset);
    }
}

const char *const GROUP_BODY_STATE[GROUP_BODY_STATES] = {
    "available", "delayed", "retrying", "claimed", "dead", "done", "deleted"};

enum drover_task_state group_body_state(struct str name)
{
    for (unsigned i = 0; i < GROUP_BODY_STATES; i++)
        if (str_eq(name, str_of(GROUP_BODY_STATE[i])))
            return (enum drover_task_state)(1U << i);
    return (enum drover_task_state)0;
}

struct drover_counts group_body_read_counts(const struct json *v)
{
    return (struct drover_counts){.available = json_int_of(v, "available"),
                                  .delayed = json_int_of(v, "delayed"),
                                  .retrying = json_int_of(v, "retrying"),
                                  .claimed = json_int_of(v, "claimed"),
                                  .dead = json_int_of(v, "dead"),
                                  .done = json_int_of(v, "done")};
}
