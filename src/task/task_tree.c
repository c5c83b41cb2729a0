/*
 * The slots of each bucket are counted in a small table.
 *
 * Formats paths without printf: they are made for every change, and printf takes longer than the
 * change.
 */
#include "task/task_tree.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "drover.h"

enum { OP_OVERHEAD = 64 }; /* of an operation on the wire, without path and data */

/* Nodes. */

enum {
    VERSION = 1,
    VERSION_MANAGED = 2,
    VERSION_CEILING = 2, /* of the head */
    VERSION_FLAGS = 0x40,
    DIGITS_MAX = 19,
};

enum {
    FLAG_MANAGED = 1,
    FLAG_TAIL = 2,
    FLAG_CLAIMED = 4,
    FLAG_RETRYING = 8,
    FLAG_DEAD = 16,
    FLAG_DONE = 32,
};

static size_t put_number(char *at, int64_t number)
{
    char digits[DIGITS_MAX];
    size_t len = 0;
    do
        digits[DIGITS_MAX - ++len] = (char)('0' + number % 10);
    while (number /= 10);
    memcpy(at, digits + DIGITS_MAX - len, len);
    return len;
}

size_t task_node_bucket_path(char path[TASK_NODE_PATH_SIZE], int64_t bucket)
{
    size_t len = sizeof TASK_NODE_HEAD;
    memcpy(path, TASK_NODE_HEAD "/", len);
    len += put_number(path + len, bucket);
    path[len] = '\0';
    return len;
}

size_t task_node_path(char path[TASK_NODE_PATH_SIZE], int64_t slot)
{
    size_t len = task_node_bucket_path(path, task_node_bucket(slot));
    path[len++] = '/';
    len += put_number(path + len, slot);
    path[len] = '\0';
    return len;
}

int64_t task_node_number(const char *name)
{
    size_t len = strlen(name);
    int64_t number = 0;
    if (!len || len >= DIGITS_MAX || (name[0] == '0' && len > 1))
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return -1;
        number = number * 10 + (name[i] - '0');
    }
    return number;
}

static uint8_t version_of(const struct task *t)
{
    uint8_t flags = (uint8_t)((t->managed ? FLAG_MANAGED : 0) | (t->extra ? FLAG_TAIL : 0) |
                              (t->claimed ? FLAG_CLAIMED : 0) | (t->retrying ? FLAG_RETRYING : 0) |
                              (t->dead ? FLAG_DEAD : 0) | (t->done ? FLAG_DONE : 0));
    if (flags & ~FLAG_MANAGED)
        return VERSION_FLAGS | flags;
    return t->managed ? VERSION_MANAGED : VERSION;
}

void task_node_encode(const struct task *t, char *bytes)
{
    bytes[0] = (char)version_of(t);
    le_store64(bytes + 1, (uint64_t)t->id);
    le_store64(bytes + 9, (uint64_t)t->timespec);
    le_store64(bytes + 17, (uint64_t)t->ownerid);
    bytes[25] = (char)(t->group.len & 0xff);
    bytes[26] = (char)(t->group.len >> 8);
    memcpy(bytes + TASK_NODE_OVERHEAD, t->group.p, t->group.len);
    task_payload_encode(t->extra, t->data, bytes + TASK_NODE_OVERHEAD + t->group.len);
}

/* The flags of a version; negative: DAMAGED or NEWER_VERSION. */
static int flags_of(int version)
{
    if (version == VERSION || version == VERSION_MANAGED)
        return version == VERSION_MANAGED ? FLAG_MANAGED : 0;
    if (version >= VERSION_FLAGS && version < 2 * VERSION_FLAGS)
        return version > (VERSION_FLAGS | FLAG_MANAGED) ? version - VERSION_FLAGS : DROVER_DAMAGED;
    return version ? DROVER_NEWER_VERSION : DROVER_DAMAGED;
}

int task_node_decode(struct str bytes, struct task *ret_task, struct str *ret_payload,
                     bool *ret_tail)
{
    struct reader r = {bytes.p, bytes.len, false};
    struct task t = {0};
    int flags = flags_of(reader_u8(&r));
    if (flags < 0)
        return flags;
    t.managed = flags & FLAG_MANAGED;
    t.claimed = flags & FLAG_CLAIMED;
    t.retrying = flags & FLAG_RETRYING;
    t.dead = flags & FLAG_DEAD;
    t.done = flags & FLAG_DONE;
    t.id = (int64_t)reader_u64(&r);
    t.timespec = (int64_t)reader_u64(&r);
    t.ownerid = (int64_t)reader_u64(&r);
    size_t group_len = reader_u8(&r);
    group_len |= (size_t)reader_u8(&r) << 8;
    t.group = reader_bytes(&r, group_len);
    if (r.bad || t.id <= 0 || !group_len)
        return DROVER_DAMAGED;
    *ret_payload = (struct str){r.p, r.left};
    *ret_tail = flags & FLAG_TAIL;
    *ret_task = t;
    return 0;
}

size_t task_node_head_encode(const struct task_node_head *h, char bytes[TASK_NODE_HEAD_LEN_MAX])
{
    bool has_ceiling = h->ceiling != TASK_NODE_NO_CEILING;
    bytes[0] = has_ceiling ? VERSION_CEILING : VERSION;
    le_store64(bytes + 1, (uint64_t)h->last_id);
    le_store64(bytes + 9, h->tag);
    if (!has_ceiling)
        return TASK_NODE_HEAD_LEN;
    le_store64(bytes + 17, (uint64_t)h->ceiling);
    return TASK_NODE_HEAD_LEN_MAX;
}

int task_node_head_decode(struct str bytes, struct task_node_head *ret_head)
{
    struct reader r = {bytes.p, bytes.len, false};
    struct task_node_head h = {.ceiling = TASK_NODE_NO_CEILING};
    int version = reader_u8(&r);
    if (version > VERSION_CEILING)
        return DROVER_NEWER_VERSION;
    h.last_id = (int64_t)reader_u64(&r);
    h.tag = reader_u64(&r);
    if (version == VERSION_CEILING)
        h.ceiling = (int64_t)reader_u64(&r);
    if (r.bad || r.left || version < VERSION || h.last_id < 0 || h.ceiling < TASK_NODE_NO_CEILING)
        return DROVER_DAMAGED;
    *ret_head = h;
    return 0;
}

/* Counting. */

struct task_tree *task_tree_new(void)
{
    struct task_tree *l = mem_zalloc(sizeof *l);
    l->open_bucket = -1;
    mem_grow(l->buckets, l->top, l->cap);
    l->top = 1; /* 0: none */
    return l;
}

void task_tree_free(struct task_tree *l)
{
    request_log_release(&l->requests);
    map_release(&l->by_number);
    free(l->buckets);
    free(l);
}

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
    uint32_t ref = l->free;
    if (ref) {
        l->free = l->buckets[ref].slots;
        return ref;
    }
    mem_grow(l->buckets, l->top, l->cap);
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
    l->buckets[ref].slots = l->free;
    l->free = ref;
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

void task_tree_begin(const struct task_tree *l, struct task_commit *c)
{
    c->count = c->bytes = c->remembered = 0;
    c->open_bucket = l->open_bucket;
    c->ceiling = l->ceiling;
    arena_reset(&c->arena);
}

void task_commit_op(struct task_commit *c, struct keeper_op op)
{
    mem_grow(c->ops, c->count, c->cap);
    c->bytes += OP_OVERHEAD + op.path.len + op.data.len;
    c->ops[c->count++] = op;
}

static void put_node(struct task_commit *c, enum keeper_op_kind kind, int flags, struct str path,
                     struct str data)
{
    task_commit_op(c, (struct keeper_op){.kind = kind,
                                         .flags = flags,
                                         .version = KEEPER_ANY_VERSION,
                                         .path = path,
                                         .data = data});
}

static void put_bucket(struct task_commit *c, enum keeper_op_kind kind, int64_t bucket)
{
    char *path = arena_alloc(&c->arena, TASK_NODE_PATH_SIZE);
    struct str name = {path, task_node_bucket_path(path, bucket)};
    put_node(c, kind, 0, name, (struct str){0});
}

static void put_slot(struct task_commit *c, enum keeper_op_kind kind, int64_t slot,
                     const struct task *t)
{
    char *path = arena_alloc(&c->arena, TASK_NODE_PATH_SIZE);
    struct str name = {path, task_node_path(path, slot)}, data = {0};
    if (t) {
        char *bytes = arena_alloc(&c->arena, task_node_len(t));
        task_node_encode(t, bytes);
        data = (struct str){bytes, task_node_len(t)};
    }
    put_node(c, kind, kind == KEEPER_CREATE ? KEEPER_NO_STAT : 0, name, data);
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
    for (size_t i = 0; i < t->change_count; i++) {
        const struct task_txn_change *change = &t->changes[i];
        int64_t bucket = task_node_bucket(change->slot);
        switch (change->kind) {
        case TXN_CREATE:
            open_bucket(l, c, bucket);
            put_slot(c, KEEPER_CREATE, change->slot, change->task);
            count_up(l, bucket);
            break;
        case TXN_SET:
            put_slot(c, KEEPER_SET, change->slot, change->task);
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
    mem_grow(c->forgotten, c->remembered, c->remembered_cap);
    struct request_log_entry **before = &c->forgotten[c->remembered++];
    const struct request_log_entry *one = request_log_put(&l->requests, key, tasks, count, before);
    const char *path = arena_printf(&c->arena, "%s/%u", REQUEST_LOG_ROOT, one->place);
    put_node(c, *before ? KEEPER_SET : KEEPER_CREATE, 0, str_of(path),
             (struct str){one->bytes, one->len});
}

void task_tree_put_head(struct task_tree *l, struct task_commit *c, const struct task_node_head *h,
                        int32_t version)
{
    char *bytes = arena_alloc(&c->arena, TASK_NODE_HEAD_LEN_MAX);
    size_t len = task_node_head_encode(h, bytes);
    task_commit_op(c, (struct keeper_op){.kind = KEEPER_SET,
                                         .version = version,
                                         .path = STR(TASK_NODE_HEAD),
                                         .data = {bytes, len}});
    l->ceiling = h->ceiling;
}

static bool is_near_ceiling(const struct task_tree *l, int64_t top_id)
{
    return top_id + l->losable > l->ceiling;
}

struct task_node_head task_tree_head(const struct task_tree *l, int64_t last_id, int64_t top_id)
{
    int64_t next = top_id + 2 * l->losable + TASK_TREE_STEP;
    return (struct task_node_head){.last_id = last_id,
                                   .ceiling = is_near_ceiling(l, top_id) ? next : l->ceiling};
}

void task_tree_put_ids(struct task_tree *l, struct task_commit *c, int64_t last_id, int64_t top_id,
                       bool must)
{
    if (!must && !is_near_ceiling(l, top_id))
        return;
    struct task_node_head h = task_tree_head(l, last_id, top_id);
    task_tree_put_head(l, c, &h, KEEPER_ANY_VERSION);
}

void task_tree_settle(struct task_tree *l, struct task_commit *c)
{
    while (c->remembered)
        free(c->forgotten[--c->remembered]);
    task_tree_begin(l, c);
}

void task_tree_uncount(struct task_tree *l, const struct task_txn *t)
{
    for (size_t i = t->change_count; i-- > 0;) {
        if (t->changes[i].kind == TXN_CREATE)
            count_down(l, task_node_bucket(t->changes[i].slot));
        if (t->changes[i].kind == TXN_DELETE)
            count_up(l, task_node_bucket(t->changes[i].slot));
    }
}

void task_tree_undo(struct task_tree *l, struct task_commit *c)
{
    l->open_bucket = c->open_bucket;
    l->ceiling = c->ceiling;
    while (c->remembered)
        request_log_undo(&l->requests, c->forgotten[--c->remembered]);
    task_tree_begin(l, c);
}
