/*
 * heap - a priority queue of refs, smallest key first, with removal from the middle.
 *
 * An entry is a 64-bit key and a 32-bit ref, the number of the user's object. To remove an entry
 * that is not the first, the user needs its position: `moved` reports every change of it.
 *
 *     heap_push(h, key, ref); ... while (h->count && h->entries[0].key <= now) heap_remove(h, 0);
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* Packed into twelve bytes: there can be millions. */
struct heap_entry {
    int64_t key;
    uint32_t ref;
} __attribute__((packed, aligned(4)));

struct heap {
    struct heap_entry *entries;
    uint32_t count, cap;
    void (*moved)(void *arg, uint32_t ref, uint32_t at);     /* may be NULL */
    bool (*before)(void *arg, uint32_t ref, uint32_t other); /* of two equal keys; may be NULL */
    void *arg;
};

void heap_release(struct heap *h);
void heap_push(struct heap *h, int64_t key, uint32_t ref);

/* Removes the entry at a position and returns its ref. */
uint32_t heap_remove(struct heap *h, uint32_t at);

#endif
