/*
 * Loading the tasks: the head, the buckets with their slots, the request log.
 *
 * The tree is input: a node that cannot be read fails the start, and the error names it. On an
 * ensemble each node is a round trip, so several threads read, bucket by bucket; one thread reads
 * the embedded keeper.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/thread.h"
#include "task/service_impl.h"

enum { READERS = 16 };

/* Keeps the first error and what it concerns. Returns err. */
static int check(struct task_load *l, int err, const char *what, const char *path)
{
    if (!err)
        return 0;
    LOCKED(&l->lock);
    if (!l->err)
        l->err = err_set(l->e, err, "cannot %s %s: %s", what, path, drover_err_message(err));
    return err;
}

/* Creates the parents of all other nodes. */
static int make_ground(struct task_load *l)
{
    char head[TASK_NODE_HEAD_LEN];
    const struct {
        const char *path;
        struct str data;
    } nodes[] = {
        {TASK_NODE_ROOT, STR("")},
        {REQUEST_LOG_ROOT, STR("")},
        {TASK_NODE_HEAD, {head, sizeof head}},
    };

    task_node_head_encode(&(struct task_node_head){0}, head);
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        TRY(check(l, keeper_ensure(l->keeper, nodes[i].path, nodes[i].data), "make",
                  nodes[i].path));
    return 0;
}

static int get(struct task_load *l, const char *path, struct buf *b)
{
    b->len = 0;
    return keeper_has_gate(l->keeper) ? keeper_peek(l->keeper, str_of(path), b)
                                      : keeper_get(l->keeper, path, b, NULL);
}

static int read_slot(struct task_load *l, int64_t slot, const char *path, struct buf *b)
{
    struct task t;
    TRY(get(l, path, b));
    TRY(task_node_decode(buf_str(b), &t));
    LOCKED(&l->lock);
    task_tree_found_slot(l->tree, slot);
    return store_restore(l->store, slot, &t, l->now_ms);
}

/* An empty bucket that is not the newest is not Drover's, and harmless. */
static void load_bucket(struct task_load *l, const char *name, struct buf *b)
{
    static const char what[] = "read the task in";
    int64_t bucket = task_node_number(name);
    CLEANUP(keeper_names_release) struct keeper_names slots = {0};
    char path[TASK_NODE_PATH_SIZE];

    if (bucket < 0)
        return;
    task_node_bucket_path(path, bucket);
    int err = check(l, keeper_children(l->keeper, path, &slots, NULL), what, path);
    if (err)
        return;
    pthread_mutex_lock(&l->lock);
    task_tree_found_bucket(l->tree, bucket);
    pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; !err && i < slots.count; i++) {
        int64_t slot = task_node_number(slots.names[i]);
        if (slot < 0 || task_node_bucket(slot) != bucket)
            continue;
        task_node_path(path, slot);
        err = check(l, read_slot(l, slot, path, b), what, path);
    }
}

static const char *next_bucket(struct task_load *l)
{
    LOCKED(&l->lock);
    return !l->err && l->next < l->buckets.count ? l->buckets.names[l->next++] : NULL;
}

static void *read_buckets(void *arg)
{
    CLEANUP(buf_release) struct buf b = {0};
    for (const char *name; (name = next_bucket(arg));)
        load_bucket(arg, name, &b);
    return NULL;
}

static int load_slots(struct task_load *l)
{
    size_t count = keeper_has_gate(l->keeper) ? 1 : READERS;
    pthread_t readers[READERS];

    TRY(check(l, keeper_children(l->keeper, TASK_NODE_HEAD, &l->buckets, NULL), "read",
              TASK_NODE_HEAD));
    if (count > l->buckets.count)
        count = l->buckets.count;
    for (size_t i = 0; i < count; i++)
        thread_must_start(&readers[i], "task-load", read_buckets, l);
    for (size_t i = 0; i < count; i++)
        pthread_join(readers[i], NULL);
    keeper_names_release(&l->buckets);
    return l->err;
}

static int read_requests(struct task_load *l)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    CLEANUP(buf_release) struct buf b = {0};
    TRY(keeper_children(l->keeper, REQUEST_LOG_ROOT, &names, NULL));
    for (size_t i = 0; i < names.count; i++) {
        int64_t place = task_node_number(names.names[i]);
        char path[TASK_NODE_PATH_SIZE];
        if (place < 0 || place >= REQUEST_LOG_MAX)
            continue;
        snprintf(path, sizeof path, "%s/%" PRId64, REQUEST_LOG_ROOT, place);
        TRY(get(l, path, &b));
        TRY(request_log_restore(&l->tree->requests, (uint32_t)place, buf_str(&b)));
    }
    return 0;
}

static int read_head(struct task_load *l)
{
    CLEANUP(buf_release) struct buf b = {0};
    struct keeper_stat stat;
    TRY(keeper_get(l->keeper, TASK_NODE_HEAD, &b, &stat));
    l->head_version = stat.version;
    return task_node_head_decode(buf_str(&b), &l->head);
}

int load_tasks(struct task_load *l)
{
    TRY(make_ground(l));
    TRY(check(l, read_head(l), "read", TASK_NODE_HEAD));
    TRY(load_slots(l));
    TRY(check(l, read_requests(l), "read the requests in", REQUEST_LOG_ROOT));
    l->tree->ceiling = l->head.last_id;
    store_set_last_id(l->store, l->head.last_id);
    return 0;
}
