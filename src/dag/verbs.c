/* The verbs: adding, ending, killing, running again, removing. Each goes into the turn at hand. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/dag_impl.h"
#include "dag/orphans.h"

/* Those that ended because others did. The time is not kept: dag_begin() finds it again. */
static void date(struct dag *d, const struct plan_changes *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct dag_node *n = graph_at(&d->graph, c->refs[i]);
        enum node_state state = graph_state(&d->graph, n);

        if (state == NODE_SKIPPED || (state == NODE_FINISHED && !n->ended_ms))
            n->ended_ms = dag_now_ms(d);
    }
}

static void follow(struct dag *d, struct dag_commit *t, struct plan_changes *c)
{
    date(d, c);
    for (size_t i = 0; i < c->count; i++) {
        struct dag_node *n = graph_at(&d->graph, c->refs[i]);

        if (node_state_is_terminal(graph_state(&d->graph, n)) && n->has_task)
            dag_drop_task(t, n);
    }
    dag_commit_touch_all(t, c);
    plan_changes_release(c);
}

/* Adding. */

struct dag_addition {
    struct dag_addition *next;
    struct dag *dag; /* NULL: it has ended meanwhile */
    struct draft draft;
    dag_done_fn *done;
    void *arg;
    uint32_t left;  /* answers to come */
    uint32_t saved; /* chunks that were kept */
    int err;
    bool begun;
    struct task_request *requests;
    struct dag_commit *ops; /* holds the operations; never flushed itself */
};

static void begin_adding(struct dag *d);

static void pin_parents(struct dag_addition *a, int by)
{
    for (uint32_t i = 0; i < a->draft.parent_count; i++)
        a->draft.parents[i]->pins += (uint32_t)by;
}

static void adding_free(struct dag_addition *a)
{
    draft_release(&a->draft);
    free(a->requests);
    if (a->ops) {
        free(a->ops->ops);
        arena_release(&a->ops->arena);
        free(a->ops);
    }
    free(a);
}

/* Puts what has been kept into the graph. */
static void enter(struct dag *d, struct dag_addition *a)
{
    struct plan_changes changes = {0};
    uint32_t from = d->graph.count;
    int err = graph_load(&d->graph, a->draft.chunks, a->draft.chunk_count, NULL, NULL, &changes);

    assert(!err); /* we wrote it ourselves */
    date(d, &changes);
    for (uint32_t i = from; i < d->graph.count; i++)
        for (int l = 0; l < d->listener_count; l++)
            d->listeners[l].fn(d->listeners[l].arg, d->graph.order[i]);
    free(a->draft.chunks);
    a->draft.chunks = NULL;
    a->draft.chunk_count = 0;
    if (changes.count)
        follow(d, dag_commit_open(d), &changes);
    for (int l = 0; l < d->listener_count; l++)
        d->listeners[l].fn(d->listeners[l].arg, NULL);
}

/* A graph of several chunks of which not all were kept: the others go, or we read everything anew. */
static void take_back(struct dag *d, struct dag_addition *a)
{
    struct dag_commit *t = dag_commit_open(d);
    char path[DAG_PATH_LEN];

    for (uint32_t i = 0; i < a->saved; i++) {
        dag_path(path, BUCKET_SPECS, a->draft.chunks[i]->first_id);
        dag_commit_op(t, keeper_op_delete(path, KEEPER_ANY_VERSION));
    }
}

static void on_chunk_done(void *arg, const struct task_reply *reply)
{
    struct dag_addition *a = arg;
    struct dag *d = a->dag;

    a->saved += !reply->err;
    if (reply->err && !a->err)
        a->err = reply->err;
    if (--a->left)
        return;
    if (d) {
        d->adding = a->next;
        if (!d->adding)
            d->adding_last = NULL;
        pin_parents(a, -1);
        if (!a->err)
            enter(d, a);
        else if (a->saved)
            take_back(d, a);
        if (a->err == DROVER_UNKNOWN || a->err == DROVER_FENCED)
            d->failing = a->err;
        dag_soon(d);
    }
    if (d)
        a->done(a->arg, a->err);
    adding_free(a);
    if (d && d->adding)
        begin_adding(d);
}

/* The operations of one chunk; the last also moves the head, which is what makes them count. */
static void put_chunk(struct dag_addition *a, uint32_t i)
{
    struct chunk_text *c = a->draft.chunks[i];
    struct dag *d = a->dag;
    struct buf head = {0};
    char path[DAG_PATH_LEN];

    dag_commit_bucket(a->ops, BUCKET_SPECS, dag_bucket(BUCKET_SPECS, c->first_id));
    dag_path(path, BUCKET_SPECS, c->first_id);
    dag_commit_op(a->ops, keeper_op_create(path, (struct str){c->text.p, c->text.len}, 0));
    if (i + 1 == a->draft.chunk_count) {
        dag_put_head(&head, d, a->draft.first_id + a->draft.count - 1);
        dag_commit_op(a->ops,
                      keeper_op_set(DAG_HEAD, (struct str){head.p, head.len}, KEEPER_ANY_VERSION));
        buf_release(&head);
    }
}

/* One graph at a time, so that what a failed one leaves is gone before ids go past it. */
static void begin_adding(struct dag *d)
{
    struct dag_addition *a = d->adding;
    uint32_t count = a->draft.chunk_count;
    size_t *froms = mem_zalloc((count + 1) * sizeof *froms);

    a->begun = true;
    a->left = count;
    a->ops = mem_zalloc(sizeof *a->ops);
    a->ops->dag = d;
    a->requests = mem_zalloc(count * sizeof *a->requests);
    for (uint32_t i = 0; i < count; i++) {
        put_chunk(a, i);
        froms[i + 1] = a->ops->op_count;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct task_request *r = &a->requests[i];

        r->kind = TASK_UPDATE;
        r->update.clientid = d->client;
        r->extra = a->ops->ops + froms[i];
        r->extra_count = froms[i + 1] - froms[i];
        r->done = on_chunk_done;
        r->arg = a;
    }
    free(froms);
    for (uint32_t i = 0; i < count; i++) { /* the last answer frees it all */
        bool last = i + 1 == count;

        service_submit(d->o.tasks, &a->requests[i]);
        if (last)
            break;
    }
}

void dag_add(struct dag *d, struct draft *draft, dag_done_fn *done, void *arg)
{
    struct dag_addition *a = mem_zalloc(sizeof *a);
    bool first = !d->adding;

    a->dag = d;
    a->draft = *draft;
    *draft = (struct draft){0};
    a->done = done;
    a->arg = arg;
    pin_parents(a, 1);
    if (d->adding_last)
        d->adding_last->next = a;
    else
        d->adding = a;
    d->adding_last = a;
    if (first)
        begin_adding(d);
}

void dag_drop_adds(struct dag *d, int err)
{
    struct dag_addition *next;

    for (struct dag_addition *a = d->adding; a; a = next) {
        next = a->next;
        a->dag = NULL;
        a->done(a->arg, a->begun ? DROVER_UNKNOWN : err);
        if (!a->begun)
            adding_free(a); /* else when the last of its answers has come */
    }
    d->adding = d->adding_last = NULL;
}

/* The end of a run. */

/* "timed out after 60 s" */
static void put_timeout(char *to, size_t len, const struct dag_node *n, enum node_type type)
{
    struct arena a = {0};
    struct node_command c;

    node_command(n, type, &a, &c);
    if (c.timeout_ms % 1000)
        snprintf(to, len, "timed out after %" PRId64 " ms", c.timeout_ms);
    else
        snprintf(to, len, "timed out after %" PRId64 " s", c.timeout_ms / 1000);
    arena_release(&a);
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

/* When it is to be tried again, or 0. */
static int64_t again_at(struct dag *d, const struct dag_node *n, enum node_type type,
                        const struct run_outcome *o)
{
    struct arena a = {0};
    struct node_command c;
    int64_t now = dag_now_ms(d), at = 0;

    node_command(n, type, &a, &c);
    if (type == NODE_CONDITION && o->how != RUN_TIMED_OUT) {
        if (!c.timeout_ms || now - n->started_ms < c.timeout_ms)
            at = now + (c.interval_ms ? c.interval_ms : 1);
    } else if (n->attempts <= c.retries) {
        at = now + node_delay_ms(&c, n->attempts);
    }
    arena_release(&a);
    return at;
}

void dag_end_run(struct dag *d, struct dag_commit *t, struct dag_node *n,
                 const struct run_outcome *o)
{
    enum node_type type = graph_plan(&d->graph, n)->type;
    struct plan_changes changes = {0};
    enum node_branch taken;
    enum node_state state = judge(n, type, o, &taken);
    int64_t again = state == NODE_FAILED ? again_at(d, n, type, o) : 0;

    dag_leave_running(d, n);
    n->ahead = false;
    dag_commit_unmark(t, n);
    set_reason(n, type, o);
    if (taken)
        node_set_reason(n, NULL);
    if (!o->lost)
        node_set_int(n, "result", o->how == RUN_EXITED ? o->status : 128 + o->status);
    if (again) {
        if (type != NODE_CONDITION) /* the number of tries is to be recall */
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
    follow(d, t, &changes);
}

int dag_ended(struct dag *d, struct dag_node *n, int64_t agent, int64_t task,
              const struct run_outcome *o, dag_done_fn *done, void *arg)
{
    struct dag_commit *t;

    if (n->agent != agent || !n->has_task || n->task_busy || n->task != task)
        return DROVER_FENCED;
    t = dag_commit_open(d);
    dag_end_run(d, t, n, o);
    dag_commit_then(t, done, arg);
    return 0;
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
    dag_put_task(t, n);
}

bool dag_renew(struct dag *d, struct dag_node *n, int64_t agent, int64_t task, int64_t lease_ms)
{
    if (n->agent != agent || !n->has_task || n->task_busy || n->task != task)
        return false;
    n->lease_at = dag_now_ms(d) + lease_ms;
    dag_arm(d, n->lease_at);
    return true;
}

/* Killing and running again. */

int dag_kill(struct dag *d, struct dag_node *n, dag_done_fn *done, void *arg)
{
    struct dag_commit *t = dag_commit_open(d);
    struct plan_changes changes = {0};

    dag_commit_then(t, done, arg);
    if (node_state_is_terminal(graph_state(&d->graph, n)))
        return 0;
    n->kill_asked = true;
    if (n->agent == AGENT_SERVE) {
        serve_agent_kill(d->agent, n);
    } else if (n->agent) {
        http_topic_signal(&d->topic_kill, HTTP_TOPIC_ALL);
    } else if (!n->task_busy) {
        dag_unpark(d, n);
        node_set_reason(n, "killed");
        n->ended_ms = dag_now_ms(d);
        dag_drop_task(t, n);
        dag_commit_record(t, n);
        plan_end(&d->graph.plan, n->ref, NODE_KILLED, BRANCH_NONE, &changes);
        follow(d, t, &changes);
    }
    return 0;
}

int dag_retry(struct dag *d, struct dag_node *n, dag_done_fn *done, void *arg, struct err_info *e)
{
    struct plan_changes changes = {0};
    enum node_state state = graph_state(&d->graph, n);
    struct dag_commit *t;

    if (state != NODE_FAILED && state != NODE_KILLED)
        return err_set(e, DROVER_REFUSED,
                       "node %" PRIu64 " is %s: only failed and killed nodes can be retried", n->id,
                       node_state_name(dag_visible(d, n)));
    t = dag_commit_open(d);
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
    follow(d, t, &changes);
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

/* Children that have no record follow from their parents; without those they need one. */
static void record_children(struct dag *d, struct dag_commit *t, const struct dag_node *n)
{
    plan_each_child(e, &d->graph.plan, n->ref) {
        struct dag_node *child = graph_at(&d->graph, d->graph.plan.edges[e].child);

        if (!child->recorded)
            dag_commit_record(t, child);
    }
}

/* In a chunk that has others a mark is left; with the last one the chunk and its marks go. */
static void remove_one(struct dag *d, struct dag_node *n)
{
    struct chunk_text *c = n->chunk;
    char path[DAG_PATH_LEN];
    struct dag_commit *t;

    for (struct node_datum *v = n->values; v; v = v->next)
        dag_drop_slots(d, n, v);
    t = dag_commit_open(d);
    if (n->has_task)
        dag_commit_drop(t, n->task); /* the turn must not look at the node any more */
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
    int err;

    if (chain)
        plan_descendants(&d->graph.plan, n->ref, &all);
    else
        plan_changes_put(&all, n->ref);
    err = check_removable(d, &all, chain, e);
    if (!err) {
        dag_commit_flush(d);
        for (size_t i = all.count; i-- > 0;) {
            struct dag_node *m = graph_at(&d->graph, all.refs[i]);

            if (!chain)
                record_children(d, dag_commit_open(d), m);
            remove_one(d, m);
            d->graph.shown[m->index] = SHOWN_NONE;
            for (int l = 0; l < d->listener_count; l++)
                d->listeners[l].fn(d->listeners[l].arg, m);
            graph_remove(&d->graph, m);
        }
        graph_compact(&d->graph);
        dag_commit_then(dag_commit_open(d), done, arg);
    }
    plan_changes_release(&all);
    return err;
}
