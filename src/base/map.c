/* Growing, adding and removing. At most three quarters of the slots are in use. */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/mem.h"

enum { MAP_FIRST_SLOTS = 16 };

void map_release(struct map *m)
{
    free(m->slots);
    *m = (struct map){0};
}

uint32_t map_hash_str(struct str s)
{
    return (uint32_t)XXH3_64bits(s.p, s.len);
}

uint32_t map_hash_u64(uint64_t v)
{
    return (uint32_t)XXH3_64bits(&v, sizeof v);
}

static void place(struct map *m, uint32_t hash, uint32_t ref)
{
    uint32_t at = map_home(m, hash);

    while (m->slots[at].ref)
        at = map_after(m, at);
    m->slots[at] = (struct map_slot){hash, ref};
}

static void resize(struct map *m, uint32_t len)
{
    struct map old = *m;

    m->slots = mem_zalloc((size_t)len * sizeof *m->slots);
    m->len = len;
    for (uint32_t i = 0; i < old.len; i++)
        if (old.slots[i].ref)
            place(m, old.slots[i].hash, old.slots[i].ref);
    free(old.slots);
}

void map_reserve(struct map *m, uint32_t count)
{
    uint64_t needed = ((uint64_t)count * 4 + 2) / 3, grown = (uint64_t)m->len + m->len / 2;

    if (m->slots && needed <= m->len)
        return;
    if (needed < grown)
        needed = grown;
    if (needed < MAP_FIRST_SLOTS)
        needed = MAP_FIRST_SLOTS;
    assert(needed < UINT32_MAX);
    resize(m, (uint32_t)needed);
}

void map_add(struct map *m, uint32_t hash, uint32_t ref)
{
    assert(ref);
    map_reserve(m, m->count + 1);
    place(m, hash, ref);
    m->count++;
}

/* How many steps it is from one slot to another, around the end if need be. */
static uint32_t steps(const struct map *m, uint32_t from, uint32_t to)
{
    return to >= from ? to - from : to + m->len - from;
}

void map_remove(struct map *m, uint32_t hash, uint32_t ref)
{
    uint32_t hole, at;

    assert(m->count);
    hole = map_home(m, hash);
    while (m->slots[hole].ref != ref) {
        assert(m->slots[hole].ref);
        hole = map_after(m, hole);
    }
    /* Whatever stands behind the hole and may move into it without passing its home, does. */
    for (at = map_after(m, hole); m->slots[at].ref; at = map_after(m, at)) {
        if (steps(m, map_home(m, m->slots[at].hash), at) >= steps(m, hole, at)) {
            m->slots[hole] = m->slots[at];
            hole = at;
        }
    }
    m->slots[hole].ref = 0;
    m->count--;
}
