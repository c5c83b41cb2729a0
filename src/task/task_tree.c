/* The slots of each bucket are counted in a small table. */
#include "task/task_tree.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

enum { OP_OVERHEAD = 64 }; /* of an operation on the wire, without path and data */

void task_tree_init(struct task_tree *l)
{
    *l = (struct task_tree){.open_bucket = -1, .top = 1};
}

void task_tree_release(struct task_tree *l)
{
    request_log_release(&l->requests);
    map_release(&l->by_number);
    free(l->buckets);
    free(l->unused);
    task_tree_init(l);
}

/* Counting. */

static uint32_t find(const struct task_tree *l, int64_t number)
{
    uint32_t hash = map_hash_u64((uint64_t)number);
    for (uint32_t at, ref = map_first(&l->by_number, hash, &at); ref;
         ref = map_next(&l->by_number, hash, &at))
        if (l->buckets[ref].number == number)
            return ref;
    return 0;
}

static uint32_t take_entry(struct task_tree *l)
{
    if (l->unused_count)
        return l->unused[--l->unused_count];
    if (l->top >= l->cap) {
        l->cap = l->cap ? l->cap * 2 : 64;
        l->buckets = mem_realloc(l->buckets, l->cap * sizeof *l->buckets);
        l->unused = mem_realloc(l->unused, l->cap * sizeof *l->unused);
    }
    return l->top++;
}

static void count_up(struct task_tree *l, int64_t number)
{
    uint32_t ref = find(l, number);
    if (!ref) {
        ref = take_entry(l);
        l->buckets[ref] = (struct task_tree_bucket){number, 0};
        map_add(&l->by_number, map_hash_u64((uint64_t)number), ref);
    }
    l->buckets[ref].slots++;
}

/* Returns the remaining slots. */
static uint32_t count_down(struct task_tree *l, int64_t number)
{
    uint32_t ref = find(l, number);
    assert(ref);
    if (--l->buckets[ref].slots)
        return l->buckets[ref].slots;
    map_remove(&l->by_number, map_hash_u64((uint64_t)number), ref);
    l->unused[l->unused_count++] = ref;
    return 0;
}

void task_tree_found_bucket(struct task_tree *l, int64_t bucket)
{
    if (bucket > l->open_bucket)
        l->open_bucket = bucket;
}

void task_tree_found_slot(struct task_tree *l, int64_t slot)
{
    count_up(l, task_node_bucket(slot));
}

/* A commit. */

void task_commit_release(struct task_commit *c)
{
    arena_release(&c->arena);
    free(c->ops);
    free(c->forgotten);
    *c = (struct task_commit){0};
}

void task_commit_reset(struct task_commit *c)
{
    c->count = c->bytes = c->remembered = 0;
    c->begun = false;
    arena_reset(&c->arena);
}

void task_commit_op(struct task_commit *c, struct keeper_op op)
{
    if (c->count == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 16;
        c->ops = mem_realloc(c->ops, c->cap * sizeof *c->ops);
    }
    c->bytes += OP_OVERHEAD + op.path.len + op.data.len;
    c->ops[c->count++] = op;
}

static void begin(const struct task_tree *l, struct task_commit *c)
{
    if (c->begun)
        return;
    c->begun = true;
    c->open_bucket = l->open_bucket;
    c->ceiling = l->ceiling;
}

static struct str bucket_path(struct task_commit *c, int64_t bucket)
{
    char *path = arena_alloc(&c->arena, TASK_NODE_PATH_SIZE);
    return (struct str){path, task_node_bucket_path(path, bucket)};
}

static void put_bucket(struct task_commit *c, enum keeper_op_kind kind, int64_t bucket)
{
    task_commit_op(c, (struct keeper_op){.kind = kind,
                                         .version = KEEPER_ANY_VERSION,
                                         .path = bucket_path(c, bucket)});
}

static void put_slot(struct task_commit *c, enum keeper_op_kind kind, int64_t slot,
                     const struct task *t)
{
    char *path = arena_alloc(&c->arena, TASK_NODE_PATH_SIZE);
    struct keeper_op op = {.kind = kind,
                           .flags = kind == KEEPER_CREATE ? KEEPER_NO_STAT : 0,
                           .version = KEEPER_ANY_VERSION,
                           .path = {path, task_node_path(path, slot)}};
    if (t) {
        char *bytes = arena_alloc(&c->arena, task_node_len(t));
        task_node_encode(t, bytes);
        op.data = (struct str){bytes, task_node_len(t)};
    }
    task_commit_op(c, op);
}

/* The bucket being filled is kept, even if it is empty. */
static void open_bucket(struct task_tree *l, struct task_commit *c, int64_t bucket)
{
    int64_t before = l->open_bucket;
    if (bucket <= before)
        return;
    put_bucket(c, KEEPER_CREATE, bucket);
    l->open_bucket = bucket;
    if (before >= 0 && !find(l, before))
        put_bucket(c, KEEPER_DELETE, before);
}

void task_tree_put(struct task_tree *l, struct task_commit *c, const struct task_txn *t)
{
    begin(l, c);
    for (size_t i = 0; i < t->change_count; i++) {
        const struct task_txn_change *change = &t->changes[i];
        int64_t bucket = task_node_bucket(change->slot);
        switch (change->kind) {
        case TXN_CREATE:
            open_bucket(l, c, bucket);
            put_slot(c, KEEPER_CREATE, change->slot, &t->tasks[change->task]);
            count_up(l, bucket);
            break;
        case TXN_SET:
            put_slot(c, KEEPER_SET, change->slot, &t->tasks[change->task]);
            break;
        case TXN_DELETE:
            put_slot(c, KEEPER_DELETE, change->slot, NULL);
            if (!count_down(l, bucket) && bucket != l->open_bucket)
                put_bucket(c, KEEPER_DELETE, bucket);
            break;
        }
    }
}

void task_tree_put_request(struct task_tree *l, struct task_commit *c,
                           const struct request_key *key, const struct task *tasks, size_t count)
{
    struct str bytes = request_log_encode(&l->requests, key, tasks, count, &c->arena);
    bool taken;
    uint32_t place = request_log_place(&l->requests, &taken);
    char *path = arena_printf(&c->arena, "%s/%u", REQUEST_LOG_ROOT, place);
    begin(l, c);
    task_commit_op(c, (struct keeper_op){.kind = taken ? KEEPER_SET : KEEPER_CREATE,
                                         .version = KEEPER_ANY_VERSION,
                                         .path = str_of(path),
                                         .data = bytes});
    if (c->remembered == c->remembered_cap) {
        c->remembered_cap = c->remembered_cap ? c->remembered_cap * 2 : 4;
        c->forgotten = mem_realloc(c->forgotten, c->remembered_cap * sizeof *c->forgotten);
    }
    c->forgotten[c->remembered++] = request_log_put(&l->requests, bytes);
}

void task_tree_put_head(struct task_tree *l, struct task_commit *c, const struct task_node_head *h,
                        int32_t version)
{
    char *bytes = arena_alloc(&c->arena, TASK_NODE_HEAD_LEN);
    begin(l, c);
    task_node_head_encode(h, bytes);
    task_commit_op(c, (struct keeper_op){.kind = KEEPER_SET,
                                         .version = version,
                                         .path = STR(TASK_NODE_HEAD),
                                         .data = {bytes, TASK_NODE_HEAD_LEN}});
    l->ceiling = h->last_id;
}

struct task_node_head task_tree_ceiling(const struct task_tree *l, int64_t last_id)
{
    return (struct task_node_head){.last_id = last_id + 2 * l->losable + TASK_TREE_STEP};
}

void task_tree_put_ceiling(struct task_tree *l, struct task_commit *c, int64_t last_id)
{
    struct task_node_head h = task_tree_ceiling(l, last_id);
    if (last_id + l->losable > l->ceiling)
        task_tree_put_head(l, c, &h, KEEPER_ANY_VERSION);
}

void task_tree_settle(struct task_tree *l, struct task_commit *c)
{
    (void)l;
    for (size_t i = 0; i < c->remembered; i++)
        request_log_entry_free(c->forgotten[i]);
    task_commit_reset(c);
}

void task_tree_undo(struct task_tree *l, struct task_commit *c, const struct task_txn *const *txns,
                    size_t count)
{
    if (!c->begun)
        return;
    l->open_bucket = c->open_bucket;
    l->ceiling = c->ceiling;
    while (c->remembered)
        request_log_undo(&l->requests, c->forgotten[--c->remembered]);
    for (size_t i = count; i-- > 0;)
        for (size_t j = txns[i]->change_count; j-- > 0;) {
            const struct task_txn_change *change = &txns[i]->changes[j];
            if (change->kind == TXN_CREATE)
                count_down(l, task_node_bucket(change->slot));
            if (change->kind == TXN_DELETE)
                count_up(l, task_node_bucket(change->slot));
        }
    task_commit_reset(c);
}
