/*
 * Adding nodes: the chunks of a request are committed, the last one with the head, and then the
 * nodes are put into the graph.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "dag/service.h"

struct dag_addition {
    struct dag_addition *next;
    struct dag *dag; /* NULL: the DAG was stopped meanwhile */
    struct draft draft;
    dag_done_fn *done;
    void *arg;
    uint32_t left;  /* replies to come */
    uint32_t saved; /* chunks that were committed */
    int err;
    struct task_request *requests; /* NULL: not begun */
    struct dag_commit ops;         /* holds the operations; is not submitted itself */
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
    free(a->ops.ops);
    arena_release(&a->ops.arena);
    free(a);
}

/* Puts the committed nodes into the graph. */
static void enter(struct dag *d, struct dag_addition *a)
{
    struct plan_changes changes = {0};
    uint32_t from = d->graph.count;
    uint64_t damaged;
    int err = graph_load(&d->graph, a->draft.chunks, a->draft.chunk_count, NULL, NULL, &changes,
                         &damaged);
    assert(!err); /* graph_draft() has checked it */
    a->draft.chunk_count = 0;
    dag_set_end_times(d, &changes);
    for (uint32_t i = from; i < d->graph.count; i++)
        dag_publish(d, d->graph.order[i]);
    if (changes.count)
        dag_follow(d, dag_commit_open(d), &changes);
    dag_publish(d, NULL);
}

/* Not all chunks were committed: deletes the others. */
static void take_back(struct dag *d, struct dag_addition *a)
{
    for (uint32_t i = 0; i < a->saved; i++)
        dag_commit_delete(dag_commit_open(d), dag_path(BUCKET_SPECS, a->draft.chunks[i]->first_id));
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
    if (!d) {
        adding_free(a);
        return;
    }
    d->adding = a->next;
    if (!d->adding)
        d->adding_end = &d->adding;
    pin_parents(a, -1);
    if (!a->err)
        enter(d, a);
    else if (a->saved)
        take_back(d, a);
    bool changed = a->err == DROVER_NO_NODE || a->err == DROVER_EXISTS; /* by another client */
    if (a->err == DROVER_UNKNOWN || a->err == DROVER_FENCED || changed)
        d->failing = a->err;
    if (changed)
        a->err = DROVER_NOT_LEADER;
    dag_soon(d);
    bool more = d->adding; /* what `done` adds itself has begun */
    a->done(a->arg, a->err);
    adding_free(a);
    if (more && d->adding)
        begin_adding(d);
}

/* The operations of one chunk. The last chunk also moves the head, so that all of them count. */
static void put_chunk(struct dag_addition *a, uint32_t i)
{
    const struct chunk_text *c = a->draft.chunks[i];
    dag_commit_create(&a->ops, BUCKET_SPECS, c->first_id, dag_path(BUCKET_SPECS, c->first_id),
                      buf_str(&c->text));
    if (i + 1 < a->draft.chunk_count)
        return;
    uint64_t runs = a->dag->graph.last_run;
    const char *head =
        arena_printf(&a->ops.arena, "{\"client\":%" PRId64 ",\"last\":%" PRIu64 "%s}",
                     a->dag->client, a->draft.first_id + a->draft.count - 1,
                     runs ? arena_printf(&a->ops.arena, ",\"runs\":%" PRIu64, runs) : "");
    dag_commit_op(&a->ops, keeper_op_set(DAG_HEAD, str_of(head), KEEPER_ANY_VERSION));
    if (a->draft.with)
        dag_commit_op(&a->ops, *a->draft.with);
}

/* One request at a time: the chunks of a failed one are deleted before ids move past them. */
static void begin_adding(struct dag *d)
{
    struct dag_addition *a = d->adding;
    uint32_t count = a->draft.chunk_count;
    struct task_request *requests = mem_zalloc(count * sizeof *requests);
    a->left = count;
    a->ops.dag = d;
    a->requests = requests;
    for (uint32_t i = 0; i < count; i++) {
        size_t before = a->ops.op_count;
        put_chunk(a, i);
        requests[i] = (struct task_request){
            .kind = TASK_UPDATE,
            .update.clientid = TASK_MANAGER,
            .extra_count = a->ops.op_count - before,
            .done = on_chunk_done,
            .arg = a,
        };
    }
    const struct keeper_op *ops = a->ops.ops;
    for (uint32_t i = 0; i < count; ops += requests[i++].extra_count)
        requests[i].extra = ops;
    for (uint32_t i = 0; i < count; i++) /* the last reply frees the addition */
        service_submit(d->context->tasks, &requests[i]);
}

static int check_policy(void *arg, const struct policy_request *q, struct err_info *e)
{
    return policy_check(arg, q, e);
}

static int make_draft(struct dag *d, const struct json *nodes, struct arena *a,
                      struct draft *ret_draft, struct err_info *ret_error)
{
    struct draft_gate gate = {
        .check = check_policy, .arg = d->policy, .all = d->policy->patterns.count};
    return graph_draft(&d->graph, nodes, dag_now_ms(d), &gate, a, ret_draft, ret_error);
}

int dag_draft(struct dag *d, const struct json *nodes, struct arena *a, struct draft *ret_draft,
              struct err_info *ret_error)
{
    TRY(make_draft(d, nodes, a, ret_draft, ret_error));
    draft_join_run(ret_draft);
    return 0;
}

int dag_draft_run(struct dag *d, const struct json *nodes, struct str name, bool keep_going,
                  struct arena *a, struct draft *ret_draft, struct err_info *ret_error)
{
    TRY(make_draft(d, nodes, a, ret_draft, ret_error));
    int err = draft_new_run(&d->graph, ret_draft, name, keep_going, dag_now_ms(d), ret_error);
    if (err)
        draft_release(ret_draft);
    return err;
}

bool dag_lives(const struct dag *d, uint64_t first_id, uint64_t count)
{
    const struct graph *g = &d->graph;
    for (uint32_t i = graph_seek(g, first_id); i < g->count; i++) {
        if (g->order[i] && g->order[i]->id >= first_id + count)
            break;
        if (g->order[i] && !node_state_is_terminal(graph_state(g, g->order[i])))
            return true;
    }
    return false;
}

void dag_add(struct dag *d, struct draft *draft, dag_done_fn *done, void *arg)
{
    struct dag_addition *a = mem_zalloc(sizeof *a);
    bool first = !d->adding;
    *a = (struct dag_addition){.dag = d, .draft = *draft, .done = done, .arg = arg};
    *draft = (struct draft){0};
    pin_parents(a, 1);
    *d->adding_end = a;
    d->adding_end = &a->next;
    if (first)
        begin_adding(d);
}

void dag_drop_adds(struct dag *d, int err)
{
    for (struct dag_addition *a = d->adding, *next; a; a = next) {
        next = a->next;
        a->dag = NULL;
        a->done(a->arg, a->requests ? DROVER_UNKNOWN : err);
        if (!a->requests)
            adding_free(a); /* else the last reply frees it */
    }
    d->adding = NULL;
    d->adding_end = &d->adding;
}
