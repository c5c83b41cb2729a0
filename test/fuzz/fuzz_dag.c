/*
 * What comes to the DAG from outside. The first byte decides: y and j are files of `drover run` in
 * YAML and JSON, r a record as a keeper holds it, anything else a request to add nodes.
 *
 * A request that is taken is loaded from its chunks, with as many nodes as it said, and worked off:
 * whatever the graph, everything ends. A record that can be read is written and read the same
 * again. What a file becomes is a request that can be read.
 */
#include "fuzz.h"

#include "cli/graph_file.h"
#include "dag/graph.h"

static void work_off(struct graph *g)
{
    struct plan_changes changes = {0};
    uint32_t ref, ended = 0;

    for (uint32_t group = 0; group < g->group_count; group++)
        while ((ref = plan_best(&g->plan, group))) {
            enum node_state state = NODE_FINISHED + g->plan.nodes[ref].id % 2;
            struct node_command c;
            struct arena a = {0};

            node_command(graph_at(g, ref), g->plan.nodes[ref].type, &a, &c);
            FUZZ_CHECK(c.ask.argv[0] && c.delay_ms >= 0 && node_delay_ms(&c, 3) >= 0);
            FUZZ_CHECK(!c.ask.user || c.ask.user[0]);
            for (int i = 0; i < LIMIT_KINDS; i++)
                FUZZ_CHECK(c.ask.limits.of[i] >= 0);
            arena_release(&a);
            plan_start(&g->plan, ref);
            plan_end(&g->plan, ref, state,
                     g->plan.nodes[ref].type == NODE_IF && state == NODE_FINISHED ? BRANCH_THEN : 0,
                     &changes);
            group = 0;
        }
    for (uint32_t i = 0; i < g->count; i++)
        ended += node_state_is_terminal(graph_state(g, g->order[i]));
    FUZZ_CHECK(ended == g->count);
    plan_changes_release(&changes);
}

static void add(struct graph *g, const struct json *v, struct arena *a)
{
    struct plan_changes changes = {0};
    struct draft d = {0};
    struct err_info e = {{0}};
    uint32_t before = g->count;
    uint64_t last = g->last_id, damaged;

    if (graph_draft(g, v, 1000, NULL, a, &d, &e)) {
        FUZZ_CHECK(e.text[0] && g->last_id == last);
        return;
    }
    FUZZ_CHECK(!graph_load(g, d.chunks, d.chunk_count, NULL, NULL, &changes, &damaged));
    FUZZ_CHECK(g->count == before + d.count && g->last_id == last + d.count);
    d.chunk_count = 0; /* the graph has taken them */
    draft_release(&d);
    plan_changes_release(&changes);
}

static void fuzz_request(struct str text)
{
    struct graph g = {0};
    struct arena a = {0};
    const struct json *v = json_parse(&a, text, NULL);

    if (v) {
        add(&g, v, &a);
        add(&g, v, &a); /* ids of the first are parents for the second */
        work_off(&g);
    }
    graph_release(&g);
    arena_release(&a);
}

static void fuzz_record(struct str text)
{
    struct dag_node *n = mem_zalloc(sizeof *n), *again = mem_zalloc(sizeof *again);
    struct buf b = {0}, c = {0};
    struct arena a = {0};
    struct plan_node p = {0}, p2 = {0};

    if (!node_read_record(n, &p, text, &a)) {
        node_put_record(&b, n, p.state, p.taken);
        FUZZ_CHECK(!node_read_record(again, &p2, (struct str){b.p, b.len}, &a));
        FUZZ_CHECK(p2.state == p.state && p2.taken == p.taken);
        node_put_record(&c, again, p2.state, p2.taken);
        FUZZ_CHECK(c.len == b.len);
    }
    node_free(n);
    node_free(again);
    buf_release(&b);
    buf_release(&c);
    arena_release(&a);
}

static void fuzz_file(struct str text, bool is_yaml)
{
    struct graph_file f = {0};
    struct err_info e = {{0}};
    struct arena a = {0};
    struct buf b = {0};

    f.cwd = "/tmp";
    if (graph_file_parse(&f, text, is_yaml, "fuzz")) {
        FUZZ_CHECK(f.errors.len);
    } else {
        json_open(&b, '[');
        for (uint32_t i = 0; i < f.count; i++)
            graph_file_put_node(&b, &f, i);
        json_close(&b, ']');
        FUZZ_CHECK(json_parse(&a, (struct str){b.p, b.len}, &e));
        graph_file_put_picture(&b, &f, true);
        graph_file_put_picture(&b, &f, false);
    }
    graph_file_release(&f);
    arena_release(&a);
    buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data + 1, size ? size - 1 : 0};

    if (size && (data[0] == 'y' || data[0] == 'j'))
        fuzz_file(rest, data[0] == 'y');
    else if (size && data[0] == 'r')
        fuzz_record(rest);
    else
        fuzz_request((struct str){(const char *)data, size});
    return 0;
}
