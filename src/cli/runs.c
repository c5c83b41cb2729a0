/* drover runs, show, edit, rm, prune. */
#include <string.h>

#include "base/clock.h"
#include "base/human.h"
#include "cli/dag.h"
#include "cli/verb.h"

bool dag_names_run(const char *operand)
{
    return operand[strspn(operand, "0123456789")] && !strchr(operand, '/');
}

/* runs */

static const struct verb_column RUNS[] = {
    {{"RUN"}, "id", .colour = TERM_BOLD},
    {{"STATE"}, "state", VERB_STATE},
    {{"NODES", true}, "nodes", VERB_NUMBER},
    {{"FINISHED", true}, "states.finished", VERB_NUMBER},
    {{"FAILED", true}, "states.failed", VERB_FAILURES},
    {{"ADDED"}, "added", VERB_TIME},
    {{"ENDED"}, "ended", VERB_TIME},
    {{0}},
};

/* A time of a run: so long ago. It is sent as ms since 1970. */
static int parse_ago(const struct option *o, const char *text, struct err_info *e)
{
    static char made[2][24];
    int64_t ms = 0;
    char *to = made[!strcmp(o->name, "until")];
    TRY(option_span(&(struct option){.name = o->name, .target = &ms, .max = INT64_C(1) << 40}, text,
                    e));
    snprintf(to, sizeof made[0], "%lld", (long long)(clock_wall_ms() - ms));
    *(const char **)o->target = to;
    return 0;
}

const struct cmd cmd_runs = VERB_INIT(
    "runs", "list runs", NULL, "Lists runs, the newest first.",
    CMD_OPTIONS(
        {"name", "NAME", "Only runs of this name.", option_text},
        {"state", "STATES",
         "Only those in these states, comma-separated: running, finished, failed,\n"
         "killed.",
         option_text},
        {"since", "TIME", "Only those that were added within this time: 2h, 7d.", parse_ago},
        {"until", "TIME", "Only those that were added so long ago, or earlier.", parse_ago},
        {"limit", "N", "At most N runs; 0: all. Default: 50.", option_number, NULL, 0, INT32_MAX},
        {"before", "NUMBER", "Go on where an earlier list ended (`next`).", option_text}),
    "GET", "/v1/runs", .list = "runs", .page = {"before", 1000, 50}, .columns = RUNS);

/* show */

static int show_run(struct client *c, const struct cmd_call *call)
{
    struct client_reply run, nodes;
    const char *name = client_quote(c, str_of(call->operands[0]));
    TRY(client_call(c, &run, NULL, "GET /v1/runs/%s", name));
    if (call->client.json) {
        client_print_json(&run);
        return CMD_OK;
    }
    TRY(client_call(c, &nodes, NULL, "GET /v1/nodes?run=%s",
                    client_quote(c, json_text_of(run.json, "id"))));
    verb_print_columns(
        &(struct json){.kind = JSON_LIST, .count = 1, .first = (struct json *)run.json}, RUNS);
    puts("");
    dag_print_nodes(nodes.json);
    return CMD_OK;
}

static int run_show(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    struct client_reply reply;
    TRY(client_open(&c, &call->client));
    if (dag_names_run(call->operands[0]))
        return show_run(&c, call);
    TRY(client_call(&c, &reply, NULL, "GET /v1/nodes/%s",
                    client_quote(&c, str_of(call->operands[0]))));
    return verb_print(call, &reply, dag_print_node);
}

const struct cmd cmd_show =
    CMD_INIT("show", "show a node, and why it waits, or a run", "NODE|RUN",
             "Shows a node: what it is, its state, why it waits, and its data; or a run and its\n"
             "nodes.",
             NULL, CMD_JSON, run_show);

/* edit */

static int print_edited(const struct json *metadata)
{
    dag_print_nodes(
        &(struct json){.kind = JSON_LIST, .count = 1, .first = (struct json *)metadata});
    return CMD_OK;
}

const struct cmd cmd_edit = VERB_INIT(
    "edit", "change a node that has not started", "NODE",
    "Changes parts of a node that has not started. What is not given stays.",
    CMD_OPTIONS({"parent", "NODE",
                 "Wait for this node, and no longer for those before. May be given more than\n"
                 "once; root: for none.",
                 option_list_add},
                {"when", "success|failure|always", "How they have to end.", option_choice},
                {"priority", "N", "Nodes with a smaller one start first.", option_number, NULL,
                 INT32_MIN, INT32_MAX},
                {"group", "GROUP", "The group of agents that runs it.", option_text},
                {"name", "NAME", "Its name.", option_text}),
    "PATCH", "/v1/nodes/{1}", .print = print_edited);

/* rm */

static bool chain;

static int remove_one(struct client *c, const struct cmd_call *call, const char *operand)
{
    struct client_reply reply;
    const char *name = client_quote(c, str_of(operand));
    if (dag_names_run(operand))
        TRY(client_call(c, &reply, NULL, "DELETE /v1/runs/%s", name));
    else
        TRY(client_call(c, &reply, NULL, "DELETE /v1/nodes/%s%s", name,
                        chain ? "?chain=true" : ""));
    return verb_print(call, &reply, NULL);
}

static int run_rm(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    int worst = CMD_OK;
    TRY(client_open(&c, &call->client));
    for (int i = 0; i < call->count; i++) {
        int status = remove_one(&c, call, call->operands[i]);
        worst = status > worst ? status : worst;
    }
    return worst;
}

const struct cmd cmd_rm = CMD_INIT(
    "rm", "remove runs or nodes that have ended", "NODE|RUN...",
    "Removes runs that have ended, with their nodes and output; or nodes that do not run and that\n"
    "no other node waits for.",
    CMD_OPTIONS(
        {"chain", NULL, "With a node, remove all nodes below it too.", option_flag, &chain}),
    CMD_JSON, run_rm);

/* prune */

static int print_removed(const struct json *reply)
{
    char count[HUMAN_SIZE];
    printf("removed %s\n", human_count(count, (uint64_t)json_int_of(reply, "removed"), "run"));
    return CMD_OK;
}

const struct cmd cmd_prune = VERB_INIT(
    "prune", "remove old runs", NULL,
    "Removes runs that have ended, with their nodes and output, except the newest ones. Needs\n"
    "--keep or --older.",
    CMD_OPTIONS({"keep", "N", "Keep the N newest of them.", option_number, NULL, 0, INT32_MAX},
                {"older", "TIME", "Remove those that ended so long ago: 7d.", option_span, NULL, 0,
                 INT64_C(1) << 40}),
    "POST", "/v1/runs/prune", .print = print_removed);
