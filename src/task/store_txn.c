/*
 * Transactions: first everything is checked and every error collected, then everything is applied,
 * which cannot fail. Each step leaves an undo entry: the new id, the old record. A transaction may
 * name an id only once; a mark in the record detects repetitions without a table.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "drover.h"
#include "task/store_impl.h"

enum { CHANGE_BYTES = 64 }; /* of a change, beside its data */

struct task_txn_undo {
    int64_t made_id;         /* 0: a deletion */
    struct task_record old;  /* id 0: an add */
    struct task_data *kept;  /* the old task's data, unless the new one took it over */
    struct task_group *held; /* pinned until this is settled */
};

/* The state of checking and applying a transaction. */
struct txn_work {
    struct store *s;
    struct task_txn *t;
    int64_t clientid, now_ms;
    bool manage; /* by the manager of managed tasks */
    const struct identity *who;
    uint32_t named; /* the group of `name`; 0: none yet */
    struct str name;
};

/* A task by its id, or, for the manager, by its slot. 0: none, or none within the limits. */
static uint32_t find_named(const struct txn_work *w, int64_t id)
{
    uint32_t ref = w->manage ? store_find_slot(w->s, id) : 0;
    if (!ref)
        ref = store_find(w->s, id);
    bool hidden =
        ref && w->who && w->who->limited &&
        !identity_reaches(w->who, SCOPE_GROUP, w->s->groups[record_at(w->s, ref)->group]->name);
    return hidden ? 0 : ref;
}

void task_txn_release(struct task_txn *t)
{
    arena_release(&t->arena);
    *t = (struct task_txn){0};
}

static void begin(struct task_txn *t, size_t tasks, size_t changes)
{
    assert(!t->undo_count);
    arena_reset(&t->arena);
    *t = (struct task_txn){.arena = t->arena};
    t->tasks = arena_alloc(&t->arena, (tasks + 1) * sizeof *t->tasks);
    t->changes = arena_alloc(&t->arena, (changes + 1) * sizeof *t->changes);
    t->undo = arena_alloc(&t->arena, (changes + 1) * sizeof *t->undo);
}

/* Errors. */

__attribute__((format(printf, 2, 3))) static void object(struct txn_work *w, const char *fmt, ...)
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

/* Checks that a task to be changed exists, is available or the client's, and is named only once. */
static void check_change(struct txn_work *w, const char *what, int64_t id, bool deletes)
{
    uint32_t ref = find_named(w, id);
    if (!ref) {
        object(w, "%s: there is no task %" PRId64, what, id);
        return;
    }
    struct task_record *r = record_at(w->s, ref);
    if (r->place & PLACE_MARK) {
        object(w, "%s: task %" PRId64 " is named more than once", what, id);
        return;
    }
    r->place |= PLACE_MARK;
    if (w->manage)
        return;
    if (record_is_owned(r, w->now_ms) && r->ownerid != w->clientid)
        object(w, "%s: task %" PRId64 " is owned by client %" PRId64 " until %" PRId64, what, id,
               r->ownerid, r->timespec);
    else if (r->managed && deletes)
        object(w, "%s: task %" PRId64 " belongs to a node: POST /v1/agent/done ends it", what, id);
}

static void unmark(struct txn_work *w, int64_t id)
{
    uint32_t ref = find_named(w, id);
    if (ref)
        record_at(w->s, ref)->place &= ~PLACE_MARK;
}

/* Steps, each with its undo entry. */

static struct task_txn_undo *note_undo(struct txn_work *w, struct task_group *g)
{
    struct task_txn_undo *u = &w->t->undo[w->t->undo_count++];
    *u = (struct task_txn_undo){.held = g};
    g->pins++;
    return u;
}

static void note_change(struct txn_work *w, enum task_txn_kind kind, int64_t slot)
{
    w->t->changes[w->t->change_count++] =
        (struct task_txn_change){kind, (uint32_t)w->t->task_count, slot};
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

static void note_task(struct txn_work *w, const struct task_record *r, struct str group,
                      struct str data)
{
    w->t->tasks[w->t->task_count++] = (struct task){
        .id = r->id,
        .group = group,
        .data = data,
        .timespec = r->timespec,
        .ownerid = r->ownerid,
        .managed = r->managed,
    };
}

static void apply_delete(struct txn_work *w, int64_t id)
{
    uint32_t ref = find_named(w, id);
    struct task_record *r = record_at(w->s, ref);
    struct task_txn_undo *u = note_undo(w, w->s->groups[r->group]);
    u->old = *r;
    w->t->ended_last |= r->id == w->s->last_id;
    note_change(w, TXN_DELETE, r->slot);
    u->kept = store_remove(w->s, ref);
}

static void apply_add(struct txn_work *w, const struct task *add)
{
    struct task_group *g = store_make_group(w->s, add->group);
    struct task_record r = {.id = ++w->s->top_id,
                            .timespec = store_time(add->timespec, w->now_ms),
                            .ownerid = w->clientid,
                            .group = g->number,
                            .managed = w->manage};
    r.slot = r.id;
    note_undo(w, g)->made_id = r.id;
    note_change(w, TXN_CREATE, r.slot);
    note_task(w, &r, add->group, add->data);
    store_insert(w->s, &r, w->s->fetch ? NULL : data_new(add->data), w->now_ms);
}

/* Replaces a task by one with a new id in the same slot. fresh: with new data, not the old. */
static void apply_change(struct txn_work *w, uint32_t ref, int64_t timespec, struct str data,
                         bool fresh)
{
    struct task_record r = *record_at(w->s, ref);
    struct task_txn_undo *u = note_undo(w, w->s->groups[r.group]);
    u->old = r;
    struct task_data *kept = store_remove(w->s, ref);
    if (fresh) {
        u->kept = kept;
        kept = w->s->fetch ? NULL : data_new(data);
    }
    r.id = u->made_id = ++w->s->top_id;
    r.timespec = timespec;
    r.ownerid = w->clientid;
    note_change(w, TXN_SET, r.slot);
    note_task(w, &r, name_of(w, r.group), data);
    store_insert(w->s, &r, kept, w->now_ms);
}

static void unpin(struct store *s, struct task_group *g)
{
    g->pins--;
    store_drop_group(s, g);
}

void store_undo(struct store *s, struct task_txn *t)
{
    while (t->undo_count) {
        struct task_txn_undo *u = &t->undo[--t->undo_count];
        struct task_data *kept = u->made_id ? store_remove(s, store_find(s, u->made_id)) : NULL;
        if (u->old.id && u->kept) { /* the new one had data of its own */
            free(kept);
            kept = u->kept;
        }
        if (u->old.id)
            store_insert(s, &u->old, kept, INT64_MIN);
        else
            free(kept);
        unpin(s, u->held);
    }
}

void store_settle(struct store *s, struct task_txn *t)
{
    while (t->undo_count) {
        struct task_txn_undo *u = &t->undo[--t->undo_count];
        free(u->kept);
        store_set_last_id(s, u->made_id);
        unpin(s, u->held);
    }
}

/* Restoring. */

int store_restore(struct store *s, int64_t slot, const struct task *t, int64_t now_ms)
{
    struct task_record r = {.id = t->id,
                            .timespec = t->timespec,
                            .ownerid = t->ownerid,
                            .slot = slot,
                            .managed = t->managed};
    if (store_find(s, t->id))
        return DROVER_EXISTS;
    r.group = store_make_group(s, t->group)->number;
    store_insert(s, &r, s->fetch ? NULL : data_new(t->data), now_ms);
    store_set_last_id(s, t->id);
    return 0;
}

/* Update. */

int64_t store_time(int64_t timespec, int64_t now_ms)
{
    if (timespec > 0)
        return timespec;
    return now_ms + (timespec < -TASK_MS_MAX ? TASK_MS_MAX : -timespec);
}

/* Collects every error of the request: REFUSED, or 0. */
static int check(struct txn_work *w, const struct task_update *u)
{
    struct task_txn *t = w->t;
    for (size_t i = 0; i < u->add_count; i++) {
        if (!u->adds[i].group.len)
            object(w, "adds: task %zu has no group", i + 1);
        else if (u->adds[i].group.len > TASK_GROUP_LEN_MAX)
            object(w, "adds: the group of task %zu is longer than %d bytes", i + 1,
                   TASK_GROUP_LEN_MAX);
    }
    for (size_t i = 0; i < u->update_count; i++)
        check_change(w, "updates", u->updates[i].id, false);
    for (size_t i = 0; i < u->delete_count; i++)
        check_change(w, "deletes", u->deletes[i], true);
    for (size_t i = 0; i < u->update_count; i++)
        unmark(w, u->updates[i].id);
    for (size_t i = 0; i < u->delete_count; i++)
        unmark(w, u->deletes[i]);
    for (size_t i = 0; i < u->depend_count; i++)
        if (!find_named(w, u->depends[i]))
            object(w, "depends: there is no task %" PRId64, u->depends[i]);
    if (t->reasons > t->error_count)
        t->errors[t->error_count++] =
            arena_printf(&t->arena, "and %zu more", t->reasons - TASK_ERRORS_MAX);
    return t->reasons ? DROVER_REFUSED : 0;
}

int store_update(struct store *s, const struct task_update *u, int64_t now_ms, struct task_txn *t)
{
    struct txn_work w = {s, t, u->clientid, now_ms, .manage = u->manage, .who = u->who};
    if (u->add_count + u->update_count + u->delete_count > TASK_CHANGES_MAX)
        return DROVER_TOO_BIG;
    begin(t, u->add_count + u->update_count, u->add_count + u->update_count + u->delete_count);
    TRY(check(&w, u));
    for (size_t i = 0; i < u->add_count; i++)
        apply_add(&w, &u->adds[i]);
    for (size_t i = 0; i < u->update_count; i++)
        apply_change(&w, find_named(&w, u->updates[i].id),
                     store_time(u->updates[i].timespec, now_ms), u->updates[i].data, true);
    for (size_t i = 0; i < u->delete_count; i++)
        apply_delete(&w, u->deletes[i]);
    return 0;
}

/* Claim. */

static uint64_t random_next(struct store_random *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static size_t random_below(struct store_random *r, size_t limit)
{
    return (size_t)(((unsigned __int128)random_next(r) * limit) >> 64);
}

/* Counts the available tasks of the groups now; a group that is named twice counts once. */
static size_t gather(struct txn_work *w, const struct task_claim *c, struct task_group **groups,
                     size_t *ret_groups)
{
    size_t available = 0, count = 0;
    for (size_t i = 0; i < c->group_count; i++) {
        struct task_group *g = store_find_group(w->s, c->groups[i]);
        bool again = false;
        for (size_t j = 0; j < count; j++)
            again = again || groups[j] == g;
        if (!g || again)
            continue;
        group_pass(w->s, g, w->now_ms);
        available += g->array_count;
        groups[count++] = g;
    }
    *ret_groups = count;
    return available;
}

/* The n-th available task over all groups; swaps it with the last one that can still be drawn. */
static uint32_t draw(struct txn_work *w, struct task_group **groups, uint32_t *drawn, size_t n)
{
    while (n >= (*groups)->array_count - *drawn) {
        n -= (*groups)->array_count - *drawn;
        groups++;
        drawn++;
    }
    struct task_group *g = *groups;
    uint32_t last = g->array_count - ++*drawn;
    uint32_t ref = g->array[n];
    g->array[n] = g->array[last];
    g->array[last] = ref;
    record_at(w->s, g->array[n])->place = (uint32_t)n;
    record_at(w->s, ref)->place = last;
    return ref;
}

/* Draws all tasks before it changes any, so that none is drawn twice. */
static int claim_some(struct txn_work *w, const struct task_claim *c, struct store_random *random,
                      size_t limit)
{
    struct task_group **groups = arena_alloc(&w->t->arena, (c->group_count + 1) * sizeof *groups);
    size_t group_count, available = gather(w, c, groups, &group_count), bytes = 0;
    size_t count = limit < available ? limit : available;
    if (!count)
        return 0;
    uint32_t *refs = arena_alloc(&w->t->arena, count * sizeof *refs);
    uint32_t *drawn = arena_zalloc(&w->t->arena, group_count * sizeof *drawn);
    int64_t duration_ms = c->duration_ms > TASK_MS_MAX ? TASK_MS_MAX : c->duration_ms;
    CLEANUP(buf_release) struct buf scratch = {0};

    for (size_t i = 0; i < count; i++)
        refs[i] = draw(w, groups, drawn, random_below(random, available - i));
    for (size_t i = 0; i < count; i++) {
        struct str data;
        scratch.len = 0;
        TRY(store_data(w->s, refs[i], &scratch, &data));
        bytes += data.len + CHANGE_BYTES;
        if (i && bytes > TASK_CLAIM_BYTES_MAX)
            break;
        data.p = arena_text(&w->t->arena, data);
        apply_change(w, refs[i], w->now_ms + duration_ms, data, false);
    }
    return 0;
}

int store_claim(struct store *s, const struct task_claim *c, int64_t now_ms, struct store_random *r,
                struct task_txn *t)
{
    struct txn_work w = {s, t, c->clientid, now_ms, .who = c->who};
    struct task_update rest = {.deletes = c->deletes,
                               .delete_count = c->delete_count,
                               .depends = c->depends,
                               .depend_count = c->depend_count};
    size_t limit = c->limit ? c->limit : 1;

    if (c->delete_count >= TASK_CHANGES_MAX)
        return DROVER_TOO_BIG;
    if (limit > TASK_CHANGES_MAX - c->delete_count)
        limit = TASK_CHANGES_MAX - c->delete_count;

    begin(t, limit, limit + c->delete_count);
    TRY(check(&w, &rest));
    for (size_t i = 0; i < c->delete_count; i++)
        apply_delete(&w, c->deletes[i]);
    int err = claim_some(&w, c, r, limit);
    if (err)
        store_undo(s, t);
    return err;
}
