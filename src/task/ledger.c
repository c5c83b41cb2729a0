/* Buckets are counted in a small table: one entry for each that has slots. */
#include "task/ledger.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

enum { OP_OVERHEAD = 64 }; /* on the wire, beside path and data */

void ledger_init(struct ledger *l)
{
    *l = (struct ledger){.open_bucket = -1, .top = 1};
}

void ledger_release(struct ledger *l)
{
    remember_release(&l->remember);
    map_release(&l->by_number);
    free(l->buckets);
    free(l->unused);
    ledger_init(l);
}

/* Counting. */

static uint32_t find(const struct ledger *l, int64_t number)
{
    uint32_t hash = map_hash_u64((uint64_t)number);

    for (uint32_t at, ref = map_first(&l->by_number, hash, &at); ref;
         ref = map_next(&l->by_number, hash, &at))
        if (l->buckets[ref].number == number)
            return ref;
    return 0;
}

static uint32_t take_entry(struct ledger *l)
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

static void count_up(struct ledger *l, int64_t number)
{
    uint32_t ref = find(l, number);

    if (!ref) {
        ref = take_entry(l);
        l->buckets[ref] = (struct ledger_bucket){number, 0};
        map_add(&l->by_number, map_hash_u64((uint64_t)number), ref);
    }
    l->buckets[ref].slots++;
}

/* How many slots are left. */
static uint32_t count_down(struct ledger *l, int64_t number)
{
    uint32_t ref = find(l, number);

    assert(ref);
    if (--l->buckets[ref].slots)
        return l->buckets[ref].slots;
    map_remove(&l->by_number, map_hash_u64((uint64_t)number), ref);
    l->unused[l->unused_count++] = ref;
    return 0;
}

void ledger_found_bucket(struct ledger *l, int64_t bucket)
{
    if (bucket > l->open_bucket)
        l->open_bucket = bucket;
}

void ledger_found_slot(struct ledger *l, int64_t slot)
{
    count_up(l, slot_bucket(slot));
}

/* A commit. */

void commit_release(struct commit *c)
{
    arena_release(&c->arena);
    free(c->ops);
    free(c->forgotten);
    *c = (struct commit){0};
}

void commit_reset(struct commit *c)
{
    c->count = c->bytes = c->remembered = 0;
    c->begun = false;
    arena_reset(&c->arena);
}

void commit_op(struct commit *c, struct keeper_op op)
{
    if (c->count == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 16;
        c->ops = mem_realloc(c->ops, c->cap * sizeof *c->ops);
    }
    c->bytes += OP_OVERHEAD + op.path.len + op.data.len;
    c->ops[c->count++] = op;
}

static void begin(const struct ledger *l, struct commit *c)
{
    if (c->begun)
        return;
    c->begun = true;
    c->open_bucket = l->open_bucket;
    c->ceiling = l->ceiling;
}

static struct str bucket_path(struct commit *c, int64_t bucket)
{
    char *path = arena_alloc(&c->arena, SLOT_PATH_SIZE);

    return (struct str){path, slot_bucket_path(path, bucket)};
}

static void put_bucket(struct commit *c, enum keeper_op_kind kind, int64_t bucket)
{
    commit_op(c, (struct keeper_op){
                     .kind = kind, .version = KEEPER_ANY_VERSION, .path = bucket_path(c, bucket)});
}

static void put_slot(struct commit *c, enum keeper_op_kind kind, int64_t slot, const struct task *t)
{
    char *path = arena_alloc(&c->arena, SLOT_PATH_SIZE);
    struct keeper_op op = {.kind = kind,
                           .flags = kind == KEEPER_CREATE ? KEEPER_NO_STAT : 0,
                           .version = KEEPER_ANY_VERSION,
                           .path = {path, slot_path(path, slot)}};

    if (t) {
        char *bytes = arena_alloc(&c->arena, slot_len(t));

        slot_encode(t, bytes);
        op.data = (struct str){bytes, slot_len(t)};
    }
    commit_op(c, op);
}

/* The bucket that was being filled stays while it is, even empty. */
static void open_bucket(struct ledger *l, struct commit *c, int64_t bucket)
{
    int64_t before = l->open_bucket;

    if (bucket <= before)
        return;
    put_bucket(c, KEEPER_CREATE, bucket);
    l->open_bucket = bucket;
    if (before >= 0 && !find(l, before))
        put_bucket(c, KEEPER_DELETE, before);
}

void ledger_put(struct ledger *l, struct commit *c, const struct task_txn *t)
{
    begin(l, c);
    for (size_t i = 0; i < t->change_count; i++) {
        const struct task_txn_change *change = &t->changes[i];
        int64_t bucket = slot_bucket(change->slot);

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

void ledger_remember(struct ledger *l, struct commit *c, const struct remember_key *key,
                     const struct task *tasks, size_t count)
{
    struct str bytes = remember_encode(&l->remember, key, tasks, count, &c->arena);
    bool taken;
    uint32_t place = remember_place(&l->remember, &taken);
    char *path = arena_printf(&c->arena, "%s/%u", REMEMBER_ROOT, place);

    begin(l, c);
    commit_op(c, (struct keeper_op){.kind = taken ? KEEPER_SET : KEEPER_CREATE,
                                    .version = KEEPER_ANY_VERSION,
                                    .path = str_of(path),
                                    .data = bytes});
    if (c->remembered == c->remembered_cap) {
        c->remembered_cap = c->remembered_cap ? c->remembered_cap * 2 : 4;
        c->forgotten = mem_realloc(c->forgotten, c->remembered_cap * sizeof *c->forgotten);
    }
    c->forgotten[c->remembered++] = remember_put(&l->remember, bytes);
}

void ledger_put_head(struct ledger *l, struct commit *c, const struct slot_head *h, int32_t version)
{
    char *bytes = arena_alloc(&c->arena, SLOT_HEAD_LEN);

    begin(l, c);
    slot_head_encode(h, bytes);
    commit_op(c, (struct keeper_op){.kind = KEEPER_SET,
                                    .version = version,
                                    .path = STR(SLOT_HEAD),
                                    .data = {bytes, SLOT_HEAD_LEN}});
    l->ceiling = h->last_id;
}

struct slot_head ledger_ceiling(const struct ledger *l, int64_t last_id)
{
    return (struct slot_head){.last_id = last_id + 2 * l->losable + LEDGER_STEP};
}

void ledger_put_ceiling(struct ledger *l, struct commit *c, int64_t last_id)
{
    struct slot_head h = ledger_ceiling(l, last_id);

    if (last_id + l->losable > l->ceiling)
        ledger_put_head(l, c, &h, KEEPER_ANY_VERSION);
}

void ledger_settle(struct ledger *l, struct commit *c)
{
    (void)l;
    for (size_t i = 0; i < c->remembered; i++)
        memory_free(c->forgotten[i]);
    commit_reset(c);
}

void ledger_undo(struct ledger *l, struct commit *c, const struct task_txn *const *txns,
                 size_t count)
{
    if (!c->begun)
        return;
    l->open_bucket = c->open_bucket;
    l->ceiling = c->ceiling;
    while (c->remembered)
        remember_undo(&l->remember, c->forgotten[--c->remembered]);
    for (size_t i = count; i-- > 0;)
        for (size_t j = txns[i]->change_count; j-- > 0;) {
            const struct task_txn_change *change = &txns[i]->changes[j];

            if (change->kind == TXN_CREATE)
                count_down(l, slot_bucket(change->slot));
            if (change->kind == TXN_DELETE)
                count_up(l, slot_bucket(change->slot));
        }
    commit_reset(c);
}
