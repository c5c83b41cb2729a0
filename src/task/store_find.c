/*
 * Finding tasks by what they are, a bounded part of the store at a time.
 *
 * With ids, their tasks come in that order. With a group, its living tasks come in the order of
 * their ids, then those that are done. Otherwise the records come in the order of their refs: a
 * task keeps its ref when it gets a new id, so one that exists all the while is found exactly once.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "drover.h"
#include "task/store_impl.h"
#include "task/tail.h"

/*
 * Records to look at; payloads cost more, by their length. What is found fits into a transaction
 * that writes it anew.
 */
enum { BUDGET = 20000, PAYLOAD_COST = 20, PAYLOAD_BYTES = 64, FOUND_LEN_MAX = 512 * 1024 };

struct task_search {
    struct store *s;
    const struct store_filter *f;
    int64_t now_ms;
    struct arena *arena;
    struct task *tasks;
    size_t count, limit, len;
    int64_t budget;
    struct buf scratch;
    int err;
};

static enum task_state state_of(const struct task_record *r, int64_t now_ms)
{
    struct task t = {.timespec = r->timespec,
                     .claimed = r->claimed,
                     .retrying = r->retrying,
                     .dead = r->dead,
                     .done = r->done};
    return task_state(&t, now_ms);
}

static bool contains(struct str text, struct str part)
{
    return !part.len || (text.len && memmem(text.p, text.len, part.p, part.len));
}

/* By the record alone. */
static bool may_match(const struct task_search *w, const struct task_record *r)
{
    const struct store_filter *f = w->f;
    struct str group = w->s->groups[r->group]->name;
    bool internal = r->managed || r->ownerid == TASK_MESSAGES;
    if (f->states && !(f->states & 1U << state_of(r, w->now_ms)))
        return false;
    if (f->who && !identity_reaches(f->who, SCOPE_GROUP, group))
        return false;
    if ((f->group.len && !str_eq(f->group, group)) || (internal && !f->internal))
        return false;
    return r->tail || (!f->key.len && !f->error.len && !f->origin.len);
}

/* False: what was found is long enough without this one. */
static bool look(struct task_search *w, uint32_t ref)
{
    const struct store_filter *f = w->f;
    const struct task_record *r = record_at(w->s, ref);
    struct task_extra x;
    w->budget--;
    if (!r->id || !may_match(w, r))
        return true;
    struct task t = record_task(w->s, r);
    w->scratch.len = 0;
    w->err = store_payload(w->s, ref, &w->scratch, &x, &t.data);
    w->budget -= PAYLOAD_COST + (int64_t)(t.data.len / PAYLOAD_BYTES);
    if (w->err || (f->key.len && !str_eq(f->key, x.key)) || !contains(x.error, f->error) ||
        (f->origin.len && !str_eq(f->origin, x.origin)) || !contains(t.data, f->text))
        return true;
    w->len += t.group.len + task_payload_len(r->tail ? &x : NULL, t.data);
    if (w->count && w->len > FOUND_LEN_MAX)
        return false;
    t.data.p = arena_text(w->arena, t.data);
    t.group.p = arena_text(w->arena, t.group);
    if (r->tail)
        t.extra = task_extra_copy(w->arena, &x);
    w->tasks[w->count++] = t;
    return true;
}

static bool goes_on(const struct task_search *w)
{
    return w->count < w->limit && w->budget > 0 && !w->err;
}

static void find_in_group(struct task_search *w, struct task_group *g, struct store_cursor *c)
{
    if (!c->done) {
        size_t at = group_order_after(w->s, g, c->at);
        for (; goes_on(w) && at < g->order_count; at++) {
            uint32_t ref = store_find(w->s, g->order[at]);
            if (ref && !record_at(w->s, ref)->done && !look(w, ref)) /* done ones come behind */
                return;
            c->at = g->order[at];
        }
        if (at < g->order_count)
            return;
        *c = (struct store_cursor){.done = true};
    }
    while (goes_on(w) && c->at < g->done_count && look(w, g->done[c->at]))
        c->at++;
    c->end = c->at >= g->done_count;
}

static void find_by_id(struct task_search *w, struct store_cursor *c)
{
    for (; goes_on(w) && c->at < (int64_t)w->f->id_count; c->at++) {
        uint32_t ref = store_find_any(w->s, w->f->ids[c->at]);
        if (ref && !look(w, ref))
            break;
    }
    c->end = c->at >= (int64_t)w->f->id_count;
}

int store_find_tasks(struct store *s, const struct store_filter *f, int64_t now_ms,
                     struct store_cursor *cursor, size_t limit, struct arena *a,
                     struct store_list *ret_list)
{
    struct task_search w = {s, f, now_ms, a, .limit = limit, .budget = BUDGET};
    struct store_cursor c = *cursor;
    w.tasks = arena_alloc(a, (limit + 1) * sizeof *w.tasks);
    if (f->ids) {
        find_by_id(&w, &c);
    } else if (f->group.len) {
        struct task_group *g = store_find_group(s, f->group);
        c.end = !g;
        if (g) {
            group_pass(s, g, now_ms);
            find_in_group(&w, g, &c);
        }
    } else {
        c.at += !c.at;
        while (goes_on(&w) && c.at < s->top && look(&w, (uint32_t)c.at))
            c.at++;
        c.end = c.at >= s->top;
    }
    buf_release(&w.scratch);
    if (w.err)
        return w.err;
    *cursor = c;
    *ret_list = (struct store_list){w.tasks, w.count};
    return 0;
}

/* Who has the tasks of a group that are claimed. */
struct holder_taking {
    struct store *s;
    struct task *tasks;
    size_t count, max;
    int64_t now_ms;
};

static void take_holder(void *arg, uint32_t ref)
{
    struct holder_taking *t = arg;
    const struct task_record *r = record_at(t->s, ref);
    if (t->count < t->max && state_of(r, t->now_ms) == TASK_CLAIMED)
        t->tasks[t->count++] = record_task(t->s, r);
}

void store_holders(struct store *s, struct str group, size_t max, int64_t now_ms, struct arena *a,
                   struct store_list *ret_list)
{
    struct holder_taking t = {s, arena_alloc(a, (max + 1) * sizeof *t.tasks), 0, max, now_ms};
    struct task_group *g = store_find_group(s, group);
    if (g)
        group_each(g, take_holder, &t);
    *ret_list = (struct store_list){t.tasks, t.count};
}
