/*
 * The routes of the DAG, with their fields and replies; and what the handlers share: calls that are
 * answered later, parts of requests and replies.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "dag/service.h"
#include "server/leader.h"

enum { PAGE_LEN_DEFAULT = 256 * 1024, PAGE_LEN_MAX = 1024 * 1024, LIST_MAX = 100000 };
enum { ID_LEN_MAX = RUN_ID_LEN_MAX + 1 + NODE_NAME_LEN_MAX };

/* clang-format off */
#define IN struct dag_in
#define NODE FIELD_TEXT(IN_PATH, IN, id, "id", 1, ID_LEN_MAX, "The node: its id, or RUN/NAME")
#define NODES \
    FIELD_TEXTS(IN_QUERY | REQUIRED, IN, ids, id_count, "id", 1, LIST_MAX, \
                "The nodes (ids, or RUN/NAME) and runs, comma-separated")
#define RUN(where, help) FIELD_TEXT(where, IN, run, "run", 1, ID_LEN_MAX, help)
#define CLIENT(where) \
    FIELD_INT(where, IN, clientid, "clientid", 1, INT64_MAX, "The agent's client id")
#define START FIELD_TEXT(IN_QUERY, IN, start, "start", 0, 24, "`next` of the last page or piece")
#define PID FIELD_TEXT(IN_QUERY, IN, pid, "pid", 0, 80, "`pid` of the last page or piece")
#define LIMIT(min, max, what, ...) \
    FIELD_INT(IN_QUERY, IN, limit, "limit", min, max, what, __VA_ARGS__)
#define WAIT(what) FIELD_INT(IN_QUERY, IN, wait, "wait", 0, INT64_MAX, what)
#define KEY FIELD_TEXT(IN_PATH, IN, key, "key", 1, NODE_KEY_LEN_MAX, "The data key")
#define WORDS(member, count, name, help) \
    FIELD_TEXTS(IN_QUERY, IN, member, count, name, 0, 16, help)
#define OUTPUT(i, name) \
    FIELD_TEXT(IN_BODY, IN, outputs[i], name, 0, INT64_MAX, "Output that was not sent in pieces")
/* clang-format on */

static const struct route ROUTES[] = {
    {METHOD_GET, "/v1/nodes", http_get_nodes, ROLE_READ, "List nodes", "listNodes", .reply = "any",
     .errors = "410 The listing is no longer valid\n" ROUTE_LEADER,
     ROUTE_IN(IN, WORDS(states, state_count, "state", "Only these states, comma-separated"),
              WORDS(types, type_count, "type", "Only these types, comma-separated"),
              WORDS(metadata, metadata_count, "metadata", "Only these fields, comma-separated"),
              FIELD_TEXT(IN_QUERY, IN, new_id, "new", 0, 24,
                         "Only nodes with a higher id; waits until there is one"),
              FIELD_INT(IN_QUERY, IN, timeout, "timeout", 0, INT64_MAX,
                        "How long `new` waits, in ms", .preset = 3600 * 1000),
              RUN(IN_QUERY, "Only the nodes of this run"),
              LIMIT(1, LIST_MAX, "Nodes per page; the reply is then an object with pagination"),
              START, PID)},
    {METHOD_POST, "/v1/nodes", http_post_nodes, ROLE_RUN | ROUTE_LARGE, "Add nodes, all or none",
     "addNodes", .reply = "[(id:text)]", .errors = ROUTE_LEADER,
     .example = "[{\"metadata\": {\"type\": \"command\"}, \"data\": {\"command\": \"true\"}}]",
     ROUTE_IN(IN, FIELD_JSON(IN_BODY | REQUIRED, IN, nodes, "", "[NewNode]", "The nodes"))},
    {METHOD_GET, "/v1/nodes/{id}", http_get_node, ROLE_READ,
     "Show a node, its data, and why it waits", "getNode",
     .reply = "metadata:Node data:object why?:text", .errors = "404 No such node\n" ROUTE_LEADER,
     ROUTE_IN(IN, NODE)},
    {METHOD_PATCH, "/v1/nodes/{id}", http_patch_node, ROLE_RUN,
     "Change parts of a node that has not started", "changeNode", .reply = "Node",
     .errors = "404 No such node\n409 It has started, or is about to\n" ROUTE_LEADER,
     .example = "{\"parents\": [\"3\", \"5\"], \"priority\": 2}",
     ROUTE_IN(IN, NODE,
              FIELD_TEXTS(IN_BODY, IN, parents, parent_count, "parents", 0, LIST_MAX,
                          "Its parents from now on: ids, or RUN/NAME; none: it is at the root"),
              FIELD_CHOICE(IN_BODY, IN, when, "when", "success|failure|always",
                           "How they have to end", .preset = -1),
              FIELD_INT(IN_BODY, IN, priority, "priority", INT32_MIN, INT32_MAX, "Its priority",
                        .preset = INT64_MIN),
              FIELD_TEXT(IN_BODY, IN, group, "group", 1, NODE_NAME_LEN_MAX,
                         "The group of agents that runs it"),
              FIELD_TEXT(IN_BODY, IN, name, "name", 0, NODE_NAME_LEN_MAX, "Its name"))},
    {METHOD_DELETE, "/v1/nodes/{id}", http_delete_node, ROLE_RUN, "Remove a node that does not run",
     "deleteNode", .reply = "[(id:text)]",
     .errors = "404 No such node\n409 It runs, or others wait for it\n" ROUTE_LEADER,
     ROUTE_IN(IN, NODE, FIELD_BOOL(IN_QUERY, IN, chain, "chain", "Remove all nodes below it too"))},
    {METHOD_GET, "/v1/nodes/{id}/data", http_get_keys, ROLE_READ, "List the data keys of a node",
     "listKeys", .reply = "keys:[text] pagination?:Page",
     .errors = "404 No such node\n410 The listing is no longer valid\n" ROUTE_LEADER,
     ROUTE_IN(IN, NODE, LIMIT(1, LIST_MAX, "Keys per page", .preset = LIST_MAX), START, PID)},
    {METHOD_GET, "/v1/nodes/{id}/data/{key}", http_get_value, ROLE_READ,
     "Read the value of a data key", "getValue", .reply = "key:text data:any pagination?:Page",
     .errors = "404 No such node or key\n410 The value was replaced\n" ROUTE_LEADER,
     ROUTE_IN(IN, NODE, KEY,
              LIMIT(4, PAGE_LEN_MAX, "Bytes of text per page", .preset = PAGE_LEN_DEFAULT), START,
              PID, WAIT("How long to wait for more output, in ms"))},
    {METHOD_PUT, "/v1/nodes/{id}/data/{key}", http_put_value, ROLE_RUN,
     "Replace the value of a data key, or add a piece of text", "putValue",
     .reply = "start?:text pagination:Page",
     .errors = "404 No such node\n409 The key is set, or cannot be changed now\n"
               "410 The value was replaced\n" ROUTE_LEADER,
     .example = "{\"value\": \"some text\"}",
     ROUTE_IN(IN, NODE, KEY, FIELD_JSON(IN_BODY | REQUIRED, IN, value, "value", "any", "The value"),
              START, PID, CLIENT(IN_QUERY),
              FIELD_INT(IN_QUERY, IN, attempt, "attempt", 0, INT64_MAX,
                        "The attempt that the agent runs"))},
    {METHOD_GET, "/v1/runs", http_get_runs, ROLE_READ, "List runs, the newest first", "listRuns",
     .reply = "runs:[Run] next?:text", .errors = ROUTE_LEADER,
     ROUTE_IN(IN, FIELD_TEXT(IN_QUERY, IN, name, "name", 1, RUN_NAME_LEN_MAX, "Only this name"),
              WORDS(states, state_count, "state",
                    "Only these states, comma-separated: running, finished, failed, killed"),
              FIELD_INT(IN_QUERY, IN, since, "since", 0, INT64_MAX,
                        "Only those added at this time or later, in ms"),
              FIELD_INT(IN_QUERY, IN, until, "until", 0, INT64_MAX,
                        "Only those added at this time or before, in ms", .preset = INT64_MAX),
              LIMIT(1, LIST_MAX, "Runs per page", .preset = 1000),
              FIELD_TEXT(IN_QUERY, IN, before, "before", 1, 24, "`next` of the last page"))},
    {METHOD_POST, "/v1/runs", http_post_runs, ROLE_RUN | ROUTE_LARGE,
     "Add nodes as a run, all or none", "addRun", .reply = "run:text nodes:[(id:text)]",
     .errors = ROUTE_LEADER,
     .example = "{\"name\": \"build\", \"nodes\": [{\"metadata\": {\"type\": \"command\"}, "
                "\"data\": {\"command\": \"true\"}}]}",
     ROUTE_IN(IN, FIELD_TEXT(IN_BODY | REQUIRED, IN, name, "name", 1, RUN_NAME_LEN_MAX, "Its name"),
              FIELD_JSON(IN_BODY | REQUIRED, IN, nodes, "nodes", "[NewNode]", "The nodes"),
              FIELD_BOOL(IN_BODY, IN, keep_going, "keep_going",
                         "After a failure, start the nodes that do not depend on it"))},
    {METHOD_GET, "/v1/runs/{run}", http_get_run, ROLE_READ, "Show a run", "getRun", .reply = "Run",
     .errors = "404 No such run\n" ROUTE_LEADER,
     ROUTE_IN(IN, RUN(IN_PATH, "The run: its id, or its name for the newest"))},
    {METHOD_DELETE, "/v1/runs/{run}", http_delete_run, ROLE_RUN,
     "Remove a run that has ended, with its nodes", "deleteRun", .reply = "run:text",
     .errors = "404 No such run\n409 It has not ended, or others wait for it\n" ROUTE_LEADER,
     ROUTE_IN(IN, RUN(IN_PATH, "The run: its id, or its name for the newest"))},
    {METHOD_POST, "/v1/runs/prune", http_post_prune, ROLE_RUN, "Remove old runs that have ended",
     "pruneRuns", .reply = "removed:int", .errors = ROUTE_LEADER, .example = "{\"keep\": 100}",
     ROUTE_IN(IN,
              FIELD_INT(IN_BODY, IN, keep, "keep", 0, INT32_MAX,
                        "Keep this many ended runs, the newest", .preset = -1),
              FIELD_INT(IN_BODY, IN, older, "older", 0, INT64_C(1) << 40,
                        "Remove those that ended so many ms ago", .preset = -1))},
    {METHOD_GET, "/v1/scheduler", http_get_scheduler, ROLE_READ, "Count the nodes in each state",
     "getScheduler", .reply = "states:{int} jobs:int", .errors = ROUTE_LEADER},
    {METHOD_PUT, "/v1/scheduler/kill", http_put_kill, ROLE_RUN, "Kill nodes", "killNodes",
     .reply = "[NodeState]", .errors = "404 No such node or run\n" ROUTE_LEADER,
     ROUTE_IN(IN, NODES)},
    {METHOD_PUT, "/v1/scheduler/retry", http_put_retry, ROLE_RUN,
     "Run failed and killed nodes again", "retryNodes", .reply = "[NodeState]",
     .errors = "404 No such node\n409 A node has not failed\n" ROUTE_LEADER, ROUTE_IN(IN, NODES)},
    {METHOD_GET, "/v1/scheduler/wait", http_get_wait, ROLE_READ, "Wait until nodes have ended",
     "waitForNodes", .reply = "[NodeState]", .errors = "404 No such node\n" ROUTE_LEADER,
     ROUTE_IN(IN, NODES,
              FIELD_INT(IN_QUERY, IN, timeout, "timeout", 0, INT64_MAX,
                        "Answer after so many ms at the latest", .preset = -1))},
    {METHOD_POST, "/v1/nodes/{id}/start", http_post_start, ROLE_RUN,
     "Start a node whose task the agent has claimed", "startNode",
     .reply = "node:text attempt:int store:int parent:text password?:text argv:[text] env:[text] "
              "user?:text limits:(cpu?:int memory?:int files?:int processes?:int) cwd?:text "
              "timeout:int",
     .errors = "404 No such node\n409 The agent has not claimed it\n" ROUTE_LEADER,
     .example = "{\"clientid\": 1643, \"task\": 14}",
     ROUTE_IN(IN, NODE, CLIENT(IN_BODY | REQUIRED),
              FIELD_INT(IN_BODY | REQUIRED, IN, task, "task", 1, INT64_MAX, "The claimed task"))},
    {METHOD_GET, "/v1/agents", http_get_agents, ROLE_READ, "List agents", "listAgents",
     .reply = "agents:[Agent]", .errors = ROUTE_LEADER,
     ROUTE_IN(IN, FIELD_TEXT(IN_QUERY, IN, group, "group", 1, NODE_NAME_LEN_MAX,
                             "Only those that serve this group"))},
    {METHOD_PUT, "/v1/agents/{clientid}", http_put_agent, ROLE_RUN, "Announce an agent",
     "announceAgent", .reply = "drain:bool",
     .errors = "409 There are too many agents\n" ROUTE_LEADER,
     .example = "{\"host\": \"m1\", \"groups\": [\"drover/run\"], \"jobs\": 4, \"lease\": 15000}",
     ROUTE_IN(IN, CLIENT(IN_PATH),
              FIELD_TEXT(IN_BODY | REQUIRED, IN, host, "host", 0, 256, "Its machine"),
              FIELD_TEXTS(IN_BODY | REQUIRED, IN, groups, group_count, "groups", 1, 100,
                          "The groups that it serves"),
              FIELD_INT(IN_BODY | REQUIRED, IN, jobs, "jobs", 1, INT32_MAX,
                        "How many commands it runs at a time"),
              FIELD_INT(IN_BODY | REQUIRED, IN, lease, "lease", 1, 24 * 3600 * 1000,
                        "It is gone when it was not heard of for so many ms"),
              FIELD_JSON(IN_BODY, IN, labels, "labels", "object", "Names to texts"),
              FIELD_BOOL(IN_BODY, IN, draining, "draining", "It takes no more nodes"))},
    {METHOD_PUT, "/v1/agents/{clientid}/drain", http_put_drain, ROLE_RUN,
     "Let an agent end what it runs, and take no more", "drainAgent", .reply = "drain:bool",
     .errors = "404 No such agent\n" ROUTE_LEADER, .example = "{\"drain\": true}",
     ROUTE_IN(IN, CLIENT(IN_PATH),
              FIELD_BOOL(IN_BODY | REQUIRED, IN, drain, "drain", "False: it takes nodes again"))},
    {METHOD_GET, "/v1/agent/kills", http_get_kills, ROLE_RUN,
     "Wait for nodes that the agent must kill", "getKills", .reply = "nodes:[text] next:int",
     .errors = ROUTE_LEADER,
     ROUTE_IN(IN, CLIENT(IN_QUERY | REQUIRED),
              FIELD_INT(IN_QUERY, IN, after, "after", 0, INT64_MAX, "`next` of the last reply"),
              WAIT("How long to wait for one, in ms"))},
    {METHOD_POST, "/v1/agent/done", http_post_done, ROLE_RUN | ROUTE_LARGE, "End a run", "endRun",
     .reply = "object", .errors = "404 No such node\n409 The agent does not run it\n" ROUTE_LEADER,
     .example = "{\"clientid\": 1643, \"node\": \"7\", \"attempt\": 1, \"status\": 0}",
     ROUTE_IN(
         IN, CLIENT(IN_BODY | REQUIRED),
         FIELD_TEXT(IN_BODY | REQUIRED, IN, id, "node", 1, 80, "The node"),
         FIELD_INT(IN_BODY | REQUIRED, IN, attempt, "attempt", 1, INT64_MAX, "The attempt"),
         FIELD_CHOICE(IN_BODY, IN, how, "how", "exited|signalled|timed_out|killed", "How it ended"),
         FIELD_INT(IN_BODY, IN, status, "status", 0, 255, "Exit status, or signal"),
         FIELD_TEXT(IN_BODY, IN, reason, "reason", 0, 4096,
                    "Why it did not start, or which limit ended it"),
         OUTPUT(RUN_STDOUT, "stdout"), OUTPUT(RUN_STDERR, "stderr"),
         OUTPUT(RUN_MIXED, "mixedout"))},
};

static const struct route_shape SHAPES[] = {
    {"NewNode", "(ref?:text metadata:(type:text ref?:text parent?:any parents?:[any] when?:text "
                "branch?:text priority?:int group?:text name?:text) data?:object)"},
    {"Node",
     "(id:text type?:text parent?:text parents?:[text] state?:text name?:text run?:text when?:text "
     "branch?:text priority?:int group?:text added?:int started?:int ended?:int "
     "attempts?:int reason?:text)"},
    {"Agent", "(id:text host:text groups:[text] jobs:int running:[text] heard:int drain:bool "
              "labels:object)"},
    {"NodeState", "(id:text state:text)"},
    {"Run", "(id:text name:text state:text added:int ended?:int keep_going:bool states:{int} "
            "nodes:int)"},
    {"Page", "(next:text pid:text)"},
};

struct route_table dag_routes(void *dag)
{
    return (struct route_table){.routes = ROUTES,
                                .count = sizeof ROUTES / sizeof *ROUTES,
                                .arg = dag,
                                .tag = "DAG",
                                .shapes = SHAPES,
                                .shape_count = sizeof SHAPES / sizeof *SHAPES};
}

/* Calls. */

static void on_gone(struct http_request *r)
{
    ((struct dag_call *)r->handler_data)->r = NULL;
}

struct dag_call *dag_call_new(struct http_request *r)
{
    struct dag_call *c = mem_zalloc(sizeof *c);
    *c = (struct dag_call){.dag = r->arg, .r = r};
    r->handler_data = c;
    r->gone = on_gone;
    return c;
}

void dag_call_free(struct dag_call *c)
{
    arena_release(&c->arena);
    buf_release(&c->out);
    free(c);
}

void dag_call_done(void *call, int err)
{
    struct dag_call *c = call;
    if (c->r && err)
        http_reply_err(c->r, err, NULL);
    else if (c->r)
        http_reply(c->r, 200, buf_str(&c->out));
    dag_call_free(c);
}

/* Parts of requests and replies. */

bool http_is_ready(struct http_request *r)
{
    const struct dag *d = r->arg;
    if (d->ready)
        return true;
    leader_redirect(d->context->leader, r, "the DAG is loading: try again");
    return false;
}

struct dag_node *http_node(struct http_request *r)
{
    struct str id = ((const struct dag_in *)r->in)->id;
    if (!http_is_ready(r))
        return NULL;
    struct dag_target t = dag_resolve(r->arg, id);
    if (t.run)
        http_reply_errorf(r, 404, "'%.*s' is a run, not a node", NODE_CUT(id));
    else if (!t.node)
        http_reply_errorf(r, 404, "there is no node '%.*s'", NODE_CUT(id));
    return t.node;
}

bool http_read_start(struct http_request *r, const char *pid, const char *other_pid,
                     uint64_t *ret_start)
{
    const struct dag_in *in = r->in;
    uint64_t start = 0;
    if (!in->start.p)
        return true;
    if (!str_eq(in->start, STR("0")) && !graph_parse_id(in->start, &start))
        http_reply_field(r, "start", "start must be `next` of the previous page");
    else if (!in->pid.p)
        http_reply_field(r, "pid", "start needs the pid of the previous page");
    else if (!str_eq(in->pid, str_of(pid)) && !str_eq(in->pid, str_of(other_pid)))
        http_reply_error(r, 410, "the listing or value has changed: start again");
    else {
        *ret_start = start;
        return true;
    }
    return false;
}

void http_put_id(struct buf *b, uint64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, id);
    json_put_text(b, str_of(text));
}

void http_member_id(struct buf *b, const char *name, uint64_t id)
{
    json_key(b, name);
    http_put_id(b, id);
}

void http_put_pagination(struct buf *b, uint64_t next, const char *pid)
{
    json_member_open(b, "pagination", '{');
    http_member_id(b, "next", next);
    json_member_text(b, "pid", str_of(pid));
    json_close(b, '}');
}

const struct run_output *node_live(const struct dag_node *n, struct str key)
{
    for (int i = 0; i < RUN_STREAMS && n->run; i++)
        if (str_eq(key, str_of(DAG_OUTPUTS[i])))
            return run_output(n->run, (enum run_stream)i);
    return NULL;
}
