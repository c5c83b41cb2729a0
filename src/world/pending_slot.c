/* Slots: what is known of each name of the pending list, and where its state puts it. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "world/name.h"
#include "world/pending_impl.h"
#include "world/record.h"

uint32_t pending_slot_find(struct pending *p, struct str key)
{
    uint32_t hash = map_hash_str(key);

    for (uint32_t at, ref = map_first(&p->by_key, hash, &at); ref;
         ref = map_next(&p->by_key, hash, &at))
        if (str_eq(str_of(p->slots[ref].key), key))
            return ref;
    return 0;
}

static void heap_moved(void *arg, uint32_t ref, uint32_t at)
{
    ((struct pending *)arg)->slots[ref].heap_at = at;
}

uint32_t pending_type_ref(struct pending *p, struct str name, bool make)
{
    uint32_t hash = map_hash_str(name);

    for (uint32_t at, ref = map_first(&p->by_type, hash, &at); ref;
         ref = map_next(&p->by_type, hash, &at))
        if (str_eq(str_of(p->types[ref - 1].name), name))
            return ref;
    if (!make)
        return 0;
    p->types = mem_realloc(p->types, (p->type_count + 1) * sizeof *p->types);
    p->types[p->type_count] = (struct pending_type){.name = mem_dup(name.p, name.len),
                                                    .free = {.moved = heap_moved, .arg = p}};
    map_add(&p->by_type, hash, ++p->type_count);
    return p->type_count;
}

/* Out of whatever its state has put it into. */
static void detach(struct pending *p, uint32_t ref)
{
    struct pending_slot *s = &p->slots[ref];

    if (s->state == FREE)
        heap_remove(&p->types[s->type - 1].free, s->heap_at);
    if (s->state == BLOCKED) {
        *(s->wait_prev ? &p->slots[s->wait_prev].wait_next : &p->slots[s->blocker].waiting) =
            s->wait_next;
        if (s->wait_next)
            p->slots[s->wait_next].wait_prev = s->wait_prev;
        s->blocker = s->wait_prev = s->wait_next = 0;
    }
}

void pending_slot_set(struct pending *p, uint32_t ref, enum slot_state state)
{
    struct pending_slot *s = &p->slots[ref];

    detach(p, ref);
    s->state = state;
    if (state == FREE)
        heap_push(&p->types[s->type - 1].free, s->czxid, ref);
    if (state != TAKEN)
        return;
    if (p->taken_len == p->taken_cap) {
        p->taken_cap = p->taken_cap ? p->taken_cap * 2 : 16;
        p->taken = mem_realloc(p->taken, p->taken_cap * sizeof *p->taken);
    }
    p->taken[p->taken_len++] = ref;
}

void pending_slot_block(struct pending *p, uint32_t ref, uint32_t blocker)
{
    struct pending_slot *s = &p->slots[ref];

    pending_slot_set(p, ref, BLOCKED);
    s->blocker = blocker;
    s->wait_next = p->slots[blocker].waiting;
    if (s->wait_next)
        p->slots[s->wait_next].wait_prev = ref;
    p->slots[blocker].waiting = ref;
}

void pending_slot_free_again(struct pending *p, uint32_t ref)
{
    p->slots[ref].plain = false;
    p->slots[ref].session = 0;
    pending_slot_set(p, ref, FREE);
}

static void free_waiting(struct pending *p, uint32_t ref)
{
    while (p->slots[ref].waiting)
        pending_slot_set(p, p->slots[ref].waiting, FREE);
}

void pending_slot_remove(struct pending *p, uint32_t ref)
{
    struct pending_slot *s = &p->slots[ref];

    detach(p, ref);
    free_waiting(p, ref);
    map_remove(&p->by_key, map_hash_str(str_of(s->key)), ref);
    free(s->key);
    *s = (struct pending_slot){.wait_next = p->free_slot};
    p->free_slot = ref;
}

uint32_t pending_slot_add(struct pending *p, struct str key)
{
    uint32_t ref = p->free_slot;

    if (ref) {
        p->free_slot = p->slots[ref].wait_next;
    } else {
        if (p->len + 1 >= p->cap) {
            p->cap = p->cap ? p->cap * 2 : 64;
            p->slots = mem_realloc(p->slots, p->cap * sizeof *p->slots);
        }
        ref = ++p->len;
    }
    p->slots[ref] =
        (struct pending_slot){.key = mem_dup(key.p, key.len), .state = TRIED, .seen = p->begun};
    map_add(&p->by_key, map_hash_str(key), ref);
    return ref;
}

void pending_note(struct pending *p, struct pending_slot *s, const char *why)
{
    struct buf line = {0};

    if (s->noted || !p->o.note)
        return;
    s->noted = true;
    buf_printf(&line, "%s/%s is skipped: %s", WORLD_PENDING, s->key, why);
    p->o.note(p->o.arg, buf_text(&line));
    buf_release(&line);
}

static bool is_plain(struct pending *p, struct arena *a, const struct pending_slot *s,
                     struct str type, struct str data)
{
    struct world_record made;

    world_record_make(a, p->root, str_of(s->key), type, &made);
    return str_eq(world_record_write(a, &made), data);
}

void pending_slot_sort(struct pending *p, uint32_t ref, struct str data,
                       const struct keeper_stat *stat)
{
    struct pending_slot *s = &p->slots[ref];
    struct arena a = {0};
    struct world_record r;

    s->czxid = stat->czxid;
    s->version = stat->version;
    s->plain = false;
    if (world_record_read(&a, data, str_of(s->key), &r)) {
        pending_slot_set(p, ref, RUBBISH);
        pending_note(p, s, "its data is not that of a pending task");
    } else if (!world_record_is_of(&r, p->root)) {
        pending_slot_set(p, ref, FOREIGN);
    } else {
        detach(p, ref);
        s->state = TRIED;
        s->type = pending_type_ref(p, r.type, true);
        s->plain = is_plain(p, &a, s, r.type, data);
        pending_slot_set(p, ref, FREE);
    }
    arena_release(&a);
}
