/*
 * Agents on other machines. They claim and renew in the task store (doc/design.md); the DAG offers
 * nodes to the claims that wait, and observes the changes of its tasks.
 */
#include <string.h>

#include "base/thread.h"
#include "dag/service.h"

/* Observing the task store. */

/* On any thread, with the service's lock held. */
static void on_wanted(void *arg, const struct task_claim *c, bool waits)
{
    struct dag *d = arg;
    if (!atomic_load(&d->has_ready))
        return;
    LOCKED(&d->lock);
    for (size_t i = 0; i < c->group_count && !waits && d->missed_count < DAG_MISSED_MAX; i++)
        d->missed[d->missed_count++] = map_hash_str(c->groups[i]);
    uv_async_send(&d->wake);
}

static struct dag_node *find_slot(const struct dag *d, int64_t slot)
{
    uint32_t hash = map_hash_u64((uint64_t)slot);
    for (uint32_t at, ref = map_first(&d->by_slot, hash, &at); ref;
         ref = map_next(&d->by_slot, hash, &at))
        if (graph_at(&d->graph, ref)->slot == slot)
            return graph_at(&d->graph, ref);
    return NULL;
}

/* An agent has claimed or renewed a task, and that is durable. */
static void on_changed(void *arg, int64_t slot, const struct task *t)
{
    struct dag *d = arg;
    struct dag_node *n = d->ready ? find_slot(d, slot) : NULL;
    if (!n || n->task_busy || n->task_drop)
        return; /* the DAG has changed the task itself */
    n->task = t->id;
    if (n->agent == t->ownerid && n->agent > 0) {
        n->lease_at = t->timespec;
        dag_arm(d, n->lease_at);
    } else if (!n->agent && graph_plan(&d->graph, n)->offered) {
        dag_start_attempt(d, n, t->ownerid, t->timespec);
        if (t->ownerid > 0)
            dag_show(d, n);
        else
            dag_unclaim(d, n); /* not an agent: client ids of agents are positive */
        dag_soon(d);
    }
}

void dag_observe(struct dag *d, bool on)
{
    service_observe(d->context->tasks, on ? &(struct service_observer){on_wanted, on_changed, d}
                                          : &(struct service_observer){0});
}

/* Offering. */

/* Takes the list of missed claims. */
static uint32_t take_missed(struct dag *d, uint32_t *ret_hashes)
{
    LOCKED(&d->lock);
    uint32_t count = d->missed_count;
    memcpy(ret_hashes, d->missed, count * sizeof *ret_hashes);
    d->missed_count = 0;
    return count;
}

static void offer_group(struct dag *d, uint32_t group, const uint32_t *missed, uint32_t count)
{
    struct dag_plan *p = &d->graph.plan;
    struct str name = str_of(d->graph.groups[group]);
    size_t wanted = service_wanted(d->context->tasks, name, DAG_OFFERED_MAX);
    uint32_t ref, hash = map_hash_str(name);
    for (uint32_t i = 0; i < count; i++)
        wanted += missed[i] == hash;
    while (p->queues[group].offered.count < wanted && (ref = plan_best_unoffered(p, group))) {
        plan_offer(p, ref);
        dag_put_task(dag_commit_open(d), graph_at(&d->graph, ref));
    }
}

/*
 * Offers as many nodes of each group as claims want, the best first. has_ready is set before the
 * claims are counted, so a claim that comes too late to be counted wakes the loop again.
 */
void dag_offer(struct dag *d)
{
    struct dag_plan *p = &d->graph.plan;
    uint32_t missed[DAG_MISSED_MAX];
    bool has_ready = false;
    for (uint32_t g = 0; g < p->queue_count; g++)
        has_ready |= p->queues[g].ready.count > 0;
    atomic_store(&d->has_ready, has_ready);
    uint32_t count = take_missed(d, missed);
    for (uint32_t g = 0; g < p->queue_count && has_ready; g++)
        if (p->queues[g].ready.count)
            offer_group(d, g, missed, count);
}

/* Running. */

bool dag_start(struct dag_node *n, int64_t agent, int64_t task)
{
    if (n->agent != agent || agent <= 0 || n->task != task || n->kill_asked)
        return false;
    n->begun = true;
    return true;
}

bool dag_is_run_by(const struct dag_node *n, int64_t agent, int64_t attempt)
{
    return n->agent == agent && agent > 0 && n->attempts == attempt;
}

void dag_lease_ended(struct dag *d, struct dag_node *n)
{
    struct run_outcome o = {.how = RUN_EXITED, .lost = true, .reason = "lost its agent"};
    if (n->begun)
        dag_end_run(d, n, &o, NULL, NULL);
    else
        dag_unclaim(d, n);
}
