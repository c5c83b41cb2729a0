/*
 * Requests: ending, killing, retrying, removing, storing values. Each adds its changes to the open
 * commit batch.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "dag/service.h"

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
        dag_commit_touch(t, n);
    }
    plan_changes_release(c);
}

/* The node ends in this state, with this batch. */
static void end_node(struct dag *d, struct dag_commit *t, struct dag_node *n, enum node_state state,
                     enum node_branch taken)
{
    struct plan_changes changes = {0};
    n->ended_ms = dag_now_ms(d);
    dag_drop_task(t, n);
    dag_commit_record(t, n);
    if (state != NODE_FINISHED)
        dag_stop_run(d, n);
    plan_end(&d->graph.plan, n->ref, state, taken, &changes);
    dag_follow(d, t, &changes);
}

/* The lists of running and parked nodes. */

static void list_add(struct node_list *l, struct dag_node *n)
{
    mem_grow(l->nodes, l->count, l->cap);
    n->list_at = l->count;
    l->nodes[l->count++] = n;
}

static void list_remove(struct node_list *l, struct dag_node *n)
{
    struct dag_node *last = l->nodes[--l->count];
    l->nodes[n->list_at] = last;
    last->list_at = n->list_at;
}

void dag_enter_running(struct dag *d, struct dag_node *n, int64_t agent, int64_t lease_at)
{
    list_add(&d->running, n);
    n->agent = agent;
    n->lease_at = lease_at;
    dag_arm(d, lease_at);
}

void dag_leave_running(struct dag *d, struct dag_node *n)
{
    list_remove(&d->running, n);
    n->agent = AGENT_NONE;
    n->ahead = false;
}

void dag_park(struct dag *d, struct dag_node *n, int64_t due_ms)
{
    list_add(&d->parked, n);
    n->parked = true;
    n->due_at = due_ms;
    plan_park(&d->graph.plan, n->ref);
    dag_arm(d, due_ms);
}

void dag_unpark(struct dag *d, struct dag_node *n)
{
    if (n->parked)
        list_remove(&d->parked, n);
    n->parked = false;
}

/* The end of a run. */

static void set_reason(struct dag_node *n, const struct node_command *c, const struct run_end *end)
{
    char text[200];
    const char *reason = text;
    bool whole = c->timeout_ms % 1000 == 0;
    if (end->reason)
        reason = end->reason;
    else if (end->how == RUN_KILLED)
        reason = n->kill_asked ? "killed" : NULL;
    else if (end->how == RUN_TIMED_OUT)
        snprintf(text, sizeof text, "timed out after %" PRId64 " %s",
                 whole ? c->timeout_ms / 1000 : c->timeout_ms, whole ? "s" : "ms");
    else if (end->how == RUN_SIGNALLED)
        snprintf(text, sizeof text, "signal %d (%s)", end->status, strsignal(end->status));
    else if (end->status)
        snprintf(text, sizeof text, "exit status %d", end->status);
    else
        reason = NULL;
    node_set_reason(n, reason);
}

static enum node_state judge(const struct dag_node *n, enum node_type type,
                             const struct run_end *end, enum node_branch *ret_taken)
{
    bool exited = !end->lost && !end->reason && end->how == RUN_EXITED;
    *ret_taken = BRANCH_NONE;
    if (n->kill_asked || end->how == RUN_KILLED)
        return NODE_KILLED;
    if (type == NODE_IF && exited) {
        *ret_taken = end->status ? BRANCH_ELSE : BRANCH_THEN;
        return NODE_FINISHED;
    }
    return exited && !end->status ? NODE_FINISHED : NODE_FAILED;
}

/* When the next attempt is due; 0: there is none. */
static int64_t next_attempt_at(struct dag *d, const struct dag_node *n, enum node_type type,
                               const struct node_command *c, const struct run_end *end)
{
    int64_t now = dag_now_ms(d);
    if (type != NODE_CONDITION || end->how == RUN_TIMED_OUT)
        return n->attempts <= c->retries ? now + node_delay_ms(c, n->attempts) : 0;
    if (c->timeout_ms && now - n->started_ms >= c->timeout_ms)
        return 0;
    return now + (c->interval_ms ? c->interval_ms : 1);
}

void dag_end_run(struct dag *d, struct dag_node *n, const struct run_end *end, dag_done_fn *done,
                 void *arg)
{
    struct dag_commit *t = dag_commit_open(d);
    enum node_type type = graph_plan(&d->graph, n)->type;
    CLEANUP(arena_release) struct arena a = {0};
    struct node_command c = {0}; /* not needed for most ends */
    enum node_branch taken;
    enum node_state state = judge(n, type, end, &taken);

    if (state == NODE_FAILED || end->how == RUN_TIMED_OUT)
        node_command(n, type, &a, &c);
    dag_count_end(d, n, state, end);
    int64_t again = state == NODE_FAILED ? next_attempt_at(d, n, type, &c, end) : 0;
    dag_leave_running(d, n);
    dag_commit_unmark(t, n);
    set_reason(n, &c, end);
    if (taken)
        node_set_reason(n, NULL);
    if (!end->lost)
        node_set_int(n, "result", end->how == RUN_EXITED ? end->status : 128 + end->status);
    if (again && type != NODE_CONDITION) /* stores the number of attempts */
        dag_put_task(t, n);
    if (again) {
        dag_park(d, n, again);
    } else {
        if (type == NODE_CONDITION && state == NODE_FAILED && !end->reason)
            set_reason(n, &c, &(struct run_end){.how = RUN_TIMED_OUT});
        end_node(d, t, n, state, taken);
    }
    dag_commit_then(t, done, arg);
}

void dag_unclaim(struct dag *d, struct dag_node *n)
{
    struct dag_commit *t = dag_commit_open(d);
    dag_leave_running(d, n);
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
    dag_commit_then(t, done, arg);
    if (node_state_is_terminal(graph_state(&d->graph, n)))
        return;
    n->kill_asked = true;
    if (n->agent == AGENT_SERVE) {
        serve_agent_kill(d, n);
    } else if (n->agent && n->begun) {
        n->kill_number = ++d->kill_number;
        dag_wake_all(d, "kill", n->agent);
    } else if (n->agent) {
        dag_end_run(d, n, &(struct run_end){.how = RUN_KILLED, .lost = true}, NULL, NULL);
    } else if (!n->task_busy) {
        dag_unpark(d, n);
        node_set_reason(n, "killed");
        end_node(d, t, n, NODE_KILLED, BRANCH_NONE);
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

void dag_retry(struct dag *d, struct dag_node *n, dag_done_fn *done, void *arg)
{
    struct plan_changes changes = {0};
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
    n->stops = false;
    node_set_reason(n, NULL);
    dag_follow(d, t, &changes);
    dag_commit_then(t, done, arg);
}

/* Removing. */

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
    for (struct node_datum *v = n->values; v; v = v->next)
        dag_drop_slots(d, n, v);
    struct dag_commit *t = dag_commit_open(d);
    if (n->slot)
        dag_commit_drop(t, n->slot); /* the batch must not refer to the node */
    dag_set_slot(d, n, 0);
    if (c->nodes > 1) {
        dag_commit_put_record(t, n, STR(DAG_DELETED));
        return;
    }
    for (uint64_t id = c->first_id; id < c->first_id + c->count; id++)
        if (id != n->id || n->recorded)
            dag_commit_delete(t, dag_path(BUCKET_NODES, id));
    dag_commit_delete(t, dag_path(BUCKET_SPECS, c->first_id));
}

int dag_remove(struct dag *d, const struct plan_changes *nodes, bool chain, dag_done_fn *done,
               void *arg, struct err_info *e)
{
    TRY(check_removable(d, nodes, chain, e));
    dag_commit_flush(d);
    for (size_t i = nodes->count; i-- > 0;) {
        struct dag_node *n = graph_at(&d->graph, nodes->refs[i]);
        if (!chain)
            record_children(d, dag_commit_open(d), n);
        remove_one(d, n);
        graph_show(&d->graph, n, SHOWN_NONE);
        dag_publish(d, n);
        graph_remove(&d->graph, n);
    }
    graph_compact(&d->graph);
    dag_commit_then(dag_commit_open(d), done, arg);
    return 0;
}

/*
 * Storing values: small ones in the record, large text in slots, followed by a tail that grows in
 * the record until it is large enough for a slot. So text that arrives in small pieces, like the
 * output of a command, needs few slots, and each piece costs one write of the record.
 */

void dag_drop_slots(struct dag *d, struct dag_node *n, struct node_datum *v)
{
    for (uint32_t i = 0; i < v->slot_count; i++)
        dag_commit_delete(dag_commit_open(d), dag_slot_path(n->id, v->slots[i].number));
}

/* Adds a slot at the end. */
static void put_slot(struct dag *d, struct dag_node *n, struct node_datum *v, struct str text)
{
    struct dag_commit *t = dag_commit_open(d); /* first: it may flush, and write the record */
    v->slots = mem_realloc(v->slots, (v->slot_count + 1) * sizeof *v->slots);
    v->slots[v->slot_count++] = (struct datum_slot){n->next_slot, (uint32_t)text.len};
    dag_commit_create(t, BUCKET_SLOTS, n->id, dag_slot_path(n->id, n->next_slot++), text);
}

static void spill(struct dag *d, struct dag_node *n, struct node_datum *v)
{
    struct buf text = v->bytes;
    if (!v->is_text || text.len <= NODE_TEXT_INLINE_MAX)
        return;
    v->bytes = (struct buf){0};
    for (size_t at = 0; at < text.len; at += NODE_SLOT_LEN) {
        size_t len = text.len - at < NODE_SLOT_LEN ? text.len - at : NODE_SLOT_LEN;
        put_slot(d, n, v, (struct str){text.p + at, len});
    }
    buf_release(&text);
}

void dag_append_text(struct dag *d, struct dag_node *n, struct node_datum *v, struct str text)
{
    buf_put_str(&v->bytes, text);
    v->len += text.len;
    spill(d, n, v);
}

/* A piece at the end keeps a slot of its own, unless it is output. */
static void append_piece(struct dag *d, struct dag_node *n, struct node_datum *v, struct str text)
{
    struct buf before = v->bytes;
    if (before.len && v->slot_count < NODE_PIECES_MAX && !node_key_is_output(str_of(v->key))) {
        v->bytes = (struct buf){0};
        put_slot(d, n, v, buf_str(&before));
        buf_release(&before);
    }
    dag_append_text(d, n, v, text);
}

bool dag_put_piece(struct dag *d, struct dag_node *n, struct node_datum *v, uint64_t start,
                   struct str text)
{
    uint64_t at = 0;
    uint32_t i = 0;
    for (; i < v->slot_count && at < start; i++)
        at += v->slots[i].len;
    if (start == v->len) {
        append_piece(d, n, v, text);
    } else if (at != start) {
        return false;
    } else if (i == v->slot_count) { /* the tail */
        v->len -= v->bytes.len;
        v->bytes.len = 0;
        dag_append_text(d, n, v, text);
    } else {
        dag_commit_delete(dag_commit_open(d), dag_slot_path(n->id, v->slots[i].number));
        v->len = v->len - v->slots[i].len + text.len;
        put_slot(d, n, v, text);
        v->slots[i] = v->slots[--v->slot_count];
    }
    return true;
}

const char *const DAG_OUTPUTS[RUN_STREAMS] = {"stdout", "stderr", "mixedout"};

struct node_datum *dag_output_value(struct dag *d, struct dag_node *n, enum run_stream s)
{
    struct node_datum *v = node_value(n, str_of(DAG_OUTPUTS[s]));
    if (v && v->live_pid == node_live_pid(n))
        return v;
    if (v)
        dag_drop_slots(d, n, v);
    v = node_set_text(n, DAG_OUTPUTS[s], STR(""));
    v->live_pid = node_live_pid(n);
    return v;
}

void dag_save_value(struct dag *d, struct dag_node *n, struct node_datum *v, dag_done_fn *done,
                    void *arg)
{
    spill(d, n, v);
    struct dag_commit *t = dag_commit_open(d);
    dag_commit_record(t, n);
    dag_commit_then(t, done, arg);
}
