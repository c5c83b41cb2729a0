#include "cli/dag.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/human.h"

/* Earlier runs. */

static uint32_t find_name(const struct graph_file *f, struct str name)
{
    if (name.len <= f->name.len || !str_starts(name, f->name) || name.p[f->name.len] != '/')
        return UINT32_MAX;
    name.p += f->name.len + 1;
    name.len -= f->name.len + 1;
    for (uint32_t i = 0; i < f->count; i++)
        if (str_eq(f->nodes[i].name, name))
            return i;
    return UINT32_MAX;
}

/* Nodes are listed in the order of their ids: for each name the newest one counts. */
static int read_earlier(struct graph_run *r)
{
    struct client_reply reply;
    int status =
        client_call(r->c, "GET", "/v1/nodes?metadata=name,state,started,ended", NULL, &reply);

    if (status || !reply.json || reply.json->kind != JSON_LIST)
        return status;
    json_each(n, reply.json) {
        uint32_t i = find_name(&r->file, json_text_of(n, "name"));
        bool finished = str_eq(json_text_of(n, "state"), STR("finished"));

        if (i == UINT32_MAX)
            continue;
        r->done[i] = finished && r->resume ? arena_text(&r->arena, json_text_of(n, "id")) : NULL;
        if (finished && json_int_of(n, "started"))
            r->times[i] = json_int_of(n, "ended") - json_int_of(n, "started");
    }
    client_forget(r->c);
    return CMD_OK;
}

/* Output that needs no server. */

static int print_picture(struct graph_run *r)
{
    CLEANUP(buf_release) struct buf b = {0};

    if (r->dot)
        graph_file_put_dot(&b, &r->file);
    else
        graph_file_put_mermaid(&b, &r->file);
    fwrite(b.p, 1, b.len, stdout);
    return CMD_OK;
}

static int print_plan(struct graph_run *r)
{
    for (uint32_t k = 0; k < r->file.count; k++) {
        uint32_t i = r->file.order[k];
        const struct graph_node *n = &r->file.nodes[i];

        if (r->done[i])
            continue;
        printf("%.*s: %.*s\n", STR_ARGS(n->name),
               (int)(n->command.len ? n->command.len : strlen(n->type)),
               n->command.len ? n->command.p : n->type);
    }
    return CMD_OK;
}

/* Submitting. */

static void put_end(struct buf *b, const struct graph_run *r)
{
    json_open(b, '{');
    json_member_open(b, "metadata", '{');
    json_member_text(b, "type", STR("group"));
    json_member_text(b, "name", r->file.name);
    json_member_text(b, "when", STR("always"));
    json_member_open(b, "parents", '[');
    for (uint32_t i = 0; i < r->file.count; i++)
        if (!r->done[i])
            json_put_text(b, str_of(arena_printf((struct arena *)&r->arena, "n%" PRIu32, i)));
    json_close(b, ']');
    json_close(b, '}');
    json_close(b, '}');
}

static int submit(struct graph_run *r, uint32_t *ret_count)
{
    struct client_reply reply;
    struct buf b = {0};
    uint32_t count = 0;

    json_open(&b, '[');
    for (uint32_t i = 0; i < r->file.count; i++)
        if (!r->done[i]) {
            graph_file_put_node(&b, &r->file, i, r->done);
            count++;
        }
    put_end(&b, r);
    json_close(&b, ']');
    *ret_count = count;
    int status = count ? client_call(r->c, "POST", "/v1/nodes", buf_text(&b), &reply) : CMD_OK;
    buf_release(&b);
    if (status || !count)
        return status;
    const struct json *one = reply.json ? reply.json->first : NULL;
    for (uint32_t i = 0; i < r->file.count && one; i++)
        if (!r->done[i]) {
            r->ids[i] = arena_text(&r->arena, json_text_of(one, "id"));
            one = one->next;
        }
    if (!one)
        return client_error("%s sent an unexpected reply", client_server(r->c));
    r->end_id = strtoull(arena_text(&r->arena, json_text_of(one, "id")), NULL, 10);
    r->first_id = r->end_id - count;
    client_forget(r->c);
    return CMD_OK;
}

static int run_graph(struct graph_run *r)
{
    char nodes[HUMAN_SIZE], span[HUMAN_SIZE];
    uint32_t count = 0;
    int status = read_earlier(r);

    if (!status && r->dry_run)
        return print_plan(r);
    if (!status)
        status = submit(r, &count);
    if (status)
        return status;
    progress_init(&r->progress, stderr, count, clock_wall_ms());
    if (!count) {
        progress_say(&r->progress, "Nothing left to do.");
        return CMD_OK;
    }
    interrupts_catch();
    status = graph_run_follow(r);
    if (!status)
        progress_say(&r->progress, "%.*s: %s in %s", STR_ARGS(r->file.name),
                     human_count(nodes, count, "node"),
                     human_span(span, clock_wall_ms() - r->progress.started_ms));
    return status;
}

static void allocate(struct graph_run *r)
{
    size_t count = r->file.count + 1;

    r->ids = arena_zalloc(&r->arena, count * sizeof *r->ids);
    r->done = arena_zalloc(&r->arena, count * sizeof *r->done);
    r->times = arena_zalloc(&r->arena, count * sizeof *r->times);
    r->states = arena_zalloc(&r->arena, count * sizeof *r->states);
    r->reasons = arena_zalloc(&r->arena, count * sizeof *r->reasons);
    r->ended = arena_zalloc(&r->arena, count * sizeof *r->ended);
}

static int run_file(struct graph_run *r, const char *path)
{
    struct err_info why;

    if (graph_file_read(&r->file, path, &why)) {
        client_error("%s: %s", path, why.text);
        return CMD_USAGE;
    }
    allocate(r);
    if (r->dot || r->mermaid)
        return print_picture(r);
    if (r->dry_run && !r->resume)
        return print_plan(r);
    r->c = client_open(&r->client);
    if (!r->c)
        return CMD_FAILURE;
    int status = run_graph(r);
    client_close(r->c);
    return status;
}

static struct graph_run run;

static int run_run(const struct cmd_call *call)
{
    run.client = call->client;
    int status = run_file(&run, call->operands[0]);
    graph_file_release(&run.file);
    arena_release(&run.arena);
    arena_release(&run.scratch);
    return status;
}

const struct cmd cmd_graph_run = CMD_INIT(
    "run", "run a graph of nodes from a file", "FILE",
    "Runs a graph of named nodes, described by a file in JSON or YAML ('-': standard\n"
    "input), and shows its progress. The exit status is 0 if nothing failed.",
    CMD_OPTIONS(
        {"dry-run", NULL, "Print what would run, in order, and do nothing.", option_flag,
         &run.dry_run},
        {"keep-going", NULL,
         "After a failure, continue with nodes that do not depend on it. Default: start no\n"
         "further node that waits for success.",
         option_flag, &run.keep_going},
        {"resume", NULL, "Only run nodes that did not finish in an earlier run of the graph.",
         option_flag, &run.resume},
        {"dot", NULL, "Print the graph for Graphviz, and do nothing.", option_flag, &run.dot},
        {"mermaid", NULL, "Print the graph for Mermaid, and do nothing.", option_flag,
         &run.mermaid},
        {"quiet", NULL, "Only print failures.", option_flag, &run.quiet}),
    CMD_REMOTE, run_run, .heading = "Graphs of commands");
