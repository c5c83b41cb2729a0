/*
 * Polls the states of the nodes. A poll of a large run is not cheap, so the pause between two of
 * them is at least PAUSE_FACTOR times as long as a poll took.
 */
#include "cli/run_follow.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/mem.h"
#include "cli/run_screen.h"

enum {
    POLL_MS = 150,
    POLL_MAX_MS = 3000,
    PAUSE_FACTOR = 20,
    RETRY_MS = 300,
    DETAILS_MAX = 50, /* failures that are explained; of others there is only a line */
    NAMES_MAX = 10,   /* in the summary */
};
enum { STATUS_INTERRUPTED = 130, STATUS_TERMINATED = 143 };

struct followed {
    uint64_t id;
    struct str name;
    char state[12];
    int64_t took_ms; /* in an earlier run; 0: unknown */
};

struct follow {
    struct client *c;
    const struct follow_options *o;
    struct arena arena;
    const char *run;        /* its id */
    size_t name_len;        /* of the run: the beginning of its id, and of the names of nodes */
    struct followed *nodes; /* in the order of their ids */
    size_t count, cap;
    bool ended, detached, asked;
    int killed;   /* the exit status, if it was killed from here; 0: it was not */
    bool waiting; /* for the server */
    uint32_t explained;

    /* Progress. */
    struct run_screen screen;
    bool coloured;
    uint32_t over, running;
    uint32_t jobs;   /* the most nodes that have run at a time */
    int64_t left_ms; /* what the nodes that have not ended took in an earlier run; 0: unknown */
};

static volatile sig_atomic_t terms;

static void on_term(int number)
{
    (void)number;
    terms++;
}

/* Progress: on a terminal a block that is overwritten; elsewhere plain lines. */

static void clear_line(struct follow *f)
{
    run_screen_clear(&f->screen);
}

static void show_progress(struct follow *f)
{
    int64_t left_ms = f->left_ms / (f->jobs ? f->jobs : 1);
    run_screen_read(&f->screen, f->c);
    run_screen_show(&f->screen, &(struct run_progress){f->over, f->count, f->running, left_ms,
                                                       clock_wall_ms()});
}

/* Prints a line that stays, in place of the status line. */
__attribute__((format(printf, 3, 4))) static void say(struct follow *f, enum term_colour colour,
                                                      const char *fmt, ...)
{
    va_list ap;
    clear_line(f);
    va_start(ap, fmt);
    term_vsay(f->coloured && colour ? term_colour(colour) : "", fmt, ap);
    va_end(ap);
    fputs(f->coloured && colour ? term_colour(TERM_PLAIN) : "", stderr);
}

/* Asking the server. */

/*
 * Sends a request until the server answers it: a server that restarts, or an ensemble without a
 * leader, is waited for. An interrupt ends that.
 */
static int ask(struct follow *f, struct client_reply *reply, const char *request)
{
    struct err_info why;
    for (;;) {
        f->c->silent = f->c->repeatable = true;
        client_try(f->c, reply, NULL, "%s", request);
        f->c->silent = f->c->repeatable = false;
        bool answered = !f->c->err && reply->status < 500 && reply->status != 307;
        if (answered && f->waiting)
            say(f, TERM_PLAIN, "%s answers again.", transport_server(f->c->transport));
        if (answered)
            f->waiting = false;
        if (answered && reply->status == 200)
            return CMD_OK;
        if (answered)
            return client_refused(f->c, reply);
        if (terms || interrupts > f->asked) {
            say(f, TERM_PLAIN, "Stopped waiting for the server. `drover attach %s` shows the run.",
                f->run);
            return terms ? STATUS_TERMINATED : STATUS_INTERRUPTED;
        }
        client_describe(f->c, reply, &why);
        if (!f->waiting)
            say(f, TERM_YELLOW, "%s; waiting for the server.", why.text);
        f->waiting = true;
        poll(NULL, 0, RETRY_MS);
    }
}

/* States. */

/* What a node that failed was, and the end of what it said: on stderr, else on stdout. */
static void explain(struct follow *f, const struct followed *n)
{
    struct client_reply reply;
    char id[24];
    snprintf(id, sizeof id, "%" PRIu64, n->id);
    if (f->explained++ >= DETAILS_MAX)
        return;
    if (ask(f, &reply, arena_printf(&f->c->arena, "GET /v1/nodes/%s", id)))
        return;
    const struct json *data = json_get(reply.json, "data");
    if (json_text_of(data, "command").len)
        run_print_command(data);
    if (!run_print_output(f->c, id, "stderr"))
        run_print_output(f->c, id, "stdout");
}

static bool is_terminal(struct str state)
{
    return !str_eq(state, STR("incipient")) && !str_eq(state, STR("running"));
}

static bool is_bad(const char *state)
{
    return !strcmp(state, "failed") || !strcmp(state, "killed");
}

/* Reports once that a node has ended. */
static void report_end(struct follow *f, const struct followed *n, struct str reason)
{
    f->over++;
    if (is_bad(n->state))
        say(f, TERM_RED, "%s: %.*s (%" PRIu64 "): %.*s",
            !strcmp(n->state, "failed") ? "FAILED" : "KILLED", STR_ARGS(n->name), n->id,
            STR_ARGS(reason));
    else if (!f->screen.on && !f->o->quiet)
        say(f, TERM_PLAIN, "[%" PRIu32 "/%zu] %.*s %s", f->over, f->count, STR_ARGS(n->name),
            n->state);
}

/* Without the name of the run; of a node without a name, its id. */
static struct str short_name(struct follow *f, const struct json *v)
{
    struct str name = json_text_of(v, "name"), run = {f->run, f->name_len};
    if (name.len > run.len + 1 && str_starts(name, run) && name.p[run.len] == '/')
        name = (struct str){name.p + run.len + 1, name.len - run.len - 1};
    if (!name.len)
        name = json_text_of(v, "id");
    return (struct str){arena_text(&f->arena, name), name.len};
}

/*
 * Moves *at to the node of an element of the list. Nodes that commands have added are newer than
 * all others. False: the node is not shown.
 */
static bool find_node(struct follow *f, size_t *at, const struct json *v)
{
    uint64_t id = strtoull(json_text_of(v, "id").p, NULL, 10);
    while (*at < f->count && f->nodes[*at].id < id)
        ++*at; /* it was removed */
    if (*at == f->count) {
        mem_grow(f->nodes, f->count, f->cap);
        f->nodes[f->count++] = (struct followed){.id = id, .name = short_name(f, v)};
    }
    return f->nodes[*at].id == id;
}

/* Nodes that have ended since the last poll. */
struct ends {
    struct arena arena;
    struct node_end {
        size_t node;
        struct str reason;
    } * items;
    size_t count;
};

/* Reads the state of one node. */
static void read_state(struct follow *f, size_t i, const struct json *v, struct ends *ends)
{
    struct followed *n = &f->nodes[i];
    struct str state = json_text_of(v, "state"), reason = json_text_of(v, "reason");
    bool runs = str_eq(state, STR("running"));
    f->running += runs;
    f->left_ms += is_terminal(state) ? 0 : n->took_ms;
    if (runs)
        run_screen_running(&f->screen, n->id, n->name, json_int_of(v, "started"));
    if (str_eq(state, str_of(n->state)))
        return;
    snprintf(n->state, sizeof n->state, "%.*s", STR_ARGS(state));
    if (!is_terminal(state))
        return;
    ends->items[ends->count++] =
        (struct node_end){i, {arena_text(&ends->arena, reason), reason.len}};
}

static void read_states(struct follow *f, const struct json *list, struct ends *ends)
{
    size_t at = 0;
    ends->items = arena_alloc(&ends->arena, (list->count + 1) * sizeof *ends->items);
    f->left_ms = f->running = f->over = 0;
    for (size_t i = 0; i < f->count;
         i++) /* those of the last poll; a retry may have revived some */
        f->over += f->nodes[i].state[0] && is_terminal(str_of(f->nodes[i].state));
    json_each(v, list)
        if (find_node(f, &at, v))
            read_state(f, at, v, ends);
    if (f->running > f->jobs)
        f->jobs = f->running;
    if (!f->ended)
        show_progress(f);
}

static int poll_nodes(struct follow *f)
{
    struct client_reply reply;
    struct ends ends = {0};
    TRY(ask(f, &reply,
            arena_printf(&f->c->arena, "GET /v1/nodes?run=%s&metadata=name,state,reason,started",
                         client_quote(f->c, str_of(f->run)))));
    if (!reply.json || reply.json->kind != JSON_LIST)
        return client_error("%s sent an unexpected reply", transport_server(f->c->transport));
    read_states(f, reply.json, &ends);
    for (size_t i = 0; i < ends.count; i++) {
        const struct followed *n = &f->nodes[ends.items[i].node];
        report_end(f, n, ends.items[i].reason);
        if (!strcmp(n->state, "failed"))
            explain(f, n);
    }
    arena_release(&ends.arena);
    return CMD_OK;
}

/* The times of an earlier run of the same name. */
static int read_earlier(struct follow *f)
{
    struct client_reply reply;
    const char *name = client_quote(f->c, (struct str){f->run, f->name_len});
    const char *number = f->run + f->name_len + 1;
    TRY(ask(f, &reply,
            arena_printf(&f->c->arena, "GET /v1/runs?name=%s&state=finished&limit=1&before=%s",
                         name, number)));
    const struct json *list = json_get(reply.json, "runs"), *one = list ? list->first : NULL;
    if (!one)
        return CMD_OK;
    TRY(ask(f, &reply,
            arena_printf(&f->c->arena, "GET /v1/nodes?run=%s&metadata=name,started,ended",
                         client_quote(f->c, json_text_of(one, "id")))));
    size_t i = 0; /* nodes of the same graph are in the same order */
    json_each(v, json_list(reply.json)) {
        struct str earlier = short_name(f, v);
        if (i < f->count && json_int_of(v, "started") && str_eq(f->nodes[i].name, earlier))
            f->nodes[i].took_ms = json_int_of(v, "ended") - json_int_of(v, "started");
        i++;
    }
    return CMD_OK;
}

/* Signals. */

static void kill_run(struct follow *f, int status)
{
    struct client_reply reply;
    f->killed = status;
    interrupts = 0;
    say(f, TERM_PLAIN, "%s: killing %s.",
        status == STATUS_TERMINATED ? "Terminated" : "Interrupted", f->run);
    f->c->wait_ms = POLL_MAX_MS;
    client_call(f->c, &reply, NULL, "PUT /v1/scheduler/kill?id=%s",
                client_quote(f->c, str_of(f->run)));
}

/* Waits for a key: d, k or g; another interrupt is k. */
static char read_answer(struct follow *f)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    struct termios before, raw;
    char key = 0;
    tcgetattr(0, &before);
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    tcsetattr(0, TCSANOW, &raw);
    clear_line(f);
    fprintf(stderr, "Interrupted. %s goes on. Detach (d), kill it (k), or go on (g)? ", f->run);
    fflush(stderr);
    while (!key || !strchr("dkg", key)) {
        if (interrupts > 1 || terms)
            key = 'k';
        else if (poll(&in, 1, 100) > 0 && read(0, &key, 1) != 1)
            key = 'd'; /* the terminal is gone */
    }
    tcsetattr(0, TCSANOW, &before);
    fputs("\n", stderr);
    return key;
}

static void check_signals(struct follow *f)
{
    bool terminal = f->screen.on && isatty(0);
    if (f->killed) {
        f->detached = interrupts; /* does not wait for the end */
    } else if (terms && f->o->on_term == FOLLOW_DETACH) {
        f->detached = true;
    } else if (terms) {
        kill_run(f, STATUS_TERMINATED);
    } else if (interrupts && !f->asked && terminal) {
        interrupts = 1;
        char key = read_answer(f);
        f->detached = key == 'd';
        if (key == 'k' && !(terms && f->o->on_term == FOLLOW_DETACH))
            kill_run(f, terms ? STATUS_TERMINATED : STATUS_INTERRUPTED);
        if (key == 'g')
            interrupts = 0;
    } else if (interrupts && !f->asked) {
        f->asked = true;
        interrupts = 1; /* before the message: its reader may interrupt again at once */
        say(f, TERM_PLAIN, "Interrupted. %s goes on; interrupt again to kill it.", f->run);
    } else if (interrupts > 1) {
        kill_run(f, STATUS_INTERRUPTED);
    }
}

/* The end. */

/* "5 finished, 1 failed: test (12), 3 skipped" */
static void put_summary(const struct follow *f, struct buf *b)
{
    static const char *const states[] = {"finished", "failed",  "killed",
                                         "skipped",  "running", "incipient"};
    for (size_t s = 0; s < sizeof states / sizeof *states; s++) {
        uint32_t count = 0;
        CLEANUP(buf_release) struct buf names = {0};
        for (size_t i = 0; i < f->count; i++) {
            const struct followed *n = &f->nodes[i];
            if (strcmp(n->state, states[s]) != 0)
                continue;
            if (is_bad(n->state) && count < NAMES_MAX)
                buf_printf(&names, "%s%.*s (%" PRIu64 ")", count ? ", " : ": ", STR_ARGS(n->name),
                           n->id);
            count++;
        }
        if (count)
            buf_printf(b, "%s%" PRIu32 " %s%s%s", b->len ? ", " : "", count,
                       s == 5 ? "waiting" : states[s], buf_text(&names),
                       count > NAMES_MAX && names.len ? ", ..." : "");
    }
}

static int end(struct follow *f)
{
    CLEANUP(buf_release) struct buf summary = {0};
    struct client_reply reply;
    char span[HUMAN_SIZE];
    TRY(ask(f, &reply,
            arena_printf(&f->c->arena, "GET /v1/runs/%s", client_quote(f->c, str_of(f->run)))));
    put_summary(f, &summary);
    say(f, TERM_PLAIN, "%s: %s in %s", f->run, buf_text(&summary),
        human_span(span, json_int_of(reply.json, "ended") - json_int_of(reply.json, "added")));
    if (f->killed)
        return f->killed;
    return str_eq(json_text_of(reply.json, "state"), STR("finished")) ? CMD_OK : CMD_FAILURE;
}

/* Waits for the end of the run, for so long. */
static int wait_for(struct follow *f, int64_t ms)
{
    struct client_reply reply;
    f->c->wait_ms = ms;
    TRY(ask(f, &reply,
            arena_printf(&f->c->arena, "GET /v1/scheduler/wait?id=%s&timeout=%" PRId64,
                         client_quote(f->c, str_of(f->run)), ms)));
    struct str state = json_text_of(reply.json ? reply.json->first : NULL, "state");
    if (str_eq(state, STR("deleted")))
        return client_error("run %s was removed", f->run);
    f->ended = is_terminal(state);
    return CMD_OK;
}

static int follow(struct follow *f)
{
    int64_t pause_ms = 0;
    bool first = true;
    while (!f->ended && !f->detached) {
        TRY(wait_for(f, first ? 0 : pause_ms));
        int64_t before = clock_boot_ms();
        TRY(poll_nodes(f));
        if (first && f->screen.on)
            TRY(read_earlier(f));
        first = false;
        pause_ms = (clock_boot_ms() - before) * PAUSE_FACTOR;
        pause_ms = pause_ms < POLL_MS ? POLL_MS : pause_ms > POLL_MAX_MS ? POLL_MAX_MS : pause_ms;
        check_signals(f);
        arena_reset(&f->c->arena);
    }
    clear_line(f);
    if (!f->detached || f->ended)
        return end(f);
    say(f, TERM_PLAIN, "%s goes on. `drover attach %s` shows it again.", f->run, f->run);
    return f->killed;
}

void run_follow_signals(void)
{
    struct sigaction term = {.sa_handler = on_term};
    interrupts_catch(SIGINT);
    sigaction(SIGTERM, &term, NULL);
}

int run_follow(struct client *c, const char *run, const struct follow_options *o)
{
    struct follow f = {.c = c, .o = o, .run = run};
    struct client_reply reply;
    run_screen_init(&f.screen);
    f.coloured = term_has_colour(stderr);
    run_follow_signals();
    int status =
        ask(&f, &reply, arena_printf(&c->arena, "GET /v1/runs/%s", client_quote(c, str_of(run))));
    if (!status) {
        f.run = arena_text(&f.arena, json_text_of(reply.json, "id"));
        f.name_len = json_text_of(reply.json, "name").len;
        status = follow(&f);
    }
    clear_line(&f);
    arena_release(&f.arena);
    free(f.nodes);
    return status;
}
