/*
 * map - a hash table from hashes to numbers (refs) of the user's objects.
 *
 * The map stores neither keys nor objects, only pairs of a 32-bit hash and a 32-bit ref (not 0). A
 * lookup gives the refs of a hash one after the other, and the user compares the keys. Open
 * addressing with linear probing; removal shifts entries back, so there are no tombstones; growing
 * touches only the map.
 *
 * The home slot of a hash is hash / 2^32 of the table. So the table can have any number of slots:
 * it grows by half instead of doubling, and growing walks both tables once from end to end, because
 * the order nearly stays.
 *
 * Keys that follow each other are mostly looked up one after the other. So the lowest bits of a
 * hash are those of the key, and only the others are mixed: consecutive numbers and names have
 * neighbouring slots, and one cache line serves several lookups.
 *
 *     for (uint32_t at, ref = map_first(m, hash, &at); ref; ref = map_next(m, hash, &at))
 *         if (things[ref].id == id)
 *             return ref;
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdint.h>

#include "base/str.h"

struct map_slot {
    uint32_t hash, ref; /* ref 0: empty */
};

struct map {
    struct map_slot *slots;
    uint32_t len; /* slots */
    uint32_t count;
};

void map_release(struct map *m);
void map_add(struct map *m, uint32_t hash, uint32_t ref);
void map_remove(struct map *m, uint32_t hash, uint32_t ref);

uint32_t map_hash_str(struct str s);
uint32_t map_hash_u64(uint64_t v);

/* The low bits of a hash that tell neighbours apart. */
enum { MAP_NEAR_BITS = 3, MAP_NEAR_MASK = (1 << MAP_NEAR_BITS) - 1 };

static inline uint32_t map_home(const struct map *m, uint32_t hash)
{
    uint64_t share = (uint64_t)(hash >> MAP_NEAR_BITS) * m->len >> (32 - MAP_NEAR_BITS);
    uint32_t home = (uint32_t)share + (hash & MAP_NEAR_MASK);
    return home < m->len ? home : home - m->len;
}

static inline uint32_t map_after(const struct map *m, uint32_t at)
{
    return at + 1 == m->len ? 0 : at + 1;
}

static inline uint32_t map_seek(const struct map *m, uint32_t hash, uint32_t *at)
{
    for (;; *at = map_after(m, *at)) {
        const struct map_slot *slot = &m->slots[*at];
        if (!slot->ref || slot->hash == hash)
            return slot->ref;
    }
}

static inline uint32_t map_first(const struct map *m, uint32_t hash, uint32_t *at)
{
    if (!m->count)
        return 0;
    *at = map_home(m, hash);
    return map_seek(m, hash, at);
}

static inline uint32_t map_next(const struct map *m, uint32_t hash, uint32_t *at)
{
    *at = map_after(m, *at);
    return map_seek(m, hash, at);
}

#endif
