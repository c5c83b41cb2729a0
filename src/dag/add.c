/*
 * Adding nodes: the chunks of a request are committed, the last one with the head, and then the
 * nodes are put into the graph.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "dag/dag_impl.h"

struct dag_addition {
    struct dag_addition *next;
    struct dag *dag; /* NULL: the DAG was stopped meanwhile */
    struct draft draft;
    dag_done_fn *done;
    void *arg;
    uint32_t left;  /* replies to come */
    uint32_t saved; /* chunks that were committed */
    int err;
    bool begun;
    struct task_request *requests;
    struct dag_commit *ops; /* holds the operations; is not submitted itself */
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

/* Puts the committed nodes into the graph. */
static void enter(struct dag *d, struct dag_addition *a)
{
    struct plan_changes changes = {0};
    uint32_t from = d->graph.count;
    int err = graph_load(&d->graph, a->draft.chunks, a->draft.chunk_count, NULL, NULL, &changes);

    assert(!err); /* graph_draft() has checked it */
    dag_set_end_times(d, &changes);
    for (uint32_t i = from; i < d->graph.count; i++)
        d->o.shown(d->o.arg, d->graph.order[i]);
    free(a->draft.chunks);
    a->draft.chunks = NULL;
    a->draft.chunk_count = 0;
    if (changes.count)
        dag_follow(d, dag_commit_open(d), &changes);
    d->o.shown(d->o.arg, NULL);
}

/* Not all chunks were committed: deletes the others. */
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

/*
 * The operations of one chunk; the last chunk also moves the head, which makes all of them count.
 */
static void put_chunk(struct dag_addition *a, uint32_t i)
{
    struct chunk_text *c = a->draft.chunks[i];
    struct dag *d = a->dag;
    struct buf head = {0};
    char path[DAG_PATH_LEN];

    dag_commit_bucket(a->ops, BUCKET_SPECS, dag_bucket(BUCKET_SPECS, c->first_id));
    dag_path(path, BUCKET_SPECS, c->first_id);
    dag_commit_op(a->ops, keeper_op_create(path, buf_str(&c->text), 0));
    if (i + 1 == a->draft.chunk_count) {
        dag_put_head(&head, d, a->draft.first_id + a->draft.count - 1);
        dag_commit_op(a->ops, keeper_op_set(DAG_HEAD, buf_str(&head), KEEPER_ANY_VERSION));
        buf_release(&head);
    }
}

/*
 * One request at a time, so that the chunks of a failed one are deleted before ids move past them.
 */
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
        r->update.clientid = TASK_MANAGER;
        r->extra = a->ops->ops + froms[i];
        r->extra_count = froms[i + 1] - froms[i];
        r->done = on_chunk_done;
        r->arg = a;
    }
    free(froms);
    for (uint32_t i = 0; i < count; i++) { /* the last reply frees the addition */
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
            adding_free(a); /* else the last reply frees it */
    }
    d->adding = d->adding_last = NULL;
}
