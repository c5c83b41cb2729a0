/* Runs: finding them, counting their nodes, and their description in the chunks of a draft. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/graph.h"

/* Finding. */

/* The index of the first run whose number is at least this. */
static uint32_t seek_run(const struct graph *g, uint64_t number)
{
    uint32_t low = 0, high = g->run_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (g->runs[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct dag_run *graph_run(const struct graph *g, uint64_t number)
{
    uint32_t at = seek_run(g, number);
    return at < g->run_count && g->runs[at]->number == number ? g->runs[at] : NULL;
}

struct dag_run *graph_find_run(const struct graph *g, struct str text)
{
    size_t digits = 0;
    uint64_t number;
    while (digits < text.len && text.p[text.len - digits - 1] != '-')
        digits++;
    if (graph_parse_id((struct str){text.p + text.len - digits, digits}, &number)) {
        struct dag_run *r = graph_run(g, number);
        if (r && str_eq(str_of(r->id), text))
            return r;
    }
    for (uint32_t i = g->run_count; i-- > 0;)
        if (str_eq((struct str){g->runs[i]->id, g->runs[i]->name_len}, text))
            return g->runs[i];
    return NULL;
}

uint32_t graph_next_in_run(const struct graph *g, const struct dag_run *r, uint32_t at)
{
    for (; at < g->count; at++) {
        const struct dag_node *n = g->order[at];
        if (n && n->id > r->last_id)
            break;
        if (n && n->chunk->run == r)
            return at;
    }
    return g->count;
}

struct dag_node *graph_find_in_run(const struct graph *g, const struct dag_run *r, struct str name)
{
    struct str prefix = {r->id, r->name_len};
    graph_each_in_run(i, g, r)
    {
        struct str own = g->order[i]->name;
        if (str_eq(own, name))
            return g->order[i];
        if (own.len == prefix.len + 1 + name.len && str_starts(own, prefix) &&
            own.p[prefix.len] == '/' &&
            str_eq((struct str){own.p + prefix.len + 1, name.len}, name))
            return g->order[i];
    }
    return NULL;
}

/* States. */

bool dag_run_lives(const struct dag_run *r)
{
    return r->counts[NODE_INCIPIENT] || r->counts[NODE_RUNNING];
}

enum node_state dag_run_state(const struct dag_run *r)
{
    return dag_run_lives(r)         ? NODE_RUNNING
           : r->counts[NODE_FAILED] ? NODE_FAILED
           : r->counts[NODE_KILLED] ? NODE_KILLED
                                    : NODE_FINISHED;
}

void graph_show(struct graph *g, struct dag_node *n, uint8_t state)
{
    struct dag_run *r = n->chunk->run;
    uint8_t before = g->shown[n->index];
    g->shown[n->index] = state;
    if (!r)
        return;
    if (before != SHOWN_NONE)
        r->counts[before]--;
    if (state != SHOWN_NONE)
        r->counts[state]++;
    if (n->ended_ms > r->ended_ms)
        r->ended_ms = n->ended_ms;
}

/* Loading. */

/* The chunks come in the order of their ids. Those of what was added below a run come later. */
static struct dag_run *enter_run(struct graph *g, uint64_t number, struct str name)
{
    uint32_t at = seek_run(g, number);
    struct dag_run *r = at < g->run_count ? g->runs[at] : NULL;
    if (r && r->number == number)
        return str_eq((struct str){r->id, r->name_len}, name) ? r : NULL;
    r = mem_zalloc(sizeof *r);
    CLEANUP(buf_release) struct buf id = {0};
    buf_printf(&id, "%.*s-%" PRIu64, STR_ARGS(name), number);
    *r = (struct dag_run){.number = number,
                          .id = mem_dup(id.p, id.len),
                          .name_len = (uint32_t)name.len,
                          .first_id = UINT64_MAX};
    mem_grow(g->runs, g->run_count, g->run_cap);
    memmove(g->runs + at + 1, g->runs + at, (g->run_count++ - at) * sizeof *g->runs);
    g->runs[at] = r;
    if (g->last_run < number)
        g->last_run = number;
    return r;
}

static bool is_run_name(struct str name)
{
    if (!name.len || name.len > RUN_NAME_LEN_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.p[i] < 0x20 || name.p[i] == '/' || name.p[i] == ',' ||
            name.p[i] == 0x7f)
            return false;
    return true;
}

bool graph_load_run(struct graph *g, struct chunk_text *c, const struct json *v)
{
    int64_t number = 0, added = 0;
    struct str name = {0};
    bool keep_going = false;
    if (!c->count || json_get_int(v, "run", &number, NULL) != 1 || number < 1 ||
        json_get_text(v, "name", &name, NULL) != 1 || !is_run_name(name) ||
        json_get_int(v, "added", &added, NULL) < 0 ||
        json_get_bool(v, "keep_going", &keep_going, NULL) < 0)
        return false;
    struct dag_run *r = enter_run(g, (uint64_t)number, name);
    if (!r)
        return false;
    r->added_ms = added;
    r->keep_going = keep_going;
    if (c->first_id < r->first_id)
        r->first_id = c->first_id;
    if (c->first_id + c->count - 1 > r->last_id)
        r->last_id = c->first_id + c->count - 1;
    r->chunks++;
    c->run = r;
    return true;
}

void graph_leave_run(struct graph *g, const struct chunk_text *c)
{
    struct dag_run *r = c->run;
    if (!r || --r->chunks)
        return;
    uint32_t at = seek_run(g, r->number);
    memmove(g->runs + at, g->runs + at + 1, (--g->run_count - at) * sizeof *g->runs);
    free(r->id);
    free(r);
}

/* Drafts. */

/* Each chunk is a list that ends with the description. */
static void put_run(struct draft *d, uint64_t number, struct str name, int64_t added_ms,
                    bool keep_going)
{
    for (uint32_t i = 0; i < d->chunk_count; i++) {
        struct buf *b = &d->chunks[i]->text;
        b->len--; /* the bracket */
        json_open(b, '{');
        json_member_int(b, "run", (int64_t)number);
        json_member_text(b, "name", name);
        json_member_int(b, "added", added_ms);
        if (keep_going)
            json_member_bool(b, "keep_going", true);
        json_close(b, '}');
        json_close(b, ']');
    }
    snprintf(d->run, sizeof d->run, "%.*s-%" PRIu64, STR_ARGS(name), number);
}

int draft_new_run(struct graph *g, struct draft *d, struct str name, bool keep_going,
                  int64_t now_ms, struct err_info *e)
{
    if (!is_run_name(name))
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "the name of a run has 1 to %d bytes, without '/', ',' and control "
                       "characters",
                       RUN_NAME_LEN_MAX);
    put_run(d, ++g->last_run, name, now_ms, keep_going);
    return 0;
}

void draft_join_run(struct draft *d)
{
    const struct dag_run *r = d->parent_count ? d->parents[0]->chunk->run : NULL;
    for (uint32_t i = 1; r && i < d->parent_count; i++)
        if (d->parents[i]->chunk->run != r)
            r = NULL;
    if (r)
        put_run(d, r->number, (struct str){r->id, r->name_len}, r->added_ms, r->keep_going);
}
