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

/*
 * Whether the key of a task that changes its group, or lives again, is taken there: perhaps by
 * another task that the same transaction has moved.
 */
static bool is_key_taken(const struct txn_work *w, const struct task_edit *e, uint32_t ref,
                         const struct task_extra *x)
{
    struct str target = target_of(w, e, ref, x);
    const struct task_group *g = target.len ? store_find_group(w->s, target) : group_of(w->s, ref);
    uint32_t holder = g && x->key.len ? store_find_key(w->s, g, x->key) : 0;
    return holder && holder != ref;
}

/* An edit of a request that skips what is not possible. */
static void skip(const struct task_edit *e)
{
    ((struct task_edit *)e)->kind = EDIT_NONE;
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
        skip(&edits[i]);
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
    int64_t most = e->attempts ? e->attempts : settings->attempts;
    if (t->dead || e->dead || (most && x->attempts >= most)) {
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

/*
 * How often a task had failed that a worker of drover 0.1 left in G/retry/N, if it moves to G: N,
 * from 1 to 999; 0: it moves otherwise.
 */
static uint32_t failures_of(struct str group, struct str target)
{
    struct str mark = STR("/retry/"), digits;
    uint32_t number = 0;
    if (!str_starts(group, target))
        return 0;
    digits = (struct str){group.p + target.len, group.len - target.len};
    if (!str_starts(digits, mark))
        return 0;
    digits = (struct str){digits.p + mark.len, digits.len - mark.len};
    if (digits.len < 1 || digits.len > 3 || digits.p[0] == '0')
        return 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.p[i] < '0' || digits.p[i] > '9')
            return 0;
        number = number * 10 + (uint32_t)(digits.p[i] - '0');
    }
    return number;
}

/* Makes a task available at once: released, or as if it had never failed. */
static void make_available(struct txn_work *w, uint32_t ref, const struct task_edit *e,
                           struct task *t, struct task_extra *x)
{
    struct str target = target_of(w, e, ref, x), from = group_of(w->s, ref)->name;
    x->unanswered = 0;
    t->claimed = false;
    if (target.len)
        t->group = target;
    if (e->kind != EDIT_RELEASE) {
        if (t->dead)
            x->expires = 0; /* that was how long the dead are kept */
        t->dead = t->retrying = false;
        x->origin = (struct str){0};
        x->ended = 0;
    }
    if (e->kind == EDIT_RETRY)
        x->attempts = 0;
    if (e->kind == EDIT_MOVE && failures_of(from, target)) {
        x->attempts += failures_of(from, target);
        t->retrying = true;
    }
    if (e->kind != EDIT_MOVE || t->timespec < w->now_ms)
        t->timespec = w->now_ms;
    t->ownerid = w->clientid;
    t->extra = x;
    work_replace(w, ref, t, false,
                 e->kind == EDIT_RELEASE ? TASK_EVENT_RELEASED : TASK_EVENT_UPDATED);
}

/*
 * Whether it still has to expire: when the sweep has found it, another transaction may have changed
 * or claimed it before this one runs.
 */
static bool is_expired(const struct txn_work *w, uint32_t ref)
{
    const struct record_hot *hot = ref ? hot_at(w->s, ref) : NULL;
    if (!hot || !hot->expires || hot->expires > w->now_ms)
        return false;
    const struct task_record *r = record_at(w->s, ref);
    return !r->claimed || !record_is_owned(r, w->now_ms);
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
    if (e->kind == EDIT_NONE || (e->kind == EDIT_EXPIRE && !is_expired(w, ref)))
        return 0;
    if (work_ends(e))
        return work_end_task(w, ref, e->text,
                             e->kind == EDIT_FINISH ? TASK_EVENT_FINISHED : TASK_EVENT_DELETED);
    TRY(work_read(w, ref, &t, x));
    switch (e->kind) {
    case EDIT_FAIL:
        fail(w, ref, e, &t, x);
        break;
    case EDIT_RETRY:
    case EDIT_MOVE:
        if (is_key_taken(w, e, ref, x)) {
            skip(e);
            break;
        }
        __attribute__((fallthrough));
    case EDIT_RELEASE:
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

static void put_fate(const struct store *s, int64_t number, bool by_first,
                     const struct identity *who, struct buf *b)
{
    bool traced = s->trace && number >= 0 && s->trace[number % TRACE_LEN].id == number;
    int64_t slot = traced ? s->trace[number % TRACE_LEN].slot : number;
    uint32_t ref = slot > 0 ? store_find_slot(s, slot) : 0;
    const struct task_record *r = ref ? record_at(s, ref) : NULL;
    if (ref && who && !identity_reaches(who, SCOPE_GROUP, group_of(s, ref)->name))
        return;
    if (ref && r->done)
        buf_put_str(b, STR(": it is done"));
    else if (ref && by_first)
        buf_printf(b, ": its first id is %" PRId64, slot);
    else if (ref)
        buf_printf(b, ": it is %" PRId64 " now, %s client %" PRId64, r->id,
                   r->claimed ? "claimed by" : "changed by", r->ownerid);
    else if (traced && number && !(who && who->limited))
        buf_put_str(b, STR(": it has ended"));
}

void store_put_missing(const struct store *s, int64_t id, const struct identity *who, struct buf *b)
{
    bool by_first = id < INT64_MIN / 2; /* other negative ones were sent as they are */
    int64_t number = by_first ? id - INT64_MIN : id;
    buf_printf(b, "there is no task %s%" PRId64, by_first ? "first:" : "", number);
    put_fate(s, number, by_first, who, b);
}
