/*
 * Reading back what is kept: once when a server starts, or when it begins to lead. What was left half
 * done by the one before is cleared away: chunks of a graph that was not finished, slots that no
 * record names, tasks of nodes that have ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "dag/dag_impl.h"
#include "dag/strays.h"

struct record {
    uint64_t id;
    struct str text;
    bool used;
};

struct kept_slot {
    uint64_t id;
    uint32_t number;
};

struct dag_kept {
    int64_t client;
    uint64_t last;
    struct chunk_text **chunks;
    uint32_t chunk_count;
    struct record *records;
    size_t record_count;
    struct kept_slot *slots;
    size_t slot_count;
    uint64_t *buckets[BUCKET_KINDS];
    size_t bucket_counts[BUCKET_KINDS];
    struct arena arena; /* texts of records */
};

void dag_kept_free(struct dag_kept *kept)
{
    for (uint32_t i = 0; i < kept->chunk_count; i++) {
        buf_release(&kept->chunks[i]->text);
        free(kept->chunks[i]);
    }
    for (int i = 0; i < BUCKET_KINDS; i++)
        free(kept->buckets[i]);
    free(kept->chunks);
    free(kept->records);
    free(kept->slots);
    arena_release(&kept->arena);
    free(kept);
}

/* The head, and the directories, which are made when there are none. */

static int make(struct keeper *k, const char *path, struct str data)
{
    int err = keeper_create(k, path, data, 0, NULL);

    return err == DROVER_EXISTS ? 0 : err;
}

static int make_all(struct keeper *k)
{
    static const char *const paths[] = {"/drover", DAG_ROOT, DAG_ROOT "/specs", DAG_ROOT "/nodes",
                                        DAG_ROOT "/slots"};
    char head[64];
    uint64_t random = 0;
    int err = 0;

    for (size_t i = 0; i < sizeof paths / sizeof *paths && !err; i++)
        err = make(k, paths[i], STR(""));
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        err = err ? err : DROVER_IO;
    snprintf(head, sizeof head, "{\"client\":%" PRIu64 ",\"last\":0}", (random >> 12) + 1);
    return err ? err : make(k, DAG_HEAD, str_of(head));
}

static int read_head(struct keeper *k, struct dag_kept *kept)
{
    struct buf b = {0};
    struct arena a = {0};
    const struct json *v;
    int64_t last = 0;
    int err = keeper_get(k, DAG_HEAD, &b, NULL);

    if (!err) {
        v = json_parse(&a, (struct str){b.p, b.len}, NULL);
        if (json_get_int(v, "client", &kept->client, NULL) != 1 ||
            json_get_int(v, "last", &last, NULL) != 1)
            err = DROVER_DAMAGED;
        kept->last = (uint64_t)last;
    }
    arena_release(&a);
    buf_release(&b);
    return err;
}

/* The buckets of one kind, and what is in each. */

typedef int read_one_fn(struct keeper *k, struct dag_kept *kept, const char *path,
                        const char *name);

static int read_bucket(struct keeper *k, struct dag_kept *kept, const char *bucket, read_one_fn *fn)
{
    struct keeper_names names = {0};
    char path[DAG_PATH_LEN * 2];
    int err = keeper_children(k, bucket, &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++) {
        snprintf(path, sizeof path, "%s/%s", bucket, names.names[i]);
        err = fn(k, kept, path, names.names[i]);
    }
    keeper_names_release(&names);
    return err;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static int read_kind(struct keeper *k, struct dag_kept *kept, enum bucket_kind kind,
                     read_one_fn *fn)
{
    static const char *const roots[] = {DAG_ROOT "/specs", DAG_ROOT "/nodes", DAG_ROOT "/slots"};
    struct keeper_names names = {0};
    char path[DAG_PATH_LEN];
    int err = keeper_children(k, roots[kind], &names, NULL);

    if (err)
        return err;
    kept->buckets[kind] = mem_alloc((names.count + 1) * sizeof *kept->buckets[kind]);
    for (size_t i = 0; i < names.count; i++)
        kept->buckets[kind][i] = strtoull(names.names[i], NULL, 10);
    kept->bucket_counts[kind] = names.count;
    if (names.count)
        qsort(kept->buckets[kind], names.count, sizeof *kept->buckets[kind], by_number);
    for (size_t i = 0; i < names.count && !err; i++) {
        dag_bucket_path(path, kind, kept->buckets[kind][i]);
        err = read_bucket(k, kept, path, fn);
    }
    keeper_names_release(&names);
    return err;
}

static int read_chunk(struct keeper *k, struct dag_kept *kept, const char *path, const char *name)
{
    uint64_t first = strtoull(name, NULL, 10);
    struct chunk_text *c;
    int err;

    if (first > kept->last)
        return keeper_delete(k, path, KEEPER_ANY_VERSION); /* of a graph that was not finished */
    c = mem_zalloc(sizeof *c);
    c->first_id = first;
    err = keeper_get(k, path, &c->text, NULL);
    kept->chunks = mem_realloc(kept->chunks, (kept->chunk_count + 1) * sizeof *kept->chunks);
    kept->chunks[kept->chunk_count++] = c;
    return err;
}

static int read_record(struct keeper *k, struct dag_kept *kept, const char *path, const char *name)
{
    struct buf b = {0};
    int err = keeper_get(k, path, &b, NULL);

    if ((kept->record_count & (kept->record_count - 1)) == 0)
        kept->records =
            mem_realloc(kept->records, (kept->record_count * 2 + 16) * sizeof *kept->records);
    kept->records[kept->record_count++] = (struct record){
        .id = strtoull(name, NULL, 10),
        .text = {arena_text(&kept->arena, (struct str){b.p, b.len}), b.len},
    };
    buf_release(&b);
    return err;
}

static int note_slot(struct keeper *k, struct dag_kept *kept, const char *path, const char *name)
{
    struct kept_slot s = {0};

    (void)k;
    (void)path;
    if (sscanf(name, "%" SCNu64 "-%" SCNu32, &s.id, &s.number) != 2)
        return DROVER_DAMAGED;
    if ((kept->slot_count & (kept->slot_count - 1)) == 0)
        kept->slots = mem_realloc(kept->slots, (kept->slot_count * 2 + 16) * sizeof *kept->slots);
    kept->slots[kept->slot_count++] = s;
    return 0;
}

static int by_id(const void *a, const void *b)
{
    return by_number(&((const struct record *)a)->id, &((const struct record *)b)->id);
}

static int by_first_id(const void *a, const void *b)
{
    return by_number(&(*(struct chunk_text *const *)a)->first_id,
                     &(*(struct chunk_text *const *)b)->first_id);
}

int dag_read(struct keeper *k, struct dag_kept **ret_kept, struct err_info *ret_error)
{
    struct dag_kept *kept = mem_zalloc(sizeof *kept);
    int err = make_all(k);

    if (!err)
        err = read_head(k, kept);
    if (!err)
        err = read_kind(k, kept, BUCKET_SPECS, read_chunk);
    if (!err)
        err = read_kind(k, kept, BUCKET_NODES, read_record);
    if (!err)
        err = read_kind(k, kept, BUCKET_SLOTS, note_slot);
    if (err) {
        dag_kept_free(kept);
        return err_set(ret_error, err, "dag: cannot read what is kept: %s",
                       drover_err_message(err));
    }
    if (kept->chunk_count)
        qsort(kept->chunks, kept->chunk_count, sizeof *kept->chunks, by_first_id);
    if (kept->record_count)
        qsort(kept->records, kept->record_count, sizeof *kept->records, by_id);
    *ret_kept = kept;
    return 0;
}

/* Beginning. */

struct beginning {
    struct dag *dag;
    struct dag_kept *kept;
    struct arena arena;
    bool damaged;
    struct task_request request;
    struct task *tasks;
    size_t task_count;
};

static bool remembered(void *arg, struct node *n, int *ret_state, int *ret_taken)
{
    struct beginning *b = arg;
    struct record key = {.id = n->id}, *r;

    r = b->kept->record_count
            ? bsearch(&key, b->kept->records, b->kept->record_count, sizeof key, by_id)
            : NULL;
    if (!r)
        return true;
    if (str_eq(r->text, STR("{\"state\":\"deleted\"}")))
        return false;
    if (node_read_record(n, r->text, &b->arena, ret_state, ret_taken))
        b->damaged = true;
    if (*ret_state == NODE_RUNNING) /* whether it runs is the task's to say */
        *ret_state = NODE_INCIPIENT;
    return true;
}

static void know_buckets(struct dag *d, const struct dag_kept *kept)
{
    for (int i = 0; i < BUCKET_KINDS; i++)
        for (size_t k = 0; k < kept->bucket_counts[i]; k++)
            map_add(&d->buckets[i], map_hash_u64(kept->buckets[i][k]),
                    (uint32_t)kept->buckets[i][k] + 1);
}

static bool slot_is_used(const struct node *n, uint32_t number)
{
    for (const struct value *v = n ? n->values : NULL; v; v = v->next)
        for (uint32_t i = 0; i < v->slot_count; i++)
            if (v->slots[i].number == number)
                return true;
    return false;
}

static void drop_unused_slots(struct dag *d, const struct dag_kept *kept)
{
    char path[DAG_PATH_LEN];

    for (size_t i = 0; i < kept->slot_count; i++) {
        struct node *n = graph_find(&d->graph, kept->slots[i].id);

        if (slot_is_used(n, kept->slots[i].number))
            continue;
        dag_slot_path(path, sizeof path, kept->slots[i].id, kept->slots[i].number);
        turn_op(turn_open(d), keeper_op_delete(path, KEEPER_ANY_VERSION));
    }
}

/* A run of the server before us, or of one whose lease we do not know. */
static void find_run(struct dag *d, struct node *n, struct str agent)
{
    int64_t number = strtoll(agent.p, NULL, 10);
    char token[96];
    struct outcome o = {.how = RUN_EXITED, .lost = true, .reason = "the server ended while it ran"};

    plan_start(&d->graph.plan, n->ref);
    dag_enter_running(d, n, number > 0 ? number : AGENT_SERVE, DAG_LEASE_MS);
    d->graph.shown[n->index] = NODE_RUNNING;
    if (number > 0 || !d->o.embedded)
        return;
    snprintf(token, sizeof token, "DROVER_RUN=%" PRId64 ".%" PRIu64 ".%" PRIu32, d->client, n->id,
             n->attempts);
    strays_signal(0, token, SIGKILL);
    if (graph_plan(&d->graph, n)->type == NODE_CONDITION) {
        dag_leave_running(d, n); /* asking again harms nobody */
        dag_park(d, n, dag_now_ms(d));
    } else {
        dag_end_run(d, turn_open(d), n, &o);
    }
}

static void find_task(struct dag *d, const struct task *task, struct arena *a)
{
    const struct json *v = json_parse(a, task->data, NULL);
    struct str agent = {0};
    int64_t id = 0, attempt = 0, started = 0;
    struct node *n;

    if (json_get_int(v, "node", &id, NULL) != 1 || json_get_text(v, "agent", &agent, NULL) != 1 ||
        json_get_int(v, "attempt", &attempt, NULL) < 0 ||
        json_get_int(v, "started", &started, NULL) < 0)
        return;
    n = graph_find(&d->graph, (uint64_t)id);
    if (!n || !graph_plan(&d->graph, n)->place || n->has_task) {
        turn_drop(turn_open(d), task->id);
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
    struct beginning *b = arg;
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
    struct beginning *b = arg;
    struct dag *d = b->dag;

    if (reply->err) {
        d->failing = reply->err;
    } else {
        drop_unused_slots(d, b->kept);
        for (size_t i = 0; i < b->task_count; i++)
            find_task(d, &b->tasks[i], &b->arena);
    }
    d->ready = true;
    dag_soon(d);
    dag_kept_free(b->kept);
    arena_release(&b->arena);
    free(b);
}

int dag_begin(struct dag *d, struct dag_kept *kept, struct err_info *ret_error)
{
    struct beginning *b = mem_zalloc(sizeof *b);
    struct plan_changes changes = {0};
    int err;

    b->dag = d;
    b->kept = kept;
    d->client = kept->client;
    know_buckets(d, kept);
    graph_group(&d->graph, STR(NODE_GROUP_DEFAULT));
    err = graph_load(&d->graph, kept->chunks, kept->chunk_count, remembered, b, &changes);
    d->graph.last_id = kept->last;
    free(kept->chunks);
    kept->chunks = NULL;
    kept->chunk_count = 0;
    plan_changes_release(&changes);
    if (err || b->damaged) {
        graph_release(&d->graph);
        dag_kept_free(kept);
        arena_release(&b->arena);
        free(b);
        return err_set(ret_error, DROVER_DAMAGED,
                       "dag: what is kept below " DAG_ROOT " is damaged");
    }
    b->request =
        (struct task_request){.kind = TASK_READ, .read = read_tasks, .done = on_tasks, .arg = b};
    service_submit(d->o.tasks, &b->request);
    return 0;
}
