/* drover nodes, wait, kill, retry, top; the output of a node. */
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
