/* drover top - what the DAG does, live. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "cli/verb.h"

enum { ROWS_MAX = 40 };

static volatile sig_atomic_t over;

static void on_signal(int number)
{
    (void)number;
    over = 1;
}

static void print_counts(const struct json *v)
{
    const struct json *states = json_get(v, "states");

    if (states && states->kind == JSON_OBJECT)
        json_each(m, states) {
            struct str word = verb_state_word(m->key);

            printf("%.*s %" PRId64 "  ", STR_ARGS(word), m->number);
        }
    printf("jobs %" PRId64 "\n\n", json_int_of(v, "jobs"));
}

static void print_running(const struct json *list)
{
    static const struct table_column columns[] = {
        {"ID", .right = true}, {"NAME"}, {"TYPE"}, {"GROUP"}, {"TIME", .right = true}, {"TRY"}};
    struct table t;
    int rows = 0;

    table_init(&t, columns, sizeof columns / sizeof *columns);
    for (const struct json *n = list->first; n && rows < ROWS_MAX; n = n->next, rows++) {
        char span[HUMAN_SIZE];

        table_text(&t, TERM_PLAIN, json_text_of(n, "id"));
        table_text(&t, TERM_BOLD, json_text_of(n, "name"));
        table_text(&t, TERM_PLAIN, json_text_of(n, "type"));
        table_text(&t, TERM_DIM, json_text_of(n, "group"));
        table_cell(&t, TERM_YELLOW, "%s",
                   human_span(span, clock_wall_ms() - json_int_of(n, "started")));
        table_cell(&t, TERM_PLAIN, "%" PRId64, json_int_of(n, "attempts"));
    }
    table_print(&t, stdout);
    table_release(&t);
}

static int print_once(struct client *c, bool clear)
{
    struct client_reply counts, running;
    int status = client_call(c, "GET", "/v1/scheduler", NULL, &counts);

    if (!status)
        status = client_call(c, "GET", "/v1/nodes?state=running", NULL, &running);
    if (status)
        return status;
    if (clear)
        fputs("\033[H\033[J", stdout);
    print_counts(counts.json);
    if (running.json && running.json->kind == JSON_LIST)
        print_running(running.json);
    fflush(stdout);
    client_forget(c);
    return CMD_OK;
}

/* Waits until the next refresh. False: q was pressed. */
static bool pause_for(int64_t ms)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    char key;

    if (poll(&in, 1, (int)ms) != 1)
        return true;
    return read(0, &key, 1) == 1 && key != 'q';
}

static bool print_only_once;
static int64_t every_ms = 1000;

static int run_top(const struct cmd_call *call)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct client *c = client_open(&call->client);
    struct termios before;
    int status;

    if (!c)
        return CMD_FAILURE;
    if (print_only_once || !isatty(0) || !isatty(1) || tcgetattr(0, &before)) {
        status = print_once(c, false);
        client_close(c);
        return status;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    tcsetattr(0, TCSANOW, &raw);
    do
        status = print_once(c, true);
    while (!status && !over && pause_for(every_ms) && !over);
    tcsetattr(0, TCSANOW, &before);
    client_close(c);
    return status;
}

const struct cmd cmd_top =
    CMD_INIT("top", "show what the DAG does, live", NULL,
             "Shows, live, how many nodes are in each state, and the nodes that run. q ends it.",
             CMD_OPTIONS({"once", NULL, "Print once and exit.", option_flag, &print_only_once},
                         {"every", "TIME", "Refresh interval. Default: 1s.", option_span, &every_ms,
                          100, 3600 * 1000}),
             CMD_REMOTE, run_top);
