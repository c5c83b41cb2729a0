/*
 * drover serve - the server: the embedded keeper, HTTP and ZooKeeper's protocol on it.
 *
 * The order matters. Arguments are checked and ports bound before the data directory is touched, so
 * that a start that cannot succeed changes nothing. Signals are caught once everything runs; before
 * that they end the process at once, which recovery is made for. The first TERM or INT closes
 * everything in turn; it also gives the signals their usual meaning back, so that a second one ends
 * the process at once.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/buf.h"
#include "base/log.h"
#include "cmd.h"
#include "ensemble.h"
#include "http/server.h"
#include "keeper/local.h"
#include "keeper/wire.h"
#include "rooms.h"

#define HTTP_DEFAULT "127.0.0.1:8048"
#define ZK_DEFAULT "127.0.0.1:8049"

_Static_assert(LOCAL_SNAPSHOT_EVERY == 200000 && LOCAL_FLUSH_MS == 100 &&
                   HTTP_REQUEST_TIMEOUT_MS == 10000,
               "--help names these");

static const char *const JOURNAL_NAMES[] = {
    [LOCAL_STRICT] = "strict",
    [LOCAL_OPPORTUNISTIC] = "opportunistic",
    [LOCAL_NONE] = "none",
};

struct serve {
    const char *data, *keeper, *zk_auth;
    int journal; /* enum local_mode */
    struct cmd_address http_address, zk_address;
    const char *log_dir;
    int64_t jobs, snapshot_every, http_timeout_ms, zk_timeout_ms;

    struct buf default_data;
    uv_loop_t loop;
    uv_signal_t signals[2];
    struct http_server *http;
    struct wire *wire;
    struct ensemble *ensemble;
    struct local *local;
    struct house house;
    struct rooms rooms;
};

/* What the server answers beside the rooms. */

static void get_healthz(struct http_request *r)
{
    http_reply(r, 200, STR("{\"status\":\"ok\"}"));
}

/* On an ensemble, the answer changes with it. */
static void get_readyz(struct http_request *r)
{
    struct serve *s = r->arg;
    struct keeper *k = house_keeper(&s->house);
    const char *waiting = k ? rooms_not_ready(&s->rooms) : "the keeper";

    if (k)
        house_return(&s->house, k);
    if (waiting)
        http_reply_errorf(r, 503, "waiting for %s", waiting);
    else
        http_reply(r, 200, STR("{\"status\":\"ok\"}"));
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/healthz", get_healthz, ROUTE_OPEN, "Whether the server runs."},
    {METHOD_GET, "/readyz", get_readyz, 0, "Whether the server can do what it is asked."},
};

/* The data directory when none was named. */

static void default_data(struct buf *b)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (geteuid() == 0)
        buf_printf(b, "/var/lib/drover");
    else if (state && state[0] == '/')
        buf_printf(b, "%s/drover", state);
    else
        buf_printf(b, "%s/.local/state/drover", home && home[0] == '/' ? home : "");
}

/*
 * The directories above the default one, which a new user does not have yet. Failure shows when the
 * keeper makes the last. A directory that was named has to be below one that is there: a slip of
 * the pen should not become a new tree of directories.
 */
static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

/* Start. */

/* Without HTTP nobody could reach the rooms, and the tree is left to ZooKeeper's clients alone. */
static int open_house(struct serve *s)
{
    struct route_table tables[ROOMS_MAX + 2];
    struct err_info e;
    size_t count;
    int err;

    if (!s->http)
        return 0;
    err = house_open(&s->house, &s->loop, s->local, s->ensemble, &e);
    if (!err) {
        s->house.http = s->http;
        s->house.jobs = s->jobs;
        s->house.log_dir = s->log_dir;
        s->house.url = http_url(s->http);
        err = rooms_open(&s->rooms, &s->house, &e);
    }
    if (err) {
        log_error("%s", e.text);
        return err;
    }
    count = rooms_routes(&s->rooms, tables);
    tables[count++] = (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, s};
    tables[count++] = events_routes(s->house.events);
    http_serve(s->http, tables, count);
    return 0;
}

static void on_note(void *arg, const char *line)
{
    (void)arg;
    log_warning("%s", line);
}

static int open_ensemble(struct serve *s)
{
    struct ensemble_options o = {
        .url = s->keeper, .auth_file = s->zk_auth, .timeout_ms = (int32_t)s->zk_timeout_ms};
    struct err_info e;
    int err = ensemble_open(&s->loop, &o, &s->ensemble, &e);

    if (err)
        log_error("%s", e.text);
    return err;
}

static int open_local(struct serve *s)
{
    struct local_options o = {
        .mode = (enum local_mode)s->journal,
        .dir = s->data,
        .snapshot_every = s->snapshot_every,
        .note = on_note,
    };
    struct err_info e;
    int err;

    if (!s->data && s->journal != LOCAL_NONE) {
        default_data(&s->default_data);
        o.dir = s->data = buf_text(&s->default_data);
        make_parents(s->default_data.p);
    }
    err = local_open(&o, &s->local, &e);
    if (err)
        log_error("%s", e.text);
    return err;
}

/*
 * The end, from the top to the bottom: requests, then the rooms that answer them, then what the rooms
 * stand on.
 */
static void close_rooms(void *arg)
{
    struct serve *s = arg;

    rooms_close(&s->rooms);
    if (s->house.loop)
        house_close(&s->house);
    if (s->wire)
        wire_close(s->wire);
    if (s->ensemble)
        ensemble_close(s->ensemble);
}

static void close_all(struct serve *s)
{
    if (s->http)
        http_close(s->http);
    else
        close_rooms(s);
}

static int listen_http(struct serve *s)
{
    struct http_options o = {
        .address = s->http_address.address,
        .request_timeout_ms = s->http_timeout_ms,
        .closed = close_rooms,
        .closed_arg = s,
    };
    struct err_info e;
    int err;

    if (s->http_address.none)
        return 0;
    err = http_listen(&s->loop, &o, &s->http, &e);
    if (err)
        log_error("%s", e.text);
    return err;
}

static int listen_wire(struct serve *s)
{
    struct err_info e;
    int err;

    if (s->zk_address.none)
        return 0;
    err = wire_listen(&s->loop, &s->zk_address.address, &s->wire, &e);
    if (err)
        log_error("%s", e.text);
    return err;
}

/* Every port that is served is bound here, before the data directory is touched. */
static int bind_ports(struct serve *s)
{
    int err = listen_http(s);

    return err ? err : listen_wire(s);
}

static void say_what_is_kept(struct serve *s)
{
    struct local_stats stats;

    if (s->keeper) {
        log_info("keeper %s", s->keeper);
        return;
    }
    local_stats(s->local, &stats);
    if (s->journal == LOCAL_NONE)
        log_info("data directory none: what is kept is lost when this process ends");
    else
        log_info("data directory %s", s->data);
    log_info("journal %s", JOURNAL_NAMES[s->journal]);
    log_info("recovered %" PRIu64 " nodes, %" PRIu64 " journal records", stats.recovered_nodes,
             stats.recovered_records);
}

static void say_what_runs(struct serve *s)
{
    log_info("version %s", DROVER_VERSION);
    say_what_is_kept(s);
    if (s->http)
        log_info("listening on http://%s", http_address(s->http));
    if (s->wire)
        log_info("listening on zk://%s", wire_address(s->wire));
}

/* Run and end. */

static void on_signal(uv_signal_t *handle, int number)
{
    struct serve *s = handle->data;

    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&s->signals[i], NULL);
    log_info("ending: %s", number == SIGINT ? "interrupted" : "asked to");
    close_all(s);
}

static void catch_signals(struct serve *s)
{
    static const int numbers[] = {SIGTERM, SIGINT};

    for (int i = 0; i < 2; i++) {
        uv_signal_init(&s->loop, &s->signals[i]);
        s->signals[i].data = s;
        uv_signal_start(&s->signals[i], on_signal, numbers[i]);
    }
}

/* Each connection takes a descriptor; the soft limit is for programs that still use select(). */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int serve(struct serve *s)
{
    int err;

    signal(SIGPIPE, SIG_IGN); /* a client that left is an error of its write, not the end of us */
    raise_file_limit();
    uv_loop_init(&s->loop);
    err = bind_ports(s);
    if (!err)
        err = s->keeper ? open_ensemble(s) : open_local(s);
    if (!err)
        err = open_house(s);
    if (!err) {
        if (s->wire)
            wire_serve(s->wire, s->local);
        catch_signals(s);
        say_what_runs(s);
    } else {
        close_all(s);
    }
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    if (s->local)
        local_close(s->local);
    buf_release(&s->default_data);
    return err ? CMD_FAILURE : CMD_OK;
}

/* The command. */

static bool is_given(const struct cmd_address *a)
{
    return a->address.ss_family != AF_UNSPEC;
}

static void default_address(struct cmd_address *a, const char *text)
{
    struct err_info e;

    if (!a->none && !is_given(a))
        cmd_address(&(struct cmd_option){.target = a}, text, &e);
}

/* What an ensemble does itself. */
static int check_keeper(const struct cmd *c, struct serve *s)
{
    if (!s->keeper && s->zk_timeout_ms)
        return cmd_usage_error(c, "--zk-timeout-ms goes with --keeper");
    if (!s->keeper)
        return s->zk_auth ? cmd_usage_error(c, "--zk-auth goes with --keeper") : CMD_OK;
    if (strncmp(s->keeper, "zk://", 5) != 0)
        return cmd_usage_error(c, "--keeper: '%s' is not of the form zk://HOST:PORT,.../CHROOT",
                               s->keeper);
    if (s->data || s->journal != LOCAL_STRICT || s->snapshot_every || is_given(&s->zk_address))
        return cmd_usage_error(c,
                               "--data, --journal, --snapshot-every and --zk are for the embedded "
                               "keeper and do not go with --keeper");
    s->zk_address.none = true;
    return CMD_OK;
}

static int check_addresses(const struct cmd *c, const struct serve *s)
{
    if (!s->http_address.none && !cmd_is_loopback(&s->http_address.address))
        return cmd_usage_error(c, "--http: only loopback addresses are served: any other needs a "
                                  "token, which this version does not have");
    if (!s->zk_address.none && !cmd_is_loopback(&s->zk_address.address))
        return cmd_usage_error(c, "--zk: only loopback addresses are served");
    return CMD_OK;
}

int cmd_serve(int argc, char **argv)
{
    struct serve s = {.jobs = -1};
    const struct cmd_option options[] = {
        {"data", "DIR",
         "Keep everything in this directory, which is made if it is missing. Default:\n"
         "/var/lib/drover for root, else $XDG_STATE_HOME/drover, else\n"
         "~/.local/state/drover.",
         cmd_text, &s.data},
        {"journal", "strict|opportunistic|none",
         "strict (default): answer when a change is on disk.\n"
         "opportunistic: answer from memory; on disk at most 100 ms later.\n"
         "none: memory only, no data directory.",
         cmd_choice, &s.journal},
        {"keeper", "URL",
         "Keep everything in a ZooKeeper ensemble instead of a data directory:\n"
         "zk://HOST:PORT,HOST:PORT/CHROOT.",
         cmd_text, &s.keeper},
        {"zk-timeout-ms", "N",
         "On an ensemble: how long the servers hear nothing of this one before another takes\n"
         "over. Default: 10000.",
         cmd_number, &s.zk_timeout_ms, KEEPER_TIMEOUT_MIN_MS, KEEPER_TIMEOUT_MAX_MS},
        {"zk-auth", "FILE",
         "Log on to the ensemble with the user:password that this file holds (digest), and\n"
         "make nodes for this user only. Default: what $DROVER_ZK_AUTH holds.",
         cmd_text, &s.zk_auth},
        {"http", "ADDR:PORT|none",
         "Serve HTTP there. Default: " HTTP_DEFAULT ". Port 0: any free one.", cmd_address,
         &s.http_address},
        {"http-timeout-ms", "N",
         "Time that a client has to send the head of a request, and again for its\n"
         "body. Default: 10000.",
         cmd_number, &s.http_timeout_ms, 1, 3600 * 1000},
        {"zk", "ADDR:PORT|none",
         "Serve ZooKeeper's clients there. Default: " ZK_DEFAULT ". Port 0: any free one.",
         cmd_address, &s.zk_address},
        {"snapshot-every", "N",
         "Write a snapshot after that many transactions. Default: 200000. Never more often\n"
         "than there are nodes.",
         cmd_number, &s.snapshot_every, 1, INT64_MAX},
        {"jobs", "N",
         "Run that many commands of the DAG at once in this process; 0: leave them to\n"
         "agents. Default: the number of cores.",
         cmd_number, &s.jobs, 0, 100000},
        {"log-dir", "DIR", "Keep all that commands print here, one file a run: NODE-TRY.log.",
         cmd_text, &s.log_dir},
    };
    const struct cmd c = {
        .name = "serve",
        .about = "Runs the server in the foreground until TERM or INT. What it does is said on\n"
                 "standard error, one line for each thing.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    int status;

    if (!cmd_parse(&c, &argc, argv, &status))
        return status;
    status = check_keeper(&c, &s);
    default_address(&s.http_address, HTTP_DEFAULT);
    default_address(&s.zk_address, ZK_DEFAULT);
    if (!status)
        status = check_addresses(&c, &s);
    return status ? status : serve(&s);
}
