/*
 * Commit batches. A batch collects the changes of one loop iteration: records, tasks, slots. After
 * the loop has polled, the batch is closed and submitted to the task store as one transaction, and
 * the next one is opened. The changes of tasks are derived from the nodes when the batch is closed,
 * so a node that was offered and then claimed in one iteration has one change of its task.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/service.h"

/* A timespec so far in the future that nobody can claim the task; sums do not overflow. */
#define TASK_RESERVED_UNTIL INT64_C(32503680000000)

enum { STALL_MS = 500 };

const char *const DAG_KIND_ROOTS[] = {DAG_ROOT "/specs", DAG_ROOT "/nodes", DAG_ROOT "/slots"};
static const uint64_t KIND_SIZES[] = {1000, 1000, 100};

struct dag_path dag_bucket_path(enum bucket_kind kind, uint64_t bucket)
{
    struct dag_path p;
    snprintf(p.text, sizeof p.text, "%s/%" PRIu64, DAG_KIND_ROOTS[kind], bucket);
    return p;
}

struct dag_path dag_path(enum bucket_kind kind, uint64_t id)
{
    struct dag_path p;
    snprintf(p.text, sizeof p.text, "%s/%" PRIu64 "/%" PRIu64, DAG_KIND_ROOTS[kind],
             id / KIND_SIZES[kind], id);
    return p;
}

struct dag_path dag_slot_path(uint64_t id, uint32_t slot)
{
    struct dag_path p = dag_path(BUCKET_SLOTS, id);
    snprintf(p.text + strlen(p.text), 12, "-%" PRIu32, slot);
    return p;
}

/* Collecting. */

struct dag_commit *dag_commit_open(struct dag *d)
{
    if (d->commit &&
        (d->commit->node_count >= DAG_COMMIT_NODES_MAX || d->commit->len >= DAG_COMMIT_LEN_MAX))
        dag_commit_flush(d);
    if (!d->commit) {
        d->commit = mem_zalloc(sizeof *d->commit);
        d->commit->dag = d;
    }
    dag_soon(d);
    return d->commit;
}

void dag_commit_touch(struct dag_commit *t, struct dag_node *n)
{
    if (n->touched)
        return;
    n->touched = true;
    n->pins++;
    mem_grow(t->nodes, t->node_count, t->node_cap);
    t->nodes[t->node_count++] = n;
}

void dag_commit_record(struct dag_commit *t, struct dag_node *n)
{
    dag_commit_touch(t, n);
    n->dirty = true;
}

void dag_commit_then(struct dag_commit *t, dag_done_fn *done, void *arg)
{
    if (!done)
        return;
    mem_grow(t->waiters, t->waiter_count, t->waiter_cap);
    t->waiters[t->waiter_count++] = (struct commit_waiter){done, arg};
}

void dag_commit_op(struct dag_commit *t, struct keeper_op op)
{
    mem_grow(t->ops, t->op_count, t->op_cap);
    op.path = (struct str){arena_text(&t->arena, op.path), op.path.len};
    op.data = (struct str){arena_text(&t->arena, op.data), op.data.len};
    t->ops[t->op_count++] = op;
    t->len += op.path.len + op.data.len + 64;
}

void dag_commit_delete(struct dag_commit *t, struct dag_path path)
{
    dag_commit_op(t, keeper_op_delete(path.text, KEEPER_ANY_VERSION));
}

void dag_commit_drop(struct dag_commit *t, int64_t slot)
{
    mem_grow(t->drops, t->drop_count, t->drop_cap);
    t->drops[t->drop_count++] = slot;
}

/* The end of the node's run is in this batch: clears its start mark when the batch is durable. */
void dag_commit_unmark(struct dag_commit *t, struct dag_node *n)
{
    if (!n->mark)
        return;
    mem_grow(t->marks, t->mark_count, t->mark_cap);
    t->marks[t->mark_count++] = n->mark;
    n->mark = 0;
}

/* Creates the directory of a node's chunk, record or slots if it is missing. */
static void make_bucket(struct dag_commit *t, enum bucket_kind kind, uint64_t id)
{
    struct map *known = &t->dag->buckets[kind];
    uint64_t number = id / KIND_SIZES[kind];
    uint32_t ref = (uint32_t)number + 1, hash = map_hash_u64(number);
    for (uint32_t at, r = map_first(known, hash, &at); r; r = map_next(known, hash, &at))
        if (r == ref)
            return;
    map_add(known, hash, ref);
    dag_commit_op(t, keeper_op_create(dag_bucket_path(kind, number).text, STR(""), 0));
}

void dag_commit_create(struct dag_commit *t, enum bucket_kind kind, uint64_t id,
                       struct dag_path path, struct str text)
{
    make_bucket(t, kind, id);
    dag_commit_op(t, keeper_op_create(path.text, text, 0));
}

void dag_put_task(struct dag_commit *t, struct dag_node *n)
{
    dag_commit_touch(t, n);
    n->task_put = true;
    n->task_drop = false;
}

void dag_drop_task(struct dag_commit *t, struct dag_node *n)
{
    dag_commit_touch(t, n);
    n->task_drop = n->slot != 0;
    n->task_put = false;
}

void dag_set_slot(struct dag *d, struct dag_node *n, int64_t slot)
{
    if (n->slot)
        map_remove(&d->by_slot, map_hash_u64((uint64_t)n->slot), n->ref);
    n->slot = slot;
    if (n->slot)
        map_add(&d->by_slot, map_hash_u64((uint64_t)n->slot), n->ref);
}

/* Closing. */

void dag_commit_put_record(struct dag_commit *t, const struct dag_node *n, struct str text)
{
    struct dag_path path = dag_path(BUCKET_NODES, n->id);
    if (n->recorded)
        dag_commit_op(t, keeper_op_set(path.text, text, KEEPER_ANY_VERSION));
    else
        dag_commit_create(t, BUCKET_NODES, n->id, path, text);
}

static void write_record(struct dag_commit *t, struct dag_node *n)
{
    CLEANUP(buf_release) struct buf text = {0};
    node_put_record(&text, n, dag_visible(t->dag, n), graph_plan(&t->dag->graph, n)->taken);
    dag_commit_put_record(t, n, buf_str(&text));
    n->recorded = true;
    n->dirty = false;
}

/* An offer has no "agent", and the attempt that its claim will start (service.h). */
static struct task make_task(struct dag_commit *t, const struct dag_node *n)
{
    bool offered = graph_plan(&t->dag->graph, n)->offered;
    const char *agent = n->agent == AGENT_SERVE ? "\"agent\":\"serve\"," : "\"agent\":\"\",";
    const char *data = arena_printf(
        &t->arena, "{\"node\":%" PRIu64 ",%s\"attempt\":%" PRIu32 ",\"started\":%" PRId64 "}",
        n->id, offered ? "" : agent, n->attempts + offered, n->started_ms);
    return (struct task){
        .id = n->slot,
        .group = n->slot ? (struct str){0} : n->group,
        .data = str_of(data),
        .timespec = offered ? 0 : TASK_RESERVED_UNTIL,
    };
}

/* Collects the tasks that are new, or those that the store has. */
static void put_tasks(struct dag_commit *t, struct task *tasks, bool stored)
{
    for (size_t i = 0; i < t->node_count; i++) {
        struct dag_node *n = t->nodes[i];
        if (!n->task_put || (n->slot != 0) != stored || n->task_busy)
            continue;
        tasks[t->put_count] = make_task(t, n);
        t->puts[t->put_count++] = n;
        n->task_busy = true;
        n->task_put = false;
    }
}

static void write_tasks(struct dag_commit *t)
{
    size_t max = t->node_count + t->drop_count + 1, drops = 0;
    struct task *tasks = arena_alloc(&t->arena, max * sizeof *tasks);
    int64_t *deletes = arena_alloc(&t->arena, max * sizeof *deletes);
    t->puts = arena_alloc(&t->arena, max * sizeof *t->puts);
    put_tasks(t, tasks, false); /* first: adds come before updates in the reply */
    size_t adds = t->put_count;
    put_tasks(t, tasks, true);
    for (size_t i = 0; i < t->node_count; i++)
        if (t->nodes[i]->task_drop && t->nodes[i]->slot) {
            deletes[drops++] = t->nodes[i]->slot;
            t->nodes[i]->task_drop = false;
            dag_set_slot(t->dag, t->nodes[i], 0);
        }
    for (size_t i = 0; i < t->drop_count; i++)
        deletes[drops++] = t->drops[i];
    t->request.update = (struct task_update){
        .clientid = TASK_MANAGER,
        .manage = true,
        .adds = tasks,
        .add_count = adds,
        .updates = tasks + adds,
        .update_count = t->put_count - adds,
        .deletes = deletes,
        .delete_count = drops,
    };
}

/* The batch is durable, or has failed. */

static void settle(struct dag_commit *t, const struct task_reply *reply)
{
    struct dag *d = t->dag;
    for (size_t i = 0; i < t->put_count && i < reply->task_count; i++) {
        struct dag_node *n = t->puts[i];
        n->task = reply->tasks[i].id;
        n->task_busy = false;
        if (i < t->request.update.add_count)
            dag_set_slot(d, n, n->task);
    }
    for (size_t i = 0; i < t->node_count; i++) {
        t->nodes[i]->pins--;
        dag_show(d, t->nodes[i]);
    }
    for (size_t i = 0; i < t->mark_count; i++)
        started_clear(d->started, t->marks[i]);
    /* Handles what happened while the task was in flight. */
    for (size_t i = 0; i < t->put_count; i++) {
        struct dag_node *n = t->puts[i];
        if (!dag_needs_task(d, n))
            dag_drop_task(dag_commit_open(d), n);
        else if (n->task_put)
            dag_commit_touch(dag_commit_open(d), n);
        else if (n->kill_asked && !n->agent)
            dag_kill(d, n, NULL, NULL);
    }
}

static void commit_free(struct dag_commit *t)
{
    free(t->nodes);
    free(t->ops);
    free(t->drops);
    free(t->marks);
    free(t->waiters);
    arena_release(&t->arena);
    free(t);
}

/* Calls all that wait for the batch, once. */
static void notify(struct dag_commit *t, int err)
{
    size_t count = t->waiter_count;
    t->waiter_count = 0;
    for (size_t i = 0; i < count; i++)
        t->waiters[i].fn(t->waiters[i].arg, err);
}

/* No room on the disk: the batch waits, later batches wait behind it, and commands go on. */
static void stall(struct dag *d, struct dag_commit *t)
{
    t->stalled = true;
    d->stalled++;
    dag_arm(d, dag_now_ms(d) + STALL_MS);
}

static void submit(struct dag_commit *t)
{
    memset(&t->request.own, 0, sizeof t->request.own);
    service_submit(t->dag->context->tasks, &t->request);
}

/* Submits the oldest stalled batch again. The others follow when it is durable. */
void dag_commit_retry(struct dag *d)
{
    struct dag_commit *oldest = NULL;
    if (!d->stalled || d->retrying)
        return;
    for (struct dag_commit *t = d->inflight; t; t = t->next)
        if (t->stalled)
            oldest = t;
    oldest->stalled = false;
    d->stalled--;
    d->retrying = true;
    submit(oldest);
}

static void on_commit_done(void *arg, const struct task_reply *reply)
{
    struct dag_commit *t = arg;
    struct dag *d = t->dag;
    if (!d) {
        commit_free(t);
        return;
    }
    d->retrying = false;
    if (err_is_shortage(reply->err)) {
        stall(d, t);
        return;
    }
    struct dag_commit **at = &d->inflight;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (reply->err)
        d->failing = reply->err;
    else
        settle(t, reply);
    notify(t, reply->err);
    dag_soon(d);
    commit_free(t);
    dag_commit_retry(d);
}

void dag_commit_flush(struct dag *d)
{
    struct dag_commit *t = d->commit;
    if (!t)
        return;
    d->commit = NULL;
    write_tasks(t);
    for (size_t i = 0; i < t->node_count; i++) {
        if (t->nodes[i]->dirty)
            write_record(t, t->nodes[i]);
        t->nodes[i]->touched = false;
    }
    t->request.kind = TASK_UPDATE;
    t->request.extra = t->ops;
    t->request.extra_count = t->op_count;
    t->request.done = on_commit_done;
    t->request.arg = t;
    t->next = d->inflight;
    d->inflight = t;
    if (d->stalled || d->retrying)
        stall(d, t);
    else
        submit(t);
}

/* The replies to submitted batches come later, and then only free them. */
void dag_commit_drop_all(struct dag *d, int err)
{
    for (struct dag_commit *t = d->inflight, *next; t; t = next) {
        next = t->next;
        t->dag = NULL;
        notify(t, DROVER_UNKNOWN);
        if (t->stalled)
            commit_free(t); /* it was not submitted: there is no reply */
    }
    d->inflight = NULL;
    d->stalled = 0;
    d->retrying = false;
    struct dag_commit *open = d->commit;
    d->commit = NULL;
    if (open) {
        open->dag = NULL;
        notify(open, err);
        commit_free(open);
    }
}
