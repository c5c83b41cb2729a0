/*
 * Starts with the stored state that load.c has read. Cleans up after a crash: deletes slots that no
 * record names and tasks of nodes that have ended, decides what became of the commands that ran,
 * and stops the runs that were being stopped.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "dag/load_impl.h"
#include "dag/orphans.h"
#include "task/task_tree.h"

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
    for (size_t i = 0; i < saved->slot_count; i++) {
        const struct saved_slot *s = &saved->slots[i];
        if (!slot_is_used(graph_find(&d->graph, s->id), s->number))
            dag_commit_delete(dag_commit_open(d), dag_slot_path(s->id, s->number));
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
    struct orphans by = {.token = token};
    struct run_end end = {
        .how = RUN_EXITED, .lost = true, .reason = "the server stopped while it ran"};

    plan_start(&d->graph.plan, n->ref);
    dag_enter_running(d, n, agent, lease_at);
    n->begun = true;
    graph_show(&d->graph, n, NODE_RUNNING);
    if (agent > 0 || !d->context->local)
        return;
    if (was_not_started(d, n)) {
        dag_unclaim(d, n);
        graph_show(&d->graph, n, (uint8_t)dag_visible(d, n));
        return;
    }
    snprintf(token, sizeof token, DAG_RUN_TOKEN, d->client, n->id, n->attempts);
    orphans_signal(&by, SIGKILL);
    if (graph_plan(&d->graph, n)->type == NODE_CONDITION) {
        dag_leave_running(d, n); /* the next poll is safe */
        dag_commit_unmark(dag_commit_open(d), n);
        dag_park(d, n, dag_now_ms(d));
    } else {
        dag_end_run(d, n, &end, NULL, NULL);
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
        json_get_int(v, "started", &started, NULL) < 0) {
        char path[TASK_NODE_PATH_SIZE];
        task_node_path(path, s->slot);
        if (s->task.managed) /* only the DAG makes these */
            log_error("dag: the task in %s is of no node, and is ignored", path);
        return;
    }
    struct dag_node *n = graph_find(&d->graph, (uint64_t)id);
    bool needed = n && graph_plan(&d->graph, n)->place && !n->slot && !n->task_put;
    if (!needed || !s->task.managed)
        dag_commit_drop(dag_commit_open(d), s->slot);
    if (!needed)
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
        graph_show(&d->graph, n, NODE_RUNNING);
    }
}

static void read_tasks(void *arg, struct store *s, int64_t now_ms)
{
    struct dag_saved *saved = arg;
    struct graph *g = &saved->dag->graph;
    saved->task_count = 0; /* a read may be repeated, and starts over */
    saved->tasks_err = 0;
    for (uint32_t i = 0; i < g->group_count; i++) {
        struct store_list list = {0};
        int err = store_list(s, str_of(g->groups[i]), -1, 0, true, now_ms, &saved->arena, &list);
        if (err)
            saved->tasks_err = err;
        for (size_t k = 0; k < list.count; k++) {
            const struct task *t = &list.tasks[k];
            if (!t->managed && t->ownerid != saved->client)
                continue;
            mem_grow(saved->tasks, saved->task_count, saved->task_cap);
            saved->tasks[saved->task_count++] = (struct saved_task){
                .slot = t->managed ? store_slot_of(s, t->id) : t->id, .task = *t};
        }
    }
}

static void on_tasks(void *arg, const struct task_reply *reply)
{
    struct dag_saved *saved = arg;
    struct dag *d = saved->dag;
    d->loading = false;
    if (!d->closing)
        uv_async_send(&d->wake);
    if (reply->err || saved->tasks_err) {
        d->failing = reply->err ? reply->err : saved->tasks_err;
    } else {
        drop_unused_slots(d, saved);
        for (size_t i = 0; i < saved->task_count; i++)
            find_task(d, &saved->tasks[i], &saved->arena);
        for (uint32_t i = 0; i < d->graph.count; i++)
            if (d->graph.order[i] && d->graph.order[i]->stops)
                dag_stop_run(d, d->graph.order[i]);
        d->runs_ended = true;
        if (d->started)
            started_settle(d->started);
    }
    d->ready = true;
    dag_soon(d);
    dag_saved_free(saved);
}

void dag_begin(struct dag *d, struct dag_saved *saved)
{
    d->graph = saved->graph;
    saved->graph = (struct graph){0};
    d->client = saved->client;
    d->graph.last_id = (uint64_t)saved->last;
    if (d->graph.last_id < d->last_id) /* another client has deleted the head */
        d->graph.last_id = d->last_id;
    if (d->graph.last_run < (uint64_t)saved->runs)
        d->graph.last_run = (uint64_t)saved->runs;
    if (d->graph.last_run < d->last_run)
        d->graph.last_run = d->last_run;
    memcpy(d->buckets, saved->buckets, sizeof d->buckets);
    memset(saved->buckets, 0, sizeof saved->buckets);
    saved->dag = d;
    d->loading = true;
    saved->request = (struct task_request){
        .kind = TASK_READ, .read = read_tasks, .done = on_tasks, .arg = saved};
    service_submit(d->context->tasks, &saved->request);
}
