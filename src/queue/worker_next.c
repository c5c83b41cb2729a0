/* The next action of a worker: which step of which assignment is due. */
#include <stdlib.h>
#include <string.h>

#include "queue/worker.h"

/* The steps of an assignment, in order of precedence. */
static const enum queue_worker_kind STEPS[] = {WORKER_ADVANCE, WORKER_RELEASE, WORKER_TAKE,
                                               WORKER_WORK};

static bool wants(const struct queue_worker *w, const struct queue_assignment *d,
                  enum queue_worker_kind step)
{
    switch (step) {
    case WORKER_ADVANCE:
        return d->stage == PROCESSED;
    case WORKER_RELEASE:
        return d->stage == IDLE && (d->doubt || w->stopping || (!d->planned && !w->changed));
    case WORKER_TAKE:
        return d->stage == WANTED && (d->doubt || (d->planned && !w->changed && !w->stopping));
    default: /* WORKER_WORK */
        return d->stage == IDLE && !d->doubt && !w->stopping && (d->planned || w->changed) &&
               w->working < w->o.parallel;
    }
}

/* The assignment that has waited longest for a step; *at_ms: when the next one is due. */
static struct queue_assignment *most_due(const struct queue_worker *w, enum queue_worker_kind step,
                                         int64_t now_ms, int64_t *at_ms)
{
    struct queue_assignment *found = NULL;
    for (size_t i = 0; i < w->assignment_count; i++) {
        struct queue_assignment *d = &w->assignments[i];
        if (!wants(w, d, step))
            continue;
        if (d->due_ms > now_ms)
            *at_ms = d->due_ms < *at_ms ? d->due_ms : *at_ms;
        else if (!found || d->due_ms < found->due_ms)
            found = d;
    }
    return found;
}

static void begin(struct queue_worker *w, struct queue_assignment *d, enum queue_worker_kind kind,
                  struct queue_worker_action *a)
{
    *a = (struct queue_worker_action){.kind = kind, .last = d->last};
    memcpy(a->queue, d->queue, sizeof a->queue);
    if (kind == WORKER_ADVANCE)
        a->last = d->processed;
    if (kind == WORKER_WORK) {
        d->stage = WORKING;
        d->empty = d->news = false;
        w->working++;
        a->aside = w->o.policy == WORKER_SKIP ||
                   (w->o.policy == WORKER_RETRY && d->failures >= w->o.retries);
    }
}

/* The step of some assignment; false: none is due before *at_ms. */
static bool next_step(struct queue_worker *w, int64_t now_ms, int64_t *at_ms,
                      struct queue_worker_action *a)
{
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
        struct queue_assignment *d = most_due(w, STEPS[i], now_ms, at_ms);
        bool is_sure = now_ms - w->contact_ms <= w->o.timeout_ms / 3;
        if (d && (STEPS[i] != WORKER_WORK || is_sure)) {
            begin(w, d, STEPS[i], a);
            return true;
        }
    }
    return false;
}

static bool wants_look(const struct queue_worker *w, int64_t now_ms, int64_t *at_ms)
{
    int64_t when_ms = w->changed ? w->quiet_ms : w->look_ms;
    if (w->stopping)
        return false;
    *at_ms = when_ms < *at_ms ? when_ms : *at_ms;
    return when_ms <= now_ms;
}

/* Before a message is started; and while one is in progress, so that a lost session is noticed. */
static bool wants_confirm(const struct queue_worker *w, int64_t now_ms, int64_t *at_ms)
{
    int64_t when_ms = w->contact_ms + w->o.timeout_ms / 3 + 1, never = INT64_MAX;
    bool wanted = w->working || most_due(w, WORKER_WORK, now_ms, &never);
    if (!wanted)
        return false;
    if (when_ms < w->confirm_ms)
        when_ms = w->confirm_ms;
    *at_ms = when_ms < *at_ms ? when_ms : *at_ms;
    return when_ms <= now_ms;
}

/* Nothing is held, in progress or in doubt. */
static bool is_free(const struct queue_worker *w)
{
    for (size_t i = 0; i < w->assignment_count; i++)
        if (w->assignments[i].stage != WANTED || w->assignments[i].doubt)
            return false;
    return true;
}

static void next_outside(struct queue_worker *w, int64_t now_ms, struct queue_worker_action *a)
{
    if (w->stopping && !w->working)
        a->kind = WORKER_END;
    else if (!w->stopping && w->join_ms <= now_ms)
        a->kind = WORKER_JOIN;
    else
        a->at_ms = w->stopping ? INT64_MAX : w->join_ms;
}

static void next_inside(struct queue_worker *w, int64_t now_ms, struct queue_worker_action *a)
{
    int64_t at_ms = INT64_MAX;
    if (wants_look(w, now_ms, &at_ms))
        a->kind = WORKER_LOOK;
    else if (next_step(w, now_ms, &at_ms, a))
        return;
    else if (wants_confirm(w, now_ms, &at_ms))
        a->kind = WORKER_CONFIRM;
    else if (w->stopping && is_free(w))
        a->kind = WORKER_END;
    else
        a->at_ms = at_ms;
    if (a->kind == WORKER_LOOK)
        w->changed = false; /* a change from here on is read again */
}

void queue_worker_next(struct queue_worker *w, int64_t now_ms,
                       struct queue_worker_action *ret_action)
{
    *ret_action = (struct queue_worker_action){.kind = WORKER_WAIT};
    if (w->joined)
        next_inside(w, now_ms, ret_action);
    else
        next_outside(w, now_ms, ret_action);
    if (ret_action->kind != WORKER_WAIT && ret_action->kind != WORKER_WORK)
        w->asked_ms = now_ms;
}
