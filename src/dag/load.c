/*
 * Reads the stored state, when a server starts or becomes the leader; begin.c starts with it.
 *
 * The names of the keeper nodes first, then their data. On an ensemble each read is a round trip,
 * and a graph of 10,000 nodes has 10,000 records, so several threads read in parallel. The tree is
 * input: a node that cannot be read fails the start, and the error names it.
 *
 * Reading cleans up after a crash: it deletes chunks whose request did not commit, and the rest of
 * runs that were being removed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include "dag/load_impl.h"

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
        json_get_int(v, "last", &saved->last, NULL) != 1 || saved->last < 0 ||
        json_get_int(v, "runs", &saved->runs, NULL) < 0 || saved->runs < 0)
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

/*
 * Runs that were being removed: deletes their records, and then the chunks, in case of another
 * crash. Slots without a node are deleted by dag_begin().
 */

/* Deletes the texts with these ids, in the keeper and in the list. */
static int delete_texts(struct keeper *k, struct dag_saved *saved, enum bucket_kind kind,
                        uint64_t first_id, uint64_t count, struct err_info *e)
{
    struct saved_texts *t = &saved->texts[kind];
    size_t kept = 0;
    int err = 0;
    for (size_t i = 0; i < t->count; i++) {
        struct chunk_text *c = t->items[i];
        struct dag_path path = dag_path(kind, c->first_id);
        if (err || c->first_id < first_id || c->first_id - first_id >= count) {
            t->items[kept++] = c;
            continue;
        }
        err = check(keeper_delete(k, path.text, KEEPER_ANY_VERSION), "delete", path.text, e);
        buf_release(&c->text);
        free(c);
    }
    t->count = kept;
    return err;
}

static int finish_removals(struct keeper *k, struct dag_saved *saved, struct err_info *e)
{
    struct saved_texts *chunks = &saved->texts[BUCKET_SPECS];
    for (size_t i = chunks->count; i-- > 0;) {
        uint64_t first = chunks->items[i]->first_id;
        struct str text = buf_str(&chunks->items[i]->text);
        int64_t count = 0;
        if (!str_starts(text, STR("{")))
            continue;
        CLEANUP(arena_release) struct arena a = {0};
        if (json_get_int(json_parse(&a, text, NULL), "removed", &count, NULL) != 1 || count < 1)
            return check(DROVER_DAMAGED, "read", dag_path(BUCKET_SPECS, first).text, e);
        TRY(delete_texts(k, saved, BUCKET_NODES, first, (uint64_t)count, e));
        TRY(delete_texts(k, saved, BUCKET_SPECS, first, 1, e));
    }
    return 0;
}

static int read_all(struct keeper *k, struct dag_saved *saved, struct err_info *e)
{
    TRY(make_all(k, e));
    TRY(check(read_head(k, saved), "read", DAG_HEAD, e));
    for (enum bucket_kind kind = 0; kind < BUCKET_KINDS; kind++)
        TRY(note_kind(k, saved, kind, e));
    TRY(read_texts(k, BUCKET_SPECS, saved, e));
    TRY(read_texts(k, BUCKET_NODES, saved, e));
    return finish_removals(k, saved, e);
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
