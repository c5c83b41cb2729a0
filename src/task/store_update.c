/* Updates: all of their errors, then their changes. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "drover.h"
#include "task/store_work.h"

int64_t store_time(int64_t timespec, int64_t now_ms)
{
    if (timespec > 0)
        return timespec;
    return now_ms + (timespec < -TASK_MS_MAX ? TASK_MS_MAX : -timespec);
}

static void unmark(struct txn_work *w, int64_t id)
{
    uint32_t ref = work_find(w, id);
    if (ref)
        record_at(w->s, ref)->place &= ~PLACE_MARK;
}

/* What the adds are checked against: what the transaction adds and ends beside them. */
struct add_check {
    struct map keys; /* numbers of adds by their keys, from 1 on */
    struct map ends; /* refs of tasks that end; made when the first add needs it */
    bool noted;
};

/* The ref of the i-th task that the transaction ends, of deletes and edits; 0: it ends none. */
static uint32_t ended(const struct txn_work *w, const struct task_update *u, size_t i)
{
    if (i < u->delete_count)
        return work_find(w, u->deletes[i]);
    const struct task_edit *e = &u->edits[i - u->delete_count];
    return work_ends(e) ? work_find(w, e->id) : 0;
}

static void note_ends(struct txn_work *w, const struct task_update *u, struct add_check *c)
{
    for (size_t i = 0; !c->noted && i < u->delete_count + u->edit_count; i++) {
        uint32_t ref = ended(w, u, i);
        if (!ref)
            continue;
        map_add(&c->ends, map_hash_u64(ref), ref);
        group_of(w->s, ref)->adds--;
    }
    c->noted = true;
}

/* Whether the transaction ends the task that has a key, so that an add can have it. */
static bool frees_key(const struct add_check *c, uint32_t holder)
{
    uint32_t hash = map_hash_u64(holder), at, ref = map_first(&c->ends, hash, &at);
    while (ref && ref != holder)
        ref = map_next(&c->ends, hash, &at);
    return ref;
}

/* Whether the add makes a task: false if it answers or replaces the one that has its key. */
static bool check_key(struct txn_work *w, const struct task_update *u, size_t i,
                      struct task_group *g, struct add_check *c)
{
    struct map *keys = &c->keys;
    const struct task *add = &u->adds[i];
    struct str key = add->extra->key;
    uint32_t hash = map_hash_str(key) ^ map_hash_u64(g->number);
    for (uint32_t at, other = map_first(keys, hash, &at); other; other = map_next(keys, hash, &at))
        if (str_eq(u->adds[other - 1].extra->key, key) &&
            str_eq(u->adds[other - 1].group, add->group))
            work_object(w, "adds[%zu] has the key of adds[%" PRIu32 "]", i, other - 1);
    map_add(keys, hash, (uint32_t)i + 1);

    uint32_t ref = store_find_key(w->s, g, key);
    if (!ref || (!g->settings->remember_keys_ms && frees_key(c, ref)))
        return true;
    if (add->on_key == ON_KEY_KEEP)
        return false;
    struct task_record *r = record_at(w->s, ref);
    if (add->on_key == ON_KEY_REFUSE || r->done)
        work_object(w, "adds[%zu]: task %" PRId64 "%s has this key", i, r->id,
                    r->done ? ", which has ended," : "");
    else if (record_is_owned(r, w->now_ms) && r->claimed)
        work_object(w, "adds[%zu]: task %" PRId64 " has this key and is claimed", i, r->id);
    else
        r->place |= PLACE_MARK;
    return false;
}

static void check_add(struct txn_work *w, const struct task_update *u, size_t i,
                      struct add_check *c)
{
    const struct task *add = &u->adds[i];
    if (!add->group.len) {
        work_object(w, "adds: task %zu has no group", i + 1);
        return;
    }
    if (add->group.len > TASK_GROUP_LEN_MAX) {
        work_object(w, "adds: the group of task %zu is longer than %d bytes", i + 1,
                    TASK_GROUP_LEN_MAX);
        return;
    }
    const struct task_settings *settings = settings_table_of(&w->s->settings, add->group);
    bool keyed = add->extra && add->extra->key.len;
    if (!settings->max_tasks && !keyed)
        return;
    struct task_group *g = store_make_group(w->s, add->group);
    note_ends(w, u, c);
    if (keyed && !check_key(w, u, i, g, c))
        return;
    if (settings->max_tasks && (int64_t)group_count(g) + ++g->adds > settings->max_tasks) {
        w->full++;
        work_object(w, "adds: the group of task %zu has %zu tasks, and may have %" PRId64, i + 1,
                    group_count(g), settings->max_tasks);
    }
}

/* Takes back what checking the adds left: marks, counts, and groups that were made for it. */
static void forget_adds(struct txn_work *w, const struct task_update *u, struct add_check *c)
{
    for (size_t i = 0; c->noted && i < u->delete_count + u->edit_count; i++) {
        uint32_t ref = ended(w, u, i);
        if (ref)
            group_of(w->s, ref)->adds = 0;
    }
    map_release(&c->keys);
    map_release(&c->ends);
    for (size_t i = 0; i < u->add_count; i++) {
        bool keyed = u->adds[i].extra && u->adds[i].extra->key.len;
        struct task_group *g =
            keyed || w->s->settings.count ? store_find_group(w->s, u->adds[i].group) : NULL;
        if (!g)
            continue;
        uint32_t ref = keyed ? store_find_key(w->s, g, u->adds[i].extra->key) : 0;
        if (ref)
            record_at(w->s, ref)->place &= ~PLACE_MARK;
        g->adds = 0;
        store_drop_group(w->s, g);
    }
}

int work_check(struct txn_work *w, const struct task_update *u)
{
    struct task_txn *t = w->t;
    struct add_check adds = {0};
    for (size_t i = 0; i < u->add_count; i++)
        check_add(w, u, i, &adds);
    for (size_t i = 0; i < u->update_count; i++)
        work_check_change(w, "updates", u->updates[i].id, false);
    for (size_t i = 0; i < u->delete_count; i++)
        work_check_change(w, "deletes", u->deletes[i], true);
    work_check_edits(w, u->edits, u->edit_count);
    for (size_t i = 0; i < u->update_count; i++)
        unmark(w, u->updates[i].id);
    for (size_t i = 0; i < u->delete_count; i++)
        unmark(w, u->deletes[i]);
    for (size_t i = 0; i < u->edit_count; i++)
        unmark(w, u->edits[i].id);
    forget_adds(w, u, &adds);
    for (size_t i = 0; i < u->depend_count; i++)
        if (!work_find(w, u->depends[i]))
            work_object_missing(w, "depends", u->depends[i]);
    if (w->forbidden)
        return DROVER_NO_AUTH;
    if (!t->reasons)
        return 0;
    if (t->reasons > t->error_count)
        t->errors[t->error_count++] =
            arena_printf(&t->arena, "and %zu more", t->reasons - TASK_ERRORS_MAX);
    return w->full == t->reasons ? DROVER_GROUP_FULL : DROVER_REFUSED;
}

static int apply_update(struct txn_work *w, const struct task *update)
{
    uint32_t ref = work_find(w, update->id);
    struct task t = record_task(w->s, record_at(w->s, ref));
    struct task_extra x;
    if (record_at(w->s, ref)->tail) {
        TRY(work_read(w, ref, &t, &x));
        x.unanswered = 0;
        x.binary = update->extra && update->extra->binary;
        t.extra = task_extra_copy(&w->t->arena, &x);
    } else if (update->extra) {
        t.extra = update->extra;
    }
    t.timespec = store_time(update->timespec, w->now_ms);
    t.claimed &= t.timespec > w->now_ms;
    t.ownerid = w->clientid;
    t.data = update->data;
    work_replace(w, ref, &t, false, TASK_EVENT_UPDATED);
    return 0;
}

/* An add whose key is taken is answered with the task that has it, or replaces that. */
static int apply_keyed_add(struct txn_work *w, const struct task *add)
{
    struct task_group *g = store_find_group(w->s, add->group);
    uint32_t ref = g ? store_find_key(w->s, g, add->extra->key) : 0;
    struct task t;
    struct task_extra x;
    if (!ref) {
        work_add(w, add);
        return 0;
    }
    TRY(work_read(w, ref, &t, &x));
    t.group = (struct str){arena_text(&w->t->arena, g->name), g->name.len};
    if (add->on_key == ON_KEY_KEEP) {
        t.extra = task_extra_copy(&w->t->arena, &x);
        w->t->tasks[w->t->task_count++] = t;
        return 0;
    }
    struct task_extra fresh = *add->extra;
    fresh.created = x.created;
    if (fresh.expires < 0)
        fresh.expires = store_time(fresh.expires, w->now_ms);
    t.extra = task_extra_copy(&w->t->arena, &fresh);
    t.data = add->data;
    t.timespec = store_time(add->timespec, w->now_ms);
    t.ownerid = w->clientid;
    t.claimed = t.retrying = false;
    work_replace(w, ref, &t, false, TASK_EVENT_UPDATED);
    return 0;
}

int work_apply(struct txn_work *w, const struct task_update *u)
{
    for (size_t i = 0; i < u->delete_count; i++)
        TRY(work_end_task(w, work_find(w, u->deletes[i]), (struct str){0}, TASK_EVENT_DELETED));
    for (size_t i = 0; i < u->edit_count; i++)
        if (work_ends(&u->edits[i]))
            TRY(work_edit(w, &u->edits[i]));
    for (size_t i = 0; i < u->add_count; i++) {
        if (u->adds[i].extra && u->adds[i].extra->key.len)
            TRY(apply_keyed_add(w, &u->adds[i]));
        else
            work_add(w, &u->adds[i]);
    }
    for (size_t i = 0; i < u->update_count; i++)
        TRY(apply_update(w, &u->updates[i]));
    for (size_t i = 0; i < u->edit_count; i++)
        if (!work_ends(&u->edits[i]))
            TRY(work_edit(w, &u->edits[i]));
    return 0;
}

int store_update(struct store *s, const struct task_update *u, int64_t now_ms,
                 struct store_random *r, struct task_txn *t)
{
    struct txn_work w = {.s = s,
                         .t = t,
                         .clientid = u->clientid,
                         .now_ms = now_ms,
                         .manage = u->manage,
                         .operate = u->operate,
                         .skips = u->skips,
                         .hides = u->skips,
                         .who = u->who,
                         .random = r};
    size_t changes = u->add_count + u->update_count + u->delete_count + u->edit_count;
    if (changes > TASK_CHANGES_MAX)
        return DROVER_TOO_BIG;
    work_begin(&w, changes);
    int err = work_check(&w, u);
    return work_end(&w, err ? err : work_apply(&w, u));
}
