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
    uint32_t at = hash & m->mask;

    while (m->slots[at].ref)
        at = (at + 1) & m->mask;
    m->slots[at] = (struct map_slot){hash, ref};
}

static void resize(struct map *m, uint32_t slots)
{
    struct map old = *m;

    m->slots = mem_zalloc((size_t)slots * sizeof *m->slots);
    m->mask = slots - 1;
    if (!old.slots)
        return;
    for (uint32_t i = 0; i <= old.mask; i++)
        if (old.slots[i].ref)
            place(m, old.slots[i].hash, old.slots[i].ref);
    free(old.slots);
}

void map_reserve(struct map *m, uint32_t count)
{
    uint32_t slots = m->slots ? m->mask + 1 : MAP_FIRST_SLOTS;

    while ((uint64_t)count * 4 > (uint64_t)slots * 3) {
        assert(slots < UINT32_C(1) << 31);
        slots *= 2;
    }
    if (!m->slots || slots > m->mask + 1)
        resize(m, slots);
}

void map_add(struct map *m, uint32_t hash, uint32_t ref)
{
    assert(ref);
    map_reserve(m, m->count + 1);
    place(m, hash, ref);
    m->count++;
}

void map_remove(struct map *m, uint32_t hash, uint32_t ref)
{
    uint32_t hole, at;

    assert(m->count);
    hole = hash & m->mask;
    while (m->slots[hole].ref != ref) {
        assert(m->slots[hole].ref);
        hole = (hole + 1) & m->mask;
    }
    /* Whatever stands behind the hole and may move into it without passing its home, does. */
    for (at = (hole + 1) & m->mask; m->slots[at].ref; at = (at + 1) & m->mask) {
        uint32_t home = m->slots[at].hash & m->mask;

        if (((at - home) & m->mask) >= ((at - hole) & m->mask)) {
            m->slots[hole] = m->slots[at];
            hole = at;
        }
    }
    m->slots[hole].ref = 0;
    m->count--;
}
