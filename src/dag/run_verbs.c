/*
 * Requests about runs: finding what a text names, stopping a run after a failure, removing runs.
 *
 * A failure stops a run unless it keeps going: nodes that wait for success and have not started are
 * killed. The end that stopped it says so in its record, in the same transaction, so a server that
 * dies before all of them are killed goes on with it at its next start.
 *
 * Removing: all chunks of the run are replaced by a mark in one transaction; then the records, the
 * slots and at last the chunks are deleted, in as many transactions as it takes. From the first one
 * on the run does not exist any more, also after a crash (load.c deletes the rest).
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "dag/service.h"

enum {
    PRUNE_NODES_MAX = 20000, /* removed in one loop iteration, and the run that exceeds it */
    REFUSED_MS = 1000,       /* until a run is tried again that cannot be removed now */
};

struct dag_target dag_resolve(const struct dag *d, struct str text)
{
    const struct graph *g = &d->graph;
    const char *slash = text.len ? memchr(text.p, '/', text.len) : NULL;
    struct dag_target t = {.node = graph_find_text(g, text)};
    if (t.node || !text.len)
        return t;
    if (!slash) {
        t.run = graph_find_run(g, text);
        return t;
    }
    size_t len = (size_t)(slash - text.p);
    const struct dag_run *r = graph_find_run(g, (struct str){text.p, len});
    if (r)
        t.node = graph_find_in_run(g, r, (struct str){slash + 1, text.len - len - 1});
    return t;
}

/* Stopping. */

void dag_stop_run(struct dag *d, struct dag_node *n)
{
    struct dag_run *r = n->chunk->run;
    if (!r || r->keep_going || r->stopping)
        return;
    n->stops = r->stopping = true;
    mem_grow(d->stops, d->stop_count, d->stop_cap);
    d->stops[d->stop_count++] = r->number;
    dag_soon(d);
}

static void stop_run(struct dag *d, struct dag_run *r)
{
    graph_each_in_run(i, &d->graph, r)
    {
        struct dag_node *n = d->graph.order[i];
        if (dag_visible(d, n) == NODE_INCIPIENT && !n->kill_asked &&
            graph_plan(&d->graph, n)->when == WHEN_SUCCESS)
            dag_kill(d, n, NULL, NULL);
    }
    r->stopping = false;
}

void dag_stop_runs(struct dag *d)
{
    for (size_t i = 0; i < d->stop_count; i++) {
        struct dag_run *r = graph_run(&d->graph, d->stops[i]);
        if (r)
            stop_run(d, r);
    }
    d->stop_count = 0;
}

/* Removing. */

/* A node outside the run that is below the node and has not ended; NULL: none. */
static const struct dag_node *waits_outside(const struct dag *d, const struct dag_node *n)
{
    const struct dag_plan *p = &d->graph.plan;
    plan_each_child(e, p, n->ref) {
        const struct dag_node *child = graph_at(&d->graph, p->edges[e].child);
        if (child->chunk->run != n->chunk->run &&
            !node_state_is_terminal(graph_state(&d->graph, child)))
            return child;
    }
    return NULL;
}

int dag_check_remove_run(struct dag *d, const struct dag_run *r, struct err_info *e)
{
    if (dag_run_lives(r))
        return err_set(e, DROVER_REFUSED, "run %s has not ended: kill it first", r->id);
    graph_each_in_run(i, &d->graph, r)
    {
        const struct dag_node *n = d->graph.order[i], *child = waits_outside(d, n);
        if (child)
            return err_set(e, DROVER_REFUSED,
                           "node %" PRIu64 " waits for node %" PRIu64 " of run %s", child->id,
                           n->id, r->id);
        if (n->pins || n->task_busy || n->slot || n->parked)
            return err_set(e, DROVER_REFUSED, "node %" PRIu64 " of run %s is being changed", n->id,
                           r->id);
    }
    return 0;
}

/* Children that stay and have no record get one: their state is computed from their parents. */
static void record_outside(struct dag *d, const struct dag_run *r)
{
    const struct dag_plan *p = &d->graph.plan;
    graph_each_in_run(i, &d->graph, r) plan_each_child(e, p, d->graph.order[i]->ref)
    {
        struct dag_node *child = graph_at(&d->graph, p->edges[e].child);
        if (child->chunk->run != r && !child->recorded)
            dag_commit_record(dag_commit_open(d), child);
    }
}

/* In one transaction. */
static void mark_chunks(struct dag *d, const struct dag_run *r)
{
    struct dag_commit *t = dag_commit_open(d);
    const struct chunk_text *last = NULL;
    graph_each_in_run(i, &d->graph, r)
    {
        const struct chunk_text *c = d->graph.order[i]->chunk;
        if (c != last)
            dag_commit_op(t, keeper_op_set(dag_path(BUCKET_SPECS, c->first_id).text,
                                           str_of(arena_printf(
                                               &t->arena, "{\"removed\":%" PRIu32 "}", c->count)),
                                           KEEPER_ANY_VERSION));
        last = c;
    }
}

/* With the last node of a chunk, the records of nodes of it that were deleted before go too. */
static void remove_node(struct dag *d, struct dag_node *n)
{
    const struct chunk_text *c = n->chunk;
    for (struct node_datum *v = n->values; v; v = v->next)
        dag_drop_slots(d, n, v);
    if (n->recorded)
        dag_commit_delete(dag_commit_open(d), dag_path(BUCKET_NODES, n->id));
    graph_show(&d->graph, n, SHOWN_NONE);
    dag_publish(d, n);
    if (c->nodes == 1)
        dag_commit_delete(dag_commit_open(d), dag_path(BUCKET_SPECS, c->first_id));
    graph_remove(&d->graph, n);
}

/* Nodes of the run that were deleted one by one have left a record. */
static void remove_holes(struct dag *d, const struct chunk_text *c)
{
    uint64_t end = c->first_id + c->count;
    if (c->nodes == c->count)
        return;
    for (uint64_t id = c->first_id; id < end; id++)
        if (!graph_find(&d->graph, id))
            dag_commit_delete(dag_commit_open(d), dag_path(BUCKET_NODES, id));
}

void dag_remove_run(struct dag *d, struct dag_run *r, dag_done_fn *done, void *arg)
{
    const struct chunk_text *last = NULL;
    uint64_t number = r->number;
    record_outside(d, r);
    dag_commit_flush(d);
    mark_chunks(d, r);
    graph_each_in_run(k, &d->graph, r)
    {
        if (d->graph.order[k]->chunk != last)
            remove_holes(d, d->graph.order[k]->chunk);
        last = d->graph.order[k]->chunk;
    }
    uint32_t i = graph_seek(&d->graph, r->first_id);
    while ((r = graph_run(&d->graph, number)) &&
           (i = graph_next_in_run(&d->graph, r, i)) < d->graph.count)
        remove_node(d, d->graph.order[i]);
    dag_wake_all(d, "run", (int64_t)number);
    graph_compact(&d->graph);
    dag_commit_then(dag_commit_open(d), done, arg);
}

/* Retention. */

static uint32_t node_count(const struct dag_run *r)
{
    uint32_t count = 0;
    for (int i = 0; i <= NODE_SKIPPED; i++)
        count += r->counts[i];
    return count;
}

/*
 * Removes about PRUNE_NODES_MAX nodes. Returns how many runs; *ret_next: when there is more to do.
 */
static size_t prune_some(struct dag *d, const struct dag_keep *keep, int64_t *ret_next)
{
    int64_t now = dag_now_ms(d), newer = 0;
    size_t removed = 0;
    uint32_t nodes = 0;
    struct err_info why;
    *ret_next = INT64_MAX;
    for (uint32_t i = 0; i < d->graph.run_count; i++)
        newer += !dag_run_lives(d->graph.runs[i]);
    for (uint32_t i = 0; i < d->graph.run_count;) {
        struct dag_run *r = d->graph.runs[i++];
        if (dag_run_lives(r))
            continue;
        newer--; /* ended runs that are newer than this one */
        int64_t due = keep->count >= 0 && newer >= keep->count ? 0
                      : keep->ms >= 0                          ? r->ended_ms + keep->ms
                                                               : INT64_MAX;
        if (due <= now && nodes < PRUNE_NODES_MAX && !dag_check_remove_run(d, r, &why)) {
            nodes += node_count(r);
            dag_remove_run(d, r, NULL, NULL);
            removed++;
            i--;
        } else if (due < *ret_next) {
            *ret_next = due <= now && nodes < PRUNE_NODES_MAX ? now + REFUSED_MS : due;
        }
    }
    return removed;
}

size_t dag_prune(struct dag *d, const struct dag_keep *keep, dag_done_fn *done, void *arg)
{
    size_t removed = 0, some;
    int64_t next;
    do
        removed += some = prune_some(d, keep, &next);
    while (some && next <= dag_now_ms(d));
    dag_commit_then(dag_commit_open(d), done, arg);
    return removed;
}

void dag_keep_runs(struct dag *d)
{
    int64_t now = dag_now_ms(d);
    if ((d->keep.count < 0 && d->keep.ms < 0) || (!d->runs_ended && now < d->prune_at))
        return;
    d->runs_ended = false;
    prune_some(d, &d->keep, &d->prune_at);
    if (d->prune_at <= now)
        dag_soon(d);
    else if (d->prune_at != INT64_MAX)
        dag_arm(d, d->prune_at);
}
