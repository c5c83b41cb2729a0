/* A binary heap in an array. The entry that is sifted is written once, at its final place. */
#include "base/heap.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

enum { HEAP_FIRST = 4 };

void heap_release(struct heap *h)
{
    free(h->entries);
    h->entries = NULL;
    h->count = h->cap = 0;
}

static void put(struct heap *h, uint32_t at, struct heap_entry e)
{
    h->entries[at] = e;
    if (h->moved)
        h->moved(h->arg, e.ref, at);
}

static bool is_before(const struct heap *h, struct heap_entry a, struct heap_entry b)
{
    if (a.key != b.key || !h->before)
        return a.key < b.key;
    return h->before(h->arg, a.ref, b.ref);
}

static uint32_t sift_up(struct heap *h, uint32_t at, struct heap_entry e)
{
    while (at && is_before(h, e, h->entries[(at - 1) / 2])) {
        put(h, at, h->entries[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    return at;
}

static uint32_t sift_down(struct heap *h, uint32_t at, struct heap_entry e)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= h->count)
            return at;
        if (child + 1 < h->count && is_before(h, h->entries[child + 1], h->entries[child]))
            child++;
        if (!is_before(h, h->entries[child], e))
            return at;
        put(h, at, h->entries[child]);
        at = child;
    }
}

void heap_push(struct heap *h, int64_t key, uint32_t ref)
{
    if (h->count == h->cap) {
        assert(h->cap < UINT32_MAX / 2);
        h->cap = h->cap ? h->cap * 2 : HEAP_FIRST;
        h->entries = mem_realloc(h->entries, (size_t)h->cap * sizeof *h->entries);
    }
    h->count++;
    struct heap_entry e = {key, ref};
    put(h, sift_up(h, h->count - 1, e), e);
}

uint32_t heap_remove(struct heap *h, uint32_t at)
{
    assert(at < h->count);
    struct heap_entry gone = h->entries[at];
    struct heap_entry last = h->entries[--h->count];
    if (at < h->count) {
        uint32_t to = sift_up(h, at, last);
        put(h, to == at ? sift_down(h, at, last) : to, last);
    }
    return gone.ref;
}
