/* drover exec, nodes, log, wait, kill, retry, top; the output of a node. */
#include "cli/dag.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/human.h"
#include "cli/task_show.h"
#include "cli/verb.h"
#include "dag/node.h"

enum { FOLLOW_WAIT_MS = 10 * 1000 };

/* What the commands share. */

volatile sig_atomic_t interrupts;

static void on_interrupt(int number)
{
    (void)number;
    interrupts++;
}

void interrupts_catch(int number)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(number, &action, NULL);
}

/* When the output was replaced because the node runs again, it is read from its beginning. */
int follow_output(struct client *c, struct dag_output *f, int64_t wait_ms, bool *ret_more)
{
    struct client_reply reply;
    char from[80] = "";

    *ret_more = false;
    if (f->pid[0])
        snprintf(from, sizeof from, "start=%s&pid=%s&", f->start, f->pid);
    c->wait_ms = wait_ms;
    TRY(client_try(c, &reply, NULL, "GET /v1/nodes/%s/data/%s?%swait=%" PRId64, f->id, f->key, from,
                   wait_ms));
    if (reply.status == 410 && f->pid[0]) {
        f->pid[0] = '\0';
        *ret_more = true;
        return CMD_OK;
    }
    if (reply.status == 404 && f->pid[0])
        return CMD_OK; /* it ended without any output */
    if (reply.status != 200)
        return client_refused(c, &reply);
    struct str text = json_text_of(reply.json, "data");
    term_write(f->to, text, ESCAPE_LINES);
    fflush(f->to);
    const struct json *page = json_get(reply.json, "pagination");
    *ret_more = page != NULL;
    if (page) {
        struct str next = json_text_of(page, "next"), pid = json_text_of(page, "pid");
        snprintf(f->start, sizeof f->start, "%.*s", STR_ARGS(next));
        snprintf(f->pid, sizeof f->pid, "%.*s", STR_ARGS(pid));
    }
    arena_reset(&c->arena);
    return CMD_OK;
}

/* exec */

static const char *exec_group, *exec_cwd, *exec_user;
static struct limits exec_limits;
static int64_t exec_timeout_ms, exec_agent_ms;

static void put_exec(struct buf *b, int count, char **words)
{
    char here[4096];
    json_open(b, '[');
    json_open(b, '{');
    json_member_open(b, "metadata", '{');
    json_member_text(b, "type", STR("command"));
    if (exec_group)
        json_member_text(b, "group", str_of(exec_group));
    json_close(b, '}');
    json_member_open(b, "data", '{');
    json_member_text(b, "command", str_of(words[0]));
    json_member_texts(b, "args", (const char *const *)words + 1, (size_t)count - 1);
    if (exec_cwd || getcwd(here, sizeof here))
        json_member_text(b, "cwd", str_of(exec_cwd ? exec_cwd : here));
    if (exec_timeout_ms)
        json_member_int(b, "timeout", exec_timeout_ms);
    if (exec_user)
        json_member_text(b, "user", str_of(exec_user));
    if (limits_any(&exec_limits)) {
        json_key(b, "limits");
        limits_put(b, &exec_limits);
    }
    json_close(b, '}');
    json_close(b, '}');
    json_close(b, ']');
}

/* The first interrupt kills the node and waits for its end; the second does not wait. */
static void check_interrupts(struct client *c, const char *id, bool *killed)
{
    struct client_reply reply;
    if (!interrupts || *killed)
        return;
    *killed = true;
    signal(SIGINT, SIG_DFL);
    client_error("interrupted: killing node %s; interrupt again to stop waiting for it", id);
    client_call(c, &reply, NULL, "PUT /v1/scheduler/kill?id=%s", id);
}

/* Copies both outputs until the node has ended. Returns its exit status. */
static int follow_exec(struct client *c, const char *id)
{
    struct dag_output out = {.id = id, .key = "stdout", .to = stdout};
    struct dag_output err = {.id = id, .key = "stderr", .to = stderr};
    bool more_out = true, more_err = true, killed = false;
    struct client_reply reply;

    interrupts_catch(SIGINT);
    while (more_out || more_err) {
        check_interrupts(c, id, &killed);
        if (more_out)
            TRY(follow_output(c, &out, out.pid[0] ? 200 : 0, &more_out));
        if (more_err)
            TRY(follow_output(c, &err, 0, &more_err));
    }
    c->wait_ms = INT64_C(1) << 40;
    TRY(client_call(c, &reply, NULL, "GET /v1/scheduler/wait?id=%s", id));
    TRY(client_call(c, &reply, NULL, "GET /v1/nodes/%s", id));
    const struct json *metadata = json_get(reply.json, "metadata"),
                      *result = json_get(json_get(reply.json, "data"), "result");
    struct str state = json_text_of(metadata, "state"), reason = json_text_of(metadata, "reason");
    bool finished = str_eq(state, STR("finished"));
    if (!finished)
        client_error("node %s %.*s: %.*s", id, STR_ARGS(state), STR_ARGS(reason));
    if (killed)
        return 130;
    return result && result->kind == JSON_INT && (result->number || finished) ? (int)result->number
                                                                              : CMD_FAILURE;
}

static int run_exec(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    CLEANUP(buf_release) struct buf body = {0};
    struct client_reply reply;
    char id[24];
    TRY(client_open(&c, &call->client));
    if (exec_group)
        TRY(agents_wait(&c, exec_group, exec_agent_ms));
    put_exec(&body, call->count, call->operands);
    TRY(client_call(&c, &reply, buf_text(&body), "POST /v1/nodes"));
    struct str text = json_text_of(reply.json ? reply.json->first : NULL, "id");
    snprintf(id, sizeof id, "%.*s", STR_ARGS(text));
    return follow_exec(&c, id);
}

const struct cmd cmd_exec = CMD_INIT(
    "exec", "run one command as a node", "-- COMMAND [ARGUMENT]...",
    "Runs one command as a node, prints its output, and ends with its exit status. An\n"
    "interrupt (Ctrl-C) kills the node.",
    CMD_OPTIONS(
        {"group", "GROUP", "Run it on an agent of this group. Default: drover/run.", option_text,
         &exec_group},
        {"wait-for-agent", "TIME",
         "Wait so long for an agent of the group. Default: if there is none, it is not run.",
         option_span, &exec_agent_ms, 0, INT32_MAX},
        {"cwd", "DIR", "Run it in this directory. Default: the current one.", option_text,
         &exec_cwd},
        {"timeout", "TIME", "Kill it after this time (500ms, 30s, 5m).", option_span,
         &exec_timeout_ms, 1, INT32_MAX},
        {"user", "USER", "Run it as this user, if the server permits that.", option_text,
         &exec_user},
        LIMIT_OPTIONS(exec_limits)),
    CMD_REMOTE, run_exec);

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

static const struct verb_column NODES[] = {
    {{"ID", true}, "id"},
    {{"STATE"}, "state", VERB_STATE},
    {{"TYPE"}, "type"},
    {{"RUN"}, "run"},
    {{"NAME"}, "name", .colour = TERM_BOLD},
    {{"PARENT"}, "parent", .colour = TERM_DIM},
    {{"TIME", true}, NULL, VERB_TOOK},
    {{"REASON"}, "reason"},
    {{0}},
};

void dag_print_nodes(const struct json *list)
{
    verb_print_columns(list, NODES);
}

const struct cmd cmd_nodes = VERB_INIT(
    "nodes", "list nodes", NULL, "Lists the nodes of the DAG.",
    CMD_OPTIONS({"state", "STATES",
                 "Only those in these states, comma-separated: waiting, running, finished,\n"
                 "failed, killed, skipped.",
                 parse_states},
                {"type", "TYPES", "Only those of these types, comma-separated.", option_text},
                {"run", "RUN", "Only those of this run.", option_text}),
    "GET", "/v1/nodes", .list = "", .columns = NODES);

/* show */

static void print_line(const char *name, struct str text, enum term_colour colour)
{
    CLEANUP(buf_release) struct buf b = {0};
    if (!text.len)
        return;
    buf_printf(&b, "%-9s ", name);
    term_paint(&b, term_has_colour(stdout), colour, text, SIZE_MAX);
    puts(buf_text(&b));
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

int dag_print_node(const struct json *node)
{
    static const char *const fields[] = {"id", "name", "type", "parent", "when", "group", "branch"};
    const struct json *m = json_get(node, "metadata"), *data = json_get(node, "data"),
                      *parents = json_get(m, "parents");
    struct str state = json_text_of(m, "state");

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
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

/* log */

static bool follow;
static int stream;

static int run_log(const struct cmd_call *call)
{
    static const char *const keys[] = {"mixedout", "stdout", "stderr"};
    struct dag_output f = {.id = call->operands[0], .key = keys[stream], .to = stdout};
    CLEANUP(client_close) struct client c = {0};
    struct client_reply reply;

    TRY(client_open(&c, &call->client));
    TRY(client_call(&c, &reply, NULL, "GET /v1/nodes/%s",
                    client_quote(&c, str_of(call->operands[0]))));
    char id[24];
    snprintf(id, sizeof id, "%.*s", STR_ARGS(json_text_of(json_get(reply.json, "metadata"), "id")));
    f.id = id;
    for (bool more = true; more;) {
        char before[24];
        memcpy(before, f.start, sizeof before);
        TRY(follow_output(&c, &f, follow && f.pid[0] ? FOLLOW_WAIT_MS : 0, &more));
        if (!follow && !strcmp(before, f.start))
            break; /* that is all for now */
    }
    return CMD_OK;
}

const struct cmd cmd_log =
    CMD_INIT("log", "print the output of a node", "ID", "Prints the output of a node.",
             CMD_OPTIONS({"follow", NULL, "Continue until the node has ended.", option_flag,
                          &follow, .letter = 'f'},
                         {"stream", "mixedout|stdout|stderr",
                          "Which output. Default: mixedout, both.", option_choice, &stream}),
             CMD_REMOTE, run_log);

/* wait, kill, retry */

static int print_states(const struct json *list)
{
    json_each(n, json_list(list)) {
        struct str id = json_text_of(n, "id"), state = json_text_of(n, "state"),
                   word = verb_state_word(state);
        CLEANUP(buf_release) struct buf b = {0};
        term_put_safe(&b, id, SIZE_MAX);
        buf_printf(&b, " ");
        term_put_safe(&b, word, SIZE_MAX);
        puts(buf_text(&b));
    }
    return CMD_OK;
}

static int status_of_states(const struct json *list)
{
    json_each(n, json_list(list)) {
        struct str state = json_text_of(n, "state");
        if (!str_eq(state, STR("finished")) && !str_eq(state, STR("skipped")))
            return CMD_FAILURE;
    }
    return CMD_OK;
}

/* task:ID and first:ID are tasks, anything else is a node or a run. */
static bool is_task(const char *operand)
{
    return !strncmp(operand, "task:", 5) || !strncmp(operand, "first:", 6);
}

static int run_wait(const struct cmd_call *call)
{
    int tasks = 0;
    for (int i = 0; i < call->count; i++)
        tasks += is_task(call->operands[i]);
    if (!tasks)
        return verb_run(call);
    if (tasks < call->count)
        return cmd_usage_error(call->cmd, "nodes and tasks do not go together");
    return task_wait(call, verb_value(call, "timeout"));
}

const struct cmd cmd_wait = {
    .name = "wait",
    .summary = "wait until nodes, runs or tasks have ended",
    .operands = "NODE|RUN|TASK...",
    .about =
        "Waits until all of these nodes and runs, or tasks, have ended, and prints their states.\n"
        "task:ID is a task, and so is first:ID, by its first id. The exit status is 0 if every\n"
        "node and run is finished or skipped, every task done.",
    .options = CMD_OPTIONS({"timeout", "TIME", "Wait at most this long. Default: forever.",
                            option_span, NULL, 0, INT32_MAX}),
    .client = CMD_JSON,
    .run = run_wait,
    .verb = &(const struct verb){"GET", "/v1/scheduler/wait?id={*}", .flags = VERB_WAITS,
                                 .print = print_states, .status = status_of_states},
};

const struct cmd cmd_kill =
    VERB_INIT("kill", "kill nodes or runs", "NODE|RUN...",
              "Kills nodes, or all nodes of runs: sends TERM to all their processes, and KILL "
              "after a grace period. A\n"
              "node that has not started never starts.",
              NULL, "PUT", "/v1/scheduler/kill?id={*}", .flags = VERB_WAITS, .print = print_states);

const struct cmd cmd_retry = VERB_INIT(
    "retry", "run nodes again that failed or were killed", "NODE|RUN...",
    "Runs nodes again that failed or were killed, all of them in a run. The nodes after them that "
    "were skipped\n"
    "wait again.",
    NULL, "PUT", "/v1/scheduler/retry?id={*}", .flags = VERB_WAITS, .print = print_states);
