/* Edits: what happens to a task by the settings of its group. Expiry, settings, fates. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "drover.h"
#include "task/store_work.h"
#include "task/tail.h"

static const char *const EDIT_NAMES[] = {
    [EDIT_FAIL] = "fails",     [EDIT_FINISH] = "finishes", [EDIT_RELEASE] = "releases",
    [EDIT_RETRY] = "retries",  [EDIT_MOVE] = "moves",      [EDIT_PRIORITY] = "priorities",
    [EDIT_EXPIRE] = "expires", [EDIT_DELETE] = "deletes",  [EDIT_NONE] = "none",
};

bool work_ends(const struct task_edit *e)
{
    return e->kind == EDIT_FINISH || e->kind == EDIT_DELETE;
}

/* Where a task goes that moves or is retried; empty: it stays. */
static struct str target_of(const struct txn_work *w, const struct task_edit *e, uint32_t ref,
                            const struct task_extra *x)
{
    if (e->kind == EDIT_MOVE)
        return e->text;
    return e->kind == EDIT_RETRY && record_at(w->s, ref)->dead ? x->origin : (struct str){0};
}

/* Whether the key of a task that changes its group, or lives again, is taken there. */
static void check_target(struct txn_work *w, const struct task_edit *e)
{
    uint32_t ref = work_find(w, e->id);
    struct task t;
    struct task_extra x = {0};
    if (!ref || !record_at(w->s, ref)->tail || work_read(w, ref, &t, &x) || !x.key.len)
        return;
    struct str target = target_of(w, e, ref, &x);
    const struct task_group *g = store_find_group(w->s, target.len ? target : t.group);
    uint32_t holder = g ? store_find_key(w->s, g, x.key) : 0;
    if (holder && holder != ref)
        work_object(w, "%s: the key of task %" PRId64 " is that of task %" PRId64,
                    EDIT_NAMES[e->kind], t.id, record_at(w->s, holder)->id);
}

static void check_edit(struct txn_work *w, const struct task_edit *e)
{
    if (e->kind == EDIT_EXPIRE || e->kind == EDIT_NONE) /* the store's own */
        return;
    work_check_change(w, EDIT_NAMES[e->kind], e->id, true);
    uint32_t ref = work_find(w, e->id);
    if (ref && record_at(w->s, ref)->ownerid == TASK_MESSAGES)
        work_object(w, "%s: task %" PRId64 " is a message of a queue", EDIT_NAMES[e->kind],
                    record_at(w->s, ref)->id);
    if (e->kind == EDIT_MOVE || e->kind == EDIT_RETRY)
        check_target(w, e);
}

void work_check_edits(struct txn_work *w, const struct task_edit *edits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t reasons = w->t->reasons, listed = w->t->error_count;
        check_edit(w, &edits[i]);
        if (!w->skips || w->t->reasons == reasons)
            continue;
        w->t->reasons = reasons;
        w->t->error_count = listed;
        ((struct task_edit *)edits)[i].kind = EDIT_NONE;
    }
}

/* Bounded, and cut where a character ends. */
static struct str cut_text(struct str text, size_t max)
{
    if (text.len <= max)
        return text;
    while (max && ((unsigned char)text.p[max] & 0xc0) == 0x80)
        max--;
    return (struct str){text.p, max};
}

static struct str dead_group(struct txn_work *w, const struct task_group *g)
{
    if (g->settings->dead.len)
        return g->settings->dead;
    const char *name = arena_printf(&w->t->arena, "%.*s/dead", STR_ARGS(g->name));
    return str_of(name);
}

void work_bury(struct txn_work *w, uint32_t ref, struct task *t, struct task_extra *x)
{
    const struct task_group *g = group_of(w->s, ref);
    if (!t->dead) {
        x->origin = (struct str){arena_text(&w->t->arena, g->name), g->name.len};
        x->expires = g->settings->keep_dead_ms ? w->now_ms + g->settings->keep_dead_ms : 0;
        t->group = dead_group(w, g);
    }
    x->ended = w->now_ms;
    x->unanswered = 0;
    t->dead = true;
    t->claimed = t->retrying = false;
    t->timespec = w->now_ms;
    t->extra = x;
    work_replace(w, ref, t, false, TASK_EVENT_DEAD);
}

static void fail(struct txn_work *w, uint32_t ref, const struct task_edit *e, struct task *t,
                 struct task_extra *x)
{
    const struct task_settings *settings = group_of(w->s, ref)->settings;
    x->attempts += x->attempts < UINT32_MAX;
    x->unanswered = 0;
    x->error = cut_text(e->text, TASK_ERROR_LEN_MAX);
    t->ownerid = w->clientid;
    if (t->dead || e->dead || (settings->attempts && x->attempts >= settings->attempts)) {
        work_bury(w, ref, t, x);
        return;
    }
    int64_t delay_ms =
        e->number >= 0 ? e->number : settings_delay_ms(settings, x->attempts, w->random);
    t->timespec = w->now_ms + (delay_ms > TASK_MS_MAX ? TASK_MS_MAX : delay_ms);
    t->claimed = false;
    t->retrying = true;
    t->extra = x;
    work_replace(w, ref, t, false, TASK_EVENT_FAILED);
}

int work_end_task(struct txn_work *w, uint32_t ref, struct str result, enum task_event event)
{
    const struct task_settings *settings = group_of(w->s, ref)->settings;
    const struct record_hot *hot = hot_at(w->s, ref);
    bool finished = event == TASK_EVENT_FINISHED;
    int64_t remember_ms = hot && hot->key.len ? settings->remember_keys_ms : 0;
    int64_t keep_ms = finished ? settings->keep_done_ms : 0;
    struct task t;
    struct task_extra x;
    if (!remember_ms && !keep_ms) {
        work_delete(w, ref, event);
        x = (struct task_extra){.result = result};
        if (result.len)
            w->t->others[w->t->other_count - 1].extra = task_extra_copy(&w->t->arena, &x);
        return 0;
    }
    TRY(work_read(w, ref, &t, &x));
    x.ended = w->now_ms;
    x.expires = w->now_ms + (keep_ms > remember_ms ? keep_ms : remember_ms);
    x.result = result;
    x.unanswered = 0;
    if (!keep_ms)
        t.data = (struct str){"", 0}; /* only its key is remembered */
    t.timespec = remember_ms ? x.expires : w->now_ms;
    t.done = true;
    t.claimed = t.retrying = t.dead = false;
    t.extra = task_extra_copy(&w->t->arena, &x);
    work_replace(w, ref, &t, false, event);
    return 0;
}

/* Makes a task available at once: released, or as if it had never failed. */
static void make_available(struct txn_work *w, uint32_t ref, const struct task_edit *e,
                           struct task *t, struct task_extra *x)
{
    struct str target = target_of(w, e, ref, x);
    x->unanswered = 0;
    t->claimed = false;
    if (target.len)
        t->group = target;
    if (e->kind != EDIT_RELEASE) {
        t->dead = t->retrying = false;
        x->origin = (struct str){0};
        x->ended = 0;
    }
    if (e->kind == EDIT_RETRY)
        x->attempts = 0;
    if (e->kind != EDIT_MOVE || t->timespec < w->now_ms)
        t->timespec = w->now_ms;
    t->ownerid = w->clientid;
    t->extra = x;
    work_replace(w, ref, t, false,
                 e->kind == EDIT_RELEASE ? TASK_EVENT_RELEASED : TASK_EVENT_UPDATED);
}

static int expire(struct txn_work *w, uint32_t ref, struct task *t, struct task_extra *x)
{
    if (t->done || t->dead || !group_of(w->s, ref)->settings->bury_expired) {
        work_delete(w, ref, TASK_EVENT_DELETED);
        return 0;
    }
    x->error = STR("expired");
    work_bury(w, ref, t, x);
    return 0;
}

int work_edit(struct txn_work *w, const struct task_edit *e)
{
    uint32_t ref = e->kind == EDIT_EXPIRE ? store_find_any(w->s, e->id) : work_find(w, e->id);
    struct task_extra *x = arena_alloc(&w->t->arena, sizeof *x);
    struct task t;
    if (e->kind == EDIT_NONE)
        return 0;
    if (work_ends(e))
        return work_end_task(w, ref, e->text,
                             e->kind == EDIT_FINISH ? TASK_EVENT_FINISHED : TASK_EVENT_DELETED);
    TRY(work_read(w, ref, &t, x));
    switch (e->kind) {
    case EDIT_FAIL:
        fail(w, ref, e, &t, x);
        break;
    case EDIT_RELEASE:
    case EDIT_RETRY:
    case EDIT_MOVE:
        make_available(w, ref, e, &t, x);
        break;
    case EDIT_PRIORITY:
        x->priority = (int32_t)e->number;
        t.extra = x;
        work_replace(w, ref, &t, false, TASK_EVENT_UPDATED);
        break;
    case EDIT_EXPIRE:
        return expire(w, ref, &t, x);
    case EDIT_FINISH:
    case EDIT_DELETE:
    case EDIT_NONE:
        break;
    }
    return 0;
}

/* Expiry. */

int64_t store_expiry_ms(const struct store *s)
{
    return s->expiry.count ? s->expiry.entries[0].key : INT64_MAX;
}

/* The first entries of the heap in order: walks down from the first, a branch at a time. */
size_t store_expired(const struct store *s, int64_t now_ms, struct task_edit *edits, size_t max)
{
    CLEANUP(mem_free) uint32_t *open = mem_alloc((2 * max + 2) * sizeof *open);
    size_t count = 0, open_count = 0;
    if (s->expiry.count)
        open[open_count++] = 0;
    while (open_count && count < max) {
        uint32_t at = open[--open_count];
        if (at >= s->expiry.count || s->expiry.entries[at].key > now_ms)
            continue;
        edits[count++] = (struct task_edit){.kind = EDIT_EXPIRE,
                                            .id = record_at(s, s->expiry.entries[at].ref)->id};
        open[open_count++] = 2 * at + 1;
        open[open_count++] = 2 * at + 2;
    }
    return count;
}

/* Settings. */

void store_set_settings(struct store *s, struct str pattern, const struct task_settings *settings)
{
    settings_table_set(&s->settings, pattern, settings);
    for (uint32_t i = 1; i < s->group_top; i++)
        if (s->groups[i] && settings_match(pattern, s->groups[i]->name))
            group_set_settings(s, s->groups[i]);
}

const struct settings_table *store_settings(const struct store *s)
{
    return &s->settings;
}

/* What became of a task. */

/* first: the id is the first one of the task, which has ended then. */
static void put_fate(const struct store *s, int64_t id, bool first, struct buf *b)
{
    int64_t slot = id;
    if (id < 0)
        return;
    if (s->trace && s->trace[id % TRACE_LEN].id == id) {
        slot = s->trace[id % TRACE_LEN].slot;
        if (!slot || first) {
            buf_put_str(b, STR(": it has ended"));
            return;
        }
    }
    uint32_t ref = first ? 0 : store_find_slot(s, slot);
    if (!ref)
        return;
    const struct task_record *r = record_at(s, ref);
    if (r->done)
        buf_put_str(b, STR(": it is done"));
    else
        buf_printf(b, ": it is %" PRId64 " now, %s client %" PRId64, r->id,
                   r->claimed ? "claimed by" : "changed by", r->ownerid);
}

void store_put_missing(const struct store *s, int64_t id, const struct identity *who, struct buf *b)
{
    bool first = id < 0 && id - INT64_MIN < -id;
    int64_t number = first ? id - INT64_MIN : id;
    buf_printf(b, "there is no task %s%" PRId64, first ? "first:" : "", number);
    if (!who || !who->limited)
        put_fate(s, number, first, b);
}
