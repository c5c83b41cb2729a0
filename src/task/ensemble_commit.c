/*
 * Committing to an ensemble: one commit in flight at a time. Requests that arrive meanwhile form
 * the next batch.
 *
 *   fence       the leader's check: no other leader was elected since
 *   head        the last id and a random tag, at the version of our last commit
 *   changes     of every transaction of the batch, in order, with their extra operations
 *
 * The outcomes of a commit:
 *   0 memory and tree agree
 *   the fence failed    nothing happened; another process leads: all get NOT_LEADER, the service
 *                       stops
 *   another refusal     nothing happened; memory is undone, newest first. Of several requests, each
 *                       is tried alone, so that only the failing ones are refused; one alone gets
 *                       the error. If that says that the nodes of the tasks are not those in
 *                       memory, it gets NOT_LEADER instead, and the tasks are loaded again
 *   UNKNOWN             it may have happened, or may still happen. The leader writes a new fence,
 *                       which decides it; then service_start() compares the tag in the head:
 *                       ensemble_commit_resolve()
 *   SESSION_EXPIRED     as UNKNOWN, but others may have changed the head since: all get UNKNOWN
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/random.h"
#include "task/service_impl.h"

enum {
    BATCH_BYTES_MAX = 512 * 1024, /* the last request may be as large again */
    BATCH_OPS_MAX = 4000,
};

struct sent_commit {
    _Atomic(struct service *) s; /* NULL: nobody waits for it any more */
};

/* Its callback, which may still come, does nothing. */
void ensemble_commit_abandon(struct service *s)
{
    if (s->sent)
        atomic_store(&s->sent->s, NULL);
    s->sent = NULL;
}

/* Undoes the batch in memory, the newest request first. The requests stay in it. */
void ensemble_commit_undo(struct service *s)
{
    CLEANUP(mem_free) struct task_request **list = mem_alloc((s->batch.count + 1) * sizeof *list);
    size_t count = 0;
    for (struct task_request *r = s->batch.first; r; r = r->own.next)
        list[count++] = r;
    while (count)
        service_undo(s, list[--count]);
    task_tree_undo(s->tree, &s->commit);
}

static void answer_all(struct service *s, struct task_queue *q, int err)
{
    for (struct task_request *r; (r = queue_take(q));)
        service_answer(s, r, err);
}

/* Puts the batch back at the front of the queue. */
static void requeue(struct service *s)
{
    struct task_queue later = s->queue;
    s->queue = s->batch;
    s->batch = (struct task_queue){0};
    for (struct task_request *r; (r = queue_take(&later));)
        queue_put(&s->queue, r);
}

static void settle(struct service *s)
{
    task_tree_settle(s->tree, &s->commit);
    for (struct task_request *r; (r = queue_take(&s->batch));)
        service_settle(s, r);
}

static void lost(struct service *s)
{
    s->state = SERVICE_DOUBT;
    if (s->o.doubt)
        s->o.doubt(s->o.doubt_arg);
}

/* Whether a node of the tasks is missing or is one too many: another client has changed them. */
static bool is_changed_by_others(const struct service *s, int err)
{
    return (err == DROVER_NO_NODE || err == DROVER_EXISTS) && !s->batch.first->extra_count;
}

static void refused(struct service *s, int err)
{
    ensemble_commit_undo(s);
    if (s->batch.count > 1) {
        s->one_by_one = s->batch.count;
        requeue(s);
    } else if (is_changed_by_others(s, err)) {
        answer_all(s, &s->batch, DROVER_NOT_LEADER);
        lost(s);
    } else {
        answer_all(s, &s->batch, err);
    }
}

/* The fence or the head has another version: only a leader writes them. */
static bool is_stale(int err)
{
    return err == DROVER_BAD_VERSION || err == DROVER_NO_NODE;
}

static void committed(struct service *s, int err, const struct keeper_result *results)
{
    if (!err) {
        s->head_version++;
        s->stats.commits++;
        settle(s);
    } else if (err == DROVER_UNKNOWN || err == DROVER_SESSION_EXPIRED || err == DROVER_CLOSED) {
        lost(s);
    } else if (is_stale(results[0].err) || is_stale(results[1].err)) {
        ensemble_commit_undo(s);
        answer_all(s, &s->batch, DROVER_NOT_LEADER);
        lost(s);
    } else {
        refused(s, err);
    }
}

static void on_commit(void *arg, int err, const struct keeper_result *results, size_t count)
{
    CLEANUP(mem_free) struct sent_commit *sent = arg;
    struct service *s = atomic_load(&sent->s);
    (void)count;
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    int64_t due_ms = service_next_due_ms(s);
    if (s->sent == sent) { /* it was not abandoned just now */
        s->sent = NULL;
        committed(s, err, results);
        if (s->state == SERVICE_READY)
            ensemble_commit_start(s);
    }
    service_tell_due(s, due_ms);
    pthread_mutex_unlock(&s->lock);
    service_dispatch(s);
}

static void begin(struct service *s)
{
    task_tree_begin(s->tree, &s->commit);
    task_commit_op(&s->commit, s->fence);
    struct task_node_head later = {.ceiling = TASK_NODE_NO_CEILING}; /* filled in at the end */
    task_tree_put_head(s->tree, &s->commit, &later, s->head_version);
}

/* Runs queued requests, as many as fit into one commit. Waiting claims may wake and join. */
static void gather(struct service *s)
{
    struct task_request *seen = NULL;
    do {
        struct task_request *r = queue_take(&s->queue);
        if (r)
            service_run(s, r);
        service_feed(s);
        for (r = seen ? seen->own.next : s->batch.first; r; seen = r, r = r->own.next)
            if (service_has_changes(r))
                service_put(s, r);
        if (s->one_by_one && s->batch.count) {
            s->one_by_one--;
            break;
        }
    } while (s->queue.count && s->commit.bytes < BATCH_BYTES_MAX &&
             s->commit.count < BATCH_OPS_MAX);
}

static bool only_reads(const struct task_queue *q)
{
    for (const struct task_request *r = q->first; r; r = r->own.next)
        if (r->kind != TASK_READ)
            return false;
    return true;
}

/* The last id that is given when the batch is committed. */
static int64_t last_id(const struct service *s)
{
    int64_t last = store_last_id(s->store);
    for (const struct task_request *r = s->batch.first; r; r = r->own.next)
        if (service_has_changes(r) && r->own.txn->last_id > last)
            last = r->own.txn->last_id;
    return last;
}

static void send(struct service *s)
{
    random_fill(&s->tag, sizeof s->tag);
    struct task_node_head head = {
        .last_id = last_id(s), .ceiling = TASK_NODE_NO_CEILING, .tag = s->tag};
    task_node_head_encode(&head, (char *)s->commit.ops[1].data.p);
    s->sent = mem_alloc(sizeof *s->sent);
    atomic_init(&s->sent->s, s);
    int err = keeper_commit(s->keeper, s->commit.ops, s->commit.count, on_commit, s->sent);
    if (!err)
        return;
    free(s->sent);
    s->sent = NULL;
    if (err == DROVER_SESSION_EXPIRED || err == DROVER_CLOSED)
        lost(s);
    else
        refused(s, err);
}

void ensemble_commit_start(struct service *s)
{
    while (s->state == SERVICE_READY && !s->sent && (s->queue.count || s->waiting.dirty)) {
        begin(s);
        gather(s);
        if (!s->batch.count)
            return;
        if (only_reads(&s->batch))
            settle(s);
        else
            send(s);
    }
}

/* After a new fence: it is now certain whether the commit happened. */
void ensemble_commit_resolve(struct service *s, uint64_t head_tag)
{
    if (head_tag == s->tag)
        settle(s);
    else
        requeue(s);
}

/*
 * Another process may lead, or may have led: the outcome of the batch is unknown, and the queue is
 * for the other leader.
 */
void ensemble_commit_drop(struct service *s)
{
    ensemble_commit_undo(s);
    answer_all(s, &s->batch, DROVER_UNKNOWN);
    answer_all(s, &s->queue, s->o.keeper ? DROVER_CLOSED : DROVER_NOT_LEADER);
}
