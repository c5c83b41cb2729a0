/* Binary heaps of entries; each entry has its index in the heap, so it can be removed. */
#include "base/mem.h"
#include "batch/list_view.h"

static bool sooner(const struct batch_view *v, const struct batch_view_heap *h, uint32_t a,
                   uint32_t b)
{
    const struct batch_view_entry *x = &v->entries[a], *y = &v->entries[b];

    return h == &v->parked ? x->due_ms < y->due_ms : x->key < y->key;
}

static void heap_place(struct batch_view *v, struct batch_view_heap *h, uint32_t at, uint32_t entry)
{
    h->entries[at] = entry;
    v->entries[entry].at = at;
}

static void heap_up(struct batch_view *v, struct batch_view_heap *h, uint32_t at, uint32_t entry)
{
    for (; at > 0 && sooner(v, h, entry, h->entries[(at - 1) / 2]); at = (at - 1) / 2)
        heap_place(v, h, at, h->entries[(at - 1) / 2]);
    heap_place(v, h, at, entry);
}

static void heap_down(struct batch_view *v, struct batch_view_heap *h, uint32_t at, uint32_t entry)
{
    for (uint32_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count && sooner(v, h, h->entries[child + 1], h->entries[child]))
            child++;
        if (!sooner(v, h, h->entries[child], entry))
            break;
        heap_place(v, h, at, h->entries[child]);
    }
    heap_place(v, h, at, entry);
}

void batch_view_heap_add(struct batch_view *v, struct batch_view_heap *h, uint32_t entry)
{
    if (h->count == h->cap) {
        h->cap = h->cap ? 2 * h->cap : 64;
        h->entries = mem_realloc(h->entries, h->cap * sizeof *h->entries);
    }
    h->count++;
    heap_up(v, h, h->count - 1, entry);
}

void batch_view_heap_remove(struct batch_view *v, struct batch_view_heap *h, uint32_t entry)
{
    uint32_t at = v->entries[entry].at, last = h->entries[--h->count];

    if (last == entry)
        return;
    if (at > 0 && sooner(v, h, last, h->entries[(at - 1) / 2]))
        heap_up(v, h, at, last);
    else
        heap_down(v, h, at, last);
}
