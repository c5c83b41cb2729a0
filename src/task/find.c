#include "task/find.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"

bool cursor_read(struct str text, struct store_cursor *ret_cursor)
{
    struct store_cursor c = {.done = str_starts(text, STR("done:"))};
    for (size_t i = c.done ? 5 : 0; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9' || c.at > INT64_MAX / 10 - 1)
            return false;
        c.at = c.at * 10 + (text.p[i] - '0');
    }
    *ret_cursor = c;
    return true;
}

void cursor_write(const struct store_cursor *c, char text[CURSOR_SIZE])
{
    snprintf(text, CURSOR_SIZE, "%s%" PRId64, c->done ? "done:" : "", c->at);
}

enum task_state task_state_of(struct str name)
{
    int state = 0;
    while (state < TASK_STATES && !str_eq(name, str_of(task_state_name((enum task_state)state))))
        state++;
    return (enum task_state)state;
}

/*
 * Whether the action makes a difference. A changed task has a new id and is found again behind the
 * others: without this the work would never end.
 */
static bool has_effect(const struct task_bulk *b, const struct task *t, enum task_state state)
{
    switch (b->kind) {
    case EDIT_MOVE:
        return !str_eq(t->group, b->group);
    case EDIT_PRIORITY:
        return (t->extra ? t->extra->priority : 0) != b->priority;
    case EDIT_RELEASE:
        return state != TASK_AVAILABLE && state != TASK_DEAD;
    case EDIT_RETRY:
        return state != TASK_AVAILABLE || (t->extra && t->extra->attempts);
    default:
        return true;
    }
}

static bool may_change(const struct task_bulk *b, const struct task *t, int64_t now_ms)
{
    enum task_state state = task_state(t, now_ms);
    if (t->managed || state == TASK_DONE || !has_effect(b, t, state))
        return false;
    return state != TASK_CLAIMED || b->filter.states & 1U << TASK_CLAIMED;
}

int bulk_prepare(struct task_bulk *b, struct store *s, int64_t now_ms, struct task_update *u)
{
    struct store_list list;
    b->next = b->from;
    b->matched = 0;
    TRY(store_find_tasks(s, &b->filter, now_ms, &b->next, b->limit, b->arena, &list));
    b->tasks = arena_alloc(b->arena, (list.count + 1) * sizeof *b->tasks);
    b->edits = arena_zalloc(b->arena, (list.count + 1) * sizeof *b->edits);
    for (size_t i = 0; i < list.count; i++) {
        const struct task *t = &list.tasks[i];
        if (!may_change(b, t, now_ms))
            continue;
        b->tasks[b->matched] = t;
        b->edits[b->matched++] = (struct task_edit){
            .kind = b->kind, .id = t->id, .text = b->group, .number = b->priority};
    }
    u->edits = b->edits;
    u->edit_count = b->dry_run ? 0 : b->matched;
    return 0;
}

size_t bulk_changed(const struct task_bulk *b)
{
    size_t changed = 0;
    for (size_t i = 0; !b->dry_run && i < b->matched; i++)
        changed += b->edits[i].kind != EDIT_NONE;
    return changed;
}
