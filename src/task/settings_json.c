/* Each setting is a row; those of "backoff" and "rate" are members of an object of that name. */
#include "task/settings_json.h"

#include <inttypes.h>
#include <stdio.h>

#include <xxhash.h>

#include "drover.h"
#include "task/store.h"

enum { VERSION = 1, COUNT_MAX = 1000 * 1000 * 1000 };

enum setting_kind { SETTING_INT, SETTING_REAL, SETTING_BOOL, SETTING_CHOICE, SETTING_TEXT };

struct setting {
    const char *object, *name; /* "rate", "rate.count"; object NULL: not in one */
    enum setting_kind kind;
    size_t offset;
    int64_t min, max;     /* of a number; bytes of a text */
    const char *no, *yes; /* a choice: the words for false and true */
};

#define INT(object, name, member, max)                                                             \
    {                                                                                              \
        object, name, SETTING_INT, offsetof(struct task_settings, member), 0, max, NULL, NULL      \
    }
#define REAL(object, name, member, min, max)                                                       \
    {                                                                                              \
        object, name, SETTING_REAL, offsetof(struct task_settings, member), min, max, NULL, NULL   \
    }
#define BOOL(name, member)                                                                         \
    {                                                                                              \
        NULL, name, SETTING_BOOL, offsetof(struct task_settings, member), 0, 1, NULL, NULL         \
    }
#define CHOICE(name, member, no, yes)                                                              \
    {                                                                                              \
        NULL, name, SETTING_CHOICE, offsetof(struct task_settings, member), 0, 1, no, yes          \
    }

/* Members of one object stand together. */
static const struct setting SETTINGS[] = {
    CHOICE("order", fifo, "random", "fifo"),
    BOOL("fair", fair),
    BOOL("paused", paused),
    CHOICE("expired", bury_expired, "remove", "dead"),
    INT(NULL, "attempts", attempts, COUNT_MAX),
    INT(NULL, "claims", claims, COUNT_MAX),
    INT("backoff", "backoff.first", backoff_ms, TASK_MS_MAX),
    REAL("backoff", "backoff.factor", backoff_factor, 1, 1000),
    INT("backoff", "backoff.max", backoff_max_ms, TASK_MS_MAX),
    REAL("backoff", "backoff.jitter", backoff_jitter, 0, 1),
    INT(NULL, "limit", limit, COUNT_MAX),
    INT(NULL, "limit_per_share", limit_per_share, COUNT_MAX),
    INT("rate", "rate.count", rate, 1000 * 1000),
    INT("rate", "rate.per", rate_ms, INT64_C(366) * 24 * 3600 * 1000),
    INT("rate", "rate.burst", rate_burst, 1000 * 1000),
    INT(NULL, "keep_done", keep_done_ms, TASK_MS_MAX),
    INT(NULL, "keep_dead", keep_dead_ms, TASK_MS_MAX),
    INT(NULL, "remember_keys", remember_keys_ms, TASK_MS_MAX),
    INT(NULL, "max_tasks", max_tasks, COUNT_MAX),
    {NULL, "dead", SETTING_TEXT, offsetof(struct task_settings, dead), 0, TASK_GROUP_LEN_MAX, NULL,
     NULL},
};

enum { SETTINGS_COUNT = sizeof SETTINGS / sizeof *SETTINGS };

/* The name of its member. */
static const char *key_of(const struct setting *row)
{
    return row->object ? row->name + strlen(row->object) + 1 : row->name;
}

static bool is_in(const struct setting *row, const char *object)
{
    return object ? row->object && !strcmp(row->object, object) : !row->object;
}

static int out_of_bounds(const struct setting *row, struct err_info *e)
{
    return err_set(e, DROVER_BAD_ARGUMENT, "%s must be from %" PRId64 " to %" PRId64, row->name,
                   row->min, row->max);
}

static int read_choice(const struct setting *row, struct str word, bool *to, struct err_info *e)
{
    bool yes = str_eq(word, str_of(row->yes));
    if (!yes && !str_eq(word, str_of(row->no)))
        return err_set(e, DROVER_BAD_ARGUMENT, "%s must be one of %s, %s", row->name, row->no,
                       row->yes);
    *to = yes;
    return 0;
}

/* null stands for the default. */
static void reset(const struct setting *row, struct task_settings *s)
{
    static const size_t sizes[] = {[SETTING_INT] = sizeof(int64_t),
                                   [SETTING_REAL] = sizeof(double),
                                   [SETTING_BOOL] = sizeof(bool),
                                   [SETTING_CHOICE] = sizeof(bool),
                                   [SETTING_TEXT] = sizeof(struct str)};
    memcpy((char *)s + row->offset, (const char *)&TASK_SETTINGS_DEFAULT + row->offset,
           sizes[row->kind]);
}

static void reset_object(const char *object, struct task_settings *s)
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++)
        if (is_in(&SETTINGS[i], object))
            reset(&SETTINGS[i], s);
}

static int read_value(const struct setting *row, const struct json *m, struct task_settings *s,
                      struct err_info *e)
{
    static const char *const wanted[] = {"a whole number", "a number", "true or false", "a string",
                                         "a string"};
    void *to = (char *)s + row->offset;
    double real = m->kind == JSON_INT ? (double)m->number : m->real;
    if (m->kind == JSON_NULL) {
        reset(row, s);
    } else if (row->kind == SETTING_INT && m->kind == JSON_INT) {
        if (m->number < row->min || m->number > row->max)
            return out_of_bounds(row, e);
        *(int64_t *)to = m->number;
    } else if (row->kind == SETTING_REAL && (m->kind == JSON_INT || m->kind == JSON_REAL)) {
        if (!(real >= (double)row->min && real <= (double)row->max))
            return out_of_bounds(row, e);
        *(double *)to = real;
    } else if (row->kind == SETTING_BOOL && m->kind == JSON_BOOL) {
        *(bool *)to = m->truth;
    } else if (row->kind == SETTING_CHOICE && m->kind == JSON_TEXT) {
        return read_choice(row, m->text, to, e);
    } else if (row->kind == SETTING_TEXT && m->kind == JSON_TEXT) {
        if ((int64_t)m->text.len > row->max)
            return err_set(e, DROVER_BAD_ARGUMENT, "%s must have at most %" PRId64 " bytes",
                           row->name, row->max);
        *(struct str *)to = m->text;
    } else {
        return err_set(e, DROVER_BAD_ARGUMENT, "%s must be %s, not %s", row->name,
                       wanted[row->kind], json_kind_name(m));
    }
    return 0;
}

/* The members of the settings, or of one object among them. */
static int read_members(const struct json *v, const char *object, struct task_settings *s,
                        const char **ret_field, struct err_info *e)
{
    json_each(m, v) {
        const struct setting *row = NULL;
        bool nested = false;
        for (size_t i = 0; i < SETTINGS_COUNT && !row && !nested; i++) {
            if (is_in(&SETTINGS[i], object) && str_eq(m->key, str_of(key_of(&SETTINGS[i]))))
                row = &SETTINGS[i];
            nested = !object && SETTINGS[i].object && str_eq(m->key, str_of(SETTINGS[i].object));
            *ret_field = nested ? SETTINGS[i].object : SETTINGS[i].name;
        }
        if (nested && m->kind == JSON_OBJECT)
            TRY(read_members(m, *ret_field, s, ret_field, e));
        else if (nested && m->kind == JSON_NULL)
            reset_object(*ret_field, s);
        else if (nested)
            return err_set(e, DROVER_BAD_ARGUMENT, "%s must be an object, not %s", *ret_field,
                           json_kind_name(m));
        else if (row)
            TRY(read_value(row, m, s, e));
        else {
            *ret_field = NULL;
            return err_set(e, DROVER_BAD_ARGUMENT, "%s%s%.*s is an unknown member",
                           object ? object : "", object ? "." : "", STR_ARGS(m->key));
        }
    }
    return 0;
}

int settings_read(const struct json *v, struct task_settings *s, const char **ret_field,
                  struct err_info *ret_error)
{
    struct task_settings read = *s;
    *ret_field = NULL;
    if (json_get(v, "rate")) /* another rate has another burst, unless that is given, too */
        read.rate_burst = 0;
    TRY(read_members(v, NULL, &read, ret_field, ret_error));
    *ret_field = "rate";
    if (read.rate && !read.rate_ms)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "rate needs per, the span in ms");
    if (read.rate && read.rate_ms * 1000 < read.rate)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "rate must be at most 1000 in a ms");
    if (read.rate && !read.rate_burst) /* what comes in a tenth of a second */
        read.rate_burst = read.rate * 100 / read.rate_ms + 1;
    *ret_field = "backoff";
    if (read.backoff_max_ms < read.backoff_ms)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "backoff: max must not be less than first");
    *s = read;
    return 0;
}

static void put_value(struct buf *b, const struct setting *row, const struct task_settings *s)
{
    const void *from = (const char *)s + row->offset;
    const char *key = key_of(row);
    char text[40];
    switch (row->kind) {
    case SETTING_INT:
        json_member_int(b, key, *(const int64_t *)from);
        break;
    case SETTING_REAL:
        snprintf(text, sizeof text, "%.15g", *(const double *)from);
        json_member_raw(b, key, str_of(text));
        break;
    case SETTING_BOOL:
        json_member_bool(b, key, *(const bool *)from);
        break;
    case SETTING_CHOICE:
        json_member_text(b, key, str_of(*(const bool *)from ? row->yes : row->no));
        break;
    case SETTING_TEXT:
        json_member_text(b, key, *(const struct str *)from);
        break;
    }
}

void settings_put(struct buf *b, const struct task_settings *s)
{
    const char *open = NULL;
    json_open(b, '{');
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting *row = &SETTINGS[i];
        if (open && !is_in(row, open)) {
            json_close(b, '}');
            open = NULL;
        }
        if (row->object && !open)
            json_member_open(b, open = row->object, '{');
        put_value(b, row, s);
    }
    json_close(b, '}');
}

/* Nodes. */

const char *settings_pattern_wrong(struct str pattern)
{
    if (!pattern.len || pattern.len > TASK_GROUP_LEN_MAX)
        return "a group has 1 to 1024 bytes";
    const char *star = memchr(pattern.p, '*', pattern.len);
    if (star && star != pattern.p + pattern.len - 1)
        return "a \"*\" stands at the end only";
    return NULL;
}

void settings_path(struct str pattern, char path[SETTINGS_PATH_SIZE])
{
    XXH128_hash_t hash = XXH3_128bits(pattern.p, pattern.len);
    snprintf(path, SETTINGS_PATH_SIZE, "%s/%016" PRIx64 "%016" PRIx64, SETTINGS_ROOT, hash.high64,
             hash.low64);
}

void settings_put_node(struct buf *b, struct str pattern, const struct task_settings *s)
{
    json_open(b, '{');
    json_member_int(b, "version", VERSION);
    json_member_text(b, "pattern", pattern);
    json_key(b, "settings");
    settings_put(b, s);
    json_close(b, '}');
}

int settings_read_node(struct str data, struct arena *a, struct str *ret_pattern,
                       struct task_settings *ret_settings)
{
    struct task_settings s = TASK_SETTINGS_DEFAULT;
    const struct json *v = json_parse(a, (struct str){arena_text(a, data), data.len}, NULL);
    const struct json *settings = json_get(v, "settings");
    struct str pattern = json_text_of(v, "pattern");
    const char *field;
    if (v && json_int_of(v, "version") > VERSION)
        return DROVER_NEWER_VERSION;
    if (!settings || settings->kind != JSON_OBJECT || settings_pattern_wrong(pattern) ||
        settings_read(settings, &s, &field, NULL))
        return DROVER_DAMAGED;
    *ret_pattern = pattern;
    *ret_settings = s;
    return 0;
}
