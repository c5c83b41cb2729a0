/*
 * Loading the tasks: the head, the buckets with their slots, the request log.
 *
 * The tree is input: a node that cannot be read fails the start, and the error names it. On an
 * ensemble each node is a round trip, so several threads read, bucket by bucket; one thread reads
 * the embedded keeper.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"
#include "task/service_impl.h"

enum { READERS = 16 };

struct task_loader {
    struct task_load_target *t;
    struct keeper *k;
    struct keeper_names buckets;

    pthread_mutex_t lock; /* guards the rest, and the store */
    size_t next;          /* next bucket to read */
    int err;
    struct err_info *e;
};

static int make_node(struct keeper *k, const char *path, struct str data, struct err_info *e)
{
    int err = keeper_ensure(k, path, data);
    return err ? err_set(e, err, "cannot make %s: %s", path, drover_err_message(err)) : 0;
}

/* Creates the parents of all other nodes. */
static int make_ground(struct keeper *k, struct err_info *e)
{
    char head[TASK_NODE_HEAD_LEN];
    task_node_head_encode(&(struct task_node_head){0}, head);
    TRY(make_node(k, TASK_NODE_ROOT, STR(""), e));
    TRY(make_node(k, REQUEST_LOG_ROOT, STR(""), e));
    return make_node(k, TASK_NODE_HEAD, (struct str){head, TASK_NODE_HEAD_LEN}, e);
}

static int get(struct task_loader *l, const char *path, struct buf *b, struct keeper_stat *stat)
{
    b->len = 0;
    return keeper_has_gate(l->k) ? keeper_peek(l->k, str_of(path), b)
                                 : keeper_get(l->k, path, b, stat);
}

static int fail(struct task_loader *l, int err, const char *path)
{
    LOCKED(&l->lock);
    if (!l->err)
        l->err =
            err_set(l->e, err, "cannot read the task in %s: %s", path, drover_err_message(err));
    return err;
}

static int load_slot(struct task_loader *l, int64_t slot, struct buf *b)
{
    char path[TASK_NODE_PATH_SIZE];
    struct task t;
    task_node_path(path, slot);
    int err = get(l, path, b, NULL);
    if (!err)
        err = task_node_decode(buf_str(b), &t);
    if (!err) {
        LOCKED(&l->lock);
        err = store_restore(l->t->store, slot, &t, l->t->now_ms);
        task_tree_found_slot(l->t->tree, slot);
    }
    return err ? fail(l, err, path) : 0;
}

/* An empty bucket that is not the newest is not Drover's, and harmless. */
static int load_bucket(struct task_loader *l, const char *name, struct buf *b)
{
    int64_t bucket = task_node_number(name);
    struct keeper_names slots = {0};
    char path[TASK_NODE_PATH_SIZE];

    if (bucket < 0)
        return 0;
    task_node_bucket_path(path, bucket);
    int err = keeper_children(l->k, path, &slots, NULL);
    if (err)
        return fail(l, err, path);
    pthread_mutex_lock(&l->lock);
    task_tree_found_bucket(l->t->tree, bucket);
    pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; !err && i < slots.count; i++) {
        int64_t slot = task_node_number(slots.names[i]);
        if (slot >= 0 && task_node_bucket(slot) == bucket)
            err = load_slot(l, slot, b);
    }
    keeper_names_release(&slots);
    return err;
}

static const char *next_bucket(struct task_loader *l)
{
    const char *name = NULL;
    LOCKED(&l->lock);
    if (!l->err && l->next < l->buckets.count)
        name = l->buckets.names[l->next++];
    return name;
}

static void *read_buckets(void *arg)
{
    struct task_loader *l = arg;
    CLEANUP(buf_release) struct buf b = {0};
    const char *name;
    while ((name = next_bucket(l)))
        load_bucket(l, name, &b);
    return NULL;
}

static int load_slots(struct task_loader *l)
{
    size_t count = keeper_has_gate(l->k) ? 1 : READERS;
    pthread_t readers[READERS];
    int err = keeper_children(l->k, TASK_NODE_HEAD, &l->buckets, NULL);

    if (err)
        return err_set(l->e, err, "cannot read %s: %s", TASK_NODE_HEAD, drover_err_message(err));
    if (count > l->buckets.count)
        count = l->buckets.count;
    for (size_t i = 0; i < count; i++)
        thread_must_start(&readers[i], "task-load", read_buckets, l);
    for (size_t i = 0; i < count; i++)
        pthread_join(readers[i], NULL);
    keeper_names_release(&l->buckets);
    return l->err;
}

static int load_requests(struct task_loader *l)
{
    struct keeper_names names = {0};
    struct buf b = {0};
    int err = keeper_children(l->k, REQUEST_LOG_ROOT, &names, NULL);

    for (size_t i = 0; !err && i < names.count; i++) {
        int64_t place = task_node_number(names.names[i]);
        char path[TASK_NODE_PATH_SIZE];
        if (place < 0 || place >= REQUEST_LOG_MAX)
            continue;
        snprintf(path, sizeof path, "%s/%" PRId64, REQUEST_LOG_ROOT, place);
        err = get(l, path, &b, NULL);
        if (!err)
            err = request_log_restore(&l->t->tree->requests, (uint32_t)place, buf_str(&b));
    }
    buf_release(&b);
    keeper_names_release(&names);
    if (err)
        err_set(l->e, err, "cannot read the requests in %s: %s", REQUEST_LOG_ROOT,
                drover_err_message(err));
    return err;
}

static int load_head(struct task_loader *l)
{
    struct keeper_stat stat = {0};
    struct buf b = {0};
    int err = keeper_get(l->k, TASK_NODE_HEAD, &b, &stat);
    if (!err)
        err = task_node_head_decode(buf_str(&b), &l->t->head);
    buf_release(&b);
    l->t->head_version = stat.version;
    if (err)
        err_set(l->e, err, "cannot read %s: %s", TASK_NODE_HEAD, drover_err_message(err));
    return err;
}

int load_tasks(struct task_load_target *t, struct err_info *e)
{
    struct task_loader l = {.t = t, .k = t->keeper, .e = e};
    int err = make_ground(t->keeper, e);

    pthread_mutex_init(&l.lock, NULL);
    if (!err)
        err = load_head(&l);
    if (!err)
        err = load_slots(&l);
    if (!err)
        err = load_requests(&l);
    if (!err) {
        t->tree->ceiling = t->head.last_id;
        store_set_last_id(t->store, t->head.last_id);
    }
    pthread_mutex_destroy(&l.lock);
    return err;
}
