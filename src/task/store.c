/* Records, groups, the positions of records in groups, and reading. */
#include <assert.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "drover.h"
#include "task/store_impl.h"

enum { ORDER_FIRST = 64 };

struct store *store_new(store_fetch_fn *fetch, void *arg)
{
    struct store *s = mem_alloc(sizeof *s);
    *s = (struct store){.fetch = fetch, .fetch_arg = arg, .top = 1};
    mem_grow(s->groups, s->group_top, s->group_cap);
    s->group_top = 1; /* 0: none */
    return s;
}

static void group_free(struct task_group *g)
{
    free((char *)g->name.p);
    free(g->array);
    heap_release(&g->heap);
    free(g->order);
    free(g);
}

void store_free(struct store *s)
{
    for (uint32_t i = 1; i < s->group_top; i++)
        if (s->groups[i])
            group_free(s->groups[i]);
    for (uint32_t ref = 1; !s->fetch && ref < s->top; ref++)
        free(*data_at(s, ref));
    for (uint32_t i = 0; i < s->chunk_count; i++) {
        free(s->chunks[i]);
        if (!s->fetch)
            free(s->kept[i]);
    }
    free(s->chunks);
    free(s->kept);
    free(s->groups);
    free(s->free_groups);
    map_release(&s->by_id);
    map_release(&s->by_slot);
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
    uint32_t hash = map_hash_u64((uint64_t)slot);
    for (uint32_t at, ref = map_first(&s->by_slot, hash, &at); ref;
         ref = map_next(&s->by_slot, hash, &at))
        if (record_at(s, ref)->slot == slot)
            return ref;
    return 0;
}

/* Groups. */

struct task_group *store_find_group(const struct store *s, struct str name)
{
    uint32_t hash = map_hash_str(name);
    for (uint32_t at, n = map_first(&s->by_name, hash, &at); n;
         n = map_next(&s->by_name, hash, &at))
        if (str_eq(s->groups[n]->name, name))
            return s->groups[n];
    return NULL;
}

static void on_heap_move(void *arg, uint32_t ref, uint32_t at)
{
    struct task_record *r = record_at(arg, ref);
    r->place = PLACE_HEAP | (r->place & PLACE_MARK) | at;
}

static uint32_t take_group_number(struct store *s)
{
    if (s->free_group_count)
        return s->free_groups[--s->free_group_count];
    mem_grow(s->groups, s->group_top, s->group_cap);
    return s->group_top++;
}

struct task_group *store_make_group(struct store *s, struct str name)
{
    struct task_group *g = store_find_group(s, name);
    if (g)
        return g;
    g = mem_alloc(sizeof *g);
    *g = (struct task_group){
        .name = {mem_dup(name.p, name.len), name.len},
        .number = take_group_number(s),
        .heap = {.moved = on_heap_move, .arg = s},
    };
    s->groups[g->number] = g;
    map_add(&s->by_name, map_hash_str(name), g->number);
    return g;
}

void store_drop_group(struct store *s, struct task_group *g)
{
    if (group_count(g) || g->pins)
        return;
    map_remove(&s->by_name, map_hash_str(g->name), g->number);
    s->groups[g->number] = NULL;
    mem_grow(s->free_groups, s->free_group_count, s->free_group_cap);
    s->free_groups[s->free_group_count++] = g->number;
    group_free(g);
}

static void array_push(struct store *s, struct task_group *g, uint32_t ref)
{
    if (g->array_count == g->array_cap) {
        g->array_cap = g->array_cap ? g->array_cap * 2 : 4;
        g->array = mem_realloc(g->array, (size_t)g->array_cap * sizeof *g->array);
    }
    record_at(s, ref)->place = g->array_count;
    g->array[g->array_count++] = ref;
}

static void array_remove(struct store *s, struct task_group *g, uint32_t at)
{
    uint32_t last = g->array[--g->array_count];
    g->array[at] = last;
    record_at(s, last)->place = at;
}

void group_pass(struct store *s, struct task_group *g, int64_t now_ms)
{
    while (g->heap.count && g->heap.entries[0].key <= now_ms)
        array_push(s, g, heap_remove(&g->heap, 0));
}

/* The sorted ids of a group, made when first needed; new ids are larger than all others. */

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void order_push(struct task_group *g, int64_t id)
{
    if (g->order_count && g->order[g->order_count - 1] > id) { /* of an undone transaction */
        g->order_count = g->order_dead = 0;
        g->ordered = false;
        return;
    }
    mem_grow(g->order, g->order_count, g->order_cap);
    g->order[g->order_count++] = id;
}

static void order_make(struct store *s, struct task_group *g)
{
    g->ordered = true;
    g->order_cap = group_count(g) + ORDER_FIRST;
    g->order = mem_realloc(g->order, g->order_cap * sizeof *g->order);
    for (uint32_t i = 0; i < g->array_count; i++)
        g->order[g->order_count++] = record_at(s, g->array[i])->id;
    for (uint32_t i = 0; i < g->heap.count; i++)
        g->order[g->order_count++] = record_at(s, g->heap.entries[i].ref)->id;
    qsort(g->order, g->order_count, sizeof *g->order, compare_ids);
}

/* Counts a removed id. When most are removed, compacts the list. */
static void order_bury(struct store *s, struct task_group *g)
{
    size_t kept = 0;
    if (++g->order_dead < ORDER_FIRST || g->order_dead * 2 < g->order_count)
        return;
    for (size_t i = 0; i < g->order_count; i++)
        if (store_find(s, g->order[i]))
            g->order[kept++] = g->order[i];
    g->order_count = kept;
    g->order_dead = 0;
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
        s->chunks = mem_realloc(s->chunks, (s->chunk_count + 1) * sizeof *s->chunks);
        s->chunks[s->chunk_count] = mem_zalloc(RECORD_CHUNK_LEN * sizeof(struct task_record));
        if (!s->fetch) {
            s->kept = mem_realloc(s->kept, (s->chunk_count + 1) * sizeof *s->kept);
            s->kept[s->chunk_count] = mem_zalloc(RECORD_CHUNK_LEN * sizeof(struct task_data *));
        }
        s->chunk_count++;
    }
    return ref;
}

struct task_data *data_new(struct str data)
{
    struct task_data *k = mem_alloc(sizeof *k + data.len);
    k->len = (uint32_t)data.len;
    if (data.len)
        memcpy(k->bytes, data.p, data.len);
    return k;
}

void store_insert(struct store *s, const struct task_record *r, struct task_data *kept,
                  int64_t now_ms)
{
    struct task_group *g = s->groups[r->group];
    uint32_t ref = take_ref(s);
    *record_at(s, ref) = *r;
    record_at(s, ref)->place = 0;
    if (!s->fetch)
        *data_at(s, ref) = kept;
    map_add(&s->by_id, map_hash_u64((uint64_t)r->id), ref);
    if (r->managed)
        map_add(&s->by_slot, map_hash_u64((uint64_t)r->slot), ref);
    if (!record_is_owned(r, now_ms))
        array_push(s, g, ref);
    else
        heap_push(&g->heap, record_is_owned(r, INT64_MAX) ? INT64_MAX : r->timespec, ref);
    if (g->ordered)
        order_push(g, r->id);
    s->count++;
}

struct task_data *store_remove(struct store *s, uint32_t ref)
{
    struct task_record *r = record_at(s, ref);
    struct task_group *g = s->groups[r->group];
    struct task_data *kept = s->fetch ? NULL : *data_at(s, ref);
    if (r->place & PLACE_HEAP)
        heap_remove(&g->heap, r->place & PLACE_AT);
    else
        array_remove(s, g, r->place & PLACE_AT);
    map_remove(&s->by_id, map_hash_u64((uint64_t)r->id), ref);
    if (r->managed)
        map_remove(&s->by_slot, map_hash_u64((uint64_t)r->slot), ref);
    if (!s->fetch)
        *data_at(s, ref) = NULL;
    *r = (struct task_record){.place = s->free};
    s->free = ref;
    s->count--;
    if (g->ordered)
        order_bury(s, g);
    return kept;
}

/* Reading. */

int store_data(struct store *s, uint32_t ref, struct buf *scratch, struct str *ret_data)
{
    size_t before = scratch->len;
    if (!s->fetch) {
        const struct task_data *k = *data_at(s, ref);
        *ret_data = (struct str){k->bytes, k->len};
        return 0;
    }
    TRY(s->fetch(s->fetch_arg, record_at(s, ref)->slot, scratch));
    *ret_data = (struct str){scratch->p + before, scratch->len - before};
    return 0;
}

static struct task task_of(const struct store *s, uint32_t ref)
{
    const struct task_record *r = record_at(s, ref);
    return (struct task){.id = r->id,
                         .group = s->groups[r->group]->name,
                         .timespec = r->timespec,
                         .ownerid = r->ownerid,
                         .managed = r->managed};
}

int store_get(struct store *s, int64_t id, struct buf *scratch, struct task *ret_task)
{
    uint32_t ref = store_find(s, id);
    if (!ref)
        return DROVER_NO_TASK;
    struct task t = task_of(s, ref);
    TRY(store_data(s, ref, scratch, &t.data));
    *ret_task = t;
    return 0;
}

int64_t store_slot_of(const struct store *s, int64_t id)
{
    uint32_t ref = store_find(s, id);
    return ref ? record_at(s, ref)->slot : 0;
}

bool store_group_of(const struct store *s, int64_t id, struct str *ret_group)
{
    uint32_t ref = store_find(s, id);
    if (ref)
        *ret_group = s->groups[record_at(s, ref)->group]->name;
    return ref;
}

static size_t list_any(const struct task_group *g, size_t max, uint32_t *refs)
{
    size_t count = 0;
    for (uint32_t i = 0; i < g->array_count && count < max; i++)
        refs[count++] = g->array[i];
    for (uint32_t i = 0; i < g->heap.count && count < max; i++)
        refs[count++] = g->heap.entries[i].ref;
    return count;
}

static size_t list_ordered(struct store *s, struct task_group *g, int64_t after, bool owned,
                           size_t max, uint32_t *refs)
{
    size_t low = 0, count = 0;
    if (!g->ordered)
        order_make(s, g);
    for (size_t high = g->order_count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (g->order[middle] <= after)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < g->order_count && count < max; low++) {
        uint32_t ref = store_find(s, g->order[low]);
        if (ref && (owned || !(record_at(s, ref)->place & PLACE_HEAP)))
            refs[count++] = ref;
    }
    return count;
}

int store_list(struct store *s, struct str group, int64_t after, size_t limit, bool owned,
               int64_t now_ms, struct arena *a, struct store_list *ret_list)
{
    struct task_group *g = store_find_group(s, group);
    CLEANUP(buf_release) struct buf scratch = {0};
    if (!g) {
        *ret_list = (struct store_list){0};
        return 0;
    }
    group_pass(s, g, now_ms);
    size_t max = owned ? group_count(g) : g->array_count;
    if (limit && limit < max)
        max = limit;
    uint32_t *refs = arena_alloc(a, (max + 1) * sizeof *refs);
    size_t count = after < 0 ? list_any(g, max, refs) : list_ordered(s, g, after, owned, max, refs);
    struct task *tasks = arena_alloc(a, (count + 1) * sizeof *tasks);
    const char *name = arena_text(a, g->name);
    for (size_t i = 0; i < count; i++) {
        tasks[i] = task_of(s, refs[i]);
        scratch.len = 0;
        TRY(store_data(s, refs[i], &scratch, &tasks[i].data));
        tasks[i].data.p = arena_text(a, tasks[i].data);
        tasks[i].group.p = name;
    }
    *ret_list = (struct store_list){tasks, count};
    return 0;
}

void store_groups(struct store *s, int64_t now_ms, struct arena *a, struct store_group **ret_groups,
                  size_t *ret_count)
{
    struct store_group *list = arena_alloc(a, s->group_top * sizeof *list);
    size_t count = 0;
    for (uint32_t i = 1; i < s->group_top; i++) {
        struct task_group *g = s->groups[i];
        if (!g || !group_count(g))
            continue;
        group_pass(s, g, now_ms);
        list[count++] = (struct store_group){
            {arena_text(a, g->name), g->name.len}, g->array_count, g->heap.count};
    }
    *ret_groups = list;
    *ret_count = count;
}

bool store_available(struct store *s, struct str group, int64_t now_ms, int64_t *ret_due_ms)
{
    struct task_group *g = store_find_group(s, group);
    *ret_due_ms = INT64_MAX;
    if (!g)
        return false;
    group_pass(s, g, now_ms);
    if (g->heap.count)
        *ret_due_ms = g->heap.entries[0].key;
    return g->array_count > 0;
}
