/*
 * drover exec - runs one command as a node, as if it ran here: its output is ours, to the byte, our
 * standard input is its own, signals that we get are sent to it, and its exit status is ours.
 *
 * Three threads, each with its own connection: this one reads the output; one reads our standard
 * input; one waits for signals.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli/dag.h"
#include "cli/node_stream.h"
#include "cli/term.h"
#include "dag/node.h"

enum { INPUT_LEN = 64 * 1024, WAIT_MS = 20 * 1000, PAUSE_MS = 300, TIMED_OUT = 124 };
enum { REMOVE_TRIES = 50, REMOVE_PAUSE_MS = 20 };

static struct {
    const char *group, *cwd, *user;
    struct limits limits;
    int64_t timeout_ms, agent_ms;
    bool remove, no_input;
} options;

static const struct {
    int number;
    const char *name;
} SIGNALS[] = {{SIGHUP, "HUP"},   {SIGINT, "INT"},   {SIGQUIT, "QUIT"},
               {SIGTERM, "TERM"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}};

struct exec {
    struct client_config config;
    const char *id;
    int stop_fd; /* readable: the threads must end */
};

static void put_node(struct buf *b, int count, char **words)
{
    char here[4096];
    json_open(b, '[');
    json_open(b, '{');
    json_member_open(b, "metadata", '{');
    json_member_text(b, "type", STR("command"));
    if (options.group)
        json_member_text(b, "group", str_of(options.group));
    json_close(b, '}');
    json_member_open(b, "data", '{');
    json_member_text(b, "command", str_of(words[0]));
    json_member_texts(b, "args", (const char *const *)words + 1, (size_t)count - 1);
    if (options.cwd || getcwd(here, sizeof here))
        json_member_text(b, "cwd", str_of(options.cwd ? options.cwd : here));
    if (options.timeout_ms)
        json_member_int(b, "timeout", options.timeout_ms);
    if (options.user)
        json_member_text(b, "user", str_of(options.user));
    if (limits_any(&options.limits)) {
        json_key(b, "limits");
        limits_put(b, &options.limits);
    }
    json_member_bool(b, "attach", true);
    json_close(b, '}');
    json_close(b, '}');
    json_close(b, ']');
}

/* The threads. */

static int connect_thread(struct exec *e, struct client *c)
{
    c->silent = true;
    TRY(client_connect(c, &e->config));
    transport_set_stop(c->transport, e->stop_fd);
    return 0;
}

/* Waits for a descriptor. False: the thread must end. */
static bool wait_for(const struct exec *e, int fd, int ms)
{
    struct pollfd fds[] = {{.fd = e->stop_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    while (poll(fds, fd < 0 ? 1 : 2, ms) < 0 && errno == EINTR)
        ;
    return !fds[0].revents;
}

/* Sends a piece of input, in as many parts as the server takes. False: nobody wants more. */
static bool send_input(const struct exec *e, struct client *c, struct str bytes, bool is_end,
                       uint64_t *at)
{
    do {
        struct client_reply reply;
        int64_t next = 0;
        c->wait_ms = WAIT_MS;
        arena_reset(&c->arena);
        bool failed =
            client_send(c, &reply, bytes, "POST /v1/nodes/%s/stdin?at=%" PRIu64 "&wait=%d%s", e->id,
                        *at, WAIT_MS, is_end ? "&end=1" : "");
        if (failed ? c->err == DROVER_CLOSED : reply.status != 200 && reply.status != 503)
            return false;
        if (failed || reply.status == 503 || json_get_int(reply.json, "next", &next, NULL) != 1) {
            if (!wait_for(e, -1, PAUSE_MS))
                return false;
            continue;
        }
        size_t taken = (uint64_t)next > *at ? (size_t)((uint64_t)next - *at) : 0;
        taken = taken < bytes.len ? taken : bytes.len;
        *at += taken;
        bytes = (struct str){bytes.p + taken, bytes.len - taken};
        if (!bytes.len)
            return true;
    } while (true);
}

static void *input_main(void *arg)
{
    struct exec *e = arg;
    CLEANUP(client_close) struct client c = {0};
    CLEANUP(mem_free) char *bytes = mem_alloc(INPUT_LEN);
    uint64_t at = 0;
    bool more = !connect_thread(e, &c);
    while (more && !options.no_input && wait_for(e, STDIN_FILENO, -1)) {
        ssize_t n = read(STDIN_FILENO, bytes, INPUT_LEN);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            break;
        more = send_input(e, &c, (struct str){bytes, (size_t)n}, false, &at);
    }
    if (more && wait_for(e, -1, 0))
        send_input(e, &c, STR(""), true, &at);
    return NULL;
}

/* The second interrupt kills the node; the third does not wait for its end. */
static void *signals_main(void *arg)
{
    struct exec *e = arg;
    CLEANUP(client_close) struct client c = {0};
    struct client_reply reply;
    sigset_t set;
    int interrupted = 0;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        sigaddset(&set, SIGNALS[i].number);
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    bool connected = !connect_thread(e, &c);
    while (connected && wait_for(e, fd, -1)) {
        struct signalfd_siginfo info;
        size_t i = 0;
        if (read(fd, &info, sizeof info) != sizeof info)
            continue;
        while (SIGNALS[i].number != (int)info.ssi_signo)
            i++;
        interrupted += info.ssi_signo == SIGINT;
        if (interrupted == 2)
            client_error("killing node %s; interrupt again to stop waiting for it", e->id);
        if (interrupted > 2)
            _exit(128 + SIGINT);
        client_try(&c, &reply, NULL, "PUT /v1/scheduler/kill?id=%s%s%s", e->id,
                   interrupted == 2 ? "" : "&signal=", interrupted == 2 ? "" : SIGNALS[i].name);
        arena_reset(&c.arena);
    }
    close(fd);
    return NULL;
}

static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        sigaddset(&set, SIGNALS[i].number);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* The output. */

static int on_data(void *arg, enum run_stream s, int64_t time_ms, struct str bytes)
{
    (void)arg;
    (void)time_ms;
    return term_copy(s == RUN_STDERR ? STDERR_FILENO : STDOUT_FILENO, bytes) ? errno : 0;
}

static int on_gap(void *arg, uint64_t bytes)
{
    (void)arg;
    client_error("%" PRIu64 " bytes of output were not kept", bytes);
    return 0;
}

/* The end. */

static int exit_status(struct client *c, const char *id)
{
    struct client_reply reply;
    c->wait_ms = INT64_C(1) << 40;
    TRY(client_call(c, &reply, NULL, "GET /v1/scheduler/wait?id=%s", id));
    TRY(client_call(c, &reply, NULL, "GET /v1/nodes/%s", id));
    const struct json *metadata = json_get(reply.json, "metadata"),
                      *result = json_get(json_get(reply.json, "data"), "result");
    struct str state = json_text_of(metadata, "state"), reason = json_text_of(metadata, "reason");
    bool finished = str_eq(state, STR("finished"));
    if (!finished)
        client_error("node %s %.*s: %.*s", id, STR_ARGS(state), STR_ARGS(reason));
    if (options.timeout_ms && str_starts(reason, STR("timed out")))
        return TIMED_OUT;
    return result && result->kind == JSON_INT && (result->number || finished) ? (int)result->number
                                                                              : CMD_FAILURE;
}

/* Reads the output until the node has ended. Exit status. */
static int follow(struct client *c, const char *id)
{
    struct chunk_sink sink = {on_data, on_gap, NULL, NULL};
    struct node_stream o = {
        .c = c, .id = id, .stream = RUN_MIXED, .follow = true, .attach = true, .sink = &sink};
    struct client_reply reply;
    int error;
    TRY(node_stream_read(&o, &error));
    if (!error)
        return exit_status(c, id);
    client_call(c, &reply, NULL, "PUT /v1/scheduler/kill?id=%s", id);
    int status = exit_status(c, id);
    if (error != EPIPE)
        return client_error("cannot write the output: %s", strerror(error));
    return status ? 128 + SIGPIPE : status;
}

/* For a moment after its end a node may still be in use (409). */
static int remove_node(struct client *c, const char *id)
{
    struct client_reply reply = {0};
    for (int i = 0; i < REMOVE_TRIES; i++) {
        TRY(client_try(c, &reply, NULL, "DELETE /v1/nodes/%s", id));
        if (reply.status != 409)
            break;
        nanosleep(&(struct timespec){.tv_nsec = REMOVE_PAUSE_MS * 1000000L}, NULL);
    }
    return reply.status == 200 ? CMD_OK : client_refused(c, &reply);
}

static int run_exec(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    CLEANUP(buf_release) struct buf body = {0};
    struct client_reply reply;
    struct exec e = {.stop_fd = eventfd(0, EFD_CLOEXEC)};
    pthread_t input, signals;

    TRY(client_configure(&call->client, &e.config));
    TRY(client_connect(&c, &e.config));
    if (options.group)
        TRY(agents_wait(&c, options.group, options.agent_ms));
    put_node(&body, call->count, call->operands);
    block_signals();
    TRY(client_call(&c, &reply, buf_text(&body), "POST /v1/nodes"));
    char id[24];
    snprintf(id, sizeof id, "%.*s",
             STR_ARGS(json_text_of(reply.json ? reply.json->first : NULL, "id")));
    e.id = id;
    thread_must_start(&signals, "exec-signals", signals_main, &e);
    thread_must_start(&input, "exec-input", input_main, &e);
    int status = follow(&c, id);
    if (eventfd_write(e.stop_fd, 1))
        return client_error("cannot end the threads");
    pthread_join(signals, NULL);
    pthread_join(input, NULL);
    close(e.stop_fd);
    if (options.remove && remove_node(&c, id) && !status)
        status = CMD_FAILURE;
    return status;
}

const struct cmd cmd_exec = CMD_INIT(
    "exec", "run one command as a node", "-- COMMAND [ARGUMENT]...",
    "Runs one command as a node, as if it ran here: prints exactly what it prints, passes\n"
    "standard input and signals to it, and ends with its exit status: 128 and the signal if\n"
    "one ended it, 124 if its time was over.",
    CMD_OPTIONS(
        {"group", "GROUP", "Run it on an agent of this group. Default: drover/run.", option_text,
         &options.group},
        {"wait-for-agent", "TIME",
         "Wait so long for an agent of the group. Default: if there is none, it is not run.",
         option_span, &options.agent_ms, 0, INT32_MAX},
        {"cwd", "DIR", "Run it in this directory. Default: the current one.", option_text,
         &options.cwd},
        {"timeout", "TIME", "Kill it after this time (500ms, 30s, 5m).", option_span,
         &options.timeout_ms, 1, INT32_MAX},
        {"user", "USER", "Run it as this user, if the server permits that.", option_text,
         &options.user},
        {"rm", NULL, "Remove the node and its output when it has ended.", option_flag,
         &options.remove},
        {"no-stdin", NULL, "Its standard input is empty; ours is not read.", option_flag,
         &options.no_input, .letter = 'n'},
        LIMIT_OPTIONS(options.limits)),
    CMD_REMOTE, run_exec);
