/*
 * Groups: where each task of a group is, and which one the next claim takes.
 *
 * A lane has a class for each priority that has tasks, in order; a class is an array from which any
 * task can be drawn and removed in constant time, or a heap by time. With shares, the lanes from
 * which a task can be claimed are in a heap: by their turn if the group is fair, else by their
 * first priority and then by their turn. So a claim looks at one lane, however many there are.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "task/store_impl.h"

/* Classes. */

static void on_class_move(void *arg, uint32_t ref, uint32_t at)
{
    struct task_record *r = record_at(arg, ref);
    r->place = (r->place & PLACE_MARK) | at;
}

/* Of two tasks that became available in the same millisecond. */
static bool is_older(void *arg, uint32_t ref, uint32_t other)
{
    return record_at(arg, ref)->id < record_at(arg, other)->id;
}

/* The position of a class, or where it would be. */
static uint32_t class_position(const struct task_lane *lane, int32_t priority)
{
    uint32_t low = 0;
    for (uint32_t high = lane->class_count; low < high;) {
        uint32_t middle = low + (high - low) / 2;
        if (lane->classes[middle].priority < priority)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t class_count(const struct task_class *c)
{
    return c->count + c->fifo.count;
}

static struct task_class *class_make(struct store *s, struct task_lane *lane, int32_t priority)
{
    uint32_t at = class_position(lane, priority);
    if (at < lane->class_count && lane->classes[at].priority == priority)
        return &lane->classes[at];
    if (lane->class_count == 1 && !class_count(lane->classes)) { /* an empty one is the only one */
        lane->classes->priority = priority;
        return lane->classes;
    }
    if (lane->class_count == lane->class_cap) {
        lane->class_cap = lane->class_cap ? lane->class_cap * 2 : 1;
        lane->classes = mem_realloc(lane->classes, lane->class_cap * sizeof *lane->classes);
    }
    memmove(lane->classes + at + 1, lane->classes + at,
            (lane->class_count++ - at) * sizeof *lane->classes);
    lane->classes[at] = (struct task_class){
        .priority = priority,
        .fifo = {.moved = on_class_move, .before = is_older, .arg = s},
    };
    return &lane->classes[at];
}

static void class_release(struct task_class *c)
{
    free(c->array);
    heap_release(&c->fifo);
}

/* The last class stays, because most groups have only one: class_make() uses it again. */
static void class_drop(struct task_lane *lane, struct task_class *c)
{
    if (class_count(c) || lane->class_count == 1)
        return;
    class_release(c);
    size_t after = (size_t)(lane->classes + lane->class_count-- - c) - 1;
    memmove(c, c + 1, after * sizeof *c);
}

static void class_push(struct store *s, struct task_class *c, bool fifo, uint32_t ref)
{
    struct task_record *r = record_at(s, ref);
    if (fifo) {
        r->place &= PLACE_MARK;
        heap_push(&c->fifo, r->timespec, ref);
        return;
    }
    if (c->count == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 4;
        c->array = mem_realloc(c->array, (size_t)c->cap * sizeof *c->array);
    }
    r->place = (r->place & PLACE_MARK) | c->count;
    c->array[c->count++] = ref;
}

static void class_remove(struct store *s, struct task_class *c, uint32_t at)
{
    if (c->fifo.count) {
        heap_remove(&c->fifo, at);
        return;
    }
    uint32_t last = c->array[--c->count];
    c->array[at] = last;
    struct task_record *r = record_at(s, last);
    r->place = (r->place & PLACE_MARK) | at;
}

/* Lanes. */

static void lane_release(struct task_lane *lane)
{
    for (uint32_t i = 0; i < lane->class_count; i++)
        class_release(&lane->classes[i]);
    free(lane->classes);
    free((char *)lane->share.p);
}

static void on_ready_move(void *arg, uint32_t ref, uint32_t at)
{
    struct task_group *g = arg;
    g->lanes[ref]->ready_at = at + 1;
}

static bool lane_is_ready(const struct task_group *g, const struct task_lane *lane)
{
    int64_t limit = g->settings->limit_per_share;
    return lane->available && (!limit || lane->claimed < limit);
}

/* Puts a lane of a group with shares where it belongs, after a change of it; frees an empty one. */
static void lane_settle(struct task_group *g, struct task_lane *lane)
{
    if (!g->by_share)
        return;
    if (lane->ready_at) {
        heap_remove(&g->ready, lane->ready_at - 1);
        lane->ready_at = 0;
    }
    if (lane_is_ready(g, lane)) {
        int64_t priority = g->settings->fair ? 0 : lane_class(lane)->priority;
        heap_push(&g->ready, priority * (INT64_C(1) << 32) + lane->served, lane->number);
    } else if (!lane->available && !lane->claimed) {
        map_remove(&g->by_share_name, map_hash_str(lane->share), lane->number);
        g->lanes[lane->number] = NULL;
        g->lane_count--;
        lane_release(lane);
        free(lane);
    }
}

static uint32_t unused_lane(struct task_group *g)
{
    if (!g->lane_top) {
        mem_grow(g->lanes, g->lane_top, g->lane_cap);
        g->lanes[g->lane_top++] = NULL; /* 0: none */
    }
    for (uint32_t i = 1; g->lane_count + 1 < g->lane_top && i < g->lane_top; i++) {
        g->lane_hint = g->lane_hint + 1 < g->lane_top ? g->lane_hint + 1 : 1;
        if (!g->lanes[g->lane_hint])
            return g->lane_hint;
    }
    mem_grow(g->lanes, g->lane_top, g->lane_cap);
    return g->lane_top++;
}

/* The lane of a task; made if there is none. */
static struct task_lane *lane_of(struct store *s, struct task_group *g, uint32_t ref)
{
    const struct record_hot *hot = hot_at(s, ref);
    struct str share = hot ? hot->share : STR("");
    if (!g->by_share)
        return &g->whole;
    uint32_t hash = map_hash_str(share);
    for (uint32_t at, n = map_first(&g->by_share_name, hash, &at); n;
         n = map_next(&g->by_share_name, hash, &at))
        if (str_eq(g->lanes[n]->share, share))
            return g->lanes[n];
    struct task_lane *lane = mem_alloc(sizeof *lane);
    *lane = (struct task_lane){.share = {mem_dup(share.p, share.len), share.len},
                               .number = unused_lane(g),
                               .served = g->served};
    g->lanes[lane->number] = lane;
    g->lane_count++;
    map_add(&g->by_share_name, hash, lane->number);
    return lane;
}

static int32_t priority_of(const struct store *s, uint32_t ref)
{
    const struct record_hot *hot = hot_at(s, ref);
    return hot ? hot->priority : 0;
}

static void lane_push(struct store *s, struct task_group *g, struct task_lane *lane, uint32_t ref)
{
    class_push(s, class_make(s, lane, priority_of(s, ref)), g->settings->fifo, ref);
    lane->available++;
    g->available++;
    s->available++;
    g->dead += record_at(s, ref)->dead;
}

static void lane_take(struct store *s, struct task_group *g, struct task_lane *lane, uint32_t ref)
{
    struct task_class *c = &lane->classes[class_position(lane, priority_of(s, ref))];
    class_remove(s, c, record_at(s, ref)->place & PLACE_AT);
    class_drop(lane, c);
    lane->available--;
    g->available--;
    s->available--;
    g->dead -= record_at(s, ref)->dead;
}

/* The heap of tasks that are not available. */

static void on_heap_move(void *arg, uint32_t ref, uint32_t at)
{
    struct task_record *r = record_at(arg, ref);
    r->place = PLACE_HEAP | (r->place & PLACE_MARK) | at;
}

/* A claimed task does not expire. */
static void hold_expiry(struct store *s, uint32_t ref, bool hold)
{
    const struct record_hot *hot = hot_at(s, ref);
    if (!record_at(s, ref)->claimed || !hot || !hot->expires)
        return;
    if (hold)
        heap_remove(&s->expiry, hot->expiry_at - 1);
    else
        heap_push(&s->expiry, hot->expires, ref);
}

/* Counts a task that comes into the heap (1) or leaves it (-1). */
static void count_waiting(struct store *s, struct task_group *g, uint32_t ref, int by)
{
    const struct task_record *r = record_at(s, ref);
    hold_expiry(s, ref, by > 0);
    if (r->claimed) {
        struct task_lane *lane = lane_of(s, g, ref);
        g->claimed += (uint32_t)by;
        lane->claimed += (uint32_t)by;
        lane_settle(g, lane);
    } else if (r->retrying) {
        g->retrying += (uint32_t)by;
    }
}

void group_pass(struct store *s, struct task_group *g, int64_t now_ms)
{
    while (g->heap.count && g->heap.entries[0].key <= now_ms) {
        uint32_t ref = heap_remove(&g->heap, 0);
        struct task_lane *lane = lane_of(s, g, ref);
        lane_push(s, g, lane, ref);
        count_waiting(s, g, ref, -1);
        lane_settle(g, lane);
    }
}

/* Places. */

void group_insert(struct store *s, struct task_group *g, uint32_t ref, int64_t now_ms)
{
    struct task_record *r = record_at(s, ref);
    if (r->done) {
        mem_grow(g->done, g->done_count, g->done_cap);
        r->place = g->done_count;
        g->done[g->done_count++] = ref;
    } else if (record_is_owned(r, now_ms)) {
        heap_push(&g->heap, record_is_owned(r, INT64_MAX) ? INT64_MAX : r->timespec, ref);
        count_waiting(s, g, ref, 1);
    } else {
        struct task_lane *lane = lane_of(s, g, ref);
        lane_push(s, g, lane, ref);
        lane_settle(g, lane);
    }
}

static void remove_done(struct store *s, struct task_group *g, uint32_t at)
{
    uint32_t last = g->done[--g->done_count];
    g->done[at] = last;
    record_at(s, last)->place = at;
}

void group_remove(struct store *s, struct task_group *g, uint32_t ref)
{
    const struct task_record *r = record_at(s, ref);
    if (r->done) {
        remove_done(s, g, r->place & PLACE_AT);
    } else if (r->place & PLACE_HEAP) {
        heap_remove(&g->heap, r->place & PLACE_AT);
        count_waiting(s, g, ref, -1);
    } else {
        struct task_lane *lane = lane_of(s, g, ref);
        if (r->place & PLACE_DRAWN) {
            g->claimed--;
            lane->claimed--;
        } else {
            lane_take(s, g, lane, ref);
        }
        lane_settle(g, lane);
    }
}

/* Drawing. */

struct task_lane *group_lane(const struct task_group *g)
{
    if (!g->by_share)
        return g->whole.available ? (struct task_lane *)&g->whole : NULL;
    return g->ready.count ? g->lanes[g->ready.entries[0].ref] : NULL;
}

uint32_t group_draw(struct store *s, struct task_group *g, struct task_lane *lane,
                    struct store_random *random)
{
    struct task_class *c = lane_class(lane);
    uint32_t ref =
        c->fifo.count ? c->fifo.entries[0].ref : c->array[store_random_below(random, c->count)];
    lane_take(s, g, lane, ref);
    record_at(s, ref)->place = PLACE_DRAWN;
    g->claimed++;
    lane->claimed++;
    lane->served = ++g->served;
    lane_settle(g, lane);
    return ref;
}

void group_put_back(struct store *s, uint32_t ref)
{
    struct task_group *g = group_of(s, ref);
    struct task_lane *lane = lane_of(s, g, ref);
    g->claimed--;
    lane->claimed--;
    lane_push(s, g, lane, ref);
    lane_settle(g, lane);
}

/* Groups. */

struct task_group *store_find_group(const struct store *s, struct str name)
{
    uint32_t hash = map_hash_str(name);
    for (uint32_t at, n = map_first(&s->by_name, hash, &at); n;
         n = map_next(&s->by_name, hash, &at))
        if (str_eq(s->groups[n]->name, name))
            return s->groups[n];
    return NULL;
}

static uint32_t take_group_number(struct store *s)
{
    if (s->free_group_count)
        return s->free_groups[--s->free_group_count];
    mem_grow(s->groups, s->group_top, s->group_cap);
    return s->group_top++;
}

struct task_group *store_make_group(struct store *s, struct str name)
{
    struct task_group *g = store_find_group(s, name);
    if (g)
        return g;
    g = mem_alloc(sizeof *g);
    *g = (struct task_group){
        .name = {mem_dup(name.p, name.len), name.len},
        .number = take_group_number(s),
        .settings = settings_table_of(&s->settings, name),
        .heap = {.moved = on_heap_move, .arg = s},
        .ready = {.moved = on_ready_move, .arg = g},
    };
    g->by_share = settings_use_shares(g->settings);
    s->groups[g->number] = g;
    map_add(&s->by_name, map_hash_str(name), g->number);
    return g;
}

static void free_lanes(struct task_group *g)
{
    for (uint32_t i = 1; i < g->lane_top; i++) {
        if (!g->lanes[i])
            continue;
        lane_release(g->lanes[i]);
        free(g->lanes[i]);
    }
    lane_release(&g->whole);
    free(g->lanes);
    map_release(&g->by_share_name);
    heap_release(&g->ready);
}

void group_free(struct task_group *g)
{
    free_lanes(g);
    free((char *)g->name.p);
    heap_release(&g->heap);
    free(g->done);
    free(g->order);
    free(g);
}

void store_drop_group(struct store *s, struct task_group *g)
{
    if (group_count(g) || g->done_count || g->pins || g->rate_ns > s->now_ns)
        return;
    map_remove(&s->by_name, map_hash_str(g->name), g->number);
    s->groups[g->number] = NULL;
    mem_grow(s->free_groups, s->free_group_count, s->free_group_cap);
    s->free_groups[s->free_group_count++] = g->number;
    group_free(g);
}

struct ref_list {
    uint32_t *refs;
    size_t count;
};

static void collect(void *arg, uint32_t ref)
{
    struct ref_list *list = arg;
    list->refs[list->count++] = ref;
}

static void each_of_lane(const struct task_lane *lane, void (*fn)(void *arg, uint32_t ref),
                         void *arg)
{
    for (uint32_t i = 0; i < lane->class_count; i++) {
        const struct task_class *c = &lane->classes[i];
        for (uint32_t j = 0; j < c->count; j++)
            fn(arg, c->array[j]);
        for (uint32_t j = 0; j < c->fifo.count; j++)
            fn(arg, c->fifo.entries[j].ref);
    }
}

void group_each(const struct task_group *g, void (*fn)(void *arg, uint32_t ref), void *arg)
{
    each_of_lane(&g->whole, fn, arg);
    for (uint32_t i = 1; i < g->lane_top; i++)
        if (g->lanes[i])
            each_of_lane(g->lanes[i], fn, arg);
    for (uint32_t i = 0; i < g->heap.count; i++)
        fn(arg, g->heap.entries[i].ref);
}

/*
 * Takes all living tasks out and puts them back under the new settings. The old ones are freed
 * already.
 */
void group_set_settings(struct store *s, struct task_group *g)
{
    struct ref_list list = {mem_alloc((group_count(g) + 1) * sizeof *list.refs), 0};
    group_each(g, collect, &list);
    for (uint32_t i = 0; i < g->heap.count; i++)
        hold_expiry(s, g->heap.entries[i].ref, false);
    free_lanes(g);
    s->available -= g->available;
    g->heap.count = 0;
    g->available = g->dead = g->claimed = g->retrying = 0;
    g->whole = (struct task_lane){0};
    g->lanes = NULL;
    g->lane_top = g->lane_cap = g->lane_count = g->lane_hint = 0;
    g->by_share_name = (struct map){0};
    g->ready = (struct heap){.moved = on_ready_move, .arg = g};
    g->settings = settings_table_of(&s->settings, g->name);
    g->by_share = settings_use_shares(g->settings);
    for (size_t i = 0; i < list.count; i++)
        group_insert(s, g, list.refs[i], INT64_MIN); /* group_pass() sorts them */
    free(list.refs);
}
