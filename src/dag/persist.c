/*
 * Starts with the stored state (load.c). Cleans up after a crash: deletes slots that no record
 * names and tasks of nodes that have ended, and decides what became of the runs.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/load.h"
#include "dag/orphans.h"

struct dag_loading {
    struct dag *dag;
    struct dag_saved *saved;
    struct arena arena;
    bool damaged;
    struct task_request request;
    struct saved_task {
        int64_t slot;
        struct task task;
    } * tasks;
    size_t task_count, task_cap;
};

static bool recall(void *arg, struct dag_node *n, int *ret_state, int *ret_taken)
{
    struct dag_loading *b = arg;
    const struct saved_text *r = dag_saved_record(b->saved, n->id);

    if (!r)
        return true;
    struct str text = {r->text.p, r->text.len};
    if (str_eq(text, STR("{\"state\":\"deleted\"}")))
        return false;
    if (node_read_record(n, text, &b->arena, ret_state, ret_taken))
        b->damaged = true;
    if (*ret_state == NODE_RUNNING) /* the task says whether it runs */
        *ret_state = NODE_INCIPIENT;
    return true;
}

static void know_buckets(struct dag *d, const struct dag_saved *saved)
{
    for (int i = 0; i < BUCKET_KINDS; i++)
        for (size_t k = 0; k < saved->bucket_counts[i]; k++)
            map_add(&d->buckets[i], map_hash_u64(saved->buckets[i][k]),
                    (uint32_t)saved->buckets[i][k] + 1);
}

static bool slot_is_used(const struct dag_node *n, uint32_t number)
{
    for (const struct node_datum *v = n ? n->values : NULL; v; v = v->next)
        for (uint32_t i = 0; i < v->slot_count; i++)
            if (v->slots[i].number == number)
                return true;
    return false;
}

static void drop_unused_slots(struct dag *d, const struct dag_saved *saved)
{
    char path[DAG_PATH_LEN];

    for (size_t i = 0; i < saved->slot_count; i++) {
        struct dag_node *n = graph_find(&d->graph, saved->slots[i].id);

        if (slot_is_used(n, saved->slots[i].number))
            continue;
        dag_slot_path(path, sizeof path, saved->slots[i].id, saved->slots[i].number);
        dag_commit_op(dag_commit_open(d), keeper_op_delete(path, KEEPER_ANY_VERSION));
    }
}

/*
 * Whether the previous server claimed the node but did not start it. If it may have started it, the
 * mark stays until the end of the run is durable.
 */
static bool was_not_started(struct dag *d, struct dag_node *n)
{
    struct started *s = d->started;

    if (!s)
        return false;
    if (started_is_reliable(s) && !started_find(s, n->id, n->attempts))
        return true;
    n->mark = started_keep(s, n->id, n->attempts);
    return false;
}

/* The node has an agent: the previous server, another server, or an agent on another machine. */
static void find_run(struct dag *d, struct dag_node *n, int64_t agent, int64_t lease_at)
{
    char token[96];
    struct orphan_key by = {.token = token};
    struct run_outcome o = {
        .how = RUN_EXITED, .lost = true, .reason = "the server stopped while it ran"};

    plan_start(&d->graph.plan, n->ref);
    dag_enter_running(d, n, agent, lease_at);
    n->begun = true;
    d->graph.shown[n->index] = NODE_RUNNING;
    if (agent > 0 || !d->o.embedded)
        return;
    if (was_not_started(d, n)) {
        dag_unclaim(d, n);
        d->graph.shown[n->index] = (uint8_t)dag_visible(d, n);
        return;
    }
    snprintf(token, sizeof token, "DROVER_RUN=%" PRId64 ".%" PRIu64 ".%" PRIu32, d->client, n->id,
             n->attempts);
    orphans_signal(&by, SIGKILL);
    if (graph_plan(&d->graph, n)->type == NODE_CONDITION) {
        dag_leave_running(d, n); /* the next poll is safe */
        dag_commit_unmark(dag_commit_open(d), n);
        dag_park(d, n, dag_now_ms(d));
    } else {
        dag_end_run(d, dag_commit_open(d), n, &o);
    }
}

/*
 * The agent that has the node; 0: none. Version 0.1 did not let agents own the tasks of nodes: it
 * stored the client id in the data.
 */
static int64_t agent_of(const struct saved_task *s, struct str agent)
{
    if (s->task.managed && s->task.ownerid != TASK_MANAGER)
        return s->task.ownerid;
    if (!agent.len)
        return AGENT_NONE;
    return str_eq(agent, STR("serve")) ? AGENT_SERVE : strtoll(agent.p, NULL, 10);
}

static void find_task(struct dag *d, const struct saved_task *s, struct arena *a)
{
    const struct json *v = json_parse(a, s->task.data, NULL);
    int64_t id = 0, attempt = 0, started = 0, now = dag_now_ms(d);
    struct str text = {0};
    int has_agent = json_get_text(v, "agent", &text, NULL);

    if (json_get_int(v, "node", &id, NULL) != 1 || has_agent < 0 ||
        json_get_int(v, "attempt", &attempt, NULL) < 0 ||
        json_get_int(v, "started", &started, NULL) < 0)
        return;
    struct dag_node *n = graph_find(&d->graph, (uint64_t)id);
    if (!n || !graph_plan(&d->graph, n)->place || n->slot || n->task_put || !s->task.managed)
        dag_commit_drop(dag_commit_open(d), s->slot);
    if (!n || !graph_plan(&d->graph, n)->place || n->slot || n->task_put)
        return;
    if (s->task.managed)
        dag_set_slot(d, n, s->slot);
    else if (attempt)
        dag_put_task(dag_commit_open(d), n);
    int64_t agent = agent_of(s, (struct str){arena_text(a, text), text.len});
    int64_t lease_at = s->task.timespec > now + DAG_GRACE_MS && agent > 0 && s->task.managed
                           ? s->task.timespec
                           : now + DAG_GRACE_MS;
    n->task = s->task.id;
    n->attempts = (uint32_t)attempt;
    n->started_ms = started;
    if (agent) {
        find_run(d, n, agent, lease_at);
    } else if (!has_agent) {
        n->attempts--; /* the data has the attempt that the claim will start */
        plan_offer(&d->graph.plan, n->ref);
    } else if (attempt) {
        plan_start(&d->graph.plan, n->ref);
        dag_park(d, n, now);
        d->graph.shown[n->index] = NODE_RUNNING;
    }
}

static void read_tasks(void *arg, struct store *s, int64_t now_ms)
{
    struct dag_loading *b = arg;
    struct graph *g = &b->dag->graph;

    b->task_count = 0; /* a read may be repeated, and starts over */
    for (uint32_t i = 0; i < g->group_count; i++) {
        struct store_list list = {0};

        if (store_list(s, str_of(g->groups[i]), -1, 0, true, now_ms, &b->arena, &list))
            continue;
        for (size_t k = 0; k < list.count; k++) {
            const struct task *t = &list.tasks[k];

            if (!t->managed && t->ownerid != b->dag->client)
                continue;
            mem_grow(b->tasks, b->task_count, b->task_cap);
            b->tasks[b->task_count++] = (struct saved_task){
                .slot = t->managed ? store_slot_of(s, t->id) : t->id, .task = *t};
        }
    }
}

static void on_tasks(void *arg, const struct task_reply *reply)
{
    struct dag_loading *b = arg;
    struct dag *d = b->dag;

    if (reply->err) {
        d->failing = reply->err;
    } else {
        drop_unused_slots(d, b->saved);
        for (size_t i = 0; i < b->task_count; i++)
            find_task(d, &b->tasks[i], &b->arena);
        if (d->started)
            started_settle(d->started);
    }
    d->ready = true;
    dag_soon(d);
    dag_saved_free(b->saved);
    arena_release(&b->arena);
    free(b->tasks);
    free(b);
}

/* The chunks in the form that the graph takes; their texts are moved. */
static struct chunk_text **take_chunks(struct dag_loading *b)
{
    struct saved_texts *from = &b->saved->chunks;
    struct chunk_text **chunks = arena_alloc(&b->arena, (from->count + 1) * sizeof *chunks);

    for (size_t i = 0; i < from->count; i++) {
        chunks[i] = mem_zalloc(sizeof **chunks);
        chunks[i]->first_id = from->items[i].id;
        chunks[i]->text = from->items[i].text;
        from->items[i].text = (struct buf){0};
    }
    return chunks;
}

/*
 * When a node ended because its parents did: a node that needs success is skipped when the first
 * parent does not finish; any other node is decided when its last parent ends.
 */
static int64_t end_by_parents(struct graph *g, const struct dag_node *n)
{
    const struct plan_node *p = graph_plan(g, n);
    int64_t first = INT64_MAX, last = n->added_ms;

    for (uint32_t e = p->parents; e; e = g->plan.edges[e].next_parent) {
        const struct dag_node *parent = graph_at(g, g->plan.edges[e].parent);

        if (parent->ended_ms > last)
            last = parent->ended_ms;
        if (parent->ended_ms && parent->ended_ms < first && graph_state(g, parent) != NODE_FINISHED)
            first = parent->ended_ms;
    }
    if (p->state != NODE_SKIPPED || p->when != WHEN_SUCCESS || first == INT64_MAX)
        return last;
    return first > n->added_ms ? first : n->added_ms;
}

/* Ends that follow from other ends have no record. The changes are in order: parents first. */
static void find_ends(struct graph *g, const struct plan_changes *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct dag_node *n = graph_at(g, c->refs[i]);

        if (node_state_is_terminal(graph_state(g, n)) && !n->ended_ms)
            n->ended_ms = end_by_parents(g, n);
    }
}

int dag_begin(struct dag *d, struct dag_saved *saved, struct err_info *ret_error)
{
    struct dag_loading *b = mem_zalloc(sizeof *b);
    struct plan_changes changes = {0};

    b->dag = d;
    b->saved = saved;
    d->client = saved->client;
    know_buckets(d, saved);
    graph_group(&d->graph, STR(NODE_GROUP_DEFAULT));
    int err =
        graph_load(&d->graph, take_chunks(b), (uint32_t)saved->chunks.count, recall, b, &changes);
    d->graph.last_id = saved->last;
    if (!err)
        find_ends(&d->graph, &changes);
    plan_changes_release(&changes);
    if (err || b->damaged) {
        graph_release(&d->graph);
        dag_saved_free(saved);
        arena_release(&b->arena);
        free(b);
        return err_set(ret_error, DROVER_DAMAGED,
                       "dag: the stored state below " DAG_ROOT " is damaged");
    }
    b->request =
        (struct task_request){.kind = TASK_READ, .read = read_tasks, .done = on_tasks, .arg = b};
    service_submit(d->o.tasks, &b->request);
    return 0;
}
