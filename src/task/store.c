/* Records: by id, by slot, by key, by expiry. */
#include <assert.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "drover.h"
#include "task/store_impl.h"
#include "task/tail.h"

static void on_expiry_move(void *arg, uint32_t ref, uint32_t at)
{
    hot_at(arg, ref)->expiry_at = at + 1;
}

struct store *store_new(store_fetch_fn *fetch, void *arg)
{
    struct store *s = mem_alloc(sizeof *s);
    *s = (struct store){
        .fetch = fetch, .fetch_arg = arg, .top = 1, .expiry = {.moved = on_expiry_move, .arg = s}};
    mem_grow(s->groups, s->group_top, s->group_cap);
    s->group_top = 1; /* 0: none */
    return s;
}

void store_free(struct store *s)
{
    for (uint32_t i = 1; i < s->group_top; i++)
        if (s->groups[i])
            group_free(s->groups[i]);
    for (uint32_t ref = 1; ref < s->top; ref++) {
        free(hot_at(s, ref));
        if (!s->fetch)
            free(*data_at(s, ref));
    }
    for (uint32_t i = 0; i < s->chunk_count; i++) {
        free(s->chunks[i]);
        free(s->hot[i]);
        if (!s->fetch)
            free(s->kept[i]);
    }
    free(s->chunks);
    free(s->hot);
    free(s->kept);
    heap_release(&s->expiry);
    settings_table_release(&s->settings);
    free(s->trace);
    free(s->groups);
    free(s->free_groups);
    map_release(&s->by_id);
    map_release(&s->by_slot);
    map_release(&s->by_key);
    map_release(&s->by_name);
    free(s);
}

int64_t store_last_id(const struct store *s)
{
    return s->last_id;
}

int64_t store_top_id(const struct store *s)
{
    return s->top_id;
}

void store_set_top_id(struct store *s, int64_t id)
{
    if (id > s->top_id)
        s->top_id = id;
}

void store_set_last_id(struct store *s, int64_t id)
{
    if (id > s->last_id)
        s->last_id = id;
    store_set_top_id(s, id);
}

size_t store_count(const struct store *s)
{
    return s->count;
}

uint32_t store_find(const struct store *s, int64_t id)
{
    uint32_t hash = map_hash_u64((uint64_t)id);
    for (uint32_t at, ref = map_first(&s->by_id, hash, &at); ref;
         ref = map_next(&s->by_id, hash, &at))
        if (record_at(s, ref)->id == id)
            return ref;
    return 0;
}

uint32_t store_find_slot(const struct store *s, int64_t slot)
{
    uint32_t first = store_find(s, slot);
    if (first && record_at(s, first)->slot == slot)
        return first;
    uint32_t hash = map_hash_u64((uint64_t)slot);
    for (uint32_t at, ref = map_first(&s->by_slot, hash, &at); ref;
         ref = map_next(&s->by_slot, hash, &at))
        if (record_at(s, ref)->slot == slot)
            return ref;
    return 0;
}

/* The hash of a key, which is unique in its group. */
static uint32_t hash_key(const struct task_group *g, struct str key)
{
    return map_hash_str(key) ^ map_hash_u64(g->number);
}

uint32_t store_find_key(const struct store *s, const struct task_group *g, struct str key)
{
    uint32_t hash = hash_key(g, key);
    for (uint32_t at, ref = map_first(&s->by_key, hash, &at); ref;
         ref = map_next(&s->by_key, hash, &at))
        if (group_of(s, ref) == g && str_eq(hot_at(s, ref)->key, key))
            return ref;
    return 0;
}

/* Records. */

static uint32_t take_ref(struct store *s)
{
    uint32_t ref = s->free;
    if (ref) {
        s->free = record_at(s, ref)->place;
        return ref;
    }
    assert(s->top < PLACE_AT);
    ref = s->top++;
    if (ref >> RECORD_CHUNK_BITS == s->chunk_count) {
        size_t count = s->chunk_count + 1;
        s->chunks = mem_realloc(s->chunks, count * sizeof *s->chunks);
        s->chunks[s->chunk_count] = mem_zalloc(RECORD_CHUNK_LEN * sizeof(struct task_record));
        s->hot = mem_realloc(s->hot, count * sizeof *s->hot);
        s->hot[s->chunk_count] = NULL;
        if (!s->fetch) {
            s->kept = mem_realloc(s->kept, count * sizeof *s->kept);
            s->kept[s->chunk_count] = mem_zalloc(RECORD_CHUNK_LEN * sizeof(struct task_data *));
        }
        s->chunk_count++;
    }
    return ref;
}

struct task_data *data_new(struct str payload)
{
    struct task_data *k = mem_alloc(sizeof *k + payload.len);
    k->len = (uint32_t)payload.len;
    if (payload.len)
        memcpy(k->bytes, payload.p, payload.len);
    return k;
}

struct record_hot *hot_new(const struct task_extra *x)
{
    if (!x->priority && !x->expires && !x->key.len && !x->share.len)
        return NULL;
    struct record_hot *hot = mem_alloc(sizeof *hot + x->key.len + x->share.len);
    char *texts = (char *)(hot + 1);
    *hot = (struct record_hot){.priority = x->priority,
                               .expires = x->expires,
                               .key = {texts, x->key.len},
                               .share = {texts + x->key.len, x->share.len}};
    if (x->key.len)
        memcpy(texts, x->key.p, x->key.len);
    if (x->share.len)
        memcpy(texts + x->key.len, x->share.p, x->share.len);
    return hot;
}

void record_rest_release(struct record_rest *rest)
{
    free(rest->kept);
    free(rest->hot);
}

/* Puts the hot part beside the record, and the record into the indexes by key and by expiry. */
static void insert_hot(struct store *s, uint32_t ref, struct record_hot *hot)
{
    struct record_hot ***chunk = &s->hot[ref >> RECORD_CHUNK_BITS];
    if (!*chunk)
        *chunk = mem_zalloc(RECORD_CHUNK_LEN * sizeof **chunk);
    (*chunk)[ref & (RECORD_CHUNK_LEN - 1)] = hot;
    if (hot->key.len)
        map_add(&s->by_key, hash_key(group_of(s, ref), hot->key), ref);
    if (hot->expires)
        heap_push(&s->expiry, hot->expires, ref);
}

static struct record_hot *remove_hot(struct store *s, uint32_t ref)
{
    struct record_hot *hot = hot_at(s, ref);
    if (!hot)
        return NULL;
    if (hot->key.len)
        map_remove(&s->by_key, hash_key(group_of(s, ref), hot->key), ref);
    if (hot->expires)
        heap_remove(&s->expiry, hot->expiry_at - 1);
    s->hot[ref >> RECORD_CHUNK_BITS][ref & (RECORD_CHUNK_LEN - 1)] = NULL;
    return hot;
}

static bool is_found_by_slot(const struct task_record *r)
{
    return r->managed || r->id != r->slot;
}

void store_insert(struct store *s, const struct task_record *r, struct record_rest rest,
                  int64_t now_ms)
{
    struct task_group *g = s->groups[r->group];
    uint32_t ref = take_ref(s);
    *record_at(s, ref) = *r;
    record_at(s, ref)->place = 0;
    if (!s->fetch)
        *data_at(s, ref) = rest.kept;
    if (rest.hot)
        insert_hot(s, ref, rest.hot);
    map_add(&s->by_id, map_hash_u64((uint64_t)r->id), ref);
    if (is_found_by_slot(r))
        map_add(&s->by_slot, map_hash_u64((uint64_t)r->slot), ref);
    group_insert(s, g, ref, now_ms);
    if (g->ordered && !r->done)
        group_order_add(g, r->id);
    *(r->done ? &s->done : &s->count) += 1;
}

struct record_rest store_remove(struct store *s, uint32_t ref)
{
    struct task_record *r = record_at(s, ref);
    struct task_group *g = s->groups[r->group];
    bool done = r->done;
    group_remove(s, g, ref);
    struct record_rest rest = {s->fetch ? NULL : *data_at(s, ref), remove_hot(s, ref)};
    map_remove(&s->by_id, map_hash_u64((uint64_t)r->id), ref);
    if (is_found_by_slot(r))
        map_remove(&s->by_slot, map_hash_u64((uint64_t)r->slot), ref);
    if (!s->fetch)
        *data_at(s, ref) = NULL;
    *r = (struct task_record){.place = s->free};
    s->free = ref;
    *(done ? &s->done : &s->count) -= 1;
    if (g->ordered && !done)
        group_order_bury(s, g);
    return rest;
}

/* Reading. */

int store_payload(struct store *s, uint32_t ref, struct buf *scratch, struct task_extra *ret_extra,
                  struct str *ret_data)
{
    const struct task_record *r = record_at(s, ref);
    size_t before = scratch->len;
    if (!s->fetch) {
        const struct task_data *k = *data_at(s, ref);
        return task_payload_decode((struct str){k->bytes, k->len}, r->tail, ret_extra, ret_data);
    }
    TRY(s->fetch(s->fetch_arg, r->slot, scratch));
    struct str payload = {scratch->p + before, scratch->len - before};
    return task_payload_decode(payload, r->tail, ret_extra, ret_data);
}

struct task record_task(const struct store *s, const struct task_record *r)
{
    return (struct task){.id = r->id,
                         .group = s->groups[r->group]->name,
                         .timespec = r->timespec,
                         .ownerid = r->ownerid,
                         .first = r->slot,
                         .managed = r->managed,
                         .claimed = r->claimed,
                         .retrying = r->retrying,
                         .dead = r->dead,
                         .done = r->done};
}
