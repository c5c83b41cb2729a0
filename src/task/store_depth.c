/* What metrics show of groups. The cost does not depend on how many groups and tasks there are. */
#include "task/store_impl.h"

/* The entries of a heap from `at` down whose time has come. */
static size_t count_due(const struct heap *h, uint32_t at, int64_t now_ms)
{
    if (at >= h->count || h->entries[at].key > now_ms)
        return 0;
    return 1 + count_due(h, 2 * at + 1, now_ms) + count_due(h, 2 * at + 2, now_ms);
}

/*
 * Looks at max tasks, from the end of the array to its start, and goes on from there at the next
 * call. A task that leaves the array is replaced by its last one, which was looked at already, so
 * each task is looked at in every round. What was found is remembered as long as it is available.
 */
static void look_in_class(const struct store *s, const struct task_class *c, struct task_tally *t,
                          size_t max, int64_t *oldest_ms)
{
    if (c->fifo.count && c->fifo.entries[0].key < *oldest_ms)
        *oldest_ms = c->fifo.entries[0].key;
    if (max > c->count)
        max = c->count;
    for (; max; max--) {
        if (!t->place || t->place > c->count)
            t->place = c->count;
        const struct task_record *r = record_at(s, c->array[--t->place]);
        if (r->timespec < *oldest_ms) {
            *oldest_ms = r->timespec;
            t->oldest = r->id;
        }
    }
}

static int64_t find_oldest(struct store *s, const struct task_group *g, struct task_tally *t,
                           size_t max)
{
    uint32_t known = t->oldest ? store_find(s, t->oldest) : 0;
    int64_t oldest_ms = INT64_MAX;
    if (known && !(record_at(s, known)->place & PLACE_HEAP))
        oldest_ms = record_at(s, known)->timespec;
    for (uint32_t i = 0; i < g->lane_top + 1 && i < max; i++) {
        const struct task_lane *lane = i < g->lane_top ? g->lanes[i] : &g->whole;
        for (uint32_t j = 0; lane && j < lane->class_count && j < max; j++)
            look_in_class(s, &lane->classes[j], t, max, &oldest_ms);
    }
    return oldest_ms;
}

bool store_depth(struct store *s, struct task_tally *t, int64_t now_ms, size_t max,
                 struct store_depth *ret_depth)
{
    const struct task_group *g = store_find_group(s, t->name);
    *ret_depth = (struct store_depth){0};
    if (!g)
        return false;
    size_t due = count_due(&g->heap, 0, now_ms);
    int64_t oldest_ms = find_oldest(s, g, t, max);
    if (due && g->heap.entries[0].key < oldest_ms)
        oldest_ms = g->heap.entries[0].key;
    *ret_depth = (struct store_depth){
        .available = g->available + due,
        .owned = g->heap.count - due,
        .due = due,
        .age_ms = oldest_ms < now_ms ? now_ms - oldest_ms : 0,
    };
    return true;
}

size_t store_available_count(const struct store *s)
{
    return s->available;
}

void store_name_groups(const struct store *s, struct task_tallies *t, size_t max)
{
    for (; max && tallies_have_room(t); max--) {
        if (++t->walked >= s->group_top)
            t->walked = 1;
        if (t->walked < s->group_top && s->groups[t->walked])
            tallies_find(t, s->groups[t->walked]->name);
    }
}
