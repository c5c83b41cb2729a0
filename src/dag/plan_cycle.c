/* Finding a cycle in a request to add nodes. */
#include <stdlib.h>

#include "base/mem.h"
#include "dag/plan.h"

enum { SEARCH_NEW, SEARCH_OPEN, SEARCH_DONE };

/* Copies the part of the path from node i on, which is the cycle. */
static void copy_cycle(const struct plan_changes *path, uint32_t i, struct plan_changes *ret_cycle)
{
    size_t from = 0;

    while (path->refs[from] != i)
        from++;
    for (; from < path->count; from++)
        plan_changes_put(ret_cycle, path->refs[from]);
}

/* A depth-first search along the parents of the same request, with a stack of its own (`path`). */
bool plan_has_cycle(const struct plan_spec *specs, uint32_t count, struct plan_changes *ret_cycle)
{
    uint8_t *marks = mem_zalloc(count + 1);
    uint32_t *next = mem_zalloc((count + 1) * sizeof *next); /* the parent to look at */
    struct plan_changes path = {0};
    bool found = false;

    for (uint32_t i = 0; i < count && !found; i++) {
        if (marks[i] == SEARCH_NEW)
            plan_changes_put(&path, i);
        while (path.count && !found) {
            uint32_t at = path.refs[path.count - 1];

            marks[at] = SEARCH_OPEN;
            if (next[at] == specs[at].parent_count) {
                marks[at] = SEARCH_DONE;
                path.count--;
                continue;
            }
            uint32_t parent = specs[at].parents[next[at]++];
            if (!(parent & (uint32_t)PLAN_IN_BATCH))
                continue;
            parent ^= (uint32_t)PLAN_IN_BATCH;
            found = marks[parent] == SEARCH_OPEN;
            if (found && ret_cycle)
                copy_cycle(&path, parent, ret_cycle);
            if (marks[parent] == SEARCH_NEW)
                plan_changes_put(&path, parent);
        }
    }
    free(marks);
    free(next);
    plan_changes_release(&path);
    return found;
}
