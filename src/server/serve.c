/*
 * The order matters. Arguments are checked and ports bound before the data directory is touched, so
 * that a failed start changes nothing. Signals are caught once everything runs; before that they
 * end the process at once, which recovery handles. The first TERM or INT closes everything in order
 * and restores the default handling of signals, so that a second one ends the process at once.
 */
#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/buf.h"
#include "base/file_limit.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "http/metrics.h"
#include "http/server.h"
#include "keeper/local/local.h"
#include "keeper/wire/wire.h"
#include "server/announce.h"
#include "server/audit.h"
#include "server/auth.h"
#include "server/backup.h"
#include "server/certificate.h"
#include "server/commands.h"
#include "server/context.h"
#include "server/ground.h"
#include "server/limits.h"
#include "server/loop_delay.h"
#include "server/notify.h"
#include "server/reload.h"
#include "server/serve.h"
#include "server/sessions.h"
#include "server/status.h"
#include "server/unix_socket.h"

enum { SIGNAL_COUNT = 3 };

struct serve {
    struct serve_options options;
    const struct serve_options *chosen; /* what they are after a reload */
    struct buf keeper_url;
    struct unix_socket socket;
    struct certificate certificate;
    struct notify notify;
    char *next_super; /* while it reloads */
    struct reload reload;
    uv_loop_t loop;
    struct loop_delay delay;
    uv_signal_t signals[SIGNAL_COUNT];
    uv_idle_t turn; /* while it is active the loop does not block, so there is another turn */
    int64_t seen;   /* changes that were deferred in the last turn */
    bool defers;
    bool started;           /* and said so in the audit log */
    struct context context; /* filled as things are opened */
    struct module_set modules;
};

/* Start. */

/* Queue workers use the keeper directly, so the server tells them where it is. */
static const char *keeper_url(struct serve *s)
{
    if (!s->context.wire || wire_is_tls(s->context.wire, 0))
        return s->options.keeper;
    buf_printf(&s->keeper_url, "zk://%s", wire_address(s->context.wire, 0));
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
    local_set_defers(s->context.local, true);
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
    int64_t deferred = local_deferred(s->context.local);
    if (deferred > s->seen) {
        s->seen = deferred;
        UV_CHECK(uv_idle_start(&s->turn, on_turn));
        return false;
    }
    s->seen = 0;
    uv_idle_stop(&s->turn);
    if (!deferred || !local_write_deferred(s->context.local) || !s->context.on_written)
        return false;
    s->context.on_written(s->context.on_written_arg);
    return true;
}

static void close_opened(struct serve *s)
{
    struct module_set *m = &s->modules;
    while (m->open_count) {
        m->open_count--;
        m->all[m->open_count]->close(m->open[m->open_count]);
    }
    s->context.listener_count = 0; /* the session may end before the context is closed */
}

/* Without HTTP the modules could not be reached: only the ZooKeeper port is served. */
static int open_modules(struct serve *s, struct err_info *ret_error)
{
    struct module_set *m = &s->modules;
    struct route_table tables[MODULES_MAX + 5];
    size_t count = 0;
    if (!s->context.http)
        return 0;
    if (s->context.local && s->options.journal == LOCAL_STRICT)
        start_deferring(s);
    if (s->options.journal != LOCAL_NONE && s->context.local)
        s->context.data_dir = s->options.data;
    s->context.url = http_url(s->context.http, 0);
    s->context.keeper_url = keeper_url(s);
    TRY(context_open(&s->context, &s->loop, ret_error));
    ground_open(&s->context);
    for (size_t i = 0; m->all[i]; m->open_count = ++i) {
        assert(i < MODULES_MAX);
        int err = m->all[i]->open(&s->context, &m->open[i], ret_error);
        if (err) {
            close_opened(s); /* at once: the loop must not start what they would do */
            return err;
        }
        if (m->all[i]->routes)
            tables[count++] = m->all[i]->routes(m->open[i]);
    }
    ground_begin(&s->context);
    status_metrics(m);
    limits_open(&s->context);
    tables[count++] = status_routes(m);
    tables[count++] = commands_routes(&s->context);
    tables[count++] = backup_routes(&s->context);
    tables[count++] = metrics_routes(s->context.metrics);
    tables[count++] = events_routes(s->context.events);
    http_serve(s->context.http, tables, count);
    return 0;
}

static void on_note(void *arg, const char *line)
{
    (void)arg;
    log_event(LOG_LEVEL_WARNING, LOG_FIELDS("keeper", LOG_TEXT_OF("detail", line)), "%s", line);
}

/* The journal could not be written: nothing more can be promised. */
static void on_fatal(void *arg, const char *line)
{
    (void)arg;
    log_event(LOG_LEVEL_ERROR, LOG_FIELDS("failed", LOG_TEXT_OF("error", line)), "%s", line);
    _exit(1);
}

static void on_progress(void *arg, const char *what)
{
    struct serve *s = arg;
    notify_progress(&s->notify, what);
}

static int open_keeper(struct serve *s, struct err_info *ret_error)
{
    struct zookeeper_session_options zo = {s->options.keeper, s->options.zk_auth,
                                           (int32_t)s->options.zk_timeout_ms, s->options.zk_tls};
    if (zo.url)
        return zookeeper_session_open(&s->loop, &zo, &s->context.ensemble, ret_error);
    if (s->options.makes_parents && s->options.journal != LOCAL_NONE) {
        CLEANUP(mem_free) char *path = mem_dup(s->options.data, strlen(s->options.data));
        fs_make_parents(path);
    }
    struct local_options o = {
        .mode = (enum local_mode)s->options.journal,
        .dir = s->options.data,
        .snapshot_every = s->options.snapshot_every,
        .reap_ms = s->options.zk_reap_ms,
        .note = on_note,
        .progress = on_progress,
        .fatal = on_fatal,
        .arg = s,
    };
    TRY(local_open(&o, &s->context.local, ret_error));
    if (!s->options.loopback_roles || s->options.wire.require_auth)
        local_bind(s->context.local);
    return s->options.journal == LOCAL_NONE
               ? 0
               : auth_make_admin_token(s->context.auth, s->options.data, ret_error);
}

/*
 * Closes from the top down: requests, then the modules that answer them, then what the modules use.
 */
static void close_modules(void *arg)
{
    struct serve *s = arg;
    if (s->defers) {
        local_set_defers(s->context.local, false);
        uv_close((uv_handle_t *)&s->turn, NULL);
    }
    loop_delay_close(&s->delay);
    ground_close(&s->context);
    close_opened(s);
    if (s->context.loop)
        context_close(&s->context);
    if (s->context.wire)
        wire_close(s->context.wire);
    if (s->context.ensemble)
        zookeeper_session_close(s->context.ensemble);
    if (s->started)
        audit_note(s->context.audit,
                   &(struct audit_event){.who = "server", .from = "", .action = "stop"});
    audit_stop(s->context.audit);
}

static void close_all(struct serve *s)
{
    certificate_unwatch(&s->certificate);
    if (s->context.http)
        http_close(s->context.http);
    else
        close_modules(s);
}

/*
 * The Unix socket. At its default place another server may have it, which must not keep this one
 * from starting.
 */
static int open_socket(struct serve *s, struct err_info *ret_error)
{
    if (s->options.socket_fd || !strcmp(s->options.socket, "none"))
        return 0;
    struct unix_socket_options o = {.path = s->options.socket,
                                    .mode = (mode_t)s->options.socket_mode,
                                    .group = s->options.socket_group};
    int err = unix_socket_open(&o, &s->socket, ret_error);
    if (!err || !s->options.socket_is_default)
        return err;
    log_warning("no Unix socket: %s", ret_error->text);
    return 0;
}

static struct http_options http_options(struct serve *s)
{
    return (struct http_options){
        .addresses = &s->options.http,
        .tls_addresses = &s->options.https,
        .tls = s->certificate.tls,
        .unix_socket = s->socket.path ? s->socket.fd : s->options.socket_fd,
        .request_timeout_ms = s->options.http_timeout_ms,
        .connections_max = (size_t)s->options.connections_max,
        .identify = auth_identify,
        .generation = auth_generation(s->context.auth),
        .access_arg = s->context.auth,
        .refused = audit_refused,
        .answered = audit_answered,
        .audit_arg = s->context.audit,
        .connections_per_address = (size_t)s->options.connections_per_address,
        .waits_max = (size_t)s->options.waits_max,
        .memory_max = (size_t)(s->options.memory - limits_wire_memory(&s->options)),
        .hosts = s->options.http_hosts.items,
        .host_count = s->options.http_hosts.count,
        .metrics = s->context.metrics,
        .rest = on_rest,
        .rest_arg = s,
        .closed = close_modules,
        .closed_arg = s,
    };
}

static int listen_http(struct serve *s, struct err_info *ret_error)
{
    struct auth_options rights = {.loopback_roles = s->options.loopback_roles,
                                  .certificates = &s->options.certificates,
                                  .token_file = s->options.token_file};
    TRY(audit_open(&s->loop, s->context.metrics, s->options.audit, &s->context.audit, ret_error));
    TRY(auth_open(&rights, &s->context.auth, ret_error));
    reload_add(&s->reload, auth_reload_hook(s->context.auth));
    TRY(open_socket(s, ret_error));
    struct http_options o = http_options(s);
    if (!o.addresses->count && !o.tls_addresses->count && !o.unix_socket)
        return 0;
    return http_listen(&s->loop, &o, &s->context.http, ret_error);
}

/* Recognises clients of the ZooKeeper port as those of HTTP. */
static struct identity *identify_wire(void *arg, bool is_loopback,
                                      const struct tls_peer *certificate, struct str token)
{
    struct http_peer peer = {
        .is_loopback = is_loopback, .user = (uid_t)-1, .certificate = certificate};
    return auth_identify(arg, &peer, token);
}

/* Reload. */

static int prepare_options(void *arg, const struct reload *r, struct err_info *ret_error)
{
    struct serve *s = arg;
    s->next_super = NULL;
    if (!s->context.wire)
        return 0;
    return wire_prepare(s->context.wire, reload_text(r, "zk-super"), &s->next_super, ret_error);
}

static void cancel_options(void *arg)
{
    struct serve *s = arg;
    free(s->next_super);
}

static void use_options(void *arg)
{
    struct serve *s = arg;
    const struct serve_options *o = s->chosen;
    s->options.http_hosts = o->http_hosts;
    s->options.http_timeout_ms = o->http_timeout_ms;
    s->options.connections_max = o->connections_max;
    s->options.connections_per_address = o->connections_per_address;
    s->options.waits_max = o->waits_max;
    s->options.memory = o->memory;
    struct http_options http = http_options(s);
    struct wire_options wire = o->wire;
    wire.memory_max = limits_wire_memory(&s->options);
    log_begin((enum log_format)o->log_format, (enum log_level)o->log_level);
    if (s->context.http)
        http_change(s->context.http, &http);
    if (s->context.wire)
        wire_change(s->context.wire, &wire, s->next_super);
    if (s->context.sessions)
        sessions_set_max(s->context.sessions, (size_t)o->wire.sessions_max);
    if (s->context.local)
        local_set_intervals(s->context.local, o->snapshot_every, o->zk_reap_ms);
    for (size_t i = 0; i < s->modules.open_count; i++)
        if (s->modules.all[i]->reload)
            s->modules.all[i]->reload(s->modules.open[i]);
    announce_exposed_secrets(&s->options);
}

/* The audit log may have been moved away, to begin a new one. */
static int reopen_audit(void *arg, const struct reload *r, struct err_info *ret_error)
{
    const struct serve *s = arg;
    (void)r;
    return audit_reopen(s->context.audit, ret_error);
}

static void note_reload(void *arg)
{
    const struct serve *s = arg;
    audit_note(s->context.audit,
               &(struct audit_event){.who = "server", .from = "", .action = "reload"});
}

static void on_hangup(struct serve *s)
{
    log_info("reloading: received SIGHUP");
    notify_reloading(&s->notify);
    notify_reloaded(&s->notify, reload_run(&s->reload));
}

/* Run and end. */

static void on_signal(uv_signal_t *handle, int number)
{
    struct serve *s = handle->data;
    if (number == SIGHUP) {
        on_hangup(s);
        return;
    }
    for (int i = 0; i < SIGNAL_COUNT; i++)
        uv_close((uv_handle_t *)&s->signals[i], NULL);
    const char *name = number == SIGINT ? "SIGINT" : "SIGTERM";
    log_event(LOG_LEVEL_INFO, LOG_FIELDS("stopping", LOG_TEXT_OF("signal", name)),
              "stopping: received %s", name);
    notify_stopping(&s->notify, "stopping");
    close_all(s);
}

static void catch_signals(struct serve *s)
{
    static const int numbers[SIGNAL_COUNT] = {SIGTERM, SIGINT, SIGHUP};
    for (int i = 0; i < SIGNAL_COUNT; i++) {
        UV_CHECK(uv_signal_init(&s->loop, &s->signals[i]));
        s->signals[i].data = s;
        UV_CHECK(uv_signal_start(&s->signals[i], on_signal, numbers[i]));
    }
}

/* Starts everything, from the ports to the modules. */
static int start(struct serve *s, struct err_info *ret_error)
{
    if (s->options.tls.cert)
        TRY(certificate_open(&s->certificate, &s->options.tls, ret_error));
    TRY(listen_http(s, ret_error));
    s->options.wire.rights = (struct wire_rights){identify_wire, auth_generation(s->context.auth),
                                                  s->context.auth, audit_wire, s->context.audit};
    s->options.wire.tls = s->certificate.tls;
    s->options.wire.memory_max = limits_wire_memory(&s->options);
    if (s->options.wire.listen.count || s->options.wire.tls_listen.count)
        TRY(wire_listen(&s->loop, &s->options.wire, &s->context.wire, ret_error));
    notify_progress(&s->notify, "opening the keeper");
    TRY(open_keeper(s, ret_error));
    notify_progress(&s->notify, "opening the modules");
    TRY(open_modules(s, ret_error));
    TRY(announce_to_audit(&s->options, &s->context, ret_error));
    s->started = true;
    return 0;
}

static void release(struct serve *s)
{
    uv_loop_close(&s->loop);
    if (s->context.local)
        local_close(s->context.local);
    metrics_free(s->context.metrics);
    buf_release(&s->keeper_url);
    unix_socket_close(&s->socket);
    notify_close(&s->notify);
    certificate_close(&s->certificate);
    auth_close(s->context.auth);
    audit_free(s->context.audit);
}

int serve(const struct serve_options *o)
{
    struct serve s = {
        .options = *o, .chosen = o, .modules.all = o->modules, .reload.source = o->source};
    struct err_info e;
    signal(SIGPIPE, SIG_IGN); /* a closed connection is an error of the write */
    file_limit_raise();
    notify_open(&s.notify);
    UV_CHECK(uv_loop_init(&s.loop));
    s.context.metrics = metrics_new();
    loop_delay_open(&s.delay, &s.loop, s.context.metrics);
    s.modules.context = &s.context;
    s.context.reload = &s.reload;
    reload_add(&s.reload, (struct reload_hook){prepare_options, use_options, cancel_options, &s});
    reload_add(&s.reload, (struct reload_hook){reopen_audit, note_reload, NULL, &s});
    s.context.sessions_max = (size_t)o->wire.sessions_max;
    int err = start(&s, &e);
    if (err) {
        while (s.context.local && local_has_failed(s.context.local))
            pause(); /* on_fatal(), on another thread, says why and ends the process */
        log_event(LOG_LEVEL_ERROR,
                  LOG_FIELDS("start-failed", LOG_TEXT_OF("error", drover_err_name(err))), "%s",
                  e.text);
        notify_stopping(&s.notify, e.text);
        close_all(&s);
    } else {
        if (s.context.wire)
            wire_serve(s.context.wire, s.context.local);
        certificate_watch(&s.certificate, &s.loop, &s.reload);
        catch_signals(&s);
        announce_start(&s.options, &s.context);
        notify_begin(&s.notify, &s.loop, &s.modules);
    }
    uv_run(&s.loop, UV_RUN_DEFAULT);
    release(&s);
    return err;
}
