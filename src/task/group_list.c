#include "task/group_list.h"

#include <stdlib.h>

enum { STEP = 2048 }; /* places for groups that are looked at, some of which are empty */

static bool is_wanted(const struct group_list *l, const struct store_group *g)
{
    return (!l->after.p || str_compare(g->name, l->after) > 0) && (l->internal || !g->internal) &&
           (!l->living || g->available + g->owned) &&
           (!l->who || identity_reaches(l->who, SCOPE_GROUP, g->name));
}

static int by_name(const void *a, const void *b)
{
    const struct store_group *x = a, *y = b;
    return str_compare(x->name, y->name);
}

void group_list_look(struct group_list *l, struct store *s, int64_t now_ms)
{
    struct store_group *found;
    size_t count, kept = 0;
    l->end = !store_some_groups(s, l->steps * STEP, STEP, now_ms, l->arena, &found, &count);
    l->fresh_len = count * sizeof *found;
    for (size_t i = 0; i < count; i++) {
        l->fresh_len += found[i].name.len;
        if (is_wanted(l, &found[i]))
            found[kept++] = found[i];
    }
    qsort(found, kept, sizeof *found, by_name);
    l->fresh = (struct group_run){found, l->limit && kept > l->limit ? l->limit : kept};
}

static bool is_before(const struct group_list *l, size_t a, size_t b)
{
    return by_name(l->runs[a].next, l->runs[b].next) < 0;
}

/* Moves a run down to its place in the heap. */
static void sift(struct group_list *l, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < l->count; at = child) {
        if (child + 1 < l->count && is_before(l, child + 1, child))
            child++;
        if (!is_before(l, child, at))
            return;
        struct group_run moved = l->runs[at];
        l->runs[at] = l->runs[child];
        l->runs[child] = moved;
    }
}

bool group_list_keep(struct group_list *l)
{
    l->steps++;
    if (l->fresh.left && l->count == l->cap) {
        struct group_run *more = arena_alloc(l->arena, (2 * l->cap + 1) * sizeof *more);
        if (l->count)
            memcpy(more, l->runs, l->count * sizeof *more);
        l->runs = more;
        l->cap = 2 * l->cap + 1;
    }
    if (l->fresh.left)
        l->runs[l->count++] = l->fresh;
    for (size_t i = l->end ? l->count / 2 : 0; i-- > 0;)
        sift(l, i);
    return !l->end;
}

const struct store_group *group_list_next(struct group_list *l)
{
    if (!l->count)
        return NULL;
    const struct store_group *g = l->runs->next++;
    if (!--l->runs->left)
        *l->runs = l->runs[--l->count];
    sift(l, 0);
    return g;
}
