#include "schedule/schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <xxhash.h>

#include "base/mem.h"
#include "drover.h"

enum { VERSION = 1 };

/* The spec. */

static int blame(const char *field, const char **ret_field, struct err_info *e, const char *why)
{
    *ret_field = field;
    return err_set(e, DROVER_BAD_ARGUMENT, "%s", why);
}

static int read_choice(const struct json *spec, const char *name, const char *words, int *ret)
{
    struct str word = json_text_of(spec, name), rest = str_of(words);
    *ret = 0;
    for (int i = 0; word.len && rest.len; i++)
        if (str_eq(str_cut(&rest, '|'), word)) {
            *ret = i;
            return 0;
        }
    return word.len ? DROVER_BAD_ARGUMENT : 0;
}

static int read_times(struct schedule *s, const struct json *spec, schedule_zone_fn *find_zone,
                      void *arg, const char **ret_field, struct err_info *e)
{
    struct str cron = json_text_of(spec, "cron"), zone = json_text_of(spec, "timezone");
    const struct json *every = json_get(spec, "every");
    if (!cron.len == !every)
        return blame("cron", ret_field, e, "a schedule has cron or every, one of them");
    if (every && zone.len)
        return blame("timezone", ret_field, e, "timezone belongs to cron");
    if (every) {
        s->every_ms = every->kind == JSON_INT ? every->number : 0;
        if (s->every_ms < SCHEDULE_EVERY_MIN_MS)
            return blame("every", ret_field, e, "every must be at least 1000 ms");
        return 0;
    }
    *ret_field = "cron";
    TRY(cron_parse(cron, &s->cron, e));
    *ret_field = "timezone";
    return find_zone(arg, zone.len ? zone : STR("UTC"), &s->zone, e);
}

int schedule_read(struct schedule *s, const struct json *spec, schedule_zone_fn *find_zone,
                  void *arg, const char **ret_field, struct err_info *ret_error)
{
    int missed, overlap;
    TRY(read_times(s, spec, find_zone, arg, ret_field, ret_error));
    s->is_graph = json_get(spec, "graph");
    if (s->is_graph == !!json_get(spec, "task"))
        return blame("task", ret_field, ret_error, "a schedule has task or graph, one of them");
    if (read_choice(spec, "missed", SCHEDULE_MISSED_WORDS, &missed))
        return blame("missed", ret_field, ret_error, "missed must be one, skip or all");
    if (read_choice(spec, "overlap", SCHEDULE_OVERLAP_WORDS, &overlap))
        return blame("overlap", ret_field, ret_error, "overlap must be allow or skip");
    s->missed = (enum schedule_missed)missed;
    s->skips_overlap = overlap;
    s->spec = mem_dup(spec->raw.p, spec->raw.len);
    return 0;
}

void schedule_free(struct schedule *s)
{
    if (!s)
        return;
    free(s->name);
    free(s->spec);
    free(s->error);
    free(s);
}

/* Times. */

bool schedule_same_times(const struct schedule *a, const struct schedule *b)
{
    return a->every_ms == b->every_ms && a->zone == b->zone &&
           !memcmp(&a->cron, &b->cron, sizeof a->cron);
}

/* Rounded down, also for times before `from`. */
static int64_t periods(const struct schedule *s, int64_t at_ms)
{
    int64_t since = at_ms - s->state.from_ms;
    return since / s->every_ms - (since % s->every_ms < 0);
}

int64_t schedule_after(const struct schedule *s, int64_t after_ms)
{
    if (s->zone)
        return cron_next(&s->cron, s->zone, after_ms);
    if (!s->every_ms)
        return INT64_MAX; /* its zone is missing */
    return s->state.from_ms + (periods(s, after_ms) + 1) * s->every_ms;
}

/* The last time up to now. There is one from first_ms on. */
static int64_t last_until(const struct schedule *s, int64_t first_ms, int64_t now_ms)
{
    int64_t time_ms = first_ms, span_ms = 1000;
    if (!s->zone)
        return s->state.from_ms + periods(s, now_ms) * s->every_ms;
    while (now_ms - span_ms > first_ms && schedule_after(s, now_ms - span_ms) > now_ms)
        span_ms *= 2;
    if (now_ms - span_ms > first_ms)
        time_ms = schedule_after(s, now_ms - span_ms);
    for (int64_t next; (next = schedule_after(s, time_ms)) <= now_ms;)
        time_ms = next;
    return time_ms;
}

bool schedule_due(const struct schedule *s, int64_t now_ms, int64_t *ret_time_ms,
                  int64_t *ret_next_ms)
{
    int64_t time_ms = s->state.next_ms;
    if (s->missed != MISSED_ALL)
        time_ms = last_until(s, time_ms, now_ms);
    *ret_time_ms = time_ms;
    *ret_next_ms = schedule_after(s, time_ms);
    return s->missed != MISSED_SKIP || now_ms - time_ms <= SCHEDULE_GRACE_MS;
}

bool schedule_correct(struct schedule *s, int64_t now_ms)
{
    struct schedule_state *state = &s->state;
    int64_t seen_ms = state->last_ms > state->from_ms ? state->last_ms : state->from_ms;
    if (seen_ms - now_ms <= SCHEDULE_AHEAD_MS)
        return false;
    state->from_ms = now_ms;
    state->last_ms = 0;
    state->next_ms = schedule_after(s, now_ms);
    return true;
}

/* Nodes. */

void schedule_path(const char *name, bool of_state, char path[SCHEDULE_PATH_SIZE])
{
    XXH128_hash_t hash = XXH3_128bits(name, strlen(name));
    snprintf(path, SCHEDULE_PATH_SIZE, "%s/%016" PRIx64 "%016" PRIx64 "%s", SCHEDULES_ROOT,
             hash.high64, hash.low64, of_state ? "/state" : "");
}

void schedule_put_node(struct buf *b, const struct schedule *s)
{
    json_open(b, '{');
    json_member_int(b, "version", VERSION);
    json_member_text(b, "name", str_of(s->name));
    json_member_raw(b, "spec", str_of(s->spec));
    json_close(b, '}');
}

/* Members of the state; those that are 0 are left out. */
static const struct {
    const char *name;
    size_t offset;
} NUMBERS[] = {
    {"from", offsetof(struct schedule_state, from_ms)},
    {"next", offsetof(struct schedule_state, next_ms)},
    {"last", offsetof(struct schedule_state, last_ms)},
    {"runs", offsetof(struct schedule_state, runs)},
    {"task", offsetof(struct schedule_state, task)},
    {"node", offsetof(struct schedule_state, node)},
    {"nodes", offsetof(struct schedule_state, node_count)},
};

void schedule_put_state(struct buf *b, const struct schedule_state *state)
{
    json_open(b, '{');
    json_member_int(b, "version", VERSION);
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        int64_t number = *(const int64_t *)((const char *)state + NUMBERS[i].offset);
        if (number)
            json_member_int(b, NUMBERS[i].name, number);
    }
    if (state->paused)
        json_member_bool(b, "paused", true);
    json_close(b, '}');
}

static int parse_node(struct str data, struct arena *a, const struct json **ret_json)
{
    const struct json *v = json_parse(a, (struct str){arena_text(a, data), data.len}, NULL);
    if (!v || v->kind != JSON_OBJECT)
        return DROVER_DAMAGED;
    if (json_int_of(v, "version") > VERSION)
        return DROVER_NEWER_VERSION;
    *ret_json = v;
    return 0;
}

int schedule_read_state(struct str data, struct schedule_state *ret_state)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct json *v;
    TRY(parse_node(data, &a, &v));
    *ret_state = (struct schedule_state){0};
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        const struct json *m = json_get(v, NUMBERS[i].name);
        if (m && (m->kind != JSON_INT || m->number < 0))
            return DROVER_DAMAGED;
        if (m)
            *(int64_t *)((char *)ret_state + NUMBERS[i].offset) = m->number;
    }
    const struct json *paused = json_get(v, "paused");
    ret_state->paused = paused && paused->kind == JSON_BOOL && paused->truth;
    return ret_state->from_ms && ret_state->next_ms ? 0 : DROVER_DAMAGED;
}

int schedule_read_node(struct str data, schedule_zone_fn *find_zone, void *arg,
                       struct schedule **ret_schedule)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct json *v;
    const char *field;
    TRY(parse_node(data, &a, &v));
    struct str name = json_text_of(v, "name");
    const struct json *spec = json_get(v, "spec");
    if (!name.len || name.len > SCHEDULE_NAME_LEN_MAX || memchr(name.p, 0, name.len) || !spec ||
        spec->kind != JSON_OBJECT)
        return DROVER_DAMAGED;
    struct schedule *s = mem_zalloc(sizeof *s);
    struct err_info why;
    int err = schedule_read(s, spec, find_zone, arg, &field, &why);
    s->name = mem_dup(name.p, name.len);
    if (err && !strcmp(field, "timezone") && json_get(spec, "cron")) {
        s->spec = mem_dup(spec->raw.p, spec->raw.len);
        s->is_graph = json_get(spec, "graph");
        s->zone = NULL;
        s->error = mem_dup(why.text, strlen(why.text));
    } else if (err) {
        schedule_free(s);
        return DROVER_DAMAGED;
    }
    *ret_schedule = s;
    return 0;
}
