/*
 * Beginning with what is kept (kept.c). What was left half done by the one before is cleared away:
 * slots that no record names, tasks of nodes that have ended.
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
    struct task *tasks;
    size_t task_count;
};

static bool recall(void *arg, struct dag_node *n, int *ret_state, int *ret_taken)
{
    struct dag_loading *b = arg;
    const struct saved_text *r = dag_saved_record(b->saved, n->id);
    struct str text;

    if (!r)
        return true;
    text = (struct str){r->text.p, r->text.len};
    if (str_eq(text, STR("{\"state\":\"deleted\"}")))
        return false;
    if (node_read_record(n, text, &b->arena, ret_state, ret_taken))
        b->damaged = true;
    if (*ret_state == NODE_RUNNING) /* whether it runs is the task's to say */
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
 * Whether a server before us claimed the node and did not come to start it. Where it may have, that is
 * to be known until how it ended is durable.
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

/* A run of the server before us, or of one whose lease we do not know. */
static void find_run(struct dag *d, struct dag_node *n, struct str agent)
{
    int64_t number = strtoll(agent.p, NULL, 10);
    char token[96];
    struct orphan_key by = {.token = token};
    struct run_outcome o = {
        .how = RUN_EXITED, .lost = true, .reason = "the server stopped while it ran"};

    plan_start(&d->graph.plan, n->ref);
    dag_enter_running(d, n, number > 0 ? number : AGENT_SERVE, DAG_LEASE_MS);
    d->graph.shown[n->index] = NODE_RUNNING;
    if (number > 0 || !d->o.embedded)
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
        dag_leave_running(d, n); /* asking again harms nobody */
        dag_commit_unmark(dag_commit_open(d), n);
        dag_park(d, n, dag_now_ms(d));
    } else {
        dag_end_run(d, dag_commit_open(d), n, &o);
    }
}

static void find_task(struct dag *d, const struct task *task, struct arena *a)
{
    const struct json *v = json_parse(a, task->data, NULL);
    struct str agent = {0};
    int64_t id = 0, attempt = 0, started = 0;
    struct dag_node *n;

    if (json_get_int(v, "node", &id, NULL) != 1 || json_get_text(v, "agent", &agent, NULL) != 1 ||
        json_get_int(v, "attempt", &attempt, NULL) < 0 ||
        json_get_int(v, "started", &started, NULL) < 0)
        return;
    n = graph_find(&d->graph, (uint64_t)id);
    if (!n || !graph_plan(&d->graph, n)->place || n->has_task) {
        dag_commit_drop(dag_commit_open(d), task->id);
        return;
    }
    n->task = task->id;
    n->has_task = true;
    n->attempts = (uint32_t)attempt;
    n->started_ms = started;
    if (agent.len)
        find_run(d, n, (struct str){arena_text(a, agent), agent.len});
    else if (attempt) {
        plan_start(&d->graph.plan, n->ref); /* it waited to be tried again */
        dag_park(d, n, dag_now_ms(d));
        d->graph.shown[n->index] = NODE_RUNNING;
    } else {
        plan_offer(&d->graph.plan, n->ref);
    }
}

static void read_tasks(void *arg, struct store *s, int64_t now_ms)
{
    struct dag_loading *b = arg;
    struct graph *g = &b->dag->graph;

    for (uint32_t i = 0; i < g->group_count; i++) {
        struct store_list list = {0};

        if (store_list(s, str_of(g->groups[i]), -1, 0, true, now_ms, &b->arena, &list))
            continue;
        for (size_t k = 0; k < list.count; k++) {
            const struct task *from = &list.tasks[k];
            struct task *more;

            if (from->ownerid != b->dag->client)
                continue;
            if ((b->task_count & (b->task_count - 1)) == 0) {
                more = arena_alloc(&b->arena, (b->task_count * 2 + 16) * sizeof *more);
                if (b->task_count)
                    memcpy(more, b->tasks, b->task_count * sizeof *more);
                b->tasks = more;
            }
            b->tasks[b->task_count] = *from;
            b->tasks[b->task_count++].data =
                (struct str){arena_text(&b->arena, from->data), from->data.len};
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
    free(b);
}

/* The chunks as the graph takes them, in the arena; their texts are moved. */
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
 * When a node ended that ended because its parents did. One that wants success is skipped by the first
 * that brings none, any other node goes by the last of them.
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

/* Ends that follow from others have no record. A change comes after those it follows from. */
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
    int err;

    b->dag = d;
    b->saved = saved;
    d->client = saved->client;
    know_buckets(d, saved);
    graph_group(&d->graph, STR(NODE_GROUP_DEFAULT));
    err = graph_load(&d->graph, take_chunks(b), (uint32_t)saved->chunks.count, recall, b, &changes);
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
