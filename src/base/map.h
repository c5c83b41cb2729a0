/*
 * map - from a hash to a number that stands for a thing.
 *
 * The map knows neither keys nor things: it keeps pairs of a 32-bit hash and a 32-bit ref (not 0),
 * and gives the refs of a hash one after the other; the user compares. Open addressing with linear
 * probing; removal shifts back, so there are no tombstones, and growing touches nothing but the map.
 *
 * Where a hash belongs is its share of all hashes, in slots: so there may be any number of slots, they grow
 * by half and not to the double, and growing walks both tables once from end to end, as the order nearly stays.
 *
 * Things that are named one after the other are mostly asked for like that. So the lowest bits of a hash are
 * those of the key, and only the others are mixed: numbers and names that follow each other lie side by side,
 * and what brings the first of them into the cache brings the next ones too.
 *
 *     for (uint32_t at, ref = map_first(m, hash, &at); ref; ref = map_next(m, hash, &at))
 *         if (things[ref] is the one)
 *             ...
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

/* Makes room for so many at once, so that loading does not grow step by step. */
void map_reserve(struct map *m, uint32_t count);

uint32_t map_hash_str(struct str s);
uint32_t map_hash_u64(uint64_t v);

/* Of a hash: neighbours are told apart by so many bits. */
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
