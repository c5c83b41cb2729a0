/* Requests: ending, killing, retrying, removing. Each adds its changes to the open commit batch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/dag_impl.h"

/*
 * Sets the end time of nodes that ended because others did. It is not stored: dag_begin() computes
 * it.
 */
void dag_set_end_times(struct dag *d, const struct plan_changes *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct dag_node *n = graph_at(&d->graph, c->refs[i]);
        enum node_state state = graph_state(&d->graph, n);

        if (state == NODE_SKIPPED || (state == NODE_FINISHED && !n->ended_ms))
            n->ended_ms = dag_now_ms(d);
    }
}

/* A node needs a task while it has an agent, is offered, or its attempts must be remembered. */
bool dag_needs_task(const struct dag *d, const struct dag_node *n)
{
    const struct plan_node *p = graph_plan(&d->graph, n);

    return !node_state_is_terminal(p->state) &&
           (n->agent || n->parked || p->offered || (p->place && n->attempts));
}

void dag_follow(struct dag *d, struct dag_commit *t, struct plan_changes *c)
{
    dag_set_end_times(d, c);
    for (size_t i = 0; i < c->count; i++) {
        struct dag_node *n = graph_at(&d->graph, c->refs[i]);

        if (n->slot && !dag_needs_task(d, n))
            dag_drop_task(t, n);
    }
    dag_commit_touch_all(t, c);
    plan_changes_release(c);
}

/* The end of a run. */

/* "timed out after 60 s" */
static void put_timeout(char *to, size_t len, const struct dag_node *n, enum node_type type)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct node_command c;

    node_command(n, type, &a, &c);
    if (c.timeout_ms % 1000)
        snprintf(to, len, "timed out after %" PRId64 " ms", c.timeout_ms);
    else
        snprintf(to, len, "timed out after %" PRId64 " s", c.timeout_ms / 1000);
}

static void set_reason(struct dag_node *n, enum node_type type, const struct run_outcome *o)
{
    char text[200];

    if (o->reason)
        node_set_reason(n, o->reason);
    else if (o->how == RUN_KILLED)
        node_set_reason(n, n->kill_asked ? "killed" : NULL);
    else if (o->how == RUN_EXITED && !o->status)
        node_set_reason(n, NULL);
    else {
        if (o->how == RUN_TIMED_OUT)
            put_timeout(text, sizeof text, n, type);
        else if (o->how == RUN_SIGNALLED)
            snprintf(text, sizeof text, "signal %d (%s)", o->status, strsignal(o->status));
        else
            snprintf(text, sizeof text, "exit status %d", o->status);
        node_set_reason(n, text);
    }
}

static enum node_state judge(const struct dag_node *n, enum node_type type,
                             const struct run_outcome *o, enum node_branch *ret_taken)
{
    bool exited = !o->lost && !o->reason && o->how == RUN_EXITED;

    *ret_taken = BRANCH_NONE;
    if (n->kill_asked || o->how == RUN_KILLED)
        return NODE_KILLED;
    if (type == NODE_IF && exited) {
        *ret_taken = o->status ? BRANCH_ELSE : BRANCH_THEN;
        return NODE_FINISHED;
    }
    return exited && !o->status ? NODE_FINISHED : NODE_FAILED;
}

/* When the next attempt is due; 0: there is none. */
static int64_t next_attempt_at(struct dag *d, const struct dag_node *n, enum node_type type,
                               const struct run_outcome *o)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct node_command c;
    int64_t now = dag_now_ms(d), at = 0;

    node_command(n, type, &a, &c);
    if (type == NODE_CONDITION && o->how != RUN_TIMED_OUT) {
        if (!c.timeout_ms || now - n->started_ms < c.timeout_ms)
            at = now + (c.interval_ms ? c.interval_ms : 1);
    } else if (n->attempts <= c.retries) {
        at = now + node_delay_ms(&c, n->attempts);
    }
    return at;
}

void dag_end_run(struct dag *d, struct dag_commit *t, struct dag_node *n,
                 const struct run_outcome *o)
{
    enum node_type type = graph_plan(&d->graph, n)->type;
    struct plan_changes changes = {0};
    enum node_branch taken;
    enum node_state state = judge(n, type, o, &taken);
    int64_t again = state == NODE_FAILED ? next_attempt_at(d, n, type, o) : 0;

    dag_leave_running(d, n);
    n->ahead = false;
    dag_commit_unmark(t, n);
    set_reason(n, type, o);
    if (taken)
        node_set_reason(n, NULL);
    if (!o->lost)
        node_set_int(n, "result", o->how == RUN_EXITED ? o->status : 128 + o->status);
    if (again) {
        if (type != NODE_CONDITION) /* stores the number of attempts */
            dag_put_task(t, n);
        dag_park(d, n, again);
        return;
    }
    if (type == NODE_CONDITION && state == NODE_FAILED && !o->reason)
        set_reason(n, type, &(struct run_outcome){.how = RUN_TIMED_OUT});
    n->ended_ms = dag_now_ms(d);
    dag_drop_task(t, n);
    dag_commit_record(t, n);
    plan_end(&d->graph.plan, n->ref, state, taken, &changes);
    dag_follow(d, t, &changes);
}

void dag_ended(struct dag *d, struct dag_node *n, const struct run_outcome *o, dag_done_fn *done,
               void *arg)
{
    struct dag_commit *t = dag_commit_open(d);

    dag_end_run(d, t, n, o);
    dag_commit_then(t, done, arg);
}

void dag_unclaim(struct dag *d, struct dag_node *n)
{
    struct dag_commit *t = dag_commit_open(d);

    dag_leave_running(d, n);
    n->ahead = false;
    n->attempts--;
    if (!n->attempts)
        n->started_ms = 0;
    plan_park(&d->graph.plan, n->ref);
    plan_unpark(&d->graph.plan, n->ref);
    if (n->attempts)
        dag_put_task(t, n);
    else
        dag_drop_task(t, n);
}

/* Killing and retrying. */

void dag_kill(struct dag *d, struct dag_node *n, dag_done_fn *done, void *arg)
{
    struct dag_commit *t = dag_commit_open(d);
    struct plan_changes changes = {0};

    dag_commit_then(t, done, arg);
    if (node_state_is_terminal(graph_state(&d->graph, n)))
        return;
    n->kill_asked = true;
    if (n->agent == AGENT_SERVE) {
        serve_agent_kill(d->agent, n);
    } else if (n->agent && n->begun) {
        n->kill_number = ++d->kill_number;
        http_topic_wake(&d->topic, dag_key("kill", n->agent), HTTP_TOPIC_ALL);
    } else if (n->agent) {
        dag_end_run(d, t, n, &(struct run_outcome){.how = RUN_KILLED, .lost = true});
    } else if (!n->task_busy) {
        dag_unpark(d, n);
        node_set_reason(n, "killed");
        n->ended_ms = dag_now_ms(d);
        dag_drop_task(t, n);
        dag_commit_record(t, n);
        plan_end(&d->graph.plan, n->ref, NODE_KILLED, BRANCH_NONE, &changes);
        dag_follow(d, t, &changes);
    }
}

int dag_check_retry(const struct dag *d, const struct dag_node *n, struct err_info *e)
{
    enum node_state state = graph_state(&d->graph, n);

    if (state == NODE_FAILED || state == NODE_KILLED)
        return 0;
    return err_set(e, DROVER_REFUSED,
                   "node %" PRIu64 " is %s: only failed and killed nodes can be retried", n->id,
                   node_state_name(dag_visible(d, n)));
}

int dag_retry(struct dag *d, struct dag_node *n, dag_done_fn *done, void *arg, struct err_info *e)
{
    struct plan_changes changes = {0};

    if (dag_check_retry(d, n, e))
        return DROVER_REFUSED;
    struct dag_commit *t = dag_commit_open(d);
    plan_retry(&d->graph.plan, n->ref, &changes);
    for (size_t i = 0; i < changes.count; i++) {
        struct dag_node *m = graph_at(&d->graph, changes.refs[i]);

        if (node_state_is_terminal(graph_state(&d->graph, m)))
            continue;
        m->ended_ms = 0;
        m->kill_asked = false;
        if (m->recorded || m == n)
            dag_commit_record(t, m);
    }
    n->attempts = 0;
    n->started_ms = 0;
    node_set_reason(n, NULL);
    dag_follow(d, t, &changes);
    dag_commit_then(t, done, arg);
    return 0;
}

/* Removing. */

void dag_drop_slots(struct dag *d, struct dag_node *n, struct node_datum *v)
{
    char path[DAG_PATH_LEN];

    for (uint32_t i = 0; i < v->slot_count; i++) {
        dag_slot_path(path, sizeof path, n->id, v->slots[i].number);
        dag_commit_op(dag_commit_open(d), keeper_op_delete(path, KEEPER_ANY_VERSION));
    }
}

static int check_removable(struct dag *d, const struct plan_changes *c, bool chain,
                           struct err_info *e)
{
    for (size_t i = 0; i < c->count; i++) {
        struct dag_node *n = graph_at(&d->graph, c->refs[i]);

        if (d->graph.shown[n->index] == NODE_RUNNING || graph_state(&d->graph, n) == NODE_RUNNING)
            return err_set(e, DROVER_REFUSED, "node %" PRIu64 " is running", n->id);
        if (n->pins || n->task_busy || n->parked)
            return err_set(e, DROVER_REFUSED, "node %" PRIu64 " is being changed", n->id);
        if (!chain && !plan_is_removable(&d->graph.plan, n->ref))
            return err_set(e, DROVER_REFUSED,
                           "other nodes wait for node %" PRIu64 ": chain=true removes them too",
                           n->id);
    }
    return 0;
}

/* The state of a child without a record is computed from its parents; without them it needs one. */
static void record_children(struct dag *d, struct dag_commit *t, const struct dag_node *n)
{
    plan_each_child(e, &d->graph.plan, n->ref) {
        struct dag_node *child = graph_at(&d->graph, d->graph.plan.edges[e].child);

        if (!child->recorded)
            dag_commit_record(t, child);
    }
}

/* Marks the node as deleted while its chunk has others; with the last one the chunk is deleted. */
static void remove_one(struct dag *d, struct dag_node *n)
{
    struct chunk_text *c = n->chunk;
    char path[DAG_PATH_LEN];

    for (struct node_datum *v = n->values; v; v = v->next)
        dag_drop_slots(d, n, v);
    struct dag_commit *t = dag_commit_open(d);
    if (n->slot)
        dag_commit_drop(t, n->slot); /* the batch must not refer to the node */
    dag_set_slot(d, n, 0);
    dag_path(path, BUCKET_NODES, n->id);
    if (c->nodes == 1) {
        for (uint64_t id = c->first_id; id < c->first_id + c->count; id++) {
            char mark[DAG_PATH_LEN];

            dag_path(mark, BUCKET_NODES, id);
            if (id != n->id || n->recorded)
                dag_commit_op(t, keeper_op_delete(mark, KEEPER_ANY_VERSION));
        }
        dag_path(path, BUCKET_SPECS, c->first_id);
        dag_commit_op(t, keeper_op_delete(path, KEEPER_ANY_VERSION));
    } else {
        dag_commit_bucket(t, BUCKET_NODES, dag_bucket(BUCKET_NODES, n->id));
        dag_commit_op(
            t, n->recorded ? keeper_op_set(path, STR("{\"state\":\"deleted\"}"), KEEPER_ANY_VERSION)
                           : keeper_op_create(path, STR("{\"state\":\"deleted\"}"), 0));
    }
}

int dag_remove(struct dag *d, struct dag_node *n, bool chain, dag_done_fn *done, void *arg,
               struct err_info *e)
{
    struct plan_changes all = {0};

    if (chain)
        plan_descendants(&d->graph.plan, n->ref, &all);
    else
        plan_changes_put(&all, n->ref);
    int err = check_removable(d, &all, chain, e);
    if (!err) {
        dag_commit_flush(d);
        for (size_t i = all.count; i-- > 0;) {
            struct dag_node *m = graph_at(&d->graph, all.refs[i]);

            if (!chain)
                record_children(d, dag_commit_open(d), m);
            remove_one(d, m);
            d->graph.shown[m->index] = SHOWN_NONE;
            d->o.shown(d->o.arg, m);
            graph_remove(&d->graph, m);
        }
        graph_compact(&d->graph);
        dag_commit_then(dag_commit_open(d), done, arg);
    }
    plan_changes_release(&all);
    return err;
}
