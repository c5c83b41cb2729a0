/* Groups and claims have small numbers, which the heaps refer to. */
#include "task/claim_queue.h"

#include <stdlib.h>

#include "base/mem.h"

static void on_due_move(void *arg, uint32_t ref, uint32_t at)
{
    struct claim_queue *w = arg;
    w->groups[ref]->due_at = at + 1;
}

static void on_deadline_move(void *arg, uint32_t ref, uint32_t at)
{
    struct claim_queue *w = arg;
    w->claims[ref].at = at;
}

void claim_queue_init(struct claim_queue *w)
{
    *w = (struct claim_queue){
        .dues = {.moved = on_due_move, .arg = w},
        .deadlines = {.moved = on_deadline_move, .arg = w},
    };
    mem_grow(w->groups, w->group_top, w->group_cap);
    mem_grow(w->claims, w->claim_top, w->claim_cap);
    w->group_top = w->claim_top = 1; /* 0: none */
}

void claim_queue_release(struct claim_queue *w)
{
    for (uint32_t i = 1; i < w->group_top; i++)
        free(w->groups[i]);
    map_release(&w->by_name);
    free(w->groups);
    free(w->claims);
    heap_release(&w->dues);
    heap_release(&w->deadlines);
}

/* Groups. One exists while a claim waits for it or it is marked. */

struct claim_group *claim_queue_group(struct claim_queue *w, struct str name)
{
    if (!w->by_name.count)
        return NULL;
    uint32_t hash = map_hash_str(name);
    for (uint32_t at, n = map_first(&w->by_name, hash, &at); n;
         n = map_next(&w->by_name, hash, &at))
        if (str_eq(w->groups[n]->name, name))
            return w->groups[n];
    return NULL;
}

static struct claim_group *group_make(struct claim_queue *w, struct str name)
{
    struct claim_group *g = claim_queue_group(w, name);
    if (g)
        return g;
    g = w->unused;
    if (g) {
        w->unused = g->next_dirty;
    } else {
        mem_grow(w->groups, w->group_top, w->group_cap);
        g = w->groups[w->group_top] = mem_alloc(sizeof *g);
        g->number = w->group_top++;
    }
    *g = (struct claim_group){.name = {mem_dup(name.p, name.len), name.len}, .number = g->number};
    map_add(&w->by_name, map_hash_str(name), g->number);
    return g;
}

static void group_drop(struct claim_queue *w, struct claim_group *g)
{
    if (g->first || g->dirty)
        return;
    claim_queue_set_due(w, g, INT64_MAX);
    map_remove(&w->by_name, map_hash_str(g->name), g->number);
    free((char *)g->name.p);
    g->next_dirty = w->unused;
    w->unused = g;
}

void claim_queue_mark(struct claim_queue *w, struct claim_group *g)
{
    if (g->dirty)
        return;
    g->dirty = true;
    g->next_dirty = w->dirty;
    w->dirty = g;
}

void claim_queue_mark_all(struct claim_queue *w)
{
    for (uint32_t i = 1; i < w->group_top; i++)
        if (w->groups[i]->first)
            claim_queue_mark(w, w->groups[i]);
}

/* A marked group without claims is only dropped. */
struct claim_group *claim_queue_next_marked(struct claim_queue *w)
{
    while (w->dirty) {
        struct claim_group *g = w->dirty;
        w->dirty = g->next_dirty;
        g->dirty = false;
        if (g->first)
            return g;
        group_drop(w, g);
    }
    return NULL;
}

void claim_queue_set_due(struct claim_queue *w, struct claim_group *g, int64_t due_ms)
{
    if (g->due_at) {
        if (w->dues.entries[g->due_at - 1].key == due_ms)
            return;
        heap_remove(&w->dues, g->due_at - 1);
        g->due_at = 0;
    }
    if (due_ms != INT64_MAX)
        heap_push(&w->dues, due_ms, g->number);
}

/* Claims. */

static uint32_t take_ref(struct claim_queue *w)
{
    uint32_t ref = w->free;
    if (ref) {
        w->free = w->claims[ref].at;
        return ref;
    }
    mem_grow(w->claims, w->claim_top, w->claim_cap);
    return w->claim_top++;
}

static void link_into(struct claim_link *link, struct claim_group *g)
{
    link->group = g;
    link->next = NULL;
    link->prev = g->last;
    *(g->last ? &g->last->next : &g->first) = link;
    g->last = link;
}

static void unlink_from(struct claim_link *link)
{
    struct claim_group *g = link->group;
    *(link->prev ? &link->prev->next : &g->first) = link->next;
    *(link->next ? &link->next->prev : &g->last) = link->prev;
}

void claim_queue_add(struct claim_queue *w, struct task_request *r, int64_t deadline_ms)
{
    size_t count = r->claim.group_count;
    r->own.links = mem_zalloc(count * sizeof *r->own.links);
    r->own.wait_ref = take_ref(w);
    w->claims[r->own.wait_ref].r = r;
    w->count++;
    heap_push(&w->deadlines, deadline_ms, r->own.wait_ref);
    for (size_t i = 0; i < count; i++) {
        struct claim_group *g = group_make(w, r->claim.groups[i]);
        r->own.links[i].r = r;
        if (!g->last || g->last->r != r)
            link_into(&r->own.links[i], g);
        claim_queue_mark(w, g);
    }
}

void claim_queue_remove(struct claim_queue *w, struct task_request *r)
{
    uint32_t ref = r->own.wait_ref;
    heap_remove(&w->deadlines, w->claims[ref].at);
    w->claims[ref].at = w->free;
    w->free = ref;
    w->count--;
    for (size_t i = 0; i < r->claim.group_count; i++) {
        struct claim_link *link = &r->own.links[i];
        if (link->group) {
            unlink_from(link);
            group_drop(w, link->group);
        }
    }
    free(r->own.links);
    r->own.links = NULL;
    r->own.wait_ref = 0;
}

/* Time. */

struct task_request *claim_queue_timed_out(struct claim_queue *w, int64_t now_ms)
{
    if (!w->deadlines.count || w->deadlines.entries[0].key > now_ms)
        return NULL;
    return w->claims[w->deadlines.entries[0].ref].r;
}

void claim_queue_advance(struct claim_queue *w, int64_t now_ms)
{
    while (w->dues.count && w->dues.entries[0].key <= now_ms) {
        struct claim_group *g = w->groups[w->dues.entries[0].ref];
        claim_queue_set_due(w, g, INT64_MAX);
        claim_queue_mark(w, g);
    }
}

int64_t claim_queue_due_ms(const struct claim_queue *w)
{
    int64_t due_ms = w->deadlines.count ? w->deadlines.entries[0].key : INT64_MAX;
    if (w->dues.count && w->dues.entries[0].key < due_ms)
        due_ms = w->dues.entries[0].key;
    return due_ms;
}
