/*
 * An assignment is a queue that the plan gives to this worker, or that it still holds. Its stages:
 *
 *      wanted --take--> idle --work--> working --done--> processed --advance--> idle ...
 *                        |                                                        |
 *                        +------------ release, if it is not planned -------------+
 *
 * A take that ended UNKNOWN is in doubt: the owner node may be ours. It is repeated until the
 * outcome is known, even if the queue is no longer planned; otherwise nobody could own the queue
 * until our session ends. A release in doubt is repeated for the same reason.
 *
 * Plans: all workers that see the same lists compute the same assignment, also if others have begun
 * to carry it out (membership.h). If the lists change during a re-balancing, two workers may have
 * different plans; owner nodes keep that harmless. The lists are read again, soon while the plan is
 * not carried out, and now and then at rest, so that a queue in nobody's plan is found.
 */
#include "queue/worker.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "queue/membership.h"

void queue_worker_init(struct queue_worker *w, const struct queue_worker_options *o)
{
    *w = (struct queue_worker){.o = *o};
}

void queue_worker_release(struct queue_worker *w)
{
    free(w->assignments);
    w->assignments = NULL;
    w->assignment_count = w->assignment_cap = 0;
}

/* Assignments. */

static struct queue_assignment *find(const struct queue_worker *w, const char *queue)
{
    for (size_t i = 0; i < w->assignment_count; i++)
        if (!strcmp(w->assignments[i].queue, queue))
            return &w->assignments[i];
    return NULL;
}

static struct queue_assignment *find_or_add(struct queue_worker *w, const char *queue)
{
    struct queue_assignment *d = find(w, queue);
    if (d)
        return d;
    mem_grow(w->assignments, w->assignment_count, w->assignment_cap);
    d = &w->assignments[w->assignment_count++];
    *d = (struct queue_assignment){.stage = WANTED};
    snprintf(d->queue, sizeof d->queue, "%s", queue);
    return d;
}

/* Drops assignments that are neither planned nor held nor in progress. */
static void forget(struct queue_worker *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->assignment_count; i++) {
        const struct queue_assignment *d = &w->assignments[i];
        if (d->planned || d->stage != WANTED || d->doubt)
            w->assignments[kept++] = *d;
    }
    w->assignment_count = kept;
}

static void let_go(struct queue_assignment *d)
{
    d->stage = WANTED;
    d->doubt = false;
    d->failures = 0;
}

/* Reading the lists. */

static bool is_carried_out(const struct queue_worker *w)
{
    for (size_t i = 0; i < w->assignment_count; i++)
        if (w->assignments[i].planned != queue_assignment_is_held(&w->assignments[i]) ||
            w->assignments[i].doubt)
            return false;
    return w->planned;
}

void queue_worker_changed(struct queue_worker *w, int64_t now_ms)
{
    int64_t longest_ms = WORKER_QUIET_ROUNDS * w->o.quiet_ms;
    if (!w->changed)
        w->changed_ms = now_ms;
    w->changed = true;
    w->quiet_ms = now_ms + w->o.quiet_ms;
    if (w->quiet_ms > w->changed_ms + longest_ms)
        w->quiet_ms = w->changed_ms + longest_ms;
    w->look_again_ms = WORKER_LOOK_MS;
}

static void look_later(struct queue_worker *w, int64_t now_ms, size_t worker_count)
{
    int64_t rest_ms = WORKER_LOOK_MAX_MS + WORKER_LOOK_EACH_MS * (int64_t)worker_count;
    w->look_ms = now_ms + (is_carried_out(w) ? rest_ms : w->look_again_ms);
    w->look_again_ms = 2 * w->look_again_ms < rest_ms ? 2 * w->look_again_ms : rest_ms;
}

static void look_soon(struct queue_worker *w, int64_t now_ms)
{
    w->look_again_ms = WORKER_LOOK_MS;
    if (w->look_ms > now_ms + w->look_again_ms)
        w->look_ms = now_ms + w->look_again_ms;
}

/* Idle queues are released at once, and not when their next message is due. */
static void stop_waiting(struct queue_worker *w, int64_t now_ms)
{
    for (size_t i = 0; i < w->assignment_count; i++) {
        struct queue_assignment *d = &w->assignments[i];
        if (d->stage == IDLE && (w->stopping || !d->planned))
            d->due_ms = now_ms;
    }
}

static void plan(struct queue_worker *w, int64_t now_ms, const struct queue_membership *c,
                 int32_t self)
{
    CLEANUP(mem_free) int32_t *owners = mem_alloc((c->queue_count + 1) * sizeof *owners);
    queue_membership_assign(c, owners);
    for (size_t i = 0; i < w->assignment_count; i++)
        w->assignments[i].planned = false;
    for (size_t q = 0; q < c->queue_count; q++) {
        if (owners[q] == self) {
            struct queue_assignment *d = find_or_add(w, c->queues[q]);
            d->planned = true;
            if (d->stage == WANTED)
                d->due_ms = now_ms;
        }
    }
    forget(w);
    stop_waiting(w, now_ms);
    w->planned = true;
    look_later(w, now_ms, c->worker_count);
}

/* Handles what every answer of the keeper implies. False: the worker is not joined. */
static bool heard(struct queue_worker *w, int64_t now_ms, int err)
{
    if (err == DROVER_SESSION_EXPIRED || err == DROVER_CLOSED)
        queue_worker_expired(w, now_ms);
    else if (err != DROVER_UNKNOWN)
        w->contact_ms = w->asked_ms;
    else if (w->stopping && now_ms - w->contact_ms > w->o.timeout_ms)
        queue_worker_expired(w, now_ms); /* by now; a worker that stops need not be told */
    return w->joined;
}

static void follow(struct queue_worker *w, int64_t now_ms, const struct queue_membership *c)
{
    size_t self = 0;
    while (self < c->worker_count && strcmp(c->workers[self].name, w->name))
        self++;
    if (self == c->worker_count)
        queue_worker_expired(w, now_ms); /* our node is gone */
    else
        plan(w, now_ms, c, (int32_t)self);
}

void queue_worker_looked(struct queue_worker *w, int64_t now_ms, int err,
                         const struct queue_membership *c)
{
    if (err == DROVER_NO_NODE) {
        queue_worker_expired(w, now_ms); /* the whole namespace is gone, and our node with it */
    } else if (heard(w, now_ms, err) && err) {
        w->changed = true;
        w->changed_ms = now_ms;
        w->quiet_ms = now_ms + WORKER_AGAIN_MS;
    } else if (w->joined) {
        follow(w, now_ms, c);
    }
}

/* Joining, and losing the session. */

void queue_worker_joined(struct queue_worker *w, int64_t now_ms, int err, const char *name)
{
    if (err) {
        w->join_ms = now_ms + WORKER_BACKOFF_MS;
        return;
    }
    snprintf(w->name, sizeof w->name, "%s", name);
    w->joined = true;
    w->contact_ms = w->asked_ms;
    queue_worker_changed(w, now_ms);
    w->look_ms = w->quiet_ms;
}

void queue_worker_expired(struct queue_worker *w, int64_t now_ms)
{
    w->joined = w->planned = w->changed = false;
    w->join_ms = now_ms;
    for (size_t i = 0; i < w->assignment_count; i++) {
        struct queue_assignment *d = &w->assignments[i];
        d->planned = false;
        if (d->stage == WORKING)
            d->orphan = true;
        else
            let_go(d);
    }
    forget(w);
}

void queue_worker_confirmed(struct queue_worker *w, int64_t now_ms, int err)
{
    if (heard(w, now_ms, err) && err)
        w->confirm_ms = now_ms + WORKER_AGAIN_MS;
}

void queue_worker_stop(struct queue_worker *w, int64_t now_ms)
{
    w->stopping = true;
    stop_waiting(w, now_ms);
}

/* Taking and releasing. */

void queue_worker_took(struct queue_worker *w, int64_t now_ms, const char *queue, int err,
                       int64_t last)
{
    struct queue_assignment *d;
    if (!heard(w, now_ms, err) || !(d = find(w, queue)))
        return;
    d->doubt = err == DROVER_UNKNOWN;
    if (!err) {
        d->stage = IDLE;
        d->last = last;
        d->due_ms = now_ms;
        d->failures = 0;
    } else if (err == DROVER_UNKNOWN) {
        d->due_ms = now_ms + WORKER_AGAIN_MS;
    } else {
        d->due_ms = now_ms + (err == DROVER_IN_USE ? WORKER_LOOK_MS : WORKER_LOOK_MAX_MS);
    }
    forget(w);
}

/* Takes it at once, unless the lists have to be read first. */
void queue_worker_freed(struct queue_worker *w, int64_t now_ms, const char *queue)
{
    struct queue_assignment *d = find(w, queue);
    if (d && d->stage == WANTED && d->due_ms > now_ms)
        d->due_ms = now_ms;
}

void queue_worker_released(struct queue_worker *w, int64_t now_ms, const char *queue, int err)
{
    struct queue_assignment *d;
    if (!heard(w, now_ms, err) || !(d = find(w, queue)))
        return;
    if (err) {
        d->doubt = true;
        d->due_ms = now_ms + WORKER_AGAIN_MS;
        return;
    }
    let_go(d);
    d->due_ms = now_ms;
    forget(w);
}

/* Messages. */

void queue_worker_advanced(struct queue_worker *w, int64_t now_ms, const char *queue, int err,
                           int64_t last)
{
    struct queue_assignment *d;
    if (!heard(w, now_ms, err) || !(d = find(w, queue)))
        return;
    d->due_ms = now_ms;
    if (!err || err == DROVER_BAD_VERSION) {
        d->stage = IDLE;
        d->last = last;
    } else if (err == DROVER_FENCED || err == DROVER_NO_NODE) {
        let_go(d);
        d->planned = false;
        forget(w);
        look_soon(w, now_ms);
    } else {
        d->due_ms = now_ms + WORKER_AGAIN_MS;
    }
}

static int64_t backoff_ms(const struct queue_worker *w, int failures)
{
    int64_t ms = w->o.back_off_ms;
    for (int i = 1; i < failures && ms < WORKER_BACKOFF_MAX_MS; i++)
        ms *= 2;
    return ms < WORKER_BACKOFF_MAX_MS ? ms : WORKER_BACKOFF_MAX_MS;
}

static void failed(struct queue_worker *w, struct queue_assignment *d, int64_t now_ms)
{
    d->failures++;
    d->due_ms = now_ms + backoff_ms(w, d->failures);
    if (w->o.policy == WORKER_STOP)
        queue_worker_stop(w, now_ms);
}

void queue_worker_worked(struct queue_worker *w, int64_t now_ms, const char *queue,
                         enum queue_worker_result result, int64_t id)
{
    struct queue_assignment *d = find(w, queue);
    w->working--;
    if (d->orphan) {
        d->orphan = false;
        let_go(d);
        d->due_ms = now_ms;
        forget(w);
        return;
    }
    d->stage = result == WORKER_DONE ? PROCESSED : IDLE;
    d->processed = id;
    d->due_ms = now_ms;
    if (result == WORKER_FAILED)
        failed(w, d, now_ms);
    else
        d->failures = 0;
    d->empty = result == WORKER_NOTHING && !d->news;
    if (d->empty)
        d->due_ms = now_ms + w->o.poll_ms;
    else if (result == WORKER_TROUBLE)
        d->due_ms = now_ms + WORKER_BACKOFF_MS;
}

/* A failed message is not retried earlier because another one arrived. */
void queue_worker_posted(struct queue_worker *w, int64_t now_ms, const char *queue)
{
    for (size_t i = 0; i < w->assignment_count; i++) {
        struct queue_assignment *d = &w->assignments[i];
        if (queue && strcmp(d->queue, queue))
            continue;
        d->news = d->stage == WORKING;
        if (d->stage == IDLE && d->empty && d->due_ms > now_ms)
            d->due_ms = now_ms;
    }
}

/* The next action: which step of which assignment is due. */

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
