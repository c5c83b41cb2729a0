/*
 * Claims. Of the groups that a claim names, the one with the smallest priority comes first; among
 * equals each task is as likely as any other, and a group that is first in, first out gives its
 * oldest. All tasks are drawn before any is changed, so that none is drawn twice.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "drover.h"
#include "task/store_work.h"
#include "task/tail.h"

enum {
    CHANGE_BYTES = 64, /* of a change, beside its data */
    SPARE = 8,         /* changes for tasks that are buried or expire instead of being given out */
};

/* How many tasks the rate lets out now, at most max; if none: when the next. */
static int64_t rate_allows(const struct task_group *g, int64_t now_ms, int64_t max,
                           int64_t *ret_due_ms)
{
    const struct task_settings *settings = g->settings;
    if (!settings->rate)
        return max;
    int64_t token_ns = settings_token_ns(settings), now_ns = now_ms * 1000000;
    int64_t full_ns = g->rate_ns > now_ns ? g->rate_ns : now_ns;
    int64_t tokens = (now_ns + settings->rate_burst * token_ns - full_ns) / token_ns;
    if (tokens > 0)
        return tokens < max ? tokens : max;
    int64_t due_ns = full_ns - (settings->rate_burst - 1) * token_ns;
    *ret_due_ms = (due_ns + 999999) / 1000000;
    return 0;
}

/* How many tasks can be claimed from a group now; if none: when, as far as that is known. */
static int64_t group_allows(const struct task_group *g, int64_t now_ms, int64_t *ret_due_ms)
{
    const struct task_settings *settings = g->settings;
    int64_t allowed = INT64_MAX;
    if (settings->paused)
        return 0;
    if (settings->limit && g->claimed >= settings->limit)
        return 0;
    if (settings->limit)
        allowed = settings->limit - g->claimed;
    return group_lane(g) ? rate_allows(g, now_ms, allowed, ret_due_ms) : 0;
}

bool store_available(struct store *s, struct str group, int64_t now_ms, int64_t *ret_due_ms)
{
    struct task_group *g = store_find_group(s, group);
    *ret_due_ms = INT64_MAX;
    if (!g)
        return false;
    group_pass(s, g, now_ms);
    if (g->heap.count)
        *ret_due_ms = g->heap.entries[0].key;
    int64_t rate_due_ms = INT64_MAX;
    bool allows = group_allows(g, now_ms, &rate_due_ms) > 0;
    if (rate_due_ms < *ret_due_ms)
        *ret_due_ms = rate_due_ms;
    return allows;
}

/* The groups from which tasks can be drawn. */
struct drawing {
    struct task_group **groups;
    size_t count;
};

/* Names each group once. */
static void gather(struct txn_work *w, const struct task_claim *c, struct drawing *d)
{
    d->groups = arena_alloc(&w->t->arena, (c->group_count + 1) * sizeof *d->groups);
    for (size_t i = 0; i < c->group_count; i++) {
        struct task_group *g = store_find_group(w->s, c->groups[i]);
        bool again = false;
        for (size_t j = 0; j < d->count; j++)
            again = again || d->groups[j] == g;
        if (!g || again)
            continue;
        group_pass(w->s, g, w->now_ms);
        d->groups[d->count++] = g;
    }
}

/* The group to draw from: of the smallest priority, by the number of its tasks. NULL: none. */
static struct task_group *choose(struct txn_work *w, struct drawing *d)
{
    size_t weight = 0, kept = 0;
    int32_t best = INT32_MAX;
    int64_t due_ms;
    for (size_t i = 0; i < d->count; i++) {
        struct task_group *g = d->groups[i];
        if (group_allows(g, w->now_ms, &due_ms) <= 0)
            continue;
        d->groups[kept++] = g;
        const struct task_class *c = lane_class(group_lane(g));
        if (c->priority < best) {
            best = c->priority;
            weight = 0;
        }
        if (c->priority == best)
            weight += g->available;
    }
    d->count = kept;
    if (kept <= 1)
        return kept ? d->groups[0] : NULL;
    size_t n = store_random_below(w->random, weight);
    for (size_t i = 0; i < kept; i++) {
        struct task_group *g = d->groups[i];
        if (lane_class(group_lane(g))->priority != best)
            continue;
        if (n < g->available)
            return g;
        n -= g->available;
    }
    return d->groups[0];
}

static void take_token(struct txn_work *w, struct task_group *g)
{
    if (!g->settings->rate)
        return;
    int64_t now_ns = w->now_ms * 1000000;
    g->rate_ns = (g->rate_ns > now_ns ? g->rate_ns : now_ns) + settings_token_ns(g->settings);
}

/* What a claim has drawn: refs, and of which groups what the rates were before. */
struct drawn {
    uint32_t *refs;
    int64_t *rates; /* of its group, before it was drawn */
    size_t count, used;
};

static void draw(struct txn_work *w, const struct task_claim *c, size_t limit, struct drawn *drawn)
{
    struct drawing d = {0};
    struct task_group *g;
    gather(w, c, &d);
    size_t most = 0;
    for (size_t i = 0; i < d.count; i++)
        most += d.groups[i]->available;
    limit = limit < most ? limit : most;
    drawn->refs = arena_alloc(&w->t->arena, (limit + 1) * sizeof *drawn->refs);
    drawn->rates = arena_alloc(&w->t->arena, (limit + 1) * sizeof *drawn->rates);
    while (drawn->count < limit && (g = choose(w, &d))) {
        drawn->rates[drawn->count] = g->rate_ns;
        drawn->refs[drawn->count++] = group_draw(w->s, g, group_lane(g), w->random);
        take_token(w, g);
    }
}

/* A claim that cannot be completed: what is left of it goes back, the last one first. */
static void put_back(struct txn_work *w, struct drawn *drawn)
{
    while (drawn->count > drawn->used) {
        uint32_t ref = drawn->refs[--drawn->count];
        group_of(w->s, ref)->rate_ns = drawn->rates[drawn->count];
        group_put_back(w->s, ref);
    }
}

static bool has_expired(const struct store *s, uint32_t ref, int64_t now_ms)
{
    const struct record_hot *hot = hot_at(s, ref);
    return hot && hot->expires && hot->expires <= now_ms;
}

/* Changes a task that is not part of the answer. */
static int bury_unanswered(struct txn_work *w, uint32_t ref, struct task *t, struct task_extra *x)
{
    x->error = str_of(
        arena_printf(&w->t->arena, "claimed %" PRIu32 " times without an answer", x->unanswered));
    w->hides = true;
    work_bury(w, ref, t, x);
    w->hides = false;
    return 0;
}

static int expire(struct txn_work *w, uint32_t ref)
{
    struct task_edit e = {.kind = EDIT_EXPIRE, .id = record_at(w->s, ref)->id};
    w->hides = true;
    int err = work_edit(w, &e);
    w->hides = false;
    return err;
}

enum { NO_ROOM = 1 };

/* Gives a drawn task to the client, or buries it if it was claimed too often. */
static int hand_out(struct txn_work *w, uint32_t ref, int64_t until_ms, size_t *bytes)
{
    const struct task_settings *settings = group_of(w->s, ref)->settings;
    struct task_extra *x = arena_alloc(&w->t->arena, sizeof *x);
    struct task t;
    bool plain = !record_at(w->s, ref)->tail && !settings->claims;
    TRY(work_read(w, ref, &t, x));
    *bytes += CHANGE_BYTES + task_payload_len(plain ? NULL : x, t.data);
    if (w->t->task_count && *bytes > TASK_CLAIM_BYTES_MAX)
        return NO_ROOM;
    if (settings->claims && x->unanswered >= settings->claims && !t.dead)
        return bury_unanswered(w, ref, &t, x);
    if (!plain) {
        x->claims += x->claims < UINT32_MAX;
        x->unanswered += x->unanswered < UINT32_MAX;
        t.extra = x;
    }
    t.claimed = true;
    t.timespec = until_ms;
    t.ownerid = w->clientid;
    work_replace(w, ref, &t, plain, TASK_EVENT_CLAIMED);
    return 0;
}

/* Whether a claim for tasks only would get something else. */
static bool is_other(struct txn_work *w, const struct task_claim *c, const struct task_record *r)
{
    if (!c->tasks_only || (!r->managed && r->ownerid != TASK_MESSAGES))
        return false;
    work_object(w, "group %.*s has messages of a queue or tasks of nodes",
                STR_ARGS(w->s->groups[r->group]->name));
    return true;
}

/* One round: draws, and hands out as much as fits. NO_ROOM: there was more. */
static int claim_round(struct txn_work *w, const struct task_claim *c, size_t limit,
                       size_t others_max, size_t *bytes)
{
    struct drawn drawn = {0};
    int64_t duration_ms = c->duration_ms > TASK_MS_MAX ? TASK_MS_MAX : c->duration_ms;
    int err = 0;
    draw(w, c, limit, &drawn);
    while (!err && drawn.used < drawn.count && w->t->other_count < others_max) {
        uint32_t ref = drawn.refs[drawn.used];
        if (!work_may(w, record_at(w->s, ref)))
            err = DROVER_NO_AUTH;
        else if (is_other(w, c, record_at(w->s, ref)))
            err = DROVER_REFUSED;
        else
            err = has_expired(w->s, ref, w->now_ms)
                      ? expire(w, ref)
                      : hand_out(w, ref, w->now_ms + duration_ms, bytes);
        if (!err)
            work_set_rate(w, drawn.rates[drawn.used++]);
    }
    put_back(w, &drawn);
    return err;
}

/*
 * Again, while tasks were buried or expired that should have been given out. A claim for no time
 * has its tasks available at once: it does not go on, because it would get them again.
 */
static int claim_some(struct txn_work *w, const struct task_claim *c, size_t limit)
{
    size_t bytes = 0, first = w->t->other_count, before;
    int err;
    do {
        before = w->t->other_count;
        err = claim_round(w, c, limit - w->t->task_count, first + SPARE, &bytes);
    } while (!err && w->t->other_count > before && w->t->other_count - first < SPARE &&
             w->t->task_count < limit && (c->duration_ms > 0 || !w->t->task_count));
    return err == NO_ROOM ? 0 : err;
}

int store_claim(struct store *s, const struct task_claim *c, int64_t now_ms, struct store_random *r,
                struct task_txn *t)
{
    struct txn_work w = {.s = s,
                         .t = t,
                         .clientid = c->clientid,
                         .now_ms = now_ms,
                         .who = c->who,
                         .random = r,
                         .hides = true};
    struct task_update rest = {.deletes = c->deletes,
                               .delete_count = c->delete_count,
                               .depends = c->depends,
                               .depend_count = c->depend_count,
                               .edits = c->edits,
                               .edit_count = c->edit_count};
    size_t limit = c->limit ? c->limit : 1, others = c->delete_count + c->edit_count;
    if (others >= TASK_CHANGES_MAX)
        return DROVER_TOO_BIG;
    if (limit > TASK_CHANGES_MAX - others)
        limit = TASK_CHANGES_MAX - others;
    work_begin(&w, limit + others + SPARE);
    int err = work_check(&w, &rest);
    if (!err)
        err = work_apply(&w, &rest);
    w.hides = false;
    return work_end(&w, err ? err : claim_some(&w, c, limit));
}
