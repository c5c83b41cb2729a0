/*
 * drover run - submits the graph of a file as a run and follows it (run_follow.h); drover attach -
 * follows a run.
 *
 * The nodes are named GRAPH/NODE on the server. Earlier runs of the same graph are found by its
 * name: --resume leaves out what has finished in them.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "cli/dag.h"
#include "cli/graph_file.h"
#include "cli/run_follow.h"
#include "cli/term.h"

enum { EARLIER_MAX = 100, NAME_LEN_MAX = 100, FILE_LEN_MAX = 128 * 1024 * 1024 };

struct graph_run {
    bool dry_run, keep_going, resume, dot, mermaid, detach;
    const char *cwd, *profile;
    struct option_list env;
    struct follow_options follow;
    struct graph_file file;
    struct client c;
};

/* Submitting. */

/*
 * Earlier runs, the newest first: the latest node of a name says whether it has finished. Stops
 * when all names were found.
 */
static int read_earlier(struct graph_run *r)
{
    struct client_reply runs, nodes;
    const char *name = client_quote(&r->c, r->file.name);
    uint32_t found = 0;
    TRY(client_call(&r->c, &runs, NULL, "GET /v1/runs?name=%s&limit=%d", name, EARLIER_MAX));
    json_each(run, json_list(json_get(runs.json, "runs"))) {
        if (found == r->file.count)
            break;
        TRY(client_call(&r->c, &nodes, NULL, "GET /v1/nodes?run=%s&metadata=name,state",
                        client_quote(&r->c, json_text_of(run, "id"))));
        json_each(v, json_list(nodes.json)) {
            struct graph_node *n = graph_file_find(&r->file, json_text_of(v, "name"));
            if (!n || n->id)
                continue;
            n->id = arena_text(&r->file.arena, json_text_of(v, "id"));
            n->done = str_eq(json_text_of(v, "state"), STR("finished")) ? n->id : NULL;
            found++;
        }
    }
    arena_reset(&r->c.arena);
    return CMD_OK;
}

/* Sends the nodes that are not done. *ret_run: the id of the run; NULL: all are done. */
static int submit(struct graph_run *r, const char **ret_run)
{
    CLEANUP(buf_release) struct buf b = {0};
    struct client_reply reply;
    uint32_t count = 0;

    json_open(&b, '{');
    json_member_text(&b, "name", r->file.name);
    if (r->keep_going)
        json_member_bool(&b, "keep_going", true);
    json_member_open(&b, "nodes", '[');
    for (uint32_t i = 0; i < r->file.count; i++)
        if (!r->file.nodes[i].done) {
            graph_file_put_node(&b, &r->file, i);
            count++;
        }
    json_close(&b, ']');
    json_close(&b, '}');
    *ret_run = NULL;
    if (!count)
        return CMD_OK;
    TRY(client_call(&r->c, &reply, buf_text(&b), "POST /v1/runs"));
    *ret_run = arena_text(&r->file.arena, json_text_of(reply.json, "run"));
    if (!**ret_run)
        return client_error("%s sent an unexpected reply", transport_server(r->c.transport));
    arena_reset(&r->c.arena);
    return CMD_OK;
}

/* The command. */

/* "dir/build.yaml" is "build". A run has no ',' in its name, and NAME_LEN_MAX bytes. */
static const char *base_name(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');
    if (!strcmp(path, "-"))
        return "graph";
    size_t len = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    char *made = arena_text(a, (struct str){name, len < NAME_LEN_MAX ? len : NAME_LEN_MAX});
    for (char *p = made; *p; p++)
        if (*p == ',' || (unsigned char)*p < 0x20)
            *p = '-';
    return made;
}

/*
 * Where commands run: what was asked for, else the directory of the file, or the current one for
 * standard input. An absolute path. Exit status.
 */
static int find_cwd(struct graph_file *f, const char *path)
{
    const char *slash = strrchr(path, '/'), *dir = f->cwd ? f->cwd : ".";
    char found[PATH_MAX];
    if (!f->cwd && slash && strcmp(path, "-") != 0)
        dir =
            slash == path ? "/" : arena_text(&f->arena, (struct str){path, (size_t)(slash - path)});
    if (!realpath(dir, found))
        return client_error("%s: %s", dir, strerror(errno));
    if (!json_is_text(str_of(found)))
        return client_misuse("the directory %s is not UTF-8 text", found);
    f->cwd = arena_text(&f->arena, str_of(found));
    return CMD_OK;
}

/* --env NAME takes our value, if there is one; NAME=VALUE is it. */
static int read_env(struct graph_run *r)
{
    const char **list = arena_zalloc(&r->file.arena, (r->env.count + 1) * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < r->env.count; i++) {
        const char *text = r->env.items[i], *value = getenv(text);
        if (!*text || *text == '=')
            return client_misuse("--env: '%s' has no name", text);
        if (!strchr(text, '=') && value)
            text = arena_printf(&r->file.arena, "%s=%s", text, value);
        else if (!strchr(text, '='))
            continue;
        if (!json_is_text(str_of(text)))
            return client_misuse("--env: %s is not UTF-8 text", r->env.items[i]);
        list[count++] = text;
    }
    r->file.env = list;
    return CMD_OK;
}

int dag_read_graph(struct graph_file *f, const char *path)
{
    CLEANUP(buf_release) struct buf b = {0};
    TRY(find_cwd(f, path));
    if (client_read_file(path, FILE_LEN_MAX, &b))
        return CMD_USAGE;
    struct str text = arena_take(&f->arena, &b);
    bool is_yaml = text.p[strspn(text.p, " \t\r\n")] != '{';
    f->path = path;
    if (!graph_file_parse(f, text, is_yaml, base_name(&f->arena, path)))
        return CMD_OK;
    for (size_t at = 0; at < f->errors.len;) {
        const char *line = f->errors.p + at, *end = memchr(line, '\n', f->errors.len - at);
        size_t len = end ? (size_t)(end - line) : f->errors.len - at;
        client_error("%.*s", (int)len, line);
        at += len + 1;
    }
    return CMD_USAGE;
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

static void close_file(FILE **f)
{
    if (*f)
        fclose(*f);
}

static int run_graph(struct graph_run *r, const struct cmd_call *call)
{
    CLEANUP(close_file) FILE *trace = NULL;
    const char *id;
    if (r->profile && r->detach)
        return cmd_usage_error(call->cmd, "--profile and --detach exclude each other");
    r->file.cwd = r->cwd;
    TRY(read_env(r));
    TRY(dag_read_graph(&r->file, call->operands[0]));
    if (r->dot || r->mermaid || (r->dry_run && !r->resume))
        return print_file(r);
    TRY(client_open(&r->c, &call->client));
    if (r->resume)
        TRY(read_earlier(r));
    if (r->dry_run)
        return print_file(r);
    if (r->profile && !(trace = fopen(r->profile, "we"))) /* before anything runs */
        return client_error("%s: %s", r->profile, strerror(errno));
    if (!r->detach)
        run_follow_signals();
    TRY(submit(r, &id));
    if (!id) {
        term_say("Nothing left to do.");
        return CMD_OK;
    }
    if (r->detach) {
        puts(id);
        return CMD_OK;
    }
    if (!r->follow.quiet)
        term_say("run %s", id);
    int status = run_follow(&r->c, id, &r->follow);
    int profiled = trace ? run_profile(&r->c, id, r->profile, trace) : CMD_OK;
    return status ? status : profiled;
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
        {"cwd", "DIR",
         "Run commands in this directory, and relative ones of the file below it. Default: the\n"
         "directory of the file.",
         option_text, &run.cwd},
        {"env", "NAME[=VALUE]",
         "Give commands this variable, with its value here or the one that is given. May be\n"
         "given more than once. Default: a minimal environment.",
         option_list_add, &run.env},
        {"detach", NULL, "Print the id of the run and exit; the server goes on with it.",
         option_flag, &run.detach},
        {"profile", "FILE",
         "Write when each node ran to FILE, as trace events for Perfetto or chrome://tracing,\n"
         "and print the critical path.",
         option_text, &run.profile},
        FOLLOW_ON_TERM(run.follow.on_term),
        {"quiet", NULL, "Only print failures and the summary.", option_flag, &run.follow.quiet}),
    CMD_REMOTE, run_run, .heading = "Graphs of commands");

static struct follow_options attached;

static int run_attach(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    TRY(client_open(&c, &call->client));
    return run_follow(&c, call->operands[0], &attached);
}

const struct cmd cmd_attach =
    CMD_INIT("attach", "follow a run", "RUN",
             "Follows a run, by its id or by its name for the newest one, as `drover run` does.",
             CMD_OPTIONS(FOLLOW_ON_TERM(attached.on_term),
                         {"quiet", NULL, "Only print failures and the summary.", option_flag,
                          &attached.quiet}),
             CMD_REMOTE, run_attach);
