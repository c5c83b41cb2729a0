/*
 * drover run - submits the graph of a file and follows it to its end: polls the states of its
 * nodes, shows progress, prints the output of nodes that failed, and handles interrupts. Nodes that
 * commands of the graph have added below it count too.
 *
 * The nodes are named GRAPH/NODE on the server. Earlier runs of the same graph are found by these
 * names: --resume leaves out what has finished in one, and their times estimate how long is left.
 * One more node, a group named GRAPH that waits for all others, tells when the graph has ended.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/human.h"
#include "cli/dag.h"
#include "cli/graph_file.h"
#include "cli/term.h"

enum { POLL_MS = 150, OUTPUT_LINES = 25 };
enum { OUTPUT_LEN_MAX = 4 * 1024 * 1024, FILE_LEN_MAX = 128 * 1024 * 1024 };

struct graph_run {
    bool dry_run, keep_going, resume, dot, mermaid, quiet;
    struct graph_file file;
    struct client c;
    uint64_t first_id, end_id;
    bool stopped, interrupted, failed;

    /* Progress. */
    size_t columns; /* of the terminal on stderr; 0: it is none */
    bool coloured;
    bool has_line; /* the status line is shown */
    uint32_t total, ended, running;
    uint32_t jobs; /* the most nodes that have run at a time */
    int64_t started_ms;
    int64_t expected_ms; /* of all nodes that have not ended, from earlier runs; 0: unknown */
};

/*
 * Progress: on a terminal one status line that is overwritten, with counts, the latest node and the
 * time left; elsewhere plain lines.
 */

static void clear_line(struct graph_run *r)
{
    if (r->has_line)
        fputs("\r\033[K", stderr);
    r->has_line = false;
    fflush(stderr);
}

/* Writes the status line with the name of a node. */
static void show_line(struct graph_run *r, struct str name)
{
    CLEANUP(buf_release) struct buf b = {0};
    char span[HUMAN_SIZE];
    if (!r->columns)
        return;
    buf_printf(&b, "[%" PRIu32 "/%" PRIu32 "] ", r->ended, r->total);
    if (r->running)
        buf_printf(&b, "%" PRIu32 " running ", r->running);
    if (r->expected_ms) {
        int64_t left_ms = r->expected_ms / (r->jobs ? r->jobs : 1);
        buf_printf(&b, "~%s left ", human_span(span, (left_ms + 500) / 1000 * 1000));
    }
    if (b.len + 4 < r->columns)
        term_put_safe(&b, name, r->columns - 1 - b.len);
    fprintf(stderr, "\r\033[K%s", buf_text(&b));
    fflush(stderr);
    r->has_line = true;
}

/* Prints a line that stays, in place of the status line. */
__attribute__((format(printf, 3, 4))) static void say(struct graph_run *r, enum term_colour colour,
                                                      const char *fmt, ...)
{
    va_list ap;
    clear_line(r);
    va_start(ap, fmt);
    term_vsay(r->coloured && colour ? term_colour(colour) : "", fmt, ap);
    va_end(ap);
    fputs(r->coloured && colour ? term_colour(TERM_PLAIN) : "", stderr);
}

/* Submitting. */

/* Earlier runs. Nodes are listed in the order of their ids: for each name the newest one counts. */
static int read_earlier(struct graph_run *r)
{
    struct client_reply reply;
    TRY(client_call(&r->c, &reply, NULL, "GET /v1/nodes?metadata=name,state,started,ended"));
    json_each(v, json_list(reply.json)) {
        struct graph_node *n = graph_file_find(&r->file, json_text_of(v, "name"));
        bool finished = str_eq(json_text_of(v, "state"), STR("finished"));
        if (!n)
            continue;
        n->done = finished && r->resume ? arena_text(&r->file.arena, json_text_of(v, "id")) : NULL;
        if (finished && json_int_of(v, "started"))
            n->took_ms = json_int_of(v, "ended") - json_int_of(v, "started");
    }
    arena_reset(&r->c.arena);
    return CMD_OK;
}

/* Sends the nodes that are not done, and counts them. */
static int submit(struct graph_run *r)
{
    CLEANUP(buf_release) struct buf b = {0};
    struct client_reply reply;

    json_open(&b, '[');
    for (uint32_t i = 0; i < r->file.count; i++)
        if (!r->file.nodes[i].done) {
            graph_file_put_node(&b, &r->file, i);
            r->total++;
        }
    graph_file_put_end(&b, &r->file);
    json_close(&b, ']');
    if (!r->total)
        return CMD_OK;
    TRY(client_call(&r->c, &reply, buf_text(&b), "POST /v1/nodes"));
    const struct json *one = reply.json ? reply.json->first : NULL;
    for (uint32_t i = 0; i < r->file.count && one; i++)
        if (!r->file.nodes[i].done) {
            r->file.nodes[i].id = arena_text(&r->file.arena, json_text_of(one, "id"));
            one = one->next;
        }
    if (!one)
        return client_error("%s sent an unexpected reply", transport_server(r->c.transport));
    r->end_id = strtoull(arena_text(&r->file.arena, json_text_of(one, "id")), NULL, 10);
    r->first_id = r->end_id - r->total;
    arena_reset(&r->c.arena);
    return CMD_OK;
}

/* Reporting. */

static bool is_terminal(struct str state)
{
    return !str_eq(state, STR("incipient")) && !str_eq(state, STR("running"));
}

/* Prints the last lines of the output of a node. */
static void print_output(struct graph_run *r, const char *id)
{
    struct dag_output f = {.id = id, .key = "mixedout"};
    CLEANUP(mem_free) char *text = NULL;
    size_t len = 0, from, lines = 0;
    bool more = true;
    f.to = open_memstream(&text, &len);
    while (more && !follow_output(&r->c, &f, 0, &more) && len < OUTPUT_LEN_MAX)
        ;
    fclose(f.to);
    for (from = len; from && lines <= OUTPUT_LINES; from--)
        lines += text[from - 1] == '\n' && from != len;
    if (from) {
        from++;
        fputs("...\n", stderr);
    }
    term_write(stderr, (struct str){text + from, len - from}, ESCAPE_LINES);
    if (len > from && text[len - 1] != '\n')
        fputc('\n', stderr);
    fflush(stderr);
}

/* Reports once that a node has ended, with its output if it failed. */
static void report_end(struct graph_run *r, struct graph_node *n)
{
    bool failed = !strcmp(n->state, "failed"), killed = !strcmp(n->state, "killed");
    r->ended++;
    if (failed || killed) {
        r->failed = true;
        say(r, TERM_RED, "%s: %.*s: %s", failed ? "FAILED" : "KILLED", STR_ARGS(n->name),
            n->reason);
    } else if (!r->columns && !r->quiet) {
        say(r, TERM_PLAIN, "[%" PRIu32 "/%" PRIu32 "] %.*s %s", r->ended, r->total,
            STR_ARGS(n->name), n->state);
    }
    if (failed)
        print_output(r, n->id);
    n->reason = NULL;
}

/* Notes the state of a node, and in *last the node that the status line names. */
static void note_state(struct graph_run *r, struct graph_node *n, const struct json *v,
                       struct str *last)
{
    struct str state = json_text_of(v, "state");
    if (str_eq(state, STR("running"))) {
        r->running++;
        *last = n->name;
    }
    if (!is_terminal(state))
        r->expected_ms += n->took_ms;
    if (str_eq(state, str_of(n->state)))
        return;
    snprintf(n->state, sizeof n->state, "%.*s", STR_ARGS(state));
    if (is_terminal(state)) {
        n->reason = arena_text(&r->file.arena, json_text_of(v, "reason"));
        *last = last->len ? *last : n->name;
    }
}

/* Reads the states of all nodes and notes what is new. True: the graph has ended. */
static bool read_states(struct graph_run *r, const struct json *list)
{
    struct str last = {0};
    bool ended = false;
    uint32_t i = 0;
    r->expected_ms = r->running = 0;
    json_each(v, list) {
        while (i < r->file.count && !r->file.nodes[i].id)
            i++;
        if (i == r->file.count) {
            ended = is_terminal(json_text_of(v, "state"));
            break;
        }
        if (str_eq(json_text_of(v, "id"), str_of(r->file.nodes[i].id)))
            note_state(r, &r->file.nodes[i++], v, &last);
        /* else: added by somebody else in between; ours are in order */
    }
    if (r->running > r->jobs)
        r->jobs = r->running;
    show_line(r, last);
    return ended;
}

/* Killing. */

static int send_kill(struct graph_run *r, const char *ids)
{
    struct client_reply reply;
    return client_call(&r->c, &reply, NULL, "PUT /v1/scheduler/kill?id=%s", ids);
}

/* Kills the nodes that have not ended, or only those that wait for success. */
static void kill_nodes(struct graph_run *r, bool only_waiting)
{
    CLEANUP(buf_release) struct buf ids = {0};
    for (uint32_t i = 0; i < r->file.count; i++) {
        const struct graph_node *n = &r->file.nodes[i];
        bool waits = !n->state[0] || !strcmp(n->state, "incipient");
        struct str when = STR("success");
        json_get_text(n->spec, "when", &when, NULL);
        if (!n->id || (!waits && strcmp(n->state, "running") != 0) ||
            (only_waiting && (!waits || !str_eq(when, STR("success")))))
            continue;
        buf_printf(&ids, "%s%s", ids.len ? "," : "", n->id);
        if (ids.len > 4000) {
            send_kill(r, buf_text(&ids));
            ids.len = 0;
        }
    }
    if (ids.len)
        send_kill(r, buf_text(&ids));
}

static void check_interrupts(struct graph_run *r)
{
    if (interrupts && !r->interrupted) {
        r->interrupted = true;
        interrupts = 1; /* before the message: its reader may interrupt again at once */
        say(r, TERM_PLAIN, "Interrupted. The graph goes on; interrupt again to kill it.");
    } else if (interrupts > 1 && !r->stopped) {
        r->stopped = true;
        say(r, TERM_PLAIN, "Killing.");
        kill_nodes(r, false);
    }
}

/* Nodes that commands of the graph have added below it. */

static uint64_t id_of(struct graph_run *r, struct str text)
{
    return strtoull(arena_text(&r->c.arena, text), NULL, 10);
}

static int compare_ids(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static bool is_added(uint64_t id, const uint64_t *added, size_t count)
{
    return bsearch(&id, added, count, sizeof *added, compare_ids) != NULL;
}

static bool is_below(struct graph_run *r, const struct json *node, const uint64_t *added,
                     size_t count)
{
    json_each(parent, json_get(node, "parents")) {
        uint64_t id = id_of(r, parent->text);
        if ((id >= r->first_id && id <= r->end_id) || is_added(id, added, count))
            return true;
    }
    return false;
}

static void report_failure(struct graph_run *r, const struct json *node)
{
    struct str state = json_text_of(node, "state"), name = json_text_of(node, "name"),
               reason = json_text_of(node, "reason");
    bool failed = str_eq(state, STR("failed"));
    if (!failed && !str_eq(state, STR("killed")))
        return;
    r->failed = true;
    if (!name.len)
        name = json_text_of(node, "id");
    say(r, TERM_PLAIN, "%s: %.*s: %.*s", failed ? "FAILED" : "KILLED", STR_ARGS(name),
        STR_ARGS(reason));
}

/*
 * Reads the nodes that are newer than the graph, in the order of ids. Returns one that has not
 * ended, or 0 after reporting those that failed.
 */
static uint64_t read_added(struct graph_run *r, const struct json *list)
{
    uint64_t *added = arena_alloc(&r->c.arena, (list->count + 1) * sizeof *added);
    size_t count = 0;
    json_each(n, list) {
        if (!is_below(r, n, added, count))
            continue;
        added[count++] = id_of(r, json_text_of(n, "id"));
        if (!is_terminal(json_text_of(n, "state")))
            return added[count - 1];
    }
    json_each(n, list)
        if (is_added(id_of(r, json_text_of(n, "id")), added, count))
            report_failure(r, n);
    return 0;
}

/* Following. */

static int wait_for(struct graph_run *r, uint64_t id)
{
    struct client_reply reply;
    r->c.wait_ms = POLL_MS;
    return client_try(&r->c, &reply, NULL, "GET /v1/scheduler/wait?id=%" PRIu64 "&timeout=%d", id,
                      POLL_MS);
}

/* NULL: the server did not reply with a list. */
static int list_newer(struct graph_run *r, const char *metadata, uint64_t than,
                      const struct json **ret_list)
{
    struct client_reply reply;
    TRY(client_call(&r->c, &reply, NULL, "GET /v1/nodes?metadata=%s&new=%" PRIu64 "&timeout=0",
                    metadata, than));
    *ret_list = reply.json && reply.json->kind == JSON_LIST ? reply.json : NULL;
    return CMD_OK;
}

static int follow_added(struct graph_run *r)
{
    const struct json *list;
    char id[24];
    for (uint64_t waits = 1; waits; arena_reset(&r->c.arena)) {
        TRY(list_newer(r, "name,state,reason,parents", r->end_id, &list));
        if (!list)
            break;
        waits = read_added(r, list);
        check_interrupts(r);
        snprintf(id, sizeof id, "%" PRIu64, waits);
        if (waits && r->interrupted && r->stopped)
            TRY(send_kill(r, id));
        if (waits)
            TRY(wait_for(r, waits));
    }
    return CMD_OK;
}

static int follow_nodes(struct graph_run *r)
{
    const struct json *list;
    for (bool ended = false; !ended; arena_reset(&r->c.arena)) {
        TRY(wait_for(r, r->end_id));
        TRY(list_newer(r, "state,reason", r->first_id - 1, &list));
        if (!list)
            break;
        ended = read_states(r, list);
        for (struct graph_node *n = r->file.nodes; n < r->file.nodes + r->file.count; n++)
            if (n->reason)
                report_end(r, n);
        if (r->failed && !r->keep_going && !r->stopped) {
            r->stopped = true;
            kill_nodes(r, true);
        }
        check_interrupts(r);
    }
    return CMD_OK;
}

/* The command. */

/* "dir/build.yaml" is "build". */
static const char *base_name(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');
    if (!strcmp(path, "-"))
        return "graph";
    return arena_text(a,
                      (struct str){name, dot && dot > name ? (size_t)(dot - name) : strlen(name)});
}

int dag_read_graph(struct graph_file *f, const char *path)
{
    CLEANUP(buf_release) struct buf b = {0};
    struct err_info why;
    if (client_read_file(path, FILE_LEN_MAX, &b))
        return CMD_USAGE;
    struct str text = arena_take(&f->arena, &b);
    bool is_yaml = text.p[strspn(text.p, " \t\r\n")] != '{';
    if (graph_file_parse(f, text, is_yaml, base_name(&f->arena, path), &why))
        return client_misuse("%s: %s", path, why.text);
    return CMD_OK;
}

/* Prints what needs no server: a picture, or what would run. */
static int print_file(struct graph_run *r)
{
    CLEANUP(buf_release) struct buf b = {0};
    if (r->dot || r->mermaid)
        graph_file_put_picture(&b, &r->file, r->dot);
    else
        graph_file_put_plan(&b, &r->file);
    term_write(stdout, buf_str(&b), ESCAPE_LINES);
    return CMD_OK;
}

static int run_graph(struct graph_run *r, const struct cmd_call *call)
{
    char nodes[HUMAN_SIZE], span[HUMAN_SIZE];

    TRY(dag_read_graph(&r->file, call->operands[0]));
    if (r->dot || r->mermaid || (r->dry_run && !r->resume))
        return print_file(r);
    TRY(client_open(&r->c, &call->client));
    TRY(read_earlier(r));
    if (r->dry_run)
        return print_file(r);
    TRY(submit(r));
    r->columns = term_columns(stderr);
    r->coloured = term_has_colour(stderr);
    r->started_ms = clock_wall_ms();
    if (!r->total) {
        say(r, TERM_PLAIN, "Nothing left to do.");
        return CMD_OK;
    }
    interrupts_catch(SIGINT);
    int status = follow_nodes(r);
    clear_line(r);
    TRY(status);
    TRY(follow_added(r));
    if (r->interrupted && interrupts > 1)
        return 130;
    if (r->failed)
        return CMD_FAILURE;
    say(r, TERM_PLAIN, "%.*s: %s in %s", STR_ARGS(r->file.name),
        human_count(nodes, r->total, "node"), human_span(span, clock_wall_ms() - r->started_ms));
    return CMD_OK;
}

static struct graph_run run;

static int run_run(const struct cmd_call *call)
{
    int status = run_graph(&run, call);
    client_close(&run.c);
    graph_file_release(&run.file);
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
