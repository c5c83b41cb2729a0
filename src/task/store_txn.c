/* Transactions: checking a change, the steps with their undo entries, undoing. */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/mem.h"
#include "drover.h"
#include "task/store_work.h"
#include "task/tail.h"

struct task_txn_undo {
    int64_t made_id;        /* 0: a deletion */
    struct task_record old; /* id 0: an add */
    struct record_rest rest;
    bool moved;                 /* the data is that of the new task */
    struct task_group *held[2]; /* pinned until this is settled */
    int64_t rate_ns;            /* of the first group, before */
};

void task_txn_release(struct task_txn *t)
{
    arena_release(&t->arena);
    *t = (struct task_txn){0};
}

void work_begin(struct txn_work *w, size_t changes)
{
    struct task_txn *t = w->t;
    assert(!t->undo_count);
    arena_reset(&t->arena);
    *t = (struct task_txn){.arena = t->arena};
    t->tasks = arena_alloc(&t->arena, (changes + 1) * sizeof *t->tasks);
    t->others = arena_alloc(&t->arena, (changes + 1) * sizeof *t->others);
    t->changes = arena_alloc(&t->arena, (changes + 1) * sizeof *t->changes);
    t->undo = arena_alloc(&t->arena, (changes + 1) * sizeof *t->undo);
    w->top_id = w->s->top_id;
    w->s->now_ns = w->now_ms > INT64_MAX / 1000000 ? INT64_MAX : w->now_ms * 1000000;
}

int work_end(struct txn_work *w, int err)
{
    buf_release(&w->scratch);
    if (err)
        store_undo(w->s, w->t);
    return err;
}

/* Checking. */

void work_object(struct txn_work *w, const char *fmt, ...)
{
    struct task_txn *t = w->t;
    va_list ap;
    t->reasons++;
    if (t->error_count >= TASK_ERRORS_MAX)
        return;
    if (!t->errors)
        t->errors = arena_alloc(&t->arena, (TASK_ERRORS_MAX + 1) * sizeof *t->errors);
    va_start(ap, fmt);
    t->errors[t->error_count++] = arena_vprintf(&t->arena, fmt, ap);
    va_end(ap);
}

uint32_t work_find(const struct txn_work *w, int64_t id)
{
    uint32_t ref = w->manage ? store_find_slot(w->s, id) : 0;
    if (!ref)
        ref = store_find_any(w->s, id);
    if (ref && record_at(w->s, ref)->done)
        ref = 0;
    bool hidden = ref && w->who && w->who->limited &&
                  !identity_reaches(w->who, SCOPE_GROUP, group_of(w->s, ref)->name);
    return hidden ? 0 : ref;
}

/* "there is no task 40: it was claimed as 52 by client 7" */
void work_object_missing(struct txn_work *w, const char *what, int64_t id)
{
    CLEANUP(buf_release) struct buf text = {0};
    store_put_missing(w->s, id, w->who, &text);
    work_object(w, "%s: %s", what, buf_text(&text));
}

bool work_may(const struct txn_work *w, const struct task_record *r)
{
    return !r->managed || w->manage || !w->who || identity_may_run(w->who);
}

void work_check_change(struct txn_work *w, const char *what, int64_t id, bool ends)
{
    uint32_t ref = work_find(w, id);
    if (!ref) {
        work_object_missing(w, what, id);
        return;
    }
    struct task_record *r = record_at(w->s, ref);
    if (r->place & PLACE_MARK) {
        work_object(w, "%s: task %" PRId64 " is named more than once", what, r->id);
        return;
    }
    r->place |= PLACE_MARK;
    if (w->manage)
        return;
    if (!work_may(w, r))
        w->forbidden = true;
    else if (!w->operate && record_is_owned(r, w->now_ms) && r->ownerid != w->clientid)
        work_object(w, "%s: task %" PRId64 " is owned by client %" PRId64 " until %" PRId64, what,
                    r->id, r->ownerid, r->timespec);
    else if (r->managed && ends)
        work_object(w, "%s: task %" PRId64 " belongs to a node: POST /v1/agent/done ends it", what,
                    r->id);
}

/* Steps, each with its undo entry. */

static struct task_txn_undo *note_undo(struct txn_work *w, struct task_group *g,
                                       struct task_group *other)
{
    struct task_txn_undo *u = &w->t->undo[w->t->undo_count++];
    *u = (struct task_txn_undo){.held = {g, other}, .rate_ns = g->rate_ns};
    g->pins++;
    other->pins++;
    return u;
}

void work_set_rate(struct txn_work *w, int64_t rate_ns)
{
    w->t->undo[w->t->undo_count - 1].rate_ns = rate_ns;
}

/* A copy of a group's name, which outlives the group. */
static struct str name_of(struct txn_work *w, uint32_t group)
{
    if (w->named != group) {
        w->name = w->s->groups[group]->name;
        w->name.p = arena_text(&w->t->arena, w->name);
        w->named = group;
    }
    return w->name;
}

/* Lists the task as it is now, in the answer or beside it, and the change that made it so. */
static void note_change(struct txn_work *w, enum task_txn_kind kind, enum task_event event,
                        const struct task *task, struct str from)
{
    struct task_txn *t = w->t;
    bool hidden = kind == TXN_DELETE || task->done || w->hides;
    struct task *noted = hidden ? &t->others[t->other_count++] : &t->tasks[t->task_count++];
    *noted = *task;
    t->changes[t->change_count++] = (struct task_txn_change){kind, event, task->first, noted, from};
    if (kind != TXN_DELETE && task->id > t->last_id && !task->done)
        t->last_id = task->id;
}

/* Remembers what became of an id, for the error that its next use gets. */
static void trace(struct store *s, int64_t id, int64_t slot)
{
    if (!s->trace)
        s->trace = mem_zalloc(TRACE_LEN * sizeof *s->trace);
    s->trace[id % TRACE_LEN] = (struct store_trace){id, slot};
}

void work_delete(struct txn_work *w, uint32_t ref, enum task_event event)
{
    struct task_record *r = record_at(w->s, ref);
    struct task_group *g = w->s->groups[r->group];
    struct task_txn_undo *u = note_undo(w, g, g);
    struct task was = record_task(w->s, r);
    was.group = name_of(w, r->group);
    u->old = *r;
    w->t->ended_last |= r->id == w->s->last_id;
    if (!r->done)
        trace(w->s, r->id, 0);
    note_change(w, TXN_DELETE, event, &was, (struct str){0});
    u->rest = store_remove(w->s, ref);
}

/* What the store keeps beside the record of a task. A dead task holds no key. */
static struct record_rest rest_of(const struct store *s, const struct task *t)
{
    struct record_rest rest = {0};
    if (!s->fetch) {
        size_t len = task_payload_len(t->extra, t->data);
        rest.kept = mem_alloc(sizeof *rest.kept + len);
        rest.kept->len = (uint32_t)len;
        task_payload_encode(t->extra, t->data, rest.kept->bytes);
    }
    if (t->extra) {
        struct task_extra x = *t->extra;
        if (t->dead || (t->done && t->timespec != x.expires))
            x.key = (struct str){0};
        rest.hot = hot_new(&x);
    }
    return rest;
}

static struct task_record record_of(const struct task *t, uint32_t group)
{
    return (struct task_record){.id = t->id,
                                .timespec = t->timespec,
                                .ownerid = t->ownerid,
                                .slot = t->first,
                                .group = group & ((1 << 26) - 1),
                                .managed = t->managed,
                                .tail = t->extra != NULL,
                                .claimed = t->claimed,
                                .retrying = t->retrying,
                                .dead = t->dead,
                                .done = t->done};
}

void work_replace(struct txn_work *w, uint32_t ref, struct task *to, bool keeps_data,
                  enum task_event event)
{
    struct task_record old = *record_at(w->s, ref);
    struct task_group *from = w->s->groups[old.group];
    struct task_group *g = str_eq(to->group, from->name) ? from : store_make_group(w->s, to->group);
    struct task_txn_undo *u = note_undo(w, from, g);
    u->old = old;
    u->moved = keeps_data;
    if (!to->done) {
        to->id = ++w->s->top_id;
        trace(w->s, old.id, old.slot);
    }
    if (to->extra && task_extra_is_plain(to->extra))
        to->extra = NULL;
    u->made_id = to->id;
    to->first = old.slot;
    struct str left = g == from ? (struct str){0} : name_of(w, from->number);
    to->group = name_of(w, g->number);
    struct task_record made = record_of(to, g->number);
    u->rest = store_remove(w->s, ref);
    struct record_rest rest = keeps_data ? u->rest : rest_of(w->s, to);
    note_change(w, TXN_SET, event, to, left);
    store_insert(w->s, &made, rest, w->now_ms);
}

void work_add(struct txn_work *w, const struct task *add)
{
    struct task_group *g = store_make_group(w->s, add->group);
    struct task t = *add;
    struct task_extra x;
    t.id = t.first = ++w->s->top_id;
    t.timespec = store_time(add->timespec, w->now_ms);
    t.ownerid = w->clientid;
    t.managed = w->manage;
    t.claimed = t.retrying = t.dead = t.done = false;
    if (t.extra) {
        x = *t.extra;
        if (!x.created)
            x.created = w->now_ms;
        if (x.expires < 0)
            x.expires = store_time(x.expires, w->now_ms);
        t.extra = task_extra_copy(&w->t->arena, &x);
    }
    note_undo(w, g, g)->made_id = t.id;
    note_change(w, TXN_CREATE, TASK_EVENT_ADDED, &t, (struct str){0});
    struct task_record r = record_of(&t, g->number);
    store_insert(w->s, &r, rest_of(w->s, &t), w->now_ms);
}

/* What the transaction has made of a task: it is not in the keeper yet. */
static const struct task *find_made(const struct txn_work *w, int64_t id)
{
    size_t i = w->t->change_count;
    while (i && w->t->changes[i - 1].task->id != id)
        i--;
    assert(i);
    return w->t->changes[i - 1].task;
}

int work_read(struct txn_work *w, uint32_t ref, struct task *ret_task, struct task_extra *ret_extra)
{
    struct task t = record_task(w->s, record_at(w->s, ref));
    struct task_extra x;
    if (t.id > w->top_id) {
        const struct task *made = find_made(w, t.id);
        *ret_extra = made->extra ? *made->extra : (struct task_extra){0};
        t.data = made->data;
        *ret_task = t;
        return 0;
    }
    w->scratch.len = 0;
    TRY(store_payload(w->s, ref, &w->scratch, &x, &t.data));
    t.data.p = arena_text(&w->t->arena, t.data);
    if (record_at(w->s, ref)->tail)
        x = *task_extra_copy(&w->t->arena, &x);
    *ret_extra = x;
    *ret_task = t;
    return 0;
}

/* Undoing and settling. */

static void unpin(struct store *s, struct task_txn_undo *u)
{
    u->held[0]->pins--;
    u->held[1]->pins--;
    if (u->held[1] != u->held[0])
        store_drop_group(s, u->held[1]);
    store_drop_group(s, u->held[0]);
}

void store_undo(struct store *s, struct task_txn *t)
{
    while (t->undo_count) {
        struct task_txn_undo *u = &t->undo[--t->undo_count];
        struct record_rest made = {0};
        if (u->made_id)
            made = store_remove(s, store_find(s, u->made_id));
        if (!u->moved)
            record_rest_release(&made);
        if (u->old.id)
            store_insert(s, &u->old, u->moved ? made : u->rest, INT64_MIN);
        u->held[0]->rate_ns = u->rate_ns;
        unpin(s, u);
    }
}

void store_settle(struct store *s, struct task_txn *t)
{
    while (t->undo_count) {
        struct task_txn_undo *u = &t->undo[--t->undo_count];
        if (!u->moved)
            record_rest_release(&u->rest);
        store_set_last_id(s, u->made_id);
        unpin(s, u);
    }
}

void store_tally(const struct store *s, const struct task_txn *t, struct task_tallies *to)
{
    static const enum tally_kind kinds[TASK_EVENTS] = {
        [TASK_EVENT_ADDED] = TALLY_ADDED,       [TASK_EVENT_CLAIMED] = TALLY_CLAIMED,
        [TASK_EVENT_FINISHED] = TALLY_FINISHED, [TASK_EVENT_DELETED] = TALLY_DELETED,
        [TASK_EVENT_FAILED] = TALLY_FAILED,     [TASK_EVENT_DEAD] = TALLY_DEAD,
        [TASK_EVENT_UPDATED] = TALLY_KINDS,     [TASK_EVENT_RELEASED] = TALLY_KINDS,
    };
    for (size_t i = 0; t->undo_count && i < t->change_count; i++) {
        const struct task_txn_change *c = &t->changes[i];
        enum tally_kind kind = kinds[c->event];
        if (kind == TALLY_KINDS)
            continue;
        if (kind == TALLY_DELETED && c->task->claimed) /* how the document finishes a task */
            kind = TALLY_FINISHED;
        tally_count(tallies_get(to, c->from.len ? c->from : c->task->group), kind,
                    s->now_ns / 1000000);
    }
}

int store_restore(struct store *s, int64_t slot, const struct task *t, int64_t now_ms)
{
    struct task restored = *t;
    restored.first = slot;
    if (store_find(s, t->id))
        return DROVER_EXISTS;
    struct task_record r = record_of(&restored, store_make_group(s, t->group)->number);
    store_insert(s, &r, rest_of(s, &restored), now_ms);
    store_set_last_id(s, t->id);
    return 0;
}
