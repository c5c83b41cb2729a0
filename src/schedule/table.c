/* The table of schedules, and reading it from the keeper. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "drover.h"
#include "schedule/schedules.h"

/* A zone that schedules share. */
struct schedule_zone {
    struct schedule_zone *next;
    struct time_zone *zone;
    char name[TIME_ZONE_NAME_MAX + 1];
};

int schedule_table_zone(void *arg, struct str name, const struct time_zone **ret_zone,
                        struct err_info *ret_error)
{
    struct schedule_table *t = arg;
    struct schedule_zone *z = t->zones;
    while (z && !str_eq(str_of(z->name), name))
        z = z->next;
    if (!z) {
        struct time_zone *loaded;
        TRY(time_zone_load(NULL, name, &loaded, ret_error));
        z = mem_zalloc(sizeof *z);
        memcpy(z->name, name.p, name.len);
        z->zone = loaded;
        z->next = t->zones;
        t->zones = z;
    }
    *ret_zone = z->zone;
    return 0;
}

/* By when they are due. */

static void on_moved(void *arg, uint32_t ref, uint32_t at)
{
    struct schedule_table *t = arg;
    t->by_ref[ref]->heap_at = at;
}

void schedule_table_place(struct schedule_table *t, struct schedule *s)
{
    const struct schedule_state *state = &s->state;
    if (s->heap_at != UINT32_MAX)
        heap_remove(&t->due, s->heap_at);
    s->heap_at = UINT32_MAX;
    if (s->exists && !s->busy && !state->paused && state->next_ms != INT64_MAX &&
        (s->zone || s->every_ms))
        heap_push(&t->due, state->next_ms > s->again_ms ? state->next_ms : s->again_ms, s->ref);
}

/* By name. */

size_t schedule_table_seek(const struct schedule_table *t, struct str after)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_compare(str_of(t->by_name[middle]->name), after) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct schedule *schedule_table_find(const struct schedule_table *t, struct str name)
{
    size_t behind = schedule_table_seek(t, name);
    struct schedule *s = behind ? t->by_name[behind - 1] : NULL;
    return s && str_eq(str_of(s->name), name) ? s : NULL;
}

/* Without a place in the order of names. */
static void enter(struct schedule_table *t, struct schedule *s)
{
    if (t->free_count) {
        s->ref = t->free_refs[--t->free_count];
    } else {
        mem_grow(t->by_ref, t->ref_count, t->ref_cap);
        s->ref = t->ref_count++;
    }
    t->by_ref[s->ref] = s;
    s->heap_at = UINT32_MAX;
    s->waiting_end = &s->waiting;
    mem_grow(t->by_name, t->count, t->cap);
    t->by_name[t->count++] = s;
    schedule_table_place(t, s);
}

void schedule_table_add(struct schedule_table *t, struct schedule *s)
{
    size_t at = schedule_table_seek(t, str_of(s->name));
    enter(t, s);
    memmove(&t->by_name[at + 1], &t->by_name[at], (t->count - 1 - at) * sizeof *t->by_name);
    t->by_name[at] = s;
}

void schedule_table_remove(struct schedule_table *t, struct schedule *s)
{
    size_t at = schedule_table_seek(t, str_of(s->name)) - 1;
    s->exists = false;
    schedule_table_place(t, s);
    memmove(&t->by_name[at], &t->by_name[at + 1], (t->count - 1 - at) * sizeof *t->by_name);
    t->count--;
    t->by_ref[s->ref] = NULL;
    mem_grow(t->free_refs, t->free_count, t->free_cap);
    t->free_refs[t->free_count++] = s->ref;
    schedule_free(s);
}

void schedule_table_free(struct schedule_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        schedule_free(t->by_name[i]);
    for (struct schedule_zone *z = t->zones, *next; z; z = next) {
        next = z->next;
        time_zone_free(z->zone);
        free(z);
    }
    heap_release(&t->due);
    free(t->by_name);
    free(t->by_ref);
    free(t->free_refs);
    free(t);
}

/* Reading. */

static int by_name(const void *a, const void *b)
{
    const struct schedule *const *x = a, *const *y = b;
    return str_compare(str_of((*x)->name), str_of((*y)->name));
}

static int read_one(struct keeper *k, struct schedule_table *t, const char *node,
                    struct err_info *e)
{
    CLEANUP(buf_release) struct buf path = {0}, data = {0};
    struct schedule *s = NULL;
    char own[SCHEDULE_PATH_SIZE];
    buf_printf(&path, "%s/%s", SCHEDULES_ROOT, node);
    int err = keeper_get(k, buf_text(&path), &data, NULL);
    if (!err)
        err = schedule_read_node(buf_str(&data), schedule_table_zone, t, &s);
    if (!err) {
        schedule_path(s->name, false, own);
        err = strcmp(own, buf_text(&path)) ? DROVER_DAMAGED : 0;
    }
    if (!err) {
        buf_printf(&path, "/state");
        data.len = 0;
        err = keeper_get(k, buf_text(&path), &data, NULL);
    }
    if (!err)
        err = schedule_read_state(buf_str(&data), &s->state);
    if (err) {
        schedule_free(s);
        return err_set(e, err, "cannot read the schedule in %s: %s", buf_text(&path),
                       drover_err_message(err));
    }
    if (s->error)
        log_warning("the schedule %s does not run: %s", s->name, s->error);
    else if (schedule_correct(s, clock_wall_ms()))
        log_warning("the schedule %s was ahead of the clock: its times count from now", s->name);
    s->exists = true;
    enter(t, s);
    return 0;
}

int schedule_table_read(struct keeper *k, struct schedule_table **ret_table,
                        struct err_info *ret_error)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    struct schedule_table *t = mem_zalloc(sizeof *t);
    t->due.moved = on_moved;
    t->due.arg = t;
    int err = keeper_ensure(k, SCHEDULES_ROOT, STR(""));
    if (!err)
        err = keeper_children(k, SCHEDULES_ROOT, &names, NULL);
    if (err)
        err_set(ret_error, err, "cannot read %s: %s", SCHEDULES_ROOT, drover_err_message(err));
    for (size_t i = 0; !err && i < names.count; i++)
        err = read_one(k, t, names.names[i], ret_error);
    if (err) {
        schedule_table_free(t);
        return err;
    }
    if (t->count)
        qsort(t->by_name, t->count, sizeof *t->by_name, by_name);
    *ret_table = t;
    return 0;
}
