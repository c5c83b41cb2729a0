/*
 * drover run --profile: when the nodes of a run ran, as trace events that Perfetto and
 * chrome://tracing open, and the critical path.
 *
 * A slot is a row of the trace. A node takes the first slot that is free when it starts, so there
 * are as many slots as nodes ran at a time. The critical path ends with the node that ended last
 * and goes on with the parent that ended last, up to a node without parents: the run would have
 * been shorter only if one of these nodes, or the time between two of them, had been.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/mem.h"
#include "cli/graph_draw.h"
#include "cli/run_follow.h"

enum { SHOWN_MAX = 40 }; /* nodes of the path: the first and the last half of them */

struct slots {
    int64_t *free_ms; /* when each slot is free */
    size_t count, cap;
};

static int by_start(const void *a, const void *b)
{
    const struct draw_node *const *x = a, *const *y = b;
    if ((*x)->started_ms != (*y)->started_ms)
        return (*x)->started_ms < (*y)->started_ms ? -1 : 1;
    return (*x)->at < (*y)->at ? -1 : (*x)->at > (*y)->at;
}

static size_t take_slot(struct slots *s, const struct draw_node *n)
{
    size_t i = 0;
    while (i < s->count && s->free_ms[i] > n->started_ms)
        i++;
    if (i == s->count) {
        mem_grow(s->free_ms, s->count, s->cap);
        s->count++;
    }
    s->free_ms[i] = n->started_ms + n->took_ms;
    return i;
}

/* The trace. */

static void put_name(struct buf *b, const char *what, size_t slot, const char *name)
{
    json_open(b, '{');
    json_member_text(b, "name", str_of(what));
    json_member_text(b, "ph", STR("M"));
    json_member_int(b, "pid", 1);
    json_member_int(b, "tid", (int64_t)slot);
    json_member_open(b, "args", '{');
    json_member_text(b, "name", str_of(name));
    json_close(b, '}');
    json_close(b, '}');
}

static void put_event(struct buf *b, const struct draw_node *n, size_t slot, int64_t from_ms)
{
    json_open(b, '{');
    json_member_text(b, "name", n->name);
    json_member_text(b, "cat", n->state);
    json_member_text(b, "ph", STR("X"));
    json_member_int(b, "ts", (n->started_ms - from_ms) * 1000);
    json_member_int(b, "dur", n->took_ms * 1000);
    json_member_int(b, "pid", 1);
    json_member_int(b, "tid", (int64_t)slot);
    json_member_open(b, "args", '{');
    json_member_text(b, "id", n->id);
    json_member_text(b, "state", n->state);
    json_close(b, '}');
    json_close(b, '}');
}

void run_put_trace(const struct draw *d, const char *title, struct buf *b)
{
    const struct draw_node **nodes = mem_alloc((d->count + 1) * sizeof *nodes);
    struct slots slots = {0};
    size_t count = 0;
    for (uint32_t i = 0; i < d->count; i++)
        if (d->nodes[i].took_ms >= 0)
            nodes[count++] = &d->nodes[i];
    qsort(nodes, count, sizeof *nodes, by_start);
    json_open(b, '{');
    json_member_text(b, "displayTimeUnit", STR("ms"));
    json_member_open(b, "traceEvents", '[');
    put_name(b, "process_name", 0, title);
    for (size_t i = 0; i < count; i++)
        put_event(b, nodes[i], take_slot(&slots, nodes[i]) + 1, nodes[0]->started_ms);
    for (size_t i = 1; i <= slots.count; i++) {
        char name[32];
        snprintf(name, sizeof name, "slot %zu", i);
        put_name(b, "thread_name", i, name);
    }
    json_close(b, ']');
    json_close(b, '}');
    free(slots.free_ms);
    free(nodes);
}

/* The critical path. */

static int64_t end_of(const struct draw_node *n)
{
    return n->took_ms < 0 ? -1 : n->started_ms + n->took_ms;
}

uint32_t run_critical_path(const struct draw *d, uint32_t *path)
{
    uint32_t count = 0, last = UINT32_MAX;
    for (uint32_t i = 0; i < d->count; i++)
        if (end_of(&d->nodes[i]) >= 0 &&
            (last == UINT32_MAX || end_of(&d->nodes[i]) > end_of(&d->nodes[last])))
            last = i;
    while (last != UINT32_MAX) {
        const struct draw_node *n = &d->nodes[last];
        path[count++] = last;
        last = UINT32_MAX;
        for (uint32_t k = 0; k < n->parent_count; k++) {
            uint32_t p = n->parents[k];
            if (end_of(&d->nodes[p]) >= 0 &&
                (last == UINT32_MAX || end_of(&d->nodes[p]) > end_of(&d->nodes[last])))
                last = p;
        }
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        uint32_t swapped = path[i];
        path[i] = path[count - 1 - i];
        path[count - 1 - i] = swapped;
    }
    return count;
}

static void print_path(const struct draw *d, const uint32_t *path, uint32_t count)
{
    const struct draw_node *nodes = d->nodes;
    char span[HUMAN_SIZE], waited[HUMAN_SIZE];
    int64_t ran_ms = 0;
    for (uint32_t i = 0; i < count; i++)
        ran_ms += nodes[path[i]].took_ms;
    if (!count)
        return;
    term_say("Critical path: %s in %" PRIu32 " of %" PRIu32 " nodes, %s from start to end",
             human_span(span, ran_ms), count, d->count,
             human_span(waited, end_of(&nodes[path[count - 1]]) - nodes[path[0]].started_ms));
    for (uint32_t i = 0; i < count; i++) {
        const struct draw_node *n = &nodes[path[i]];
        int64_t gap_ms = i ? n->started_ms - end_of(&nodes[path[i - 1]]) : 0;
        if (count > SHOWN_MAX && i == SHOWN_MAX / 2) {
            term_say("      ... %" PRIu32 " more nodes", count - SHOWN_MAX);
            i = count - SHOWN_MAX / 2 - 1;
            continue;
        }
        term_say("  %8s  %.*s%s%s%s", human_span(span, n->took_ms), STR_ARGS(n->name),
                 gap_ms > 0 ? "  (" : "", gap_ms > 0 ? human_span(waited, gap_ms) : "",
                 gap_ms > 0 ? " after the one before)" : "");
    }
}

int run_profile(struct client *c, const char *run, const char *path, FILE *to)
{
    CLEANUP(draw_release) struct draw d = {0};
    CLEANUP(buf_release) struct buf b = {0};
    struct client_reply reply;
    TRY(client_call(c, &reply, NULL,
                    "GET /v1/nodes?run=%s&metadata=name,state,parents,run,started,ended",
                    client_quote(c, str_of(run))));
    draw_read(&d, reply.json, UINT32_MAX, clock_wall_ms());
    run_put_trace(&d, run, &b);
    fputs(buf_text(&b), to);
    fputs("\n", to);
    if (fflush(to) || ferror(to))
        return client_error("%s: %s", path, strerror(errno));
    uint32_t *nodes = arena_alloc(&d.arena, (d.count + 1) * sizeof *nodes);
    print_path(&d, nodes, run_critical_path(&d, nodes));
    return CMD_OK;
}
