/*
 * Running requests: checking, applying, parking and answering them; and committing them to the
 * embedded keeper, which decides at once.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "task/service_impl.h"

int64_t service_now_ms(struct service *s)
{
    return s->o.now_ms ? s->o.now_ms(s->o.now_arg) : clock_boot_ms() + s->offset_ms;
}

/* Reuse of transactions. */

static struct task_txn *txn_take(struct service *s)
{
    return s->spare_count ? s->spare[--s->spare_count] : mem_zalloc(sizeof(struct task_txn));
}

static void txn_give(struct service *s, struct task_txn *t)
{
    if (t && s->spare_count < SERVICE_SPARE_MAX) {
        s->spare[s->spare_count++] = t;
    } else if (t) {
        task_txn_release(t);
        free(t);
    }
}

/* Answering. */

void service_answer(struct service *s, struct task_request *r, int err)
{
    if (err)
        r->own.err = err;
    r->own.park = false;
    r->own.zxid = s->zxid;
    queue_put(r->own.called ? &s->called : &s->answers, r);
}

/* Tells the observer which managed tasks another client has claimed or updated. */
static void observe(const struct service *s, const struct task_request *r)
{
    const struct task_txn *t = r->own.txn;
    if (!s->observer.changed || !t || r->own.err || r->kind == TASK_READ || r->update.manage)
        return;
    for (size_t i = 0; i < t->change_count; i++)
        if (t->changes[i].kind == TXN_SET && t->changes[i].task->managed)
            s->observer.changed(s->observer.arg, t->changes[i].slot, t->changes[i].task);
}

/* Tells the watcher what has changed. */
static void publish(const struct service *s, const struct task_request *r)
{
    const struct task_txn *t = r->own.txn;
    if (!s->event || !t || r->own.err || r->own.known)
        return;
    for (size_t i = 0; i < t->change_count; i++)
        s->event(s->event_arg, &t->changes[i]);
}

/* The request may be freed by its `done`, unless a thread waits in service_call(). */
static void finish(struct service *s, struct task_request *r)
{
    struct task_reply reply = {.err = r->own.err};
    struct task_txn *t = r->own.txn;
    bool called = r->own.called;
    if (!called)
        observe(s, r);
    publish(s, r);
    if (t && !reply.err) {
        reply.tasks = t->tasks;
        reply.task_count = t->task_count;
    } else if (t && (reply.err == DROVER_REFUSED || reply.err == DROVER_GROUP_FULL)) {
        reply.errors = t->errors;
        reply.error_count = t->error_count;
    }
    r->done(r->arg, &reply);
    LOCKED(&s->lock);
    txn_give(s, t);
    if (called) {
        r->own.finished = true;
        pthread_cond_broadcast(&s->finished);
    }
}

/* Takes the answers that may leave. Under the lock. */
static void take_durable(struct service *s, struct task_queue *from, struct task_queue *to)
{
    int state;
    while (from->first &&
           (state = s->o.keeper ? keeper_passed(s->keeper, from->first->own.zxid) : 1)) {
        struct task_request *r = queue_take(from);
        if (state < 0)
            r->own.err = state;
        queue_put(to, r);
    }
}

void service_wake(struct service *s)
{
    if (s->o.wake)
        s->o.wake(s->o.wake_arg);
}

/*
 * called_only: by a thread in service_call(). It may have woken claims of others, whose answers the
 * dispatching thread delivers.
 */
static void deliver(struct service *s, bool called_only)
{
    struct task_queue ready = {0};
    struct task_request *r;
    pthread_mutex_lock(&s->lock);
    if (!called_only)
        take_durable(s, &s->answers, &ready);
    take_durable(s, &s->called, &ready);
    bool others = called_only && s->answers.first;
    pthread_mutex_unlock(&s->lock);
    while ((r = queue_take(&ready)))
        finish(s, r);
    if (others)
        service_wake(s);
}

void service_dispatch(struct service *s)
{
    deliver(s, false);
}

/* Running. */

static struct request_key key_of(const struct task_request *r)
{
    int64_t clientid = r->kind == TASK_CLAIM ? r->claim.clientid : r->update.clientid;
    return (struct request_key){clientid, r->requestid, r->request_hash};
}

/*
 * Adds the data to an answer from the request log, which has none: that of the task if it still
 * exists, else that of the request. A claimed task that has changed since is left out.
 */
static int fill_data(struct service *s, const struct task_request *r, struct task_txn *t)
{
    const struct task_update *u = &r->update;
    size_t given = r->kind == TASK_UPDATE ? u->add_count + u->update_count : 0, kept = 0;
    for (size_t i = 0; i < t->task_count; i++) {
        struct task now;
        int err = store_get(s->store, t->tasks[i].id, &t->arena, &now);
        if (err && err != DROVER_NO_TASK)
            return err;
        if (err && i >= given)
            continue;
        if (err) {
            const struct task *sent =
                i < u->add_count ? &u->adds[i] : &u->updates[i - u->add_count];
            now = t->tasks[i];
            now.data = sent->data;
            now.extra = sent->extra;
        }
        t->tasks[kept++] = now;
    }
    t->task_count = kept;
    return 0;
}

/* 1: the request was executed before, and the answer is in t. 0: it was not. */
static int look_up(struct service *s, const struct task_request *r, struct task_txn *t)
{
    if (!r->requestid.len || r->own.deleted)
        return 0;
    struct request_key key = key_of(r);
    arena_reset(&t->arena);
    *t = (struct task_txn){.arena = t->arena};
    int found = request_log_find(&s->tree->requests, &key, &t->arena, &t->tasks, &t->task_count);
    if (found < 0) {
        t->errors = arena_alloc(&t->arena, sizeof *t->errors);
        t->errors[0] = "requestid: another request of this client had the same";
        t->error_count = t->reasons = 1;
        return DROVER_REFUSED;
    }
    if (found)
        TRY(fill_data(s, r, t));
    return found;
}

static int run_claim(struct service *s, struct task_request *r, int64_t now_ms)
{
    struct task_claim c = r->claim;
    if (r->own.deleted)
        c.delete_count = c.edit_count = 0;
    int err = store_claim(s->store, &c, now_ms, &s->random, r->own.txn);
    if (err || r->own.txn->task_count)
        return err;
    r->own.park = r->own.deadline_ms > now_ms;
    if (s->observer.wanted && !r->own.park && !c.tasks_only)
        s->observer.wanted(s->observer.arg, &c, false);
    return 0;
}

static int check(struct service *s, struct task_request *r, int64_t now_ms)
{
    if (r->kind == TASK_READ) {
        r->read(r->arg, s->store, now_ms);
        return 0;
    }
    int found = look_up(s, r, r->own.txn);
    r->own.known = found > 0;
    if (found)
        return found > 0 ? 0 : found;
    if (r->kind == TASK_CLAIM)
        return run_claim(s, r, now_ms);
    if (r->prepare)
        TRY(r->prepare(r->arg, s->store, now_ms, &r->update));
    TRY(store_update(s->store, &r->update, now_ms, &s->random, r->own.txn));
    if (r->decided)
        r->decided(r->arg, r->own.txn->tasks, r->own.txn->task_count);
    return 0;
}

bool service_has_changes(const struct task_request *r)
{
    return !r->own.err && !r->own.known && (r->own.txn->undo_count || r->extra_count);
}

static void count(struct service *s, struct task_request *r)
{
    s->stats.updates += r->kind == TASK_UPDATE && !r->own.counted;
    s->stats.claims += r->kind == TASK_CLAIM && !r->own.counted;
    r->own.counted = true;
    s->stats.refusals += r->own.err == DROVER_REFUSED || r->own.err == DROVER_GROUP_FULL;
    if (r->kind == TASK_CLAIM && !r->own.err)
        s->stats.claimed += r->own.txn->task_count;
}

static void touch_group(struct service *s, struct str group)
{
    struct claim_group *g = group.len ? claim_queue_group(&s->waiting, group) : NULL;
    if (g)
        claim_queue_mark(&s->waiting, g);
}

/* Marks the groups in which a task has changed, if claims wait there. */
static void touch(struct service *s, const struct task_txn *t)
{
    if (!s->waiting.count)
        return;
    for (size_t i = 0; i < t->change_count; i++) {
        const struct task_txn_change *c = &t->changes[i];
        touch_group(s, c->from);
        if (!i || !str_eq(c->task->group, c[-1].task->group))
            touch_group(s, c->task->group);
    }
}

void service_put(struct service *s, struct task_request *r)
{
    struct request_key key = key_of(r);
    struct task_txn *t = r->own.txn;
    task_tree_put(s->tree, &s->commit, t);
    if (r->requestid.len)
        task_tree_put_request(s->tree, &s->commit, &key, t->tasks, t->task_count);
    for (size_t i = 0; i < r->extra_count; i++)
        task_commit_op(&s->commit, r->extra[i]);
}

void service_undo(struct service *s, struct task_request *r)
{
    store_undo(s->store, r->own.txn);
    task_tree_uncount(s->tree, r->own.txn);
}

static void park(struct service *s, struct task_request *r)
{
    r->own.park = false;
    r->own.deleted = r->claim.delete_count + r->claim.edit_count > 0;
    txn_give(s, r->own.txn);
    r->own.txn = NULL;
    claim_queue_add(&s->waiting, r, r->own.deadline_ms);
    if (s->observer.wanted && !r->claim.tasks_only)
        s->observer.wanted(s->observer.arg, &r->claim, true);
}

void service_settle(struct service *s, struct task_request *r)
{
    if (s->tallies)
        store_tally(s->store, r->own.txn, s->tallies);
    store_settle(s->store, r->own.txn);
    if (r->settled && !r->own.err)
        r->settled(r->arg, s->store);
    if (r->own.park)
        park(s, r);
    else
        service_answer(s, r, 0);
}

/* As one transaction. If it is refused, nothing has happened. */
static int commit(struct service *s, struct task_request *r)
{
    service_put(s, r);
    task_tree_put_ids(s->tree, &s->commit, store_last_id(s->store), store_top_id(s->store),
                      r->own.txn->ended_last && !r->own.txn->last_id);
    if (s->commit.bytes > KEEPER_REQUEST_MAX / 2 && /* an estimate: now exactly */
        keeper_request_size(s->commit.ops, s->commit.count) > KEEPER_REQUEST_MAX)
        return DROVER_TOO_BIG;
    if (s->o.journal)
        TRY(s->o.journal(s->o.journal_arg, s->commit.ops, s->commit.count));
    int64_t zxid;
    TRY(keeper_apply(s->keeper, s->commit.ops, s->commit.count, &zxid));
    s->zxid = zxid;
    return 0;
}

/*
 * Commits to the embedded keeper. Nobody else writes below /drover/tasks and /drover/requests, so
 * only an extra operation, a full disk or a transaction that is too big can be refused; then memory
 * is undone before the next request runs.
 */
static void commit_local(struct service *s, struct task_request *r)
{
    int err = commit(s, r);
    if (err) {
        service_undo(s, r);
        task_tree_undo(s->tree, &s->commit);
        service_answer(s, r, err);
        return;
    }
    s->stats.commits++;
    task_tree_settle(s->tree, &s->commit);
    service_settle(s, r);
}

void service_run(struct service *s, struct task_request *r)
{
    int64_t now_ms = service_now_ms(s);
    if (!r->own.txn)
        r->own.txn = txn_take(s);
    r->own.park = r->own.known = false;
    r->own.txn->undo_count = r->own.txn->change_count = r->own.txn->task_count = 0;
    r->own.err = check(s, r, now_ms);
    count(s, r);
    if (!r->own.err)
        touch(s, r->own.txn);
    if (s->o.keeper && !service_has_changes(r))
        service_settle(s, r);
    else if (s->o.keeper)
        commit_local(s, r);
    else
        queue_put(&s->batch, r);
}

/* Waiting claims. */

static void feed_group(struct service *s, struct claim_group *g)
{
    int64_t now_ms = service_now_ms(s), due_ms = INT64_MAX;
    while (g->first && store_available(s->store, g->name, now_ms, &due_ms)) {
        struct task_request *r = g->first->r;
        claim_queue_mark(&s->waiting, g); /* keeps the group when its last claim is removed */
        claim_queue_remove(&s->waiting, r);
        service_run(s, r);
    }
    if (g->first)
        claim_queue_set_due(&s->waiting, g, due_ms);
}

void service_feed(struct service *s)
{
    struct claim_group *g;
    while ((g = claim_queue_next_marked(&s->waiting)))
        feed_group(s, g);
}

/* Public calls. */

void service_look_again(struct service *s)
{
    claim_queue_mark_all(&s->waiting);
}

void service_tell_due(struct service *s, int64_t before_ms)
{
    if (service_next_due_ms(s) < before_ms)
        service_wake(s);
}

static void start(struct service *s, struct task_request *r, bool called)
{
    LOCKED(&s->lock);
    int64_t due_ms = service_next_due_ms(s);
    memset(&r->own, 0, sizeof r->own);
    r->own.called = called;
    if (r->kind == TASK_CLAIM && r->wait_ms > 0)
        r->own.deadline_ms =
            service_now_ms(s) + (r->wait_ms > TASK_MS_MAX ? TASK_MS_MAX : r->wait_ms);
    if (called && !s->o.wake)
        sweep_start(s->sweep, service_now_ms(s));
    if (s->o.keeper) {
        service_run(s, r);
        service_feed(s);
    } else if (s->state == SERVICE_STOPPED) {
        service_answer(s, r, DROVER_NOT_LEADER);
    } else {
        queue_put(&s->queue, r);
        ensemble_commit_start(s);
    }
    service_tell_due(s, due_ms);
}

void service_submit(struct service *s, struct task_request *r)
{
    start(s, r, false);
    service_dispatch(s);
}

/* A claim whose deadline has passed is run once more: what it depends on may have changed. */
static void tick(struct service *s)
{
    struct task_request *r;
    LOCKED(&s->lock);
    int64_t now_ms = service_now_ms(s);
    claim_queue_advance(&s->waiting, now_ms);
    sweep_start(s->sweep, now_ms);
    if (s->o.keeper)
        service_feed(s);
    while ((r = claim_queue_timed_out(&s->waiting, now_ms))) {
        claim_queue_remove(&s->waiting, r);
        if (s->o.keeper)
            service_run(s, r);
        else
            queue_put(&s->queue, r);
    }
    if (s->o.keeper)
        service_feed(s);
    else
        ensemble_commit_start(s);
}

void service_tick(struct service *s)
{
    tick(s);
    service_dispatch(s);
}

static int64_t due_boot_ms(struct service *s)
{
    int64_t due_ms = service_next_due_ms(s), now_ms = service_now_ms(s);
    if (due_ms == INT64_MAX)
        return due_ms;
    return clock_boot_ms() + (due_ms > now_ms ? due_ms - now_ms : 0);
}

int64_t service_due_ms(struct service *s)
{
    LOCKED(&s->lock);
    return due_boot_ms(s);
}

bool service_cancel(struct service *s, struct task_request *r)
{
    LOCKED(&s->lock);
    bool waited = r->own.wait_ref != 0;
    if (waited)
        claim_queue_remove(&s->waiting, r);
    return waited;
}

/*
 * The caller does the work of a loop, so that a store in process needs no thread: it waits at the
 * gate and delivers answers, or, for a waiting claim, waits until a task or a deadline is due.
 */
void service_call(struct service *s, struct task_request *r)
{
    start(s, r, true);
    deliver(s, true);
    pthread_mutex_lock(&s->lock);
    while (!r->own.finished) {
        bool answered = s->o.keeper && !r->own.wait_ref && s->called.first;
        int64_t zxid = r->own.zxid;
        if (answered) {
            pthread_mutex_unlock(&s->lock);
            keeper_wait(s->keeper, zxid);
        } else {
            cond_wait_until(&s->finished, &s->lock, due_boot_ms(s));
            pthread_mutex_unlock(&s->lock);
            tick(s);
        }
        deliver(s, true);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}
