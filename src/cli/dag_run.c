/*
 * drover run - a graph in a file, submitted whole and followed to its end.
 *
 * The nodes are named GRAPH/NODE on the server. That is how earlier runs of the same graph are found:
 * --resume leaves out what has finished in one, and their times tell how long is left. One node more,
 * a group named GRAPH that waits for all others, tells when the graph has ended.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/dag_share.h"
#include "cli/graph_file.h"
#include "cli/progress.h"
#include "cli/term.h"

enum { POLL_MS = 150, OUTPUT_LINES = 25 };

struct run_command {
    struct client_options client;
    bool dry_run, keep_going, resume, dot, mermaid, quiet;
    struct file file;
    struct client *c;
    struct progress progress;

    /* By node of the file. */
    const char **ids;     /* on the server, or NULL */
    const char **done;    /* of an earlier run, or NULL */
    int64_t *times;       /* how long it took last time, or 0 */
    char (*states)[12];   /* as last seen */
    const char **reasons; /* of those that ended in this look */
    uint32_t *ended, ended_count;
    uint64_t first_id, end_id;
    bool stopped, interrupted, failed;
    struct arena arena, scratch; /* as long as the command, a look */
};

/* Earlier runs. */

static uint32_t find_name(const struct file *f, struct str name)
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

/* Nodes come in the order of their ids: the last word on a name is that of its newest node. */
static int read_earlier(struct run_command *r)
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

/* What needs no server. */

static int print_picture(struct run_command *r)
{
    struct buf b = {0};

    if (r->dot)
        file_put_dot(&b, &r->file);
    else
        file_put_mermaid(&b, &r->file);
    fwrite(b.p, 1, b.len, stdout);
    buf_release(&b);
    return CMD_OK;
}

static int print_plan(struct run_command *r)
{
    for (uint32_t k = 0; k < r->file.count; k++) {
        uint32_t i = r->file.order[k];
        const struct file_node *n = &r->file.nodes[i];

        if (r->done[i])
            continue;
        printf("%.*s: %.*s\n", (int)n->name.len, n->name.p,
               (int)(n->command.len ? n->command.len : strlen(n->type)),
               n->command.len ? n->command.p : n->type);
    }
    return CMD_OK;
}

/* Submitting. */

static void put_end(struct buf *b, const struct run_command *r)
{
    json_open(b, '{');
    json_key(b, "metadata");
    json_open(b, '{');
    json_key(b, "type");
    json_put_text(b, STR("group"));
    json_key(b, "name");
    json_put_text(b, r->file.name);
    json_key(b, "when");
    json_put_text(b, STR("always"));
    json_key(b, "parents");
    json_open(b, '[');
    for (uint32_t i = 0; i < r->file.count; i++)
        if (!r->done[i])
            json_put_text(b, str_of(arena_printf((struct arena *)&r->arena, "n%" PRIu32, i)));
    json_close(b, ']');
    json_close(b, '}');
    json_close(b, '}');
}

static int submit(struct run_command *r, uint32_t *ret_count)
{
    struct client_reply reply;
    struct buf b = {0};
    const struct json *one;
    uint32_t count = 0;
    int status;

    json_open(&b, '[');
    for (uint32_t i = 0; i < r->file.count; i++)
        if (!r->done[i]) {
            file_put_node(&b, &r->file, i, r->done);
            count++;
        }
    put_end(&b, r);
    json_close(&b, ']');
    *ret_count = count;
    status = count ? client_call(r->c, "POST", "/v1/nodes", buf_text(&b), &reply) : CMD_OK;
    buf_release(&b);
    if (status || !count)
        return status;
    one = reply.json ? reply.json->first : NULL;
    for (uint32_t i = 0; i < r->file.count && one; i++)
        if (!r->done[i]) {
            r->ids[i] = arena_text(&r->arena, json_text_of(one, "id"));
            one = one->next;
        }
    if (!one)
        return client_error("the server's answer is not what it should be");
    r->end_id = strtoull(arena_text(&r->arena, json_text_of(one, "id")), NULL, 10);
    r->first_id = r->end_id - count;
    client_forget(r->c);
    return CMD_OK;
}

/* Following. */

/* The last lines of what a node printed. */
static void print_output(struct run_command *r, const char *id)
{
    struct following f = {.id = id, .key = "mixedout"};
    char *text = NULL;
    size_t len = 0, from, lines = 0;
    bool more = true;

    f.to = open_memstream(&text, &len);
    while (more && !follow_output(r->c, &f, 0, &more) && len < 4 * 1024 * 1024)
        ;
    fclose(f.to);
    for (from = len; from && lines <= OUTPUT_LINES; from--)
        lines += text[from - 1] == '\n' && from != len;
    if (from) {
        from++;
        fputs("...\n", r->progress.to);
    }
    fwrite(text + from, 1, len - from, r->progress.to);
    if (len > from && text[len - 1] != '\n')
        fputc('\n', r->progress.to);
    fflush(r->progress.to);
    free(text);
}

/* A node has ended: says so, and shows what it printed when it failed. */
static void tell_end(struct run_command *r, uint32_t i)
{
    struct str name = r->file.nodes[i].name;
    struct progress *p = &r->progress;
    bool failed = !strcmp(r->states[i], "failed"), killed = !strcmp(r->states[i], "killed");

    p->ended++;
    if (failed || killed) {
        r->failed = true;
        progress_say(p, "%s%s: %.*s: %s%s", p->coloured ? term_colour(TERM_RED) : "",
                     failed ? "FAILED" : "KILLED", (int)name.len, name.p, r->reasons[i],
                     p->coloured ? term_colour(TERM_PLAIN) : "");
    } else if (!p->columns && !r->quiet) {
        progress_say(p, "[%" PRIu32 "/%" PRIu32 "] %.*s %s", p->ended, p->total, (int)name.len,
                     name.p, r->states[i]);
    }
    if (failed)
        print_output(r, r->ids[i]);
}

/* One look at all nodes: notes what is new. True: the graph has ended. */
static bool look(struct run_command *r, const struct json *list)
{
    struct str last = {0};
    uint32_t running = 0, i = 0;
    bool ended = false;

    r->progress.expected_ms = 0;
    for (const struct json *n = list->first; n; n = n->next) {
        struct str id = json_text_of(n, "id"), state = json_text_of(n, "state");

        while (i < r->file.count && !r->ids[i])
            i++;
        if (i == r->file.count) {
            ended = state_is_terminal(state);
            break;
        }
        if (!str_eq(id, str_of(r->ids[i])))
            continue; /* somebody else's, added in between; ours come in order */
        if (str_eq(state, STR("running"))) {
            running++;
            last = r->file.nodes[i].name;
        }
        if (!state_is_terminal(state))
            r->progress.expected_ms += r->times[i];
        if (!str_eq(state, str_of(r->states[i]))) {
            snprintf(r->states[i], sizeof r->states[i], "%.*s", (int)state.len, state.p);
            if (state_is_terminal(state)) {
                r->ended[r->ended_count++] = i;
                r->reasons[i] = arena_text(&r->scratch, json_text_of(n, "reason"));
                last = last.len ? last : r->file.nodes[i].name;
            }
        }
        i++;
    }
    r->progress.running = running;
    if (running > r->progress.jobs)
        r->progress.jobs = running;
    progress_line(&r->progress, last, clock_wall_ms());
    return ended;
}

/* Kills those of the graph's nodes that have not ended; or only those that wait for success. */
static void kill_nodes(struct run_command *r, bool only_waiting)
{
    struct buf ids = {0};
    struct client_reply reply;

    for (uint32_t i = 0; i < r->file.count; i++) {
        struct str when = STR("success");
        bool waits = !r->states[i][0] || !strcmp(r->states[i], "incipient");

        json_get_text(r->file.nodes[i].spec, "when", &when, NULL);
        if (!r->ids[i] || (!waits && strcmp(r->states[i], "running") != 0) ||
            (only_waiting && (!waits || !str_eq(when, STR("success")))))
            continue;
        buf_printf(&ids, "%s%s", ids.len ? "," : "", r->ids[i]);
        if (ids.len > 4000 || i + 1 == r->file.count) {
            client_call(r->c, "PUT",
                        arena_printf(&r->scratch, "/v1/scheduler/kill?id=%s", buf_text(&ids)), NULL,
                        &reply);
            ids.len = 0;
        }
    }
    if (ids.len)
        client_call(r->c, "PUT",
                    arena_printf(&r->scratch, "/v1/scheduler/kill?id=%s", buf_text(&ids)), NULL,
                    &reply);
    buf_release(&ids);
}

static void heed_interrupts(struct run_command *r)
{
    if (interrupts_count() && !r->interrupted) {
        r->interrupted = true;
        interrupts_forget(1); /* before it is said: whoever reads it may be quick */
        progress_say(&r->progress, "Interrupted. Again: kill what runs and what waits. "
                                   "The graph goes on until then.");
    } else if (interrupts_count() > 1 && !r->stopped) {
        r->stopped = true;
        progress_say(&r->progress, "Killing.");
        kill_nodes(r, false);
    }
}

/* What has grown: nodes that commands of the graph have added below it. */

static uint64_t id_of(struct run_command *r, struct str text)
{
    return strtoull(arena_text(&r->scratch, text), NULL, 10);
}

static int compare_ids(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static bool is_grown(uint64_t id, const uint64_t *grown, size_t count)
{
    return bsearch(&id, grown, count, sizeof *grown, compare_ids) != NULL;
}

static bool hangs_on(struct run_command *r, const struct json *node, const uint64_t *grown,
                     size_t count)
{
    json_each(parent, json_get(node, "parents")) {
        uint64_t id = id_of(r, parent->text);

        if ((id >= r->first_id && id <= r->end_id) || is_grown(id, grown, count))
            return true;
    }
    return false;
}

static void tell_failure(struct run_command *r, const struct json *node)
{
    struct str state = json_text_of(node, "state"), name = json_text_of(node, "name"),
               reason = json_text_of(node, "reason");
    bool failed = str_eq(state, STR("failed"));

    if (!failed && !str_eq(state, STR("killed")))
        return;
    r->failed = true;
    if (!name.len)
        name = json_text_of(node, "id");
    progress_say(&r->progress, "%s: %.*s: %.*s", failed ? "FAILED" : "KILLED", (int)name.len,
                 name.p, (int)reason.len, reason.p);
}

/*
 * One look at what is newer than the graph, in the order of ids. Returns one that has not ended, or 0
 * after telling which have failed.
 */
static uint64_t look_at_grown(struct run_command *r, const struct json *list)
{
    uint64_t *grown = arena_alloc(&r->scratch, (list->count + 1) * sizeof *grown);
    size_t count = 0;

    json_each(n, list) {
        if (!hangs_on(r, n, grown, count))
            continue;
        grown[count++] = id_of(r, json_text_of(n, "id"));
        if (!state_is_terminal(json_text_of(n, "state")))
            return grown[count - 1];
    }
    json_each(n, list) {
        if (is_grown(id_of(r, json_text_of(n, "id")), grown, count))
            tell_failure(r, n);
    }
    return 0;
}

static int follow_grown(struct run_command *r)
{
    struct client_reply reply;
    int status = CMD_OK;
    uint64_t waits = 1;

    while (!status && waits) {
        status = client_call(
            r->c, "GET",
            arena_printf(&r->scratch,
                         "/v1/nodes?metadata=name,state,reason,parents&new=%" PRIu64 "&timeout=0",
                         r->end_id),
            NULL, &reply);
        if (status || !reply.json || reply.json->kind != JSON_LIST)
            break;
        waits = look_at_grown(r, reply.json);
        client_forget(r->c);
        heed_interrupts(r);
        client_set_wait(r->c, POLL_MS);
        if (waits && r->interrupted && r->stopped)
            status = client_call(r->c, "PUT",
                                 arena_printf(&r->scratch, "/v1/scheduler/kill?id=%" PRIu64, waits),
                                 NULL, &reply);
        if (waits && !status)
            status =
                client_try(r->c, "GET",
                           arena_printf(&r->scratch, "/v1/scheduler/wait?id=%" PRIu64 "&timeout=%d",
                                        waits, POLL_MS),
                           NULL, &reply);
        arena_reset(&r->scratch);
    }
    return status;
}

static int follow(struct run_command *r)
{
    struct client_reply reply;
    bool ended = false;
    int status = CMD_OK;

    while (!status && !ended) {
        client_set_wait(r->c, POLL_MS);
        status =
            client_try(r->c, "GET",
                       arena_printf(&r->scratch, "/v1/scheduler/wait?id=%" PRIu64 "&timeout=%d",
                                    r->end_id, POLL_MS),
                       NULL, &reply);
        if (!status)
            status = client_call(r->c, "GET",
                                 arena_printf(&r->scratch,
                                              "/v1/nodes?metadata=state,reason&new=%" PRIu64
                                              "&timeout=0",
                                              r->first_id - 1),
                                 NULL, &reply);
        if (status || !reply.json || reply.json->kind != JSON_LIST)
            break;
        ended = look(r, reply.json);
        client_forget(r->c);
        for (uint32_t i = 0; i < r->ended_count; i++)
            tell_end(r, r->ended[i]);
        r->ended_count = 0;
        if (r->failed && !r->keep_going && !r->stopped) {
            r->stopped = true;
            kill_nodes(r, true);
        }
        heed_interrupts(r);
        arena_reset(&r->scratch);
    }
    progress_clear(&r->progress);
    if (!status)
        status = follow_grown(r);
    if (status)
        return status;
    return r->interrupted && interrupts_count() > 1 ? 130 : r->failed ? CMD_FAILURE : CMD_OK;
}

static int run_graph(struct run_command *r)
{
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
        progress_say(&r->progress, "Nothing is left to do.");
        return CMD_OK;
    }
    interrupts_catch();
    status = follow(r);
    if (!status)
        progress_say(&r->progress, "%.*s: %" PRIu32 " nodes in %.1f s", (int)r->file.name.len,
                     r->file.name.p, count,
                     (double)(clock_wall_ms() - r->progress.started_ms) / 1000);
    return status;
}

static void allocate(struct run_command *r)
{
    size_t count = r->file.count + 1;

    r->ids = arena_zalloc(&r->arena, count * sizeof *r->ids);
    r->done = arena_zalloc(&r->arena, count * sizeof *r->done);
    r->times = arena_zalloc(&r->arena, count * sizeof *r->times);
    r->states = arena_zalloc(&r->arena, count * sizeof *r->states);
    r->reasons = arena_zalloc(&r->arena, count * sizeof *r->reasons);
    r->ended = arena_zalloc(&r->arena, count * sizeof *r->ended);
}

static int run_file(struct run_command *r, const char *path)
{
    struct err_info why;
    int status;

    if (file_read(&r->file, path, &why)) {
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
    status = run_graph(r);
    client_close(r->c);
    return status;
}

static struct run_command run;

static int run_run(const struct cmd_call *call)
{
    int status;

    run.client = call->client;
    status = run_file(&run, call->operands[0]);
    file_release(&run.file);
    arena_release(&run.arena);
    arena_release(&run.scratch);
    return status;
}

const struct cmd cmd_graph_run = {
    .name = "run",
    .summary = "run a graph of nodes from a file",
    .heading = "Graphs of commands",
    .operands = "FILE",
    .about = "Runs a graph of named nodes, described by a file in JSON or YAML ('-': standard\n"
             "input), and shows its progress. The exit status is 0 if nothing failed.",
    .options = CMD_OPTIONS(
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
    .client = CMD_REMOTE,
    .run = run_run,
};
