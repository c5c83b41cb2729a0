/* drover nodes, show, log, wait, kill, retry, agent. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/mem.h"
#include "cli/agent.h"
#include "cli/dag.h"
#include "cli/verb.h"
#include "dag/runner.h"

enum { FOLLOW_WAIT_MS = 10 * 1000 };

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* nodes */

/* People may write "waiting" for the state that the API calls incipient. */
static int parse_states(const struct option *o, const char *text, struct err_info *e)
{
    static char states[256];
    size_t len = 0;

    (void)e;
    states[0] = '\0';
    for (const char *at = text; *at && len < sizeof states;) {
        size_t word = strcspn(at, ",");
        bool waits = word == strlen("waiting") && !strncmp(at, "waiting", word);

        len += (size_t)snprintf(states + len, sizeof states - len, "%s%.*s", len ? "," : "",
                                waits ? (int)strlen("incipient") : (int)word,
                                waits ? "incipient" : at);
        at += word + (at[word] == ',');
    }
    *(const char **)o->target = states;
    return 0;
}

static void put_time(struct table *t, const struct json *n)
{
    int64_t from = json_int_of(n, "started"), to = json_int_of(n, "ended");
    char out[HUMAN_SIZE];

    table_cell(t, TERM_PLAIN, "%s",
               from ? human_span(out, (to ? to : clock_wall_ms()) - from) : "");
}

static int print_nodes(const struct cmd_call *call, const struct json *reply)
{
    static const struct table_column columns[] = {{"ID", true}, {"STATE"},      {"TYPE"},  {"NAME"},
                                                  {"PARENT"},   {"TIME", true}, {"REASON"}};
    struct table t;

    (void)call;
    if (!reply || reply->kind != JSON_LIST)
        return CMD_OK;
    table_init(&t, columns, COUNT(columns));
    json_each(n, reply) {
        struct str state = json_text_of(n, "state");

        table_text(&t, TERM_PLAIN, json_text_of(n, "id"));
        table_text(&t, verb_colour(state), verb_state_word(state));
        table_text(&t, TERM_PLAIN, json_text_of(n, "type"));
        table_text(&t, TERM_BOLD, json_text_of(n, "name"));
        table_text(&t, TERM_DIM, json_text_of(n, "parent"));
        put_time(&t, n);
        table_text(&t, TERM_PLAIN, json_text_of(n, "reason"));
    }
    table_print(&t, stdout);
    table_release(&t);
    return CMD_OK;
}

const struct cmd cmd_nodes = VERB_INIT(
    "nodes", "list nodes", NULL, "Lists the nodes of the DAG.",
    CMD_OPTIONS({"state", "STATES",
                 "Only those in these states, comma-separated: waiting, running, finished,\n"
                 "failed, killed, skipped.",
                 parse_states},
                {"type", "TYPES", "Only those of these types, comma-separated.", option_text}),
    "GET", "/v1/nodes", .print = print_nodes);

/* show */

static void print_line(const char *name, struct str text, enum term_colour colour)
{
    bool coloured = colour != TERM_PLAIN && term_has_colour(stdout);
    struct buf b = {0};

    if (!text.len)
        return;
    term_put_safe(&b, text, SIZE_MAX);
    printf("%-9s %s%.*s%s\n", name, coloured ? term_colour(colour) : "", STR_ARGS(b),
           coloured ? term_colour(TERM_PLAIN) : "");
    buf_release(&b);
}

static void print_time(const char *name, int64_t ms)
{
    char out[HUMAN_SIZE];

    if (ms)
        print_line(name, str_of(human_time(out, ms)), TERM_PLAIN);
}

static void print_times(const struct json *m)
{
    int64_t started = json_int_of(m, "started"), ended = json_int_of(m, "ended");
    char out[HUMAN_SIZE];

    print_time("started", started);
    print_time("ended", ended);
    if (started && ended)
        print_line("took", str_of(human_span(out, ended - started)), TERM_PLAIN);
    if (json_int_of(m, "attempts") > 1)
        printf("%-9s %" PRId64 "\n", "attempts", json_int_of(m, "attempts"));
}

static int print_node(const struct cmd_call *call, const struct json *node)
{
    static const char *const fields[] = {"id", "name", "type", "parent", "when", "group", "branch"};
    const struct json *m = json_get(node, "metadata"), *data = json_get(node, "data"),
                      *parents = json_get(m, "parents");
    struct str state = json_text_of(m, "state");

    (void)call;
    for (size_t i = 0; i < COUNT(fields); i++) {
        if (!strcmp(fields[i], "parent") && parents && parents->count > 1)
            print_line("parents", parents->raw, TERM_PLAIN);
        else
            print_line(fields[i], json_text_of(m, fields[i]), TERM_PLAIN);
    }
    print_line("state", verb_state_word(state), verb_colour(state));
    print_line("reason", json_text_of(m, "reason"), TERM_RED);
    print_line("why", json_text_of(node, "why"), TERM_YELLOW);
    print_times(m);
    if (data && data->kind == JSON_OBJECT)
        json_each(v, data) {
            char key[32];

            snprintf(key, sizeof key, "%.*s", STR_ARGS(v->key));
            print_line(key, v->kind == JSON_TEXT ? v->text : v->raw, TERM_PLAIN);
        }
    return CMD_OK;
}

const struct cmd cmd_show =
    VERB_INIT("show", "show a node, and why it waits", "ID",
              "Shows a node: what it is, its state, why it waits, and its data.", NULL, "GET",
              "/v1/nodes/{1}", .flags = VERB_NODE_IDS, .print = print_node);

/* log */

static bool follow;
static int stream;

static int run_log(const struct cmd_call *call)
{
    static const char *const keys[] = {"mixedout", "stdout", "stderr"};
    struct dag_output f = {.id = call->operands[0], .key = keys[stream], .to = stdout};
    struct client *c = client_open(&call->client);
    struct client_reply reply;
    bool more = true;
    int status;

    if (!c)
        return CMD_FAILURE;
    status = get_node(c, f.id, &reply);
    while (!status && more) {
        char before[24];

        memcpy(before, f.start, sizeof before);
        status = follow_output(c, &f, follow && f.pid[0] ? FOLLOW_WAIT_MS : 0, &more);
        if (!follow && !strcmp(before, f.start))
            break; /* that is all for now */
    }
    client_close(c);
    return status;
}

const struct cmd cmd_log =
    CMD_INIT("log", "print the output of a node", "ID", "Prints the output of a node.",
             CMD_OPTIONS({"follow", NULL, "Continue until the node has ended.", option_flag,
                          &follow, .letter = 'f'},
                         {"stream", "mixedout|stdout|stderr",
                          "Which output. Default: mixedout, both.", option_choice, &stream}),
             CMD_REMOTE, run_log);

/* wait, kill, retry */

static int print_states(const struct cmd_call *call, const struct json *list)
{
    int status = CMD_OK;

    if (!list || list->kind != JSON_LIST)
        return CMD_OK;
    json_each(n, list) {
        struct str id = json_text_of(n, "id"), state = json_text_of(n, "state"),
                   word = verb_state_word(state);

        printf("%.*s %.*s\n", STR_ARGS(id), STR_ARGS(word));
        if (!str_eq(state, STR("finished")) && !str_eq(state, STR("skipped")))
            status = CMD_FAILURE;
    }
    return call->cmd == &cmd_wait ? status : CMD_OK;
}

const struct cmd cmd_wait = VERB_INIT(
    "wait", "wait until nodes have ended", "ID...",
    "Waits until all of these nodes have ended, and prints their states. The exit status\n"
    "is 0 if every one is finished or skipped.",
    CMD_OPTIONS({"timeout", "TIME", "Wait at most this long. Default: forever.", option_span, NULL,
                 0, INT32_MAX}),
    "GET", "/v1/scheduler/wait?id={*}", .flags = VERB_WAITS | VERB_NODE_IDS, .print = print_states);

const struct cmd cmd_kill =
    VERB_INIT("kill", "kill nodes", "ID...",
              "Kills nodes: sends TERM to all their processes, and KILL after a grace period. A\n"
              "node that has not started never starts.",
              NULL, "PUT", "/v1/scheduler/kill?id={*}", .flags = VERB_WAITS | VERB_NODE_IDS,
              .print = print_states);

const struct cmd cmd_retry = VERB_INIT(
    "retry", "run nodes again that failed or were killed", "ID...",
    "Runs nodes again that failed or were killed. The nodes after them that were skipped\n"
    "wait again.",
    NULL, "PUT", "/v1/scheduler/retry?id={*}", .flags = VERB_WAITS | VERB_NODE_IDS,
    .print = print_states);

/* agent */

static const char *groups = "drover/run", *log_dir;
static int64_t jobs, lease_ms = AGENT_LEASE_MS, grace_ms = RUN_GRACE_MS;

static uint32_t split_groups(char *text, const char **list, uint32_t max)
{
    uint32_t count = 0;
    char *save;

    for (char *one = strtok_r(text, ",", &save); one && count < max;
         one = strtok_r(NULL, ",", &save))
        list[count++] = one;
    return count;
}

static int run_agent(const struct cmd_call *call)
{
    char *text = mem_dup(groups, strlen(groups));
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct client_config config;
    const char *list[100];
    struct err_info why;
    int status = CMD_FAILURE;

    if (log_dir && run_make_log_dir(log_dir, &why)) {
        client_error("%s", why.text);
    } else if (client_configure(&call->client, &config)) {
        struct agent_options o = {
            .server = config.server ? config.server : TRANSPORT_SERVER_DEFAULT,
            .token = config.token,
            .groups = list,
            .group_count = split_groups(text, list, COUNT(list)),
            .jobs = jobs ? (uint32_t)jobs : (uint32_t)(cores > 0 ? cores : 1),
            .lease_ms = lease_ms,
            .grace_ms = grace_ms,
            .log_dir = log_dir,
        };
        status = agent_main(&o);
    }
    free(text);
    return status;
}

const struct cmd cmd_agent = CMD_INIT(
    "agent", "run nodes on this machine for a server", NULL,
    "Runs nodes of the DAG on this machine, until it receives TERM or INT.",
    CMD_OPTIONS(
        {"group", "GROUPS", "Run nodes of these groups, comma-separated. Default: drover/run.",
         option_text, &groups},
        {"jobs", "N", "Run at most N commands at a time. Default: the number of cores.",
         option_number, &jobs, 1, 100000},
        {"lease", "TIME",
         "The server gives the nodes to others when it has not heard from this agent for\n"
         "this long. Default: 15s.",
         option_span, &lease_ms, 500, 3600 * 1000},
        {"grace", "TIME", "Time between TERM and KILL. Default: 5s.", option_span, &grace_ms, 0,
         3600 * 1000},
        {"log-dir", "DIR",
         "Keep the full output of commands in this directory, one file per run: NODE-TRY.log.",
         option_text, &log_dir}),
    CMD_REMOTE, run_agent);
