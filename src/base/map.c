/* Growing, adding and removing. At most two thirds of the slots are in use. */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/mem.h"

enum { MAP_FIRST_SLOTS = 16 };

/* Odd and without a pattern: with a small seed XXH3 of a short key hardly changes. */
static const uint64_t SPREAD = UINT64_C(0x9e3779b97f4a7c15);

void map_release(struct map *m)
{
    free(m->slots);
    *m = (struct map){0};
}

_Static_assert((int)MAP_FIRST_SLOTS > (int)MAP_NEAR_MASK, "a home wraps around at most once");

static uint32_t near_to(uint64_t mixed, unsigned last)
{
    return (uint32_t)mixed << MAP_NEAR_BITS | (last & MAP_NEAR_MASK);
}

/* Names that differ only in the low bits of their last byte are neighbours: ...0 to ...7. */
uint32_t map_hash_str(struct str s)
{
    unsigned char last = s.len ? (unsigned char)s.p[s.len - 1] : 0;
    uint64_t seed = (last >> MAP_NEAR_BITS) * SPREAD;
    return near_to(XXH3_64bits_withSeed(s.p, s.len ? s.len - 1 : 0, seed), last);
}

uint32_t map_hash_u64(uint64_t v)
{
    uint64_t high = v >> MAP_NEAR_BITS;
    return near_to(XXH3_64bits(&high, sizeof high), (unsigned)v);
}

static void place(struct map *m, uint32_t hash, uint32_t ref)
{
    uint32_t at = map_home(m, hash);
    while (m->slots[at].ref)
        at = map_after(m, at);
    m->slots[at] = (struct map_slot){hash, ref};
}

static void grow(struct map *m)
{
    struct map old = *m;
    assert(old.len < UINT32_MAX / 3 * 2);
    m->len = old.len ? old.len + old.len / 2 : MAP_FIRST_SLOTS;
    m->slots = mem_zalloc((size_t)m->len * sizeof *m->slots);
    for (uint32_t i = 0; i < old.len; i++)
        if (old.slots[i].ref)
            place(m, old.slots[i].hash, old.slots[i].ref);
    free(old.slots);
}

void map_add(struct map *m, uint32_t hash, uint32_t ref)
{
    assert(ref);
    if (((uint64_t)m->count + 1) * 3 > (uint64_t)m->len * 2)
        grow(m);
    place(m, hash, ref);
    m->count++;
}

/* The distance from one slot to another, around the end if necessary. */
static uint32_t steps(const struct map *m, uint32_t from, uint32_t to)
{
    return to >= from ? to - from : to + m->len - from;
}

void map_remove(struct map *m, uint32_t hash, uint32_t ref)
{
    assert(m->count);
    uint32_t hole = map_home(m, hash);
    while (m->slots[hole].ref != ref) {
        assert(m->slots[hole].ref);
        hole = map_after(m, hole);
    }
    /* Each entry behind the hole moves into it, unless the hole lies before its home. */
    for (uint32_t at = map_after(m, hole); m->slots[at].ref; at = map_after(m, at)) {
        if (steps(m, map_home(m, m->slots[at].hash), at) >= steps(m, hole, at)) {
            m->slots[hole] = m->slots[at];
            hole = at;
        }
    }
    m->slots[hole].ref = 0;
    m->count--;
}
