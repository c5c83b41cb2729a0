/*
 * Opening a store, and the functions that read the tree.
 *
 * Numbers of new ids. ZooKeeper numbers sequential nodes by the creations under their parent, but a
 * transaction cannot create a sequential node and its children, so a crash would leave half a
 * batch. Drover computes the number as ZooKeeper does, (cversion + children) / 2, and creates the
 * node by name in the transaction that creates all of it. That transaction also sets the parent (to
 * the same empty data) at the version that was read with the number. Of two creators one therefore
 * fails and retries, and no number is used twice even if a creator pauses between reading and
 * creating. A foreign client that creates sequential nodes beside us gets numbers that are not
 * taken.
 */
#include "batch/store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/mem.h"
#include "batch/item.h"

#define ACCESS_KIND(name, lock)                                                                    \
    {                                                                                              \
        .key = "access", .plural = "access", .prefix = BATCH_ID_ACCESS, .dir = "/access/" name,    \
        .lists = "/drover/access/" name, .queue = lock, .nodes = {                                 \
            "token"                                                                                \
        }                                                                                          \
    }

static const struct batch_kind KINDS[BATCH_KINDS] = {
    [BATCH_KIND_BATCH] = {.key = "batch",
                          .plural = "batches",
                          .prefix = BATCH_ID_BATCH,
                          .dir = "/batches",
                          .lists = "/drover/batch",
                          .queue = "ingest",
                          .nodes = {"submission", "status-report"}},
    [BATCH_KIND_JOB] = {.key = "job",
                        .plural = "jobs",
                        .prefix = BATCH_ID_JOB,
                        .priority = true,
                        .dir = "/jobs",
                        .lists = "/jobs/states",
                        .queue = "ingest",
                        .nodes = {"configuration", "identifiers", "metadata", "inventory",
                                  "space_needed", "store"}},
    [BATCH_KIND_SMALL] = ACCESS_KIND("small", "accessSmall"),
    [BATCH_KIND_LARGE] = ACCESS_KIND("large", "accessLarge"),
};

/* Entries are offered in the order of their keys; names that are not entries are never offered. */
static void classify(void *arg, struct str name, struct str data, const struct keeper_stat *stat,
                     struct list_class *ret_class)
{
    const struct batch_view *v = arg;
    (void)data, (void)stat;
    ret_class->order = batch_entry_key(v->kind->prefix, v->kind->priority, name);
    ret_class->idle = ret_class->order < 0;
    ret_class->group = BATCH_VIEW_GROUP;
}

static void ready(void *arg, struct str group, uint32_t count)
{
    const struct batch_view *v = arg;
    const struct batch_store_options *o = &v->kind->store->options;
    (void)group;
    o->available(o->arg, v, count);
}

static void lock_path(void *arg, struct str name, struct buf *ret_path)
{
    const struct batch_view *v = arg;
    buf_printf(ret_path, "%s/%s/lock", v->kind->dir, name.p + name.len - BATCH_ID_LEN);
}

static void changed(void *arg)
{
    struct batch_view *v = arg;
    const struct batch_store_options *o = &v->kind->store->options;
    v->changed = true;
    if (o->stale)
        o->stale(o->arg);
}

static void open_kind(struct batch_store *r, enum batch_kind_id id)
{
    struct batch_kind *k = &r->kinds[id];
    *k = KINDS[id];
    k->id = id;
    k->store = r;
    k->machine = id == BATCH_KIND_BATCH ? &r->machines.batch
                 : id == BATCH_KIND_JOB ? &r->machines.job
                                        : &r->machines.access;
    if (id == BATCH_KIND_JOB && batch_machine_find(k->machine, STR("Storing")) == BATCH_NO_STATE)
        k->nodes[BATCH_NODE_STORE] = NULL;
    for (int i = 0; i < k->machine->count; i++) {
        struct batch_view *v = &k->views[i];
        struct list_view_options o = {.dir = v->dir,
                                      .lock_path = lock_path,
                                      .classify = classify,
                                      .ready = r->options.available ? ready : NULL,
                                      .changed = changed,
                                      .arg = v};
        v->kind = k;
        snprintf(v->dir, sizeof v->dir, "%s/%s", k->lists, k->machine->states[i].dir);
        v->list = list_view_new(&o);
    }
}

struct batch_store *batch_store_open(const struct batch_store_options *o)
{
    struct batch_store *r = mem_zalloc(sizeof *r);
    const struct {
        const char *name;
        int *state;
    } states[] = {
        {"Pending", &r->batch.pending},       {"Held", &r->batch.held},
        {"Processing", &r->batch.processing}, {"Reporting", &r->batch.reporting},
        {"Failed", &r->batch.failed},         {"UpdateReporting", &r->batch.update_reporting},
        {"Completed", &r->batch.completed},   {"Deleted", &r->batch.deleted},
    };

    r->machines = o->machines ? *o->machines : BATCH_MACHINES_BUILT_IN;
    r->options = *o;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        *states[i].state = batch_machine_find(&r->machines.batch, str_of(states[i].name));
    pthread_mutex_init(&r->creating, NULL);
    pthread_mutex_init(&r->indexing, NULL);
    pthread_mutex_init(&r->lock, NULL);
    r->job_cache = batch_job_cache_new();
    for (int i = 0; i < BATCH_KINDS; i++)
        open_kind(r, (enum batch_kind_id)i);
    return r;
}

void batch_store_close(struct batch_store *r)
{
    for (int k = 0; k < BATCH_KINDS; k++)
        for (int i = 0; i < r->kinds[k].machine->count; i++)
            list_view_free(r->kinds[k].views[i].list);
    batch_job_cache_free(r->job_cache);
    pthread_mutex_destroy(&r->creating);
    pthread_mutex_destroy(&r->indexing);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

int batch_store_nodes(struct batch_store *r, int (*fn)(void *arg, const char *path), void *arg)
{
    static const char *const NODES[] = {
        "/batches",         "/batch-uuids",       "/jobs",
        "/locks",           "/locks/queue",       "/locks/storage",
        "/locks/inventory", "/locks/collections", "/locks/localid",
        "/access",          "/access/small",      "/access/large",
        "/drover",          "/drover/access",     "/drover/legacy",
    };
    for (size_t i = 0; i < sizeof NODES / sizeof *NODES; i++)
        TRY(fn(arg, NODES[i]));
    for (int k = 0; k < BATCH_KINDS; k++) {
        const struct batch_kind *kind = &r->kinds[k];
        TRY(fn(arg, kind->lists));
        for (int i = 0; i < kind->machine->count; i++)
            if (k == BATCH_KIND_JOB || !batch_machine_is_final(kind->machine, i))
                TRY(fn(arg, kind->views[i].dir));
    }
    return 0;
}

static int make_node(void *arg, const char *path)
{
    struct batch_call *c = arg;
    return batch_fail(c, keeper_ensure(c->k, path, NO_BYTES));
}

int batch_store_init(struct batch_call *c)
{
    return batch_store_nodes(c->store, make_node, c);
}

struct str batch_now(struct batch_call *c)
{
    int64_t now_ms = c->store->options.wall_ms ? c->store->options.wall_ms(c->store->options.arg)
                                               : clock_wall_ms();
    char text[HUMAN_SIZE];
    return str_of(arena_printf(c->a, "%s.%03dZ", human_utc(text, now_ms), (int)(now_ms % 1000)));
}

void batch_publish(struct batch_call *c, const struct batch_item *i, int from, int to)
{
    const struct batch_machine_state *states = i->kind->machine->states;
    struct batch_event e = {.key = i->kind->key, .id = i->id, .state = states[to].name};
    if (i->bid[0])
        e.batch = i->bid;
    if (from != BATCH_NO_STATE)
        e.from = states[from].name;
    if (c->store->options.changed)
        c->store->options.changed(c->store->options.arg, &e);
}

enum { PATH_TEXT = 256 };

/* A path in text, or in the arena: names that foreign clients chose can be long. */
static const char *print_path(struct batch_call *c, char text[PATH_TEXT], const char *fmt,
                              va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int len = vsnprintf(text, PATH_TEXT, fmt, ap);
    const char *path = len < PATH_TEXT ? text : arena_vprintf(c->a, fmt, again);
    va_end(again);
    return path;
}

#define PRINT_PATH(path, fmt)                                                                      \
    char path##_text[PATH_TEXT];                                                                   \
    va_list path##_args;                                                                           \
    va_start(path##_args, fmt);                                                                    \
    const char *path = print_path(c, path##_text, fmt, path##_args);                               \
    va_end(path##_args)

int batch_node_get(struct batch_call *c, struct str *ret_data, struct keeper_stat *ret_stat,
                   const char *fmt, ...)
{
    CLEANUP(buf_release) struct buf data = {0};
    PRINT_PATH(path, fmt);
    TRY(batch_fail(c, keeper_get(c->k, path, &data, ret_stat)));
    *ret_data = (struct str){arena_text(c->a, buf_str(&data)), data.len};
    return 0;
}

int batch_node_exists(struct batch_call *c, struct keeper_stat *ret_stat, const char *fmt, ...)
{
    struct keeper_stat stat = {0};
    PRINT_PATH(path, fmt);
    int err = keeper_exists(c->k, path, &stat);
    if (ret_stat)
        *ret_stat = stat;
    return batch_fail(c, err);
}

int batch_node_children(struct batch_call *c, struct keeper_names *ret_names,
                        struct keeper_stat *ret_stat, const char *fmt, ...)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    PRINT_PATH(path, fmt);
    TRY(batch_fail(c, keeper_children(c->k, path, &names, ret_stat)));
    ret_names->count = names.count;
    ret_names->text = NULL;
    ret_names->names = arena_alloc(c->a, (names.count + 1) * sizeof *ret_names->names);
    for (size_t i = 0; i < names.count; i++)
        ret_names->names[i] = arena_text(c->a, str_of(names.names[i]));
    return 0;
}

int batch_fail(struct batch_call *c, int err)
{
    return err ? err_set(c->why, err, "%s", drover_err_message(err)) : 0;
}

int batch_next_number(struct batch_call *c, const struct batch_kind *kind, int64_t *ret_number,
                      int32_t *ret_version)
{
    struct keeper_stat stat;
    TRY(batch_node_exists(c, &stat, "%s", kind->dir));
    *ret_number = ((int64_t)stat.cversion + stat.child_count) / 2;
    *ret_version = stat.version;
    return 0;
}

struct batch_entry_name batch_view_entry(const struct batch_view *v, int64_t key)
{
    struct batch_entry_name entry;
    batch_entry(v->kind->prefix, v->kind->priority, key, entry.text);
    return entry;
}

bool batch_view_has(const struct batch_view *v, int64_t key)
{
    struct list_item item;
    return list_view_find(v->list, NULL, str_of(batch_view_entry(v, key).text), &item);
}

/* Notes the change for the commit. Returns the path of the entry. */
static const char *note(struct batch_txn *t, struct batch_view *v, int64_t key, bool add)
{
    struct batch_txn_list *l = arena_alloc(t->txn.a, sizeof *l);
    *l = (struct batch_txn_list){.view = v, .key = key, .add = add};
    struct batch_txn_list **end = t->lists ? &t->last_list->next : &t->lists;
    *end = t->last_list = l;
    return arena_printf(t->txn.a, "%s/%s", v->dir, batch_view_entry(v, key).text);
}

void batch_txn_list_add(struct batch_txn *t, int name, struct batch_view *v, int64_t key)
{
    txn_create(&t->txn, name, NO_BYTES, 0, "%s", note(t, v, key, true));
}

void batch_txn_list_remove(struct batch_txn *t, int name, struct batch_view *v, int64_t key)
{
    txn_delete(&t->txn, name, KEEPER_ANY_VERSION, "%s", note(t, v, key, false));
}

void batch_txn_job_list(struct batch_txn *t, int name, const char *bid, enum batch_list list,
                        const char *jid, bool add)
{
    const char *path =
        arena_printf(t->txn.a, "/batches/%s/states/%s/%s", bid, BATCH_LISTS[list], jid);
    if (add)
        txn_create(&t->txn, name, NO_BYTES, 0, "%s", path);
    else
        txn_delete(&t->txn, name, KEEPER_ANY_VERSION, "%s", path);
}

int batch_txn_commit(struct batch_call *c, struct batch_txn *t, int witness)
{
    for (const struct batch_txn_list *l = t->lists; l; l = l->next)
        list_view_expect(l->view->list, 1);
    int err = txn_commit(&t->txn, c->k, witness);
    for (const struct batch_txn_list *l = t->lists; l; l = l->next) {
        struct batch_entry_name entry = batch_view_entry(l->view, l->key);
        struct list_class class = {.order = l->key, .group = BATCH_VIEW_GROUP};
        list_view_done(l->view->list, 1, err);
        if (!err && l->add)
            list_view_add(l->view->list, str_of(entry.text), &class, 0);
        else if (!err)
            list_view_remove(l->view->list, str_of(entry.text));
    }
    return batch_fail(c, err);
}
