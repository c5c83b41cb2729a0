/*
 * Opening and closing a service, and, on an ensemble, starting and stopping it with the leadership.
 *
 * Either begins with loading the tasks: the head, the buckets with their slots, the request log.
 * The tree is input: a node that cannot be read fails the start, and the error names it. On an
 * ensemble each node is a round trip, so several threads read, bucket by bucket; one thread reads
 * the embedded keeper.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include "task/service_impl.h"
#include "task/settings_json.h"

enum { READERS = 16 };

/* Loading: fills an empty store and task tree, which no other thread uses yet. */

struct task_load {
    struct keeper *keeper;
    struct store *store;
    struct task_tree *tree;
    int64_t now_ms;

    struct task_node_head head;
    int32_t head_version;

    struct keeper_names buckets;
    pthread_mutex_t lock; /* guards the rest, and the store */
    size_t next;          /* next bucket to read */
    int err;
    struct err_info *e;
};

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

static int make_node(struct task_load *l, const char *path, struct str data)
{
    return check(l, keeper_ensure(l->keeper, path, data), "make", path);
}

/* Creates the parents of all other nodes. */
static int make_ground(struct task_load *l)
{
    struct task_node_head first = {.ceiling =
                                       keeper_has_gate(l->keeper) ? 0 : TASK_NODE_NO_CEILING};
    char head[TASK_NODE_HEAD_LEN_MAX];
    size_t len = task_node_head_encode(&first, head);
    TRY(make_node(l, TASK_NODE_ROOT, STR("")));
    TRY(make_node(l, REQUEST_LOG_ROOT, STR("")));
    TRY(make_node(l, SETTINGS_ROOT, STR("")));
    return make_node(l, TASK_NODE_HEAD, (struct str){head, len});
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
    struct task_extra extra;
    struct str payload;
    bool has_tail;
    TRY(get(l, path, b));
    TRY(task_node_decode(buf_str(b), &t, &payload, &has_tail));
    TRY(task_payload_decode(payload, has_tail, &extra, &t.data));
    t.extra = has_tail ? &extra : NULL;
    LOCKED(&l->lock);
    task_tree_found_slot(l->tree, slot);
    return store_restore(l->store, slot, &t, l->now_ms);
}

/* An empty bucket that is not the newest is not Drover's, and harmless. */
static void load_bucket(struct task_load *l, const char *name, struct buf *b)
{
    int64_t bucket = task_node_number(name);
    CLEANUP(keeper_names_release) struct keeper_names slots = {0};
    char path[TASK_NODE_PATH_SIZE];

    if (bucket < 0)
        return;
    task_node_bucket_path(path, bucket);
    int err = check(l, keeper_children(l->keeper, path, &slots, NULL), "read", path);
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
        err = check(l, read_slot(l, slot, path, b), "read the task in", path);
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

static int read_request(struct task_load *l, uint32_t place, const char *path, struct buf *b)
{
    TRY(get(l, path, b));
    return request_log_restore(&l->tree->requests, place, buf_str(b));
}

static int read_requests(struct task_load *l)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    CLEANUP(buf_release) struct buf b = {0};
    TRY(check(l, keeper_children(l->keeper, REQUEST_LOG_ROOT, &names, NULL), "read",
              REQUEST_LOG_ROOT));
    for (size_t i = 0; i < names.count; i++) {
        int64_t place = task_node_number(names.names[i]);
        char path[TASK_NODE_PATH_SIZE];
        if (place < 0 || place >= REQUEST_LOG_MAX)
            continue;
        snprintf(path, sizeof path, "%s/%" PRId64, REQUEST_LOG_ROOT, place);
        TRY(check(l, read_request(l, (uint32_t)place, path, &b), "read the request in", path));
    }
    return 0;
}

/* Each failure names its node. */
static int load_settings(struct task_load *l)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    CLEANUP(buf_release) struct buf b = {0};
    CLEANUP(arena_release) struct arena a = {0};
    int err = keeper_children(l->keeper, SETTINGS_ROOT, &names, NULL);
    if (err)
        return check(l, err, "read", SETTINGS_ROOT);
    for (size_t i = 0; i < names.count; i++) {
        const char *path = arena_printf(&a, "%s/%s", SETTINGS_ROOT, names.names[i]);
        struct task_settings settings;
        struct keeper_stat stat;
        struct str pattern;
        b.len = 0;
        err = keeper_get(l->keeper, path, &b, &stat);
        if (!err)
            err = settings_read_node(buf_str(&b), &a, &pattern, &settings);
        TRY(check(l, err, "read the settings in", path));
        settings.version = stat.version;
        store_set_settings(l->store, pattern, &settings);
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

/* What the head says of the ids, by the keeper and the version that wrote it. */
static int use_head(struct task_load *l)
{
    struct task_node_head *h = &l->head;
    bool embedded = keeper_has_gate(l->keeper), has_ceiling = h->ceiling != TASK_NODE_NO_CEILING;
    if (has_ceiling && !embedded)
        return err_set(l->e, DROVER_IN_USE,
                       "%s belongs to a server with an embedded keeper: name another chroot",
                       TASK_NODE_HEAD);
    if (embedded && !has_ceiling) /* of drover 0.1 */
        *h = (struct task_node_head){.ceiling = h->last_id};
    l->tree->ceiling = h->ceiling;
    store_set_last_id(l->store, h->last_id);
    store_set_top_id(l->store, h->ceiling);
    return 0;
}

static int load_tasks(struct task_load *l)
{
    TRY(make_ground(l));
    TRY(check(l, read_head(l), "read", TASK_NODE_HEAD));
    TRY(use_head(l));
    TRY(load_settings(l));
    TRY(load_slots(l));
    return read_requests(l);
}

/* The payload of a task, from the embedded keeper's tree. */
static int fetch(void *arg, int64_t slot, struct buf *b)
{
    struct service *s = arg;
    size_t before = b->len;
    char path[TASK_NODE_PATH_SIZE];
    size_t len = task_node_path(path, slot);
    struct task t;
    struct str payload;
    bool has_tail;
    TRY(keeper_peek(s->keeper, (struct str){path, len}, b));
    TRY(task_node_decode((struct str){b->p + before, b->len - before}, &t, &payload, &has_tail));
    memmove(b->p + before, payload.p, payload.len);
    b->len = before + payload.len;
    return 0;
}

/* Loads into a new store; take_over() makes it the current one. */
static int load(struct service *s, struct keeper *k, struct task_load *l, struct err_info *e)
{
    *l = (struct task_load){.keeper = k, .now_ms = service_now_ms(s), .e = e};
    l->store = store_new(s->o.keeper ? fetch : NULL, s);
    l->tree = task_tree_new();
    pthread_mutex_init(&l->lock, NULL);
    int err = load_tasks(l);
    pthread_mutex_destroy(&l->lock);
    if (err) {
        store_free(l->store);
        task_tree_free(l->tree);
    }
    return err;
}

static void discard(struct service *s)
{
    if (!s->store)
        return;
    s->last_id = store_last_id(s->store);
    store_free(s->store);
    task_tree_free(s->tree);
    s->store = NULL;
    s->tree = NULL;
}

static void take_over(struct service *s, const struct task_load *l)
{
    discard(s);
    s->store = l->store;
    if (store_last_id(s->store) < s->last_id) /* another client has deleted the head */
        store_set_last_id(s->store, s->last_id);
    s->tree = l->tree;
    s->keeper = l->keeper;
    s->head_version = l->head_version;
    s->one_by_one = 0;
    s->state = SERVICE_READY;
}

/* If a crash may lose answered changes, the ceiling of this run is on disk before its first id. */
static int raise_ceiling(struct service *s, struct err_info *e)
{
    char bytes[TASK_NODE_HEAD_LEN_MAX];
    if (!keeper_may_lose(s->keeper) && !s->o.journal_now)
        return 0;
    s->tree->losable = TASK_TREE_LOSABLE;
    struct task_node_head head =
        task_tree_head(s->tree, store_last_id(s->store), store_top_id(s->store));
    size_t len = task_node_head_encode(&head, bytes);
    struct str data = {bytes, len};
    struct keeper_op op = keeper_op_set(TASK_NODE_HEAD, data, KEEPER_ANY_VERSION);
    int err = s->o.journal_now ? s->o.journal_now(s->o.journal_arg, &op, 1) : 0;
    if (!err)
        err = keeper_set(s->keeper, TASK_NODE_HEAD, data, KEEPER_ANY_VERSION, NULL);
    if (!err)
        err = keeper_flush(s->keeper);
    if (err)
        return err_set(e, err, "cannot set ids aside for the tasks: %s", drover_err_message(err));
    s->tree->ceiling = head.ceiling;
    return 0;
}

static int open_local(struct service *s, struct err_info *e)
{
    struct task_load l;
    s->keeper = s->o.keeper;
    TRY(load(s, s->keeper, &l, e));
    take_over(s, &l);
    TRY(raise_ceiling(s, e));
    task_tree_begin(s->tree, &s->commit);
    return 0;
}

int service_open(const struct service_options *o, struct service **ret_service,
                 struct err_info *ret_error)
{
    struct service *s = mem_zalloc(sizeof *s);
    s->o = *o;
    s->offset_ms = clock_wall_ms() - clock_boot_ms();
    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->finished);
    claim_queue_init(&s->waiting);
    random_fill(&s->random, sizeof s->random);
    s->sweep = sweep_new(s);
    int err = o->keeper ? open_local(s, ret_error) : 0;
    if (err)
        service_close(s);
    else
        *ret_service = s;
    return err;
}

int service_start(struct service *s, struct keeper *k, const struct keeper_op *fence,
                  struct err_info *ret_error)
{
    struct task_load l;
    TRY(load(s, k, &l, ret_error));
    pthread_mutex_lock(&s->lock);
    ensemble_commit_abandon(s);
    if (s->store)
        ensemble_commit_undo(s);
    take_over(s, &l);
    free((char *)s->fence.path.p);
    s->fence = *fence;
    s->fence.path.p = mem_dup(fence->path.p, fence->path.len);
    ensemble_commit_resolve(s, l.head.tag);
    ensemble_commit_start(s);
    pthread_mutex_unlock(&s->lock);
    service_wake(s);
    return 0;
}

void service_stop(struct service *s)
{
    struct task_request *r;
    pthread_mutex_lock(&s->lock);
    ensemble_commit_abandon(s);
    s->state = SERVICE_STOPPED;
    while ((r = claim_queue_timed_out(&s->waiting, INT64_MAX))) {
        claim_queue_remove(&s->waiting, r);
        queue_put(&s->queue, r);
    }
    while (claim_queue_next_marked(&s->waiting))
        ;
    if (s->store)
        ensemble_commit_drop(s);
    discard(s);
    pthread_mutex_unlock(&s->lock);
    service_wake(s);
}

void service_close(struct service *s)
{
    service_stop(s);
    if (s->o.keeper)
        keeper_wait(s->o.keeper, s->zxid);
    service_dispatch(s);
    if (s->o.keeper)
        keeper_close(s->o.keeper);
    claim_queue_release(&s->waiting);
    task_commit_release(&s->commit);
    while (s->spare_count) {
        task_txn_release(s->spare[--s->spare_count]);
        free(s->spare[s->spare_count]);
    }
    tallies_free(s->tallies);
    free((char *)s->fence.path.p);
    free(s->sweep);
    pthread_cond_destroy(&s->finished);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Queues. */

void queue_put(struct task_queue *q, struct task_request *r)
{
    r->own.next = NULL;
    *(q->last ? &q->last->own.next : &q->first) = r;
    q->last = r;
    q->count++;
}

struct task_request *queue_take(struct task_queue *q)
{
    struct task_request *r = q->first;
    if (!r)
        return NULL;
    q->first = r->own.next;
    if (!q->first)
        q->last = NULL;
    q->count--;
    return r;
}
