/*
 * Reads the stored state and starts with it, when a server starts or becomes the leader.
 *
 * Reading: the names of the keeper nodes first, then their data. On an ensemble each read is a
 * round trip, and a graph of 10,000 nodes has 10,000 records, so several threads read in parallel.
 * The tree is input: a node that cannot be read fails the start, and the error names it.
 *
 * Starting cleans up after a crash: it deletes slots that no record names and tasks of nodes that
 * have ended, and decides what became of the runs.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include "dag/orphans.h"
#include "dag/service.h"
#include "task/task_tree.h"

/* The data of keeper nodes: chunks of specs, or records, whose first_id is that of the node. */
struct saved_texts {
    struct chunk_text **items; /* in the order of their ids */
    size_t count, cap;
};

/* What was read. dag_begin() starts with it, and adds the tasks of nodes. */
struct dag_saved {
    struct dag *dag;
    struct arena arena;
    int64_t client, last;
    struct saved_texts texts[BUCKET_SLOTS]; /* by kind: chunks, records */
    struct saved_slot {
        uint64_t id;
        uint32_t number;
    } * slots;
    size_t slot_count, slot_cap;
    struct map buckets[BUCKET_KINDS];
    struct graph graph;
    uint64_t damaged; /* the node whose record is; 0: none */
    int tasks_err;
    struct task_request request;
    struct saved_task {
        int64_t slot;
        struct task task;
    } * tasks;
    size_t task_count, task_cap;
};

void dag_saved_free(struct dag_saved *saved)
{
    if (!saved)
        return;
    for (int kind = 0; kind < BUCKET_SLOTS; kind++) {
        struct saved_texts *t = &saved->texts[kind];
        for (size_t i = 0; i < t->count; i++) {
            buf_release(&t->items[i]->text);
            free(t->items[i]);
        }
        free(t->items);
    }
    for (int i = 0; i < BUCKET_KINDS; i++)
        map_release(&saved->buckets[i]);
    graph_release(&saved->graph);
    arena_release(&saved->arena);
    free(saved->slots);
    free(saved->tasks);
    free(saved);
}

static int by_id(const void *a, const void *b)
{
    const struct chunk_text *const *x = a, *const *y = b;
    return (*x)->first_id < (*y)->first_id ? -1 : (*x)->first_id > (*y)->first_id;
}

/* Returns err, and says which node it is about. */
static int check(int err, const char *what, const char *path, struct err_info *e)
{
    return err ? err_set(e, err, "dag: cannot %s %s: %s", what, path, drover_err_message(err)) : 0;
}

/* The head and the directories, which are created if missing. */

static int make_node(struct keeper *k, const char *path, struct str data, struct err_info *e)
{
    return check(keeper_ensure(k, path, data), "make", path, e);
}

static int make_all(struct keeper *k, struct err_info *e)
{
    char head[64];
    uint64_t random;
    TRY(make_node(k, "/drover", STR(""), e));
    TRY(make_node(k, DAG_ROOT, STR(""), e));
    for (int kind = 0; kind < BUCKET_KINDS; kind++)
        TRY(make_node(k, DAG_KIND_ROOTS[kind], STR(""), e));
    random_fill(&random, sizeof random);
    snprintf(head, sizeof head, "{\"client\":%" PRIu64 ",\"last\":0}", (random >> 12) + 1);
    return make_node(k, DAG_HEAD, str_of(head), e);
}

static int read_head(struct keeper *k, struct dag_saved *saved)
{
    CLEANUP(buf_release) struct buf b = {0};
    CLEANUP(arena_release) struct arena a = {0};
    TRY(keeper_get(k, DAG_HEAD, &b, NULL));
    const struct json *v = json_parse(&a, buf_str(&b), NULL);
    if (json_get_int(v, "client", &saved->client, NULL) != 1 ||
        json_get_int(v, "last", &saved->last, NULL) != 1 || saved->last < 0)
        return DROVER_DAMAGED;
    return 0;
}

/* Names: the buckets of one kind, and their contents. */

static void note_text(struct saved_texts *t, uint64_t id)
{
    mem_grow(t->items, t->count, t->cap);
    t->items[t->count] = mem_zalloc(sizeof *t->items[t->count]);
    t->items[t->count++]->first_id = id;
}

/* Notes a node by its path, which must be the one that Drover makes of the numbers in it. */
static int note_path(struct keeper *k, struct dag_saved *saved, enum bucket_kind kind,
                     const char *path, const char *name)
{
    struct saved_slot s = {0};
    sscanf(name, "%" SCNu64 "-%" SCNu32, &s.id, &s.number);
    struct dag_path made =
        kind == BUCKET_SLOTS ? dag_slot_path(s.id, s.number) : dag_path(kind, s.id);
    if (strcmp(made.text, path) != 0)
        return DROVER_DAMAGED;
    if (kind == BUCKET_SPECS && s.id > (uint64_t)saved->last) /* its request did not commit */
        return keeper_delete(k, path, KEEPER_ANY_VERSION);
    if (kind != BUCKET_SLOTS) {
        note_text(&saved->texts[kind], s.id);
        return 0;
    }
    mem_grow(saved->slots, saved->slot_count, saved->slot_cap);
    saved->slots[saved->slot_count++] = s;
    return 0;
}

static int note_bucket(struct keeper *k, struct dag_saved *saved, enum bucket_kind kind,
                       const char *name, struct err_info *e)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    CLEANUP(buf_release) struct buf path = {0};
    uint64_t number = strtoull(name, NULL, 10);
    buf_printf(&path, "%s/%s", DAG_KIND_ROOTS[kind], name);
    size_t len = path.len;
    map_add(&saved->buckets[kind], map_hash_u64(number), (uint32_t)number + 1);
    TRY(check(keeper_children(k, buf_text(&path), &names, NULL), "read", path.p, e));
    for (size_t i = 0; i < names.count; i++) {
        path.len = len;
        buf_printf(&path, "/%s", names.names[i]);
        TRY(check(note_path(k, saved, kind, buf_text(&path), names.names[i]), "read", path.p, e));
    }
    return 0;
}

static int note_kind(struct keeper *k, struct dag_saved *saved, enum bucket_kind kind,
                     struct err_info *e)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    const char *root = DAG_KIND_ROOTS[kind];
    TRY(check(keeper_children(k, root, &names, NULL), "read", root, e));
    for (size_t i = 0; i < names.count; i++)
        TRY(note_bucket(k, saved, kind, names.names[i], e));
    return 0;
}

/* Data. */

struct texts_read {
    struct keeper *keeper;
    enum bucket_kind kind;
    struct saved_texts *texts;
    atomic_int err;
    atomic_ullong failed; /* the id of a node that could not be read */
};

static void read_text(void *arg, size_t i)
{
    struct texts_read *r = arg;
    struct chunk_text *t = r->texts->items[i];
    struct dag_path path = dag_path(r->kind, t->first_id);
    int err = r->err ? 0 : keeper_get(r->keeper, path.text, &t->text, NULL);
    if (err) {
        r->failed = t->first_id;
        r->err = err;
    }
}

static int read_texts(struct keeper *k, enum bucket_kind kind, struct dag_saved *saved,
                      struct err_info *e)
{
    struct saved_texts *texts = &saved->texts[kind];
    struct texts_read r = {.keeper = k, .kind = kind, .texts = texts};
    parallel_run(texts->count, read_text, &r);
    if (!r.err && texts->count)
        qsort(texts->items, texts->count, sizeof *texts->items, by_id);
    return check(r.err, "read", dag_path(kind, r.failed).text, e);
}

static int read_all(struct keeper *k, struct dag_saved *saved, struct err_info *e)
{
    TRY(make_all(k, e));
    TRY(check(read_head(k, saved), "read", DAG_HEAD, e));
    for (enum bucket_kind kind = 0; kind < BUCKET_KINDS; kind++)
        TRY(note_kind(k, saved, kind, e));
    TRY(read_texts(k, BUCKET_SPECS, saved, e));
    return read_texts(k, BUCKET_NODES, saved, e);
}

/* The graph. */

static bool recall(void *arg, struct dag_node *n, struct plan_node *p)
{
    struct dag_saved *saved = arg;
    const struct saved_texts *records = &saved->texts[BUCKET_NODES];
    const struct chunk_text key = {.first_id = n->id}, *at = &key, *const *found = NULL;
    if (records->count)
        found = bsearch(&at, records->items, records->count, sizeof at, by_id);
    if (!found)
        return true;
    struct str text = buf_str(&(*found)->text);
    if (str_eq(text, STR(DAG_DELETED)))
        return false;
    if (node_read_record(n, p, text, &saved->arena))
        saved->damaged = n->id;
    if (p->state == NODE_RUNNING) /* the task says whether it runs */
        p->state = NODE_INCIPIENT;
    return true;
}

/*
 * When a node ended because its parents did: a node that needs success is skipped when the first
 * parent does not finish; any other node is decided when its last parent ends.
 */
static int64_t end_by_parents(struct graph *g, const struct dag_node *n)
{
    const struct plan_node *p = graph_plan(g, n);
    int64_t first = INT64_MAX, last = n->added_ms;
    plan_each_parent(e, &g->plan, n->ref) {
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

static int make_graph(struct dag_saved *saved, struct err_info *e)
{
    CLEANUP(plan_changes_release) struct plan_changes changes = {0};
    struct saved_texts *chunks = &saved->texts[BUCKET_SPECS];
    uint64_t damaged = 0;
    graph_group(&saved->graph, STR(NODE_GROUP_DEFAULT)); /* the first: DAG_GROUP_DEFAULT */
    int err = graph_load(&saved->graph, chunks->items, (uint32_t)chunks->count, recall, saved,
                         &changes, &damaged);
    if (err)
        return check(err, "read",
                     damaged ? dag_path(BUCKET_SPECS, damaged).text : DAG_KIND_ROOTS[BUCKET_SPECS],
                     e);
    chunks->count = 0; /* the graph has taken them */
    if (saved->damaged)
        return check(DROVER_DAMAGED, "read", dag_path(BUCKET_NODES, saved->damaged).text, e);
    find_ends(&saved->graph, &changes);
    return 0;
}

int dag_read(struct keeper *k, struct dag_saved **ret_saved, struct err_info *ret_error)
{
    struct dag_saved *saved = mem_zalloc(sizeof *saved);
    int err = read_all(k, saved, ret_error);
    if (!err)
        err = make_graph(saved, ret_error);
    if (err)
        dag_saved_free(saved);
    else
        *ret_saved = saved;
    return err;
}

/* Starting. */

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
    d->graph.shown[n->index] = NODE_RUNNING;
    if (agent > 0 || !d->context->local)
        return;
    if (was_not_started(d, n)) {
        dag_unclaim(d, n);
        d->graph.shown[n->index] = (uint8_t)dag_visible(d, n);
        return;
    }
    snprintf(token, sizeof token, DAG_RUN_TOKEN, d->client, n->id, n->attempts);
    orphans_signal(&by, SIGKILL);
    dag_output_recover(d, n);
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
        d->graph.shown[n->index] = NODE_RUNNING;
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
        dag_output_know(d);
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
    memcpy(d->buckets, saved->buckets, sizeof d->buckets);
    memset(saved->buckets, 0, sizeof saved->buckets);
    saved->dag = d;
    d->loading = true;
    saved->request = (struct task_request){
        .kind = TASK_READ, .read = read_tasks, .done = on_tasks, .arg = saved};
    service_submit(d->context->tasks, &saved->request);
}
