/*
 * Nodes and edges are in two arrays and refer to each other by index. Each edge is in two doubly
 * linked lists, the children of its parent and the parents of its child, so it is removed in
 * constant time. State changes propagate through a work list, not by recursion: a chain of a
 * million groups finishes without a million stack frames.
 */
#include "dag/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void plan_changes_put(struct plan_changes *c, uint32_t ref)
{
    mem_grow(c->refs, c->count, c->cap);
    c->refs[c->count++] = ref;
}

static void changes_append(struct plan_changes *c, const struct plan_changes *more, size_t from)
{
    for (size_t i = from; i < more->count; i++)
        plan_changes_put(c, more->refs[i]);
}

void plan_changes_release(struct plan_changes *c)
{
    free(c->refs);
    *c = (struct plan_changes){0};
}

void plan_release(struct dag_plan *p)
{
    for (uint32_t i = 0; i < p->queue_count; i++) {
        free(p->queues[i].ready.refs);
        free(p->queues[i].offered.refs);
    }
    free(p->queues);
    free(p->nodes);
    free(p->edges);
    *p = (struct dag_plan){0};
}

/* The heaps. */

static bool before(const struct dag_plan *p, uint32_t a, uint32_t b)
{
    const struct plan_node *x = &p->nodes[a], *y = &p->nodes[b];
    return x->priority != y->priority ? x->priority < y->priority : x->id < y->id;
}

static void heap_set(struct dag_plan *p, struct plan_heap *h, uint32_t at, uint32_t ref)
{
    h->refs[at] = ref;
    p->nodes[ref].place = at + 1;
}

static void heap_up(struct dag_plan *p, struct plan_heap *h, uint32_t at, uint32_t ref)
{
    for (; at && before(p, ref, h->refs[(at - 1) / 2]); at = (at - 1) / 2)
        heap_set(p, h, at, h->refs[(at - 1) / 2]);
    heap_set(p, h, at, ref);
}

static void heap_down(struct dag_plan *p, struct plan_heap *h, uint32_t at, uint32_t ref)
{
    for (uint32_t child; (child = at * 2 + 1) < h->count; at = child) {
        if (child + 1 < h->count && before(p, h->refs[child + 1], h->refs[child]))
            child++;
        if (!before(p, h->refs[child], ref))
            break;
        heap_set(p, h, at, h->refs[child]);
    }
    heap_set(p, h, at, ref);
}

static void heap_add(struct dag_plan *p, struct plan_heap *h, uint32_t ref)
{
    mem_grow(h->refs, h->count, h->cap);
    heap_up(p, h, h->count++, ref);
}

static void heap_remove(struct dag_plan *p, struct plan_heap *h, uint32_t ref)
{
    uint32_t at = p->nodes[ref].place - 1, last = h->refs[--h->count];
    p->nodes[ref].place = 0;
    if (last == ref)
        return;
    if (at && before(p, last, h->refs[(at - 1) / 2]))
        heap_up(p, h, at, last);
    else
        heap_down(p, h, at, last);
}

static struct plan_queue *queue_of(struct dag_plan *p, uint32_t group)
{
    if (group >= p->queue_count) {
        p->queues = mem_realloc(p->queues, (group + 1) * sizeof *p->queues);
        memset(p->queues + p->queue_count, 0, (group + 1 - p->queue_count) * sizeof *p->queues);
        p->queue_count = group + 1;
    }
    return &p->queues[group];
}

static void leave_queue(struct dag_plan *p, uint32_t ref)
{
    struct plan_node *n = &p->nodes[ref];
    struct plan_queue *q = queue_of(p, n->group);
    if (n->place)
        heap_remove(p, n->offered ? &q->offered : &q->ready, ref);
    n->offered = false;
}

/* Edges. */

static void link_edge(struct dag_plan *p, uint32_t parent, uint32_t child)
{
    struct plan_node *from = &p->nodes[parent], *to = &p->nodes[child];
    uint32_t e = p->free_edge ? p->free_edge : p->edge_count++;
    if (p->free_edge)
        p->free_edge = p->edges[e].next_child;
    p->edges[e] = (struct plan_edge){
        .parent = parent, .child = child, .next_child = from->children, .next_parent = to->parents};
    p->edges[from->children].prev_child = e;
    p->edges[to->parents].prev_parent = e;
    from->children = to->parents = e;
}

static void unlink_edge(struct dag_plan *p, uint32_t e)
{
    struct plan_edge *x = &p->edges[e];
    if (x->prev_child)
        p->edges[x->prev_child].next_child = x->next_child;
    else
        p->nodes[x->parent].children = x->next_child;
    p->edges[x->next_child].prev_child = x->prev_child;
    if (x->prev_parent)
        p->edges[x->prev_parent].next_parent = x->next_parent;
    else
        p->nodes[x->child].parents = x->next_parent;
    p->edges[x->next_parent].prev_parent = x->prev_parent;
    x->next_child = p->free_edge;
    p->free_edge = e;
}

/* Propagation. */

/*
 * Whether this parent, which has ended, prevents the child from ever starting: it did not select
 * the branch of the child, or it did not succeed.
 */
static bool dooms(const struct plan_node *parent, const struct plan_node *child)
{
    bool selects = parent->type == NODE_IF && parent->state == NODE_FINISHED && child->branch;
    return (selects && child->branch != parent->taken) ||
           (child->when == WHEN_SUCCESS && parent->state != NODE_FINISHED);
}

/* Skips, finishes or queues an incipient node if all its parents have ended or one dooms it. */
static void decide(struct dag_plan *p, uint32_t ref, bool doomed, struct plan_changes *changes)
{
    struct plan_node *n = &p->nodes[ref];
    if (!doomed && n->waiting)
        return;
    plan_changes_put(changes, ref);
    if (doomed || (n->when == WHEN_FAILURE && !n->failed))
        n->state = NODE_SKIPPED;
    else if (n->type == NODE_GROUP)
        n->state = NODE_FINISHED;
    else
        heap_add(p, &queue_of(p, n->group)->ready, ref);
}

/* Updates the children of a node that has ended. */
static void update_children(struct dag_plan *p, uint32_t ref, struct plan_changes *changes)
{
    const struct plan_node *n = &p->nodes[ref];
    plan_each_child(e, p, ref) {
        uint32_t child = p->edges[e].child;
        struct plan_node *c = &p->nodes[child];
        if (c->state != NODE_INCIPIENT || c->place)
            continue;
        c->waiting--;
        c->failed += n->state == NODE_FAILED;
        decide(p, child, dooms(n, c), changes);
    }
}

static void propagate(struct dag_plan *p, size_t from, struct plan_changes *changes)
{
    for (size_t i = from; i < changes->count; i++)
        if (node_state_is_terminal(p->nodes[changes->refs[i]].state))
            update_children(p, changes->refs[i], changes);
}

/* Recounts the parents. Returns whether one of them dooms the node. */
static bool count_parents(struct dag_plan *p, uint32_t ref)
{
    struct plan_node *n = &p->nodes[ref];
    bool doomed = false;
    n->waiting = n->failed = 0;
    plan_each_parent(e, p, ref) {
        const struct plan_node *parent = &p->nodes[p->edges[e].parent];
        if (!node_state_is_terminal(parent->state)) {
            n->waiting++;
            continue;
        }
        n->failed += parent->state == NODE_FAILED;
        doomed |= dooms(parent, n);
    }
    return doomed;
}

/*
 * Decides nodes whose parents may have ended before. The parents of all nodes are counted before
 * the first node is decided, so that each end is counted once.
 */
static void decide_all(struct dag_plan *p, const uint32_t *refs, uint32_t count,
                       struct plan_changes *changes)
{
    size_t from = changes->count;
    CLEANUP(mem_free) bool *doomed = mem_zalloc(count + 1);
    for (uint32_t i = 0; i < count; i++)
        if (p->nodes[refs[i]].state == NODE_INCIPIENT)
            doomed[i] = count_parents(p, refs[i]);
    for (uint32_t i = 0; i < count; i++)
        if (p->nodes[refs[i]].state == NODE_INCIPIENT)
            decide(p, refs[i], doomed[i], changes);
    propagate(p, from, changes);
}

/* Adding. */

enum { SEARCH_NEW, SEARCH_OPEN, SEARCH_DONE };

/* A depth-first search along the parents of the same request, with a stack of its own (`path`). */
bool plan_has_cycle(const struct plan_spec *specs, uint32_t count, struct plan_changes *ret_cycle)
{
    CLEANUP(mem_free) uint8_t *marks = mem_zalloc(count + 1);
    CLEANUP(mem_free) uint32_t *next = mem_zalloc((count + 1) * sizeof *next); /* parent to see */
    CLEANUP(plan_changes_release) struct plan_changes path = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (marks[i] == SEARCH_NEW)
            plan_changes_put(&path, i);
        while (path.count) {
            uint32_t at = path.refs[path.count - 1];
            marks[at] = SEARCH_OPEN;
            if (next[at] == specs[at].parent_count) {
                marks[at] = SEARCH_DONE;
                path.count--;
                continue;
            }
            uint32_t parent = specs[at].parents[next[at]++];
            if (!(parent & PLAN_IN_BATCH))
                continue;
            parent ^= PLAN_IN_BATCH;
            if (marks[parent] == SEARCH_OPEN) {
                size_t from = 0; /* the path from this parent on is the cycle */
                while (path.refs[from] != parent)
                    from++;
                if (ret_cycle)
                    changes_append(ret_cycle, &path, from);
                return true;
            }
            if (marks[parent] == SEARCH_NEW)
                plan_changes_put(&path, parent);
        }
    }
    return false;
}

static uint32_t grown(uint32_t cap, uint32_t need)
{
    uint64_t n = cap ? cap : 16;
    while (n < need)
        n *= 2;
    assert(n <= UINT32_MAX / 2);
    return (uint32_t)n;
}

/* Allocates space for more nodes and edges at once. The first of each is not used. */
static void reserve(struct dag_plan *p, uint32_t nodes, uint32_t edges)
{
    if (p->node_count + nodes + 1 > p->node_cap) {
        p->node_cap = grown(p->node_cap, p->node_count + nodes + 1);
        p->nodes = mem_realloc(p->nodes, (size_t)p->node_cap * sizeof *p->nodes);
    }
    if (p->edge_count + edges + 1 > p->edge_cap) {
        p->edge_cap = grown(p->edge_cap, p->edge_count + edges + 1);
        p->edges = mem_realloc(p->edges, (size_t)p->edge_cap * sizeof *p->edges);
    }
    if (!p->node_count)
        p->nodes[p->node_count++] = (struct plan_node){0};
    if (!p->edge_count)
        p->edges[p->edge_count++] = (struct plan_edge){0};
}

static uint32_t new_node(struct dag_plan *p, const struct plan_spec *s)
{
    uint32_t ref = p->free_node ? p->free_node : p->node_count++;
    if (p->free_node)
        p->free_node = p->nodes[ref].children;
    p->nodes[ref] = s->node;
    p->nodes[ref].used = true;
    p->used++;
    return ref;
}

bool plan_add(struct dag_plan *p, const struct plan_spec *specs, uint32_t count, uint32_t *ret_refs,
              struct plan_changes *changes)
{
    uint64_t edges = 0;
    if (plan_has_cycle(specs, count, NULL))
        return false;
    for (uint32_t i = 0; i < count; i++)
        edges += specs[i].parent_count;
    assert(edges < UINT32_MAX / 4);
    reserve(p, count, (uint32_t)edges);
    for (uint32_t i = 0; i < count; i++)
        ret_refs[i] = new_node(p, &specs[i]);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = specs[i].parent_count; k-- > 0;) {
            uint32_t parent = specs[i].parents[k];
            if (parent & PLAN_IN_BATCH)
                parent = ret_refs[parent ^ PLAN_IN_BATCH];
            link_edge(p, parent, ret_refs[i]);
        }
    decide_all(p, ret_refs, count, changes);
    return true;
}

/* Starting and ending. */

uint32_t plan_best_unoffered(const struct dag_plan *p, uint32_t group)
{
    const struct plan_heap *h = group < p->queue_count ? &p->queues[group].ready : NULL;
    return h && h->count ? h->refs[0] : 0;
}

uint32_t plan_best(const struct dag_plan *p, uint32_t group)
{
    const struct plan_heap *h = group < p->queue_count ? &p->queues[group].offered : NULL;
    uint32_t ready = plan_best_unoffered(p, group), offered = h && h->count ? h->refs[0] : 0;
    if (!ready || !offered)
        return ready ? ready : offered;
    return before(p, ready, offered) ? ready : offered;
}

void plan_offer(struct dag_plan *p, uint32_t ref)
{
    struct plan_node *n = &p->nodes[ref];
    assert(n->place && !n->offered);
    leave_queue(p, ref);
    heap_add(p, &queue_of(p, n->group)->offered, ref);
    n->offered = true;
}

void plan_start(struct dag_plan *p, uint32_t ref)
{
    assert(p->nodes[ref].place);
    leave_queue(p, ref);
    p->nodes[ref].state = NODE_RUNNING;
}

void plan_park(struct dag_plan *p, uint32_t ref)
{
    assert(p->nodes[ref].state == NODE_RUNNING);
    p->nodes[ref].state = NODE_INCIPIENT;
}

void plan_unpark(struct dag_plan *p, uint32_t ref)
{
    struct plan_node *n = &p->nodes[ref];
    if (n->state == NODE_INCIPIENT && !n->place && !n->waiting)
        heap_add(p, &queue_of(p, n->group)->ready, ref);
}

void plan_end(struct dag_plan *p, uint32_t ref, enum node_state state, enum node_branch taken,
              struct plan_changes *changes)
{
    size_t from = changes->count;
    assert(node_state_is_terminal(state) && !node_state_is_terminal(p->nodes[ref].state));
    leave_queue(p, ref);
    p->nodes[ref].state = (uint8_t)state;
    p->nodes[ref].taken = (uint8_t)taken;
    plan_changes_put(changes, ref);
    propagate(p, from, changes);
}

/* A parent that had ended as `was` is incipient again: reverts what followed for the child. */
static void revert_child(struct dag_plan *p, uint32_t child, enum node_state was,
                         struct plan_changes *again, struct plan_changes *stopped)
{
    struct plan_node *c = &p->nodes[child];
    if (c->state == NODE_SKIPPED) {
        c->state = NODE_INCIPIENT;
        plan_changes_put(again, child);
    } else if (c->state == NODE_INCIPIENT && c->place) {
        leave_queue(p, child);
        plan_changes_put(stopped, child);
    } else if (c->state == NODE_INCIPIENT) {
        c->waiting++;
        c->failed -= was == NODE_FAILED;
    }
}

void plan_retry(struct dag_plan *p, uint32_t ref, struct plan_changes *changes)
{
    enum node_state was = p->nodes[ref].state;
    CLEANUP(plan_changes_release) struct plan_changes again = {0}, stopped = {0};
    assert(node_state_is_terminal(was));
    plan_changes_put(&again, ref);
    p->nodes[ref].state = NODE_INCIPIENT;
    for (size_t i = 0; i < again.count; i++, was = NODE_SKIPPED)
        plan_each_child(e, p, again.refs[i])
            revert_child(p, p->edges[e].child, was, &again, &stopped);
    changes_append(&again, &stopped, 0);
    changes_append(changes, &again, 0);
    decide_all(p, again.refs, (uint32_t)again.count, changes);
}

void plan_change(struct dag_plan *p, uint32_t ref, const struct plan_spec *to,
                 struct plan_changes *changes)
{
    assert(p->nodes[ref].state == NODE_INCIPIENT);
    leave_queue(p, ref);
    p->nodes[ref].when = to->node.when;
    p->nodes[ref].branch = to->node.branch;
    p->nodes[ref].priority = to->node.priority;
    p->nodes[ref].group = to->node.group;
    while (to->parents && p->nodes[ref].parents)
        unlink_edge(p, p->nodes[ref].parents);
    reserve(p, 0, to->parent_count);
    for (uint32_t k = to->parent_count; k-- > 0;)
        link_edge(p, to->parents[k], ref);
    plan_changes_put(changes, ref); /* it may have been ready, and wait now */
    decide_all(p, &ref, 1, changes);
}

/* Removing. */

void plan_descendants(const struct dag_plan *p, uint32_t ref, struct plan_changes *ret_refs)
{
    CLEANUP(mem_free) bool *seen = mem_zalloc(p->node_count);
    size_t from = ret_refs->count;
    plan_changes_put(ret_refs, ref);
    seen[ref] = true;
    for (size_t i = from; i < ret_refs->count; i++)
        plan_each_child(e, p, ret_refs->refs[i]) {
            uint32_t child = p->edges[e].child;
            if (!seen[child])
                plan_changes_put(ret_refs, child);
            seen[child] = true;
        }
}

bool plan_is_removable(const struct dag_plan *p, uint32_t ref)
{
    plan_each_child(e, p, ref)
        if (!node_state_is_terminal(p->nodes[p->edges[e].child].state))
            return false;
    return p->nodes[ref].state != NODE_RUNNING;
}

void plan_remove(struct dag_plan *p, uint32_t ref)
{
    struct plan_node *n = &p->nodes[ref];
    assert(n->used && n->state != NODE_RUNNING);
    leave_queue(p, ref);
    while (n->children)
        unlink_edge(p, n->children);
    while (n->parents)
        unlink_edge(p, n->parents);
    p->used--;
    *n = (struct plan_node){.children = p->free_node};
    p->free_node = ref;
}
