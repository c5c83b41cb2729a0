/* Reading: single tasks, lists of a group, the groups. */
#include <assert.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "drover.h"
#include "task/store_impl.h"
#include "task/tail.h"

enum { ORDER_FIRST = 64 };

/* The sorted ids of a group, made when first needed; new ids are larger than all others. */

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void group_order_add(struct task_group *g, int64_t id)
{
    if (g->order_count && g->order[g->order_count - 1] > id) { /* of an undone transaction */
        g->order_count = g->order_dead = 0;
        g->ordered = false;
        return;
    }
    mem_grow(g->order, g->order_count, g->order_cap);
    g->order[g->order_count++] = id;
}

struct order_making {
    const struct store *s;
    struct task_group *g;
};

static void order_add(void *arg, uint32_t ref)
{
    struct order_making *m = arg;
    m->g->order[m->g->order_count++] = record_at(m->s, ref)->id;
}

static void order_make(struct store *s, struct task_group *g)
{
    g->ordered = true;
    g->order_cap = group_count(g) + ORDER_FIRST;
    g->order = mem_realloc(g->order, g->order_cap * sizeof *g->order);
    struct order_making making = {s, g};
    group_each(g, order_add, &making);
    qsort(g->order, g->order_count, sizeof *g->order, compare_ids);
}

/* Counts a removed id. When most are removed, compacts the list. */
void group_order_bury(struct store *s, struct task_group *g)
{
    size_t kept = 0;
    if (++g->order_dead < ORDER_FIRST || g->order_dead * 2 < g->order_count)
        return;
    for (size_t i = 0; i < g->order_count; i++)
        if (store_find(s, g->order[i]))
            g->order[kept++] = g->order[i];
    g->order_count = kept;
    g->order_dead = 0;
}

/* Single tasks. */

static struct str keep_text(struct arena *a, struct str text)
{
    return (struct str){text.len ? arena_text(a, text) : "", text.len};
}

const struct task_extra *task_extra_copy(struct arena *a, const struct task_extra *x)
{
    struct task_extra *copy = arena_alloc(a, sizeof *copy);
    *copy = *x;
    struct str *texts[] = {&copy->key, &copy->share, &copy->error, &copy->origin, &copy->result};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = keep_text(a, *texts[i]);
    return copy;
}

/* A task as it is, with data and extra in the arena; the name of its group is borrowed. */
static int read_record(struct store *s, uint32_t ref, struct buf *scratch, struct arena *a,
                       struct task *ret_task)
{
    struct task t = record_task(s, record_at(s, ref));
    struct task_extra extra;
    scratch->len = 0;
    TRY(store_payload(s, ref, scratch, &extra, &t.data));
    t.data.p = arena_text(a, t.data);
    if (record_at(s, ref)->tail)
        t.extra = task_extra_copy(a, &extra);
    *ret_task = t;
    return 0;
}

uint32_t store_find_any(const struct store *s, int64_t id)
{
    return id < 0 ? store_find_slot(s, id - INT64_MIN) : store_find(s, id);
}

int store_get(struct store *s, int64_t id, struct arena *a, struct task *ret_task)
{
    uint32_t ref = store_find_any(s, id);
    CLEANUP(buf_release) struct buf scratch = {0};
    if (!ref)
        return DROVER_NO_TASK;
    struct task t;
    TRY(read_record(s, ref, &scratch, a, &t));
    t.group.p = arena_text(a, t.group);
    *ret_task = t;
    return 0;
}

int64_t store_slot_of(const struct store *s, int64_t id)
{
    uint32_t ref = store_find_any(s, id);
    return ref ? record_at(s, ref)->slot : 0;
}

bool store_group_of(const struct store *s, int64_t id, struct str *ret_group)
{
    uint32_t ref = store_find_any(s, id);
    if (ref)
        *ret_group = group_of(s, ref)->name;
    return ref;
}

/* Lists. */

struct ref_taking {
    struct store *s;
    uint32_t *refs;
    size_t count, max;
    bool owned;
};

static void take_ref(void *arg, uint32_t ref)
{
    struct ref_taking *t = arg;
    if (t->count < t->max && (t->owned || !(record_at(t->s, ref)->place & PLACE_HEAP)))
        t->refs[t->count++] = ref;
}

static size_t list_any(struct store *s, const struct task_group *g, bool owned, size_t max,
                       uint32_t *refs)
{
    struct ref_taking t = {s, refs, 0, max, owned};
    group_each(g, take_ref, &t);
    return t.count;
}

size_t group_order_after(struct store *s, struct task_group *g, int64_t after)
{
    size_t low = 0;
    if (!g->ordered)
        order_make(s, g);
    for (size_t high = g->order_count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (g->order[middle] <= after)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t list_ordered(struct store *s, struct task_group *g, int64_t after, bool owned,
                           size_t max, uint32_t *refs)
{
    struct ref_taking t = {s, refs, 0, max, owned};
    for (size_t at = group_order_after(s, g, after); at < g->order_count && t.count < max; at++) {
        uint32_t ref = store_find(s, g->order[at]);
        if (ref)
            take_ref(&t, ref);
    }
    return t.count;
}

int store_list(struct store *s, struct str group, int64_t after, size_t limit, bool owned,
               int64_t now_ms, struct arena *a, struct store_list *ret_list)
{
    struct task_group *g = store_find_group(s, group);
    CLEANUP(buf_release) struct buf scratch = {0};
    if (!g) {
        *ret_list = (struct store_list){0};
        return 0;
    }
    group_pass(s, g, now_ms);
    size_t max = owned ? group_count(g) : g->available;
    if (limit && limit < max)
        max = limit;
    uint32_t *refs = arena_alloc(a, (max + 1) * sizeof *refs);
    size_t count =
        after < 0 ? list_any(s, g, owned, max, refs) : list_ordered(s, g, after, owned, max, refs);
    struct task *tasks = arena_alloc(a, (count + 1) * sizeof *tasks);
    const char *name = arena_text(a, g->name);
    for (size_t i = 0; i < count; i++) {
        TRY(read_record(s, refs[i], &scratch, a, &tasks[i]));
        tasks[i].group.p = name;
    }
    *ret_list = (struct store_list){tasks, count};
    return 0;
}

static bool is_of_module(const struct store *s, uint32_t ref)
{
    return record_at(s, ref)->managed || record_at(s, ref)->ownerid == TASK_MESSAGES;
}

/* By one or two of its tasks: modules have groups of their own. */
static bool is_internal(const struct store *s, const struct task_group *g)
{
    const struct task_lane *lane = group_lane(g);
    if (g->heap.count && is_of_module(s, g->heap.entries[0].ref))
        return true;
    const struct task_class *c = lane ? lane_class(lane) : NULL;
    if (c && c->fifo.count)
        return is_of_module(s, c->fifo.entries[0].ref);
    return c && c->count && is_of_module(s, c->array[0]);
}

void store_list_ids(struct store *s, struct str group, size_t limit, bool owned, int64_t now_ms,
                    struct arena *a, int64_t **ret_ids, size_t *ret_count)
{
    struct task_group *g = store_find_group(s, group);
    *ret_count = 0;
    if (!g)
        return;
    group_pass(s, g, now_ms);
    size_t max = owned ? group_count(g) : g->available;
    if (limit && limit < max)
        max = limit;
    uint32_t *refs = mem_alloc((max + 1) * sizeof *refs);
    int64_t *ids = arena_alloc(a, (max + 1) * sizeof *ids);
    size_t count = list_any(s, g, owned, max, refs);
    for (size_t i = 0; i < count; i++)
        ids[i] = record_at(s, refs[i])->id;
    free(refs);
    *ret_count = count;
    *ret_ids = ids;
}

static struct store_group count_group(const struct store *s, const struct task_group *g,
                                      struct arena *a)
{
    struct store_group c = {.name = {arena_text(a, g->name), g->name.len},
                            .available = g->available,
                            .owned = g->heap.count,
                            .internal = is_internal(s, g)};
    c.states[TASK_AVAILABLE] = g->available - g->dead;
    c.states[TASK_DEAD] = g->dead;
    c.states[TASK_CLAIMED] = g->claimed;
    c.states[TASK_RETRYING] = g->retrying;
    c.states[TASK_DELAYED] = g->heap.count - g->claimed - g->retrying;
    c.states[TASK_DONE] = g->done_count;
    return c;
}

bool store_some_groups(struct store *s, uint32_t at, uint32_t max, int64_t now_ms, struct arena *a,
                       struct store_group **ret_groups, size_t *ret_count)
{
    uint32_t end = at >= s->group_top || s->group_top - at <= max ? s->group_top : at + max;
    struct store_group *list = arena_alloc(a, (at < end ? end - at : 1) * sizeof *list);
    size_t count = 0;
    for (uint32_t i = at + !at; i < end; i++) {
        struct task_group *g = s->groups[i];
        if (!g || !(group_count(g) + g->done_count))
            continue;
        group_pass(s, g, now_ms);
        list[count++] = count_group(s, g, a);
    }
    *ret_groups = list;
    *ret_count = count;
    return end < s->group_top;
}

void store_groups(struct store *s, int64_t now_ms, struct arena *a, struct store_group **ret_groups,
                  size_t *ret_count)
{
    store_some_groups(s, 0, s->group_top, now_ms, a, ret_groups, ret_count);
}

bool store_count_group(struct store *s, struct str name, int64_t now_ms, struct arena *a,
                       struct store_group *ret_group)
{
    struct task_group *g = store_find_group(s, name);
    if (!g)
        return false;
    group_pass(s, g, now_ms);
    *ret_group = count_group(s, g, a);
    return true;
}
