/* drover nodes, show, log, wait, kill, retry, exec, agent. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/agent.h"
#include "cli/cmd.h"
#include "cli/dag_share.h"
#include "cli/table.h"
#include "dag/log_dir.h"

enum { FOLLOW_WAIT_MS = 10 * 1000 };

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* nodes */

static void put_span(struct table *t, const struct json *n)
{
    int64_t from = json_int_of(n, "started"), to = json_int_of(n, "ended");
    struct buf b = {0};

    if (from)
        term_put_span(&b, (to ? to : clock_wall_ms()) - from);
    table_text(t, TERM_PLAIN, (struct str){b.p, b.len});
    buf_release(&b);
}

static void print_nodes(const struct json *list)
{
    static const struct table_column columns[] = {
        {"ID", .right = true},   {"STATE"}, {"TYPE"}, {"NAME"}, {"PARENT"},
        {"TIME", .right = true}, {"REASON"}};
    struct table t;

    table_init(&t, columns, COUNT(columns));
    json_each(n, list) {
        struct str state = json_text_of(n, "state");

        table_text(&t, TERM_PLAIN, json_text_of(n, "id"));
        table_text(&t, state_colour(state), state);
        table_text(&t, TERM_PLAIN, json_text_of(n, "type"));
        table_text(&t, TERM_BOLD, json_text_of(n, "name"));
        table_text(&t, TERM_DIM, json_text_of(n, "parent"));
        put_span(&t, n);
        table_text(&t, TERM_PLAIN, json_text_of(n, "reason"));
    }
    table_print(&t, stdout);
    table_release(&t);
}

int cmd_nodes(int argc, char **argv)
{
    struct client_options o = {0};
    const char *state = NULL, *type = NULL, *path = "/v1/nodes?";
    const struct option options[] = {
        {"state", "STATES", "Only those in these states, with commas.", option_text, &state},
        {"type", "TYPES", "Only those of these types, with commas.", option_text, &type},
        CLIENT_OPTIONS(o),
    };
    const struct cmd cmd = {
        .name = "nodes",
        .about = "Lists the nodes of the DAG.",
        .options = options,
        .option_count = COUNT(options),
    };
    struct client_reply reply;
    struct client *c;
    int status;

    c = client_begin(&cmd, &o, &argc, argv, &status);
    if (!c)
        return status;
    if (state)
        path = arena_printf(client_arena(c), "%sstate=%s&", path, client_quote(c, str_of(state)));
    if (type)
        path = arena_printf(client_arena(c), "%stype=%s&", path, client_quote(c, str_of(type)));
    path = arena_text(client_arena(c), (struct str){path, strlen(path) - 1});
    status = client_call(c, "GET", path, NULL, &reply);
    if (!status && o.json)
        client_print_json(&reply);
    else if (!status && reply.json && reply.json->kind == JSON_LIST)
        print_nodes(reply.json);
    client_close(c);
    return status;
}

/* show */

static void print_line(const char *name, struct str text, enum term_colour colour)
{
    bool coloured = colour != TERM_PLAIN && term_has_colour(stdout);
    struct buf b = {0};

    if (!text.len)
        return;
    term_put_safe(&b, text, SIZE_MAX);
    printf("%-9s %s%.*s%s\n", name, coloured ? term_colour(colour) : "", (int)b.len, b.p,
           coloured ? term_colour(TERM_PLAIN) : "");
    buf_release(&b);
}

static void print_node(const struct json *node)
{
    static const char *const fields[] = {"id",   "name",  "type",   "parent",
                                         "when", "group", "branch", "state"};
    const struct json *m = json_get(node, "metadata"), *data = json_get(node, "data"),
                      *parents = json_get(m, "parents");

    for (size_t i = 0; i < COUNT(fields); i++) {
        if (!strcmp(fields[i], "parent") && parents && parents->count > 1)
            print_line("parents", parents->raw, TERM_PLAIN);
        else
            print_line(fields[i], json_text_of(m, fields[i]),
                       !strcmp(fields[i], "state") ? state_colour(json_text_of(m, "state"))
                                                   : TERM_PLAIN);
    }
    print_line("reason", json_text_of(m, "reason"), TERM_RED);
    print_line("why", json_text_of(node, "why"), TERM_YELLOW);
    if (json_int_of(m, "started") && json_int_of(m, "ended"))
        printf("%-9s %lld ms\n", "took",
               (long long)(json_int_of(m, "ended") - json_int_of(m, "started")));
    if (json_int_of(m, "attempts") > 1)
        printf("%-9s %lld\n", "attempts", (long long)json_int_of(m, "attempts"));
    if (data && data->kind == JSON_OBJECT)
        json_each(v, data) {
            char key[32];

            snprintf(key, sizeof key, "%.*s", (int)v->key.len, v->key.p);
            print_line(key, v->kind == JSON_TEXT ? v->text : v->raw, TERM_PLAIN);
        }
}

int cmd_show(int argc, char **argv)
{
    struct client_options o = {0};
    const struct option options[] = {CLIENT_OPTIONS(o)};
    const struct cmd cmd = {
        .name = "show",
        .operands = "ID",
        .operands_min = 1,
        .operands_max = 1,
        .about = "Shows a node: what it is, how it stands, why it waits, and its data.",
        .options = options,
        .option_count = COUNT(options),
    };
    struct client_reply reply;
    struct client *c;
    int status;

    c = client_begin(&cmd, &o, &argc, argv, &status);
    if (!c)
        return status;
    status = get_node(c, argv[1], &reply);
    if (!status && o.json)
        client_print_json(&reply);
    else if (!status)
        print_node(reply.json);
    client_close(c);
    return status;
}

/* log */

int cmd_log(int argc, char **argv)
{
    struct client_options o = {0};
    static const char *const keys[] = {"mixedout", "stdout", "stderr"};
    bool follow = false, more = true;
    int stream = 0;
    const struct option options[] = {
        {"follow", NULL, "Go on as long as it runs. -f does the same.", option_flag, &follow},
        {"stream", "mixedout|stdout|stderr", "Which output. Default: mixedout, both.",
         option_choice, &stream},
        CLIENT_SERVER_OPTIONS(o),
    };
    const struct cmd cmd = {
        .name = "log",
        .operands = "ID",
        .operands_min = 1,
        .operands_max = 2,
        .about = "Prints what a node has printed.",
        .options = options,
        .option_count = COUNT(options),
    };
    struct client_reply reply;
    struct following f;
    struct client *c;
    int status;

    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-f"))
            argv[i] = "--follow";
    c = client_begin(&cmd, &o, &argc, argv, &status);
    if (!c)
        return status;
    f = (struct following){.id = argv[1], .key = keys[stream], .to = stdout};
    status = get_node(c, argv[1], &reply);
    while (!status && more) {
        char before[24];

        memcpy(before, f.start, sizeof before);
        status = follow_output(c, &f, follow && f.pid[0] ? FOLLOW_WAIT_MS : 0, &more);
        if (!follow && !strcmp(before, f.start))
            break; /* all that there is for now */
    }
    client_close(c);
    return status;
}

/* wait, kill, retry */

static int print_states(const struct json *list)
{
    int status = CMD_OK;

    json_each(n, list) {
        struct str id = json_text_of(n, "id"), state = json_text_of(n, "state");

        printf("%.*s %.*s\n", (int)id.len, id.p, (int)state.len, state.p);
        if (!str_eq(state, STR("finished")) && !str_eq(state, STR("skipped")))
            status = CMD_FAILURE;
    }
    return status;
}

static int call_scheduler(const struct client_options *o, int argc, char **argv, const char *method,
                          const char *verb, int64_t timeout_ms, bool judge)
{
    struct client *c = client_open(o);
    struct client_reply reply;
    const char *ids, *path;
    int status = CMD_FAILURE, verdict;

    if (!c)
        return CMD_FAILURE;
    ids = join_ids(c, argc, argv);
    if (!ids) {
        client_close(c);
        return CMD_USAGE;
    }
    path = arena_printf(client_arena(c), "/v1/scheduler/%s?id=%s", verb, ids);
    if (timeout_ms >= 0)
        path = arena_printf(client_arena(c), "%s&timeout=%lld", path, (long long)timeout_ms);
    client_set_wait(c, timeout_ms >= 0 ? timeout_ms : INT64_C(1) << 40);
    status = client_call(c, method, path, NULL, &reply);
    if (!status && o->json) {
        client_print_json(&reply);
    } else if (!status && reply.json && reply.json->kind == JSON_LIST) {
        verdict = print_states(reply.json);
        status = judge ? verdict : CMD_OK;
    }
    client_close(c);
    return status;
}

int cmd_wait(int argc, char **argv)
{
    struct client_options o = {0};
    int64_t timeout_ms = -1;
    const struct option options[] = {
        {"timeout", "TIME", "Wait no longer than this (500ms, 30s, 5m).", option_span, &timeout_ms,
         0, INT32_MAX},
        CLIENT_OPTIONS(o),
    };
    const struct cmd cmd = {
        .name = "wait",
        .operands = "ID...",
        .operands_min = 1,
        .operands_max = 1000,
        .about = "Waits until all of these nodes have ended, and prints their states. The exit\n"
                 "status is 0 when all have finished or were skipped.",
        .options = options,
        .option_count = COUNT(options),
    };
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    return call_scheduler(&o, argc, argv, "GET", "wait", timeout_ms, true);
}

int cmd_kill(int argc, char **argv)
{
    struct client_options o = {0};
    const struct option options[] = {CLIENT_OPTIONS(o)};
    const struct cmd cmd = {
        .name = "kill",
        .operands = "ID...",
        .operands_min = 1,
        .operands_max = 1000,
        .about =
            "Kills nodes: TERM to all that they started, KILL after a while. One that has not\n"
            "started never will.",
        .options = options,
        .option_count = COUNT(options),
    };
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    return call_scheduler(&o, argc, argv, "PUT", "kill", -1, false);
}

int cmd_retry(int argc, char **argv)
{
    struct client_options o = {0};
    const struct option options[] = {CLIENT_OPTIONS(o)};
    const struct cmd cmd = {
        .name = "retry",
        .operands = "ID...",
        .operands_min = 1,
        .operands_max = 1000,
        .about = "Runs nodes again that failed or were killed. Those after them that were skipped\n"
                 "wait again.",
        .options = options,
        .option_count = COUNT(options),
    };
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    return call_scheduler(&o, argc, argv, "PUT", "retry", -1, false);
}

/* exec */

static void put_exec(struct buf *b, int argc, char **argv, const char *group, const char *cwd,
                     int64_t timeout_ms)
{
    char here[4096];

    json_open(b, '[');
    json_open(b, '{');
    json_key(b, "metadata");
    json_open(b, '{');
    json_key(b, "type");
    json_put_text(b, STR("command"));
    if (group) {
        json_key(b, "group");
        json_put_text(b, str_of(group));
    }
    json_close(b, '}');
    json_key(b, "data");
    json_open(b, '{');
    json_key(b, "command");
    json_put_text(b, str_of(argv[1]));
    json_key(b, "args");
    json_open(b, '[');
    for (int i = 2; i < argc; i++)
        json_put_text(b, str_of(argv[i]));
    json_close(b, ']');
    if (cwd || getcwd(here, sizeof here)) {
        json_key(b, "cwd");
        json_put_text(b, str_of(cwd ? cwd : here));
    }
    if (timeout_ms) {
        json_key(b, "timeout");
        json_put_int(b, timeout_ms);
    }
    json_close(b, '}');
    json_close(b, '}');
    json_close(b, ']');
}

/* Both outputs, until it has ended; then its exit status. */
/* The first interrupt kills the node, whose end is still waited for; the second leaves it alone. */
static void heed_interrupts(struct client *c, const char *id, bool *killed)
{
    struct client_reply reply;

    if (!interrupts_count() || *killed)
        return;
    *killed = true;
    signal(SIGINT, SIG_DFL);
    client_error("interrupted: killing node %s; again: do not wait for it", id);
    client_call(c, "PUT", arena_printf(client_arena(c), "/v1/scheduler/kill?id=%s", id), NULL,
                &reply);
}

static int follow_exec(struct client *c, const char *id)
{
    struct following out = {.id = id, .key = "stdout", .to = stdout};
    struct following err = {.id = id, .key = "stderr", .to = stderr};
    bool more_out = true, more_err = true, killed = false;
    struct client_reply reply;
    const struct json *result;
    struct str state;
    int status = CMD_OK;

    interrupts_catch();
    while (!status && (more_out || more_err)) {
        heed_interrupts(c, id, &killed);
        if (more_out)
            status = follow_output(c, &out, out.pid[0] ? 200 : 0, &more_out);
        if (more_err && !status)
            status = follow_output(c, &err, 0, &more_err);
    }
    client_set_wait(c, INT64_C(1) << 40);
    if (!status)
        status = client_call(
            c, "GET", arena_printf(client_arena(c), "/v1/scheduler/wait?id=%s", id), NULL, &reply);
    if (!status)
        status = get_node(c, id, &reply);
    if (status)
        return status;
    state = json_text_of(json_get(reply.json, "metadata"), "state");
    result = json_get(json_get(reply.json, "data"), "result");
    if (!str_eq(state, STR("finished"))) {
        struct str reason = json_text_of(json_get(reply.json, "metadata"), "reason");

        client_error("node %s %.*s: %.*s", id, (int)state.len, state.p, (int)reason.len, reason.p);
    }
    if (killed)
        return 130;
    return result && result->kind == JSON_INT && (result->number || str_eq(state, STR("finished")))
               ? (int)result->number
               : CMD_FAILURE;
}

int cmd_exec(int argc, char **argv)
{
    struct client_options o = {0};
    const char *group = NULL, *cwd = NULL;
    int64_t timeout_ms = 0;
    const struct option options[] = {
        {"group", "GROUP", "For the agents of this group. Default: drover/run.", option_text,
         &group},
        {"cwd", "DIR", "Run it there. Default: here.", option_text, &cwd},
        {"timeout", "TIME", "Kill it after this time (500ms, 30s, 5m).", option_span, &timeout_ms,
         1, INT32_MAX},
        CLIENT_SERVER_OPTIONS(o),
    };
    const struct cmd cmd = {
        .name = "exec",
        .operands = "-- COMMAND [ARGUMENT]...",
        .operands_min = 1,
        .operands_max = 10000,
        .about =
            "Runs one command as a node, prints what it prints, and ends with its exit status.\n"
            "An interrupt (Ctrl-C) kills the node.",
        .options = options,
        .option_count = COUNT(options),
    };
    struct client_reply reply;
    struct buf body = {0};
    struct client *c;
    struct str id;
    int status;

    c = client_begin(&cmd, &o, &argc, argv, &status);
    if (!c)
        return status;
    put_exec(&body, argc, argv, group, cwd, timeout_ms);
    status = client_call(c, "POST", "/v1/nodes", buf_text(&body), &reply);
    buf_release(&body);
    if (!status) {
        char text[24];

        id = json_text_of(reply.json ? reply.json->first : NULL, "id");
        snprintf(text, sizeof text, "%.*s", (int)id.len, id.p);
        status = follow_exec(c, text);
    }
    client_close(c);
    return status;
}

/* agent */

static uint32_t split_groups(char *text, const char **groups, uint32_t max)
{
    uint32_t count = 0;
    char *save;

    for (char *one = strtok_r(text, ",", &save); one && count < max;
         one = strtok_r(NULL, ",", &save))
        groups[count++] = one;
    return count;
}

int cmd_agent(int argc, char **argv)
{
    struct client_options o = {0};
    const char *group = "drover/run", *log_dir = NULL;
    int64_t jobs = sysconf(_SC_NPROCESSORS_ONLN), lease_ms = AGENT_LEASE_MS,
            grace_ms = RUN_GRACE_MS;
    const struct option options[] = {
        {"group", "GROUPS", "Take nodes of these groups, with commas. Default: drover/run.",
         option_text, &group},
        {"jobs", "N", "Run that many commands at once. Default: the number of cores.",
         option_number, &jobs, 1, 100000},
        {"lease", "TIME",
         "When the server does not hear of us for this long, it takes the nodes back.\n"
         "Default: 15s.",
         option_span, &lease_ms, 500, 3600 * 1000},
        {"grace", "TIME", "Time between TERM and KILL. Default: 5s.", option_span, &grace_ms, 0,
         3600 * 1000},
        {"log-dir", "DIR", "Keep all that commands print here, one file a run: NODE-TRY.log.",
         option_text, &log_dir},
        CLIENT_SERVER_OPTIONS(o),
    };
    const struct cmd cmd = {
        .name = "agent",
        .about = "Runs nodes of the DAG on this machine, until TERM or INT.",
        .options = options,
        .option_count = COUNT(options),
    };
    struct client_config config;
    const char *groups[100];
    struct agent_options ao;
    struct err_info why;
    char *text;
    int status;

    if (!cmd_parse(&cmd, &argc, argv, &status))
        return status;
    if (!client_configure(&o, &config))
        return CMD_FAILURE;
    if (log_dir && log_dir_make(log_dir, &why)) {
        client_error("%s", why.text);
        return CMD_FAILURE;
    }
    text = mem_dup(group, strlen(group));
    ao = (struct agent_options){
        .server = config.server ? config.server : TRANSPORT_SERVER_DEFAULT,
        .token = config.token,
        .groups = groups,
        .group_count = split_groups(text, groups, COUNT(groups)),
        .jobs = (uint32_t)jobs,
        .lease_ms = lease_ms,
        .grace_ms = grace_ms,
        .log_dir = log_dir,
    };
    status = agent_main(&ao);
    free(text);
    return status;
}
