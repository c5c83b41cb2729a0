/*
 * The order matters. Arguments are checked and ports bound before the data directory is touched, so
 * that a failed start changes nothing. Signals are caught once everything runs; before that they
 * end the process at once, which recovery handles. The first TERM or INT closes everything in order
 * and restores the default handling of signals, so that a second one ends the process at once.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/buf.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/uv_check.h"
#include "http/metrics.h"
#include "http/server.h"
#include "keeper/local/local.h"
#include "keeper/wire/wire.h"
#include "server/modules.h"
#include "server/serve.h"

static const char *const JOURNAL_NAMES[] = {
    [LOCAL_STRICT] = "strict",
    [LOCAL_OPPORTUNISTIC] = "opportunistic",
    [LOCAL_NONE] = "none",
};

struct serve {
    struct serve_options options;
    struct buf default_data, keeper_url;
    char *token;
    uv_loop_t loop;
    uv_signal_t signals[2];
    uv_idle_t turn; /* while it is active the loop does not block, so there is another turn */
    int64_t seen;   /* changes that were deferred in the last turn */
    bool defers;
    struct metrics *metrics;
    struct http_server *http;
    struct wire *wire;
    struct zookeeper_session *ensemble;
    struct local *local;
    struct context context;
    struct modules modules;
};

/* The default data directory. */

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
 * Creates the parents of the default directory, which a new user does not have yet. A failure shows
 * when the keeper creates the last one. Parents of a directory that was named must exist: a typo
 * should not become a new tree of directories.
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

/* Queue workers use the keeper directly, so the server tells them where it is. */
static const char *keeper_url(struct serve *s)
{
    if (!s->wire)
        return s->options.keeper;
    buf_printf(&s->keeper_url, "zk://%s", wire_address(s->wire));
    return buf_text(&s->keeper_url);
}

/*
 * Group commit: the changes that requests on the loop make share the syncs of the journal.
 *
 * Under load the loop is always about to make another change, and a sync takes as much CPU time as
 * a dozen of them. So the keeper defers them (local_set_defers()) until a turn of the loop has
 * brought no more of them: nothing waits while there is nothing to do. A single change is written
 * by the loop itself, if the disk is fast.
 */
static void start_deferring(struct serve *s)
{
    UV_CHECK(uv_idle_init(&s->loop, &s->turn));
    uv_unref((uv_handle_t *)&s->turn);
    local_set_defers(s->local, true);
    s->defers = true;
}

static void on_turn(uv_idle_t *turn)
{
    (void)turn;
}

/* Before the loop waits. True: the loop has written a change itself, and answers may leave. */
static bool on_rest(void *arg)
{
    struct serve *s = arg;
    if (!s->defers)
        return false;
    int64_t deferred = local_deferred(s->local);
    if (deferred > s->seen) {
        s->seen = deferred;
        UV_CHECK(uv_idle_start(&s->turn, on_turn));
        return false;
    }
    s->seen = 0;
    uv_idle_stop(&s->turn);
    if (!deferred || !local_write_deferred(s->local) || !s->context.on_written)
        return false;
    s->context.on_written(s->context.on_written_arg);
    return true;
}

/* Without HTTP the modules could not be reached: only the ZooKeeper port is served. */
static int open_modules(struct serve *s, struct err_info *ret_error)
{
    struct route_table tables[MODULES_MAX + 3];
    if (!s->http)
        return 0;
    if (s->local && s->options.journal == LOCAL_STRICT)
        start_deferring(s);
    s->modules.table = s->options.modules;
    s->context = (struct context){
        .metrics = s->metrics,
        .http = s->http,
        .token = s->token,
        .data_dir = s->options.journal == LOCAL_NONE || s->ensemble ? NULL : s->options.data,
        .url = http_url(s->http),
        .keeper_url = keeper_url(s),
    };
    TRY(context_open(&s->context, &s->loop, s->local, s->ensemble, ret_error));
    TRY(modules_open(&s->modules, &s->context, ret_error));
    size_t count = modules_routes(&s->modules, tables);
    tables[count++] = metrics_routes(s->metrics);
    tables[count++] = events_routes(s->context.events);
    http_serve(s->http, tables, count);
    return 0;
}

static void on_note(void *arg, const char *line)
{
    (void)arg;
    log_warning("%s", line);
}

static int open_keeper(struct serve *s, struct err_info *ret_error)
{
    struct zookeeper_session_options ensemble = {.url = s->options.keeper,
                                                 .auth_file = s->options.zk_auth,
                                                 .timeout_ms = (int32_t)s->options.zk_timeout_ms};
    if (s->options.keeper)
        return zookeeper_session_open(&s->loop, &ensemble, &s->ensemble, ret_error);
    if (!s->options.data && s->options.journal != LOCAL_NONE) {
        default_data(&s->default_data);
        s->options.data = buf_text(&s->default_data);
        make_parents(s->default_data.p);
    }
    struct local_options o = {
        .mode = (enum local_mode)s->options.journal,
        .dir = s->options.data,
        .snapshot_every = s->options.snapshot_every,
        .reap_ms = s->options.zk_reap_ms,
        .note = on_note,
    };
    return local_open(&o, &s->local, ret_error);
}

/*
 * Closes from the top down: requests, then the modules that answer them, then what the modules use.
 */
static void close_modules(void *arg)
{
    struct serve *s = arg;
    if (s->defers) {
        local_set_defers(s->local, false);
        uv_close((uv_handle_t *)&s->turn, NULL);
    }
    modules_close(&s->modules);
    if (s->context.loop)
        context_close(&s->context);
    if (s->wire)
        wire_close(s->wire);
    if (s->ensemble)
        zookeeper_session_close(s->ensemble);
}

static void close_all(struct serve *s)
{
    if (s->http)
        http_close(s->http);
    else
        close_modules(s);
}

static int listen_http(struct serve *s, struct err_info *ret_error)
{
    if (s->options.token_file)
        TRY(token_read(s->options.token_file, &s->token, ret_error));
    struct http_options o = {
        .address = s->options.http.address,
        .request_timeout_ms = s->options.http_timeout_ms,
        .connections_max = (size_t)s->options.connections_max,
        .token = s->token,
        .hosts = s->options.http_hosts.items,
        .host_count = s->options.http_hosts.count,
        .metrics = s->metrics,
        .rest = on_rest,
        .rest_arg = s,
        .closed = close_modules,
        .closed_arg = s,
    };
    return http_listen(&s->loop, &o, &s->http, ret_error);
}

static void say_what_is_kept(struct serve *s)
{
    struct local_stats stats;
    if (s->options.keeper) {
        log_info("keeper %s", s->options.keeper);
        return;
    }
    local_stats(s->local, &stats);
    if (s->options.journal == LOCAL_NONE)
        log_info("data directory none: all data is lost when this process ends");
    else
        log_info("data directory %s", s->options.data);
    log_info("journal %s", JOURNAL_NAMES[s->options.journal]);
    log_info("recovered %" PRIu64 " nodes, %" PRIu64 " journal records", stats.recovered_nodes,
             stats.recovered_records);
}

static void say_what_runs(struct serve *s)
{
    log_info("version %s", DROVER_VERSION);
    say_what_is_kept(s);
    if (s->http)
        log_info("listening on %s", http_url(s->http));
    if (s->wire)
        log_info("listening on zk://%s", wire_address(s->wire));
}

/* Run and end. */

static void on_signal(uv_signal_t *handle, int number)
{
    struct serve *s = handle->data;
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&s->signals[i], NULL);
    log_info("stopping: received %s", number == SIGINT ? "SIGINT" : "SIGTERM");
    close_all(s);
}

static void catch_signals(struct serve *s)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    for (int i = 0; i < 2; i++) {
        UV_CHECK(uv_signal_init(&s->loop, &s->signals[i]));
        s->signals[i].data = s;
        UV_CHECK(uv_signal_start(&s->signals[i], on_signal, numbers[i]));
    }
}

/* Starts everything, from the ports to the modules. */
static int start(struct serve *s, struct err_info *ret_error)
{
    if (!s->options.http.none)
        TRY(listen_http(s, ret_error));
    if (!s->options.zk.none)
        TRY(wire_listen(&s->loop, &s->options.zk.address, &s->wire, ret_error));
    TRY(open_keeper(s, ret_error));
    return open_modules(s, ret_error);
}

static void release(struct serve *s)
{
    uv_loop_close(&s->loop);
    if (s->local)
        local_close(s->local);
    metrics_free(s->metrics);
    buf_release(&s->default_data);
    buf_release(&s->keeper_url);
    free(s->token);
}

int serve(const struct serve_options *o)
{
    struct serve s = {.options = *o};
    struct err_info e;
    signal(SIGPIPE, SIG_IGN); /* a closed connection is an error of the write */
    file_limit_raise();
    UV_CHECK(uv_loop_init(&s.loop));
    s.metrics = metrics_new();
    int err = start(&s, &e);
    if (err) {
        log_error("%s", e.text);
        close_all(&s);
    } else {
        if (s.wire)
            wire_serve(s.wire, s.local);
        catch_signals(&s);
        say_what_runs(&s);
    }
    uv_run(&s.loop, UV_RUN_DEFAULT);
    release(&s);
    return err;
}
