#include "server/status.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "http/metrics.h"
#include "server/ground.h"
#include "server/process.h"
#include "server/sessions.h"

static void get_healthz(struct http_request *r)
{
    http_reply(r, 200, STR("{\"status\":\"ok\"}"));
}

/* What the embedded keeper has not enough of, so that it refuses changes; NULL: nothing. */
static const char *lacks(struct local *l)
{
    switch (l ? local_shortage(l) : 0) {
    case 0:
        return NULL;
    case DROVER_TOO_MANY:
        return "file descriptors: changes that add are refused";
    default:
        return "room on the disk: changes that add are refused, deletions go on";
    }
}

const char *status_starting(struct module_set *m)
{
    struct keeper *k = context_keeper(m->context);
    if (!k)
        return "the keeper";
    context_return(m->context, k);
    for (size_t i = 0; i < m->open_count; i++)
        if (m->all[i]->ready && !m->all[i]->ready(m->open[i]))
            return m->all[i]->name;
    return ground_is_whole(m->context) ? NULL : "nodes that another client has deleted";
}

const char *status_waits_for(struct module_set *m)
{
    const char *lack = lacks(m->context->local);
    return lack ? lack : status_starting(m);
}

static void answer_ready(struct http_request *r, const char *waiting)
{
    if (waiting)
        http_reply_errorf(r, 503, "waiting for %s", waiting);
    else
        get_healthz(r);
}

/*
 * A session may look alive while the ensemble cannot be reached, so readiness asks the ensemble. A
 * commit does not wait for a connection. The session is not borrowed meanwhile: closing it calls
 * back, too. The callback gets a pointer to the request; NULL: the client has left.
 */
static void on_probe_gone(struct http_request *r)
{
    *(struct http_request **)r->handler_data = NULL;
}

static void on_probe_done(void *arg, int err, const struct keeper_result *results, size_t count)
{
    struct http_request **waiting = arg;
    (void)results, (void)count;
    if (*waiting)
        answer_ready(*waiting, err ? "the ensemble" : NULL);
    free(waiting);
}

static int probe_ensemble(struct context *h, struct http_request *r)
{
    struct keeper_op look = keeper_op_check("/", KEEPER_ANY_VERSION);
    struct keeper *k = context_keeper(h);
    if (!k)
        return DROVER_UNKNOWN;
    struct http_request **waiting = mem_alloc(sizeof *waiting);
    *waiting = r;
    r->handler_data = waiting;
    r->gone = on_probe_gone;
    int err = keeper_commit(k, &look, 1, on_probe_done, waiting);
    context_return(h, k);
    if (err)
        free(waiting);
    return err;
}

static void get_readyz(struct http_request *r)
{
    struct module_set *m = r->arg;
    const char *waiting = status_waits_for(m);
    if (waiting || m->context->local)
        answer_ready(r, waiting);
    else if (probe_ensemble(m->context, r))
        answer_ready(r, "the ensemble");
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/healthz", get_healthz, ROUTE_OPEN, "Tell whether the server runs", "getHealth",
     .reply = "status:=ok"},
    {METHOD_GET, "/readyz", get_readyz, ROLE_READ, "Tell whether the server is ready for requests",
     "getReadiness", .reply = "status:=ok", .errors = "503 What it waits for"},
};

struct route_table status_routes(struct module_set *m)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, m, .tag = "Server"};
}

/* Metrics of the process and the keeper. */

#define STAT(member, name, type, help)                                                             \
    {                                                                                              \
        name, type, help, offsetof(struct local_stats, member)                                     \
    }

static const struct {
    const char *name, *type, *help;
    size_t at;
} STATS[] = {
    STAT(zxid, "drover_keeper_zxid", "gauge", "The newest transaction."),
    STAT(durable_zxid, "drover_keeper_durable_zxid", "gauge",
         "The newest transaction that is on disk."),
    STAT(nodes, "drover_keeper_nodes", "gauge", "Nodes in the tree."),
    STAT(sessions, "drover_keeper_sessions", "gauge", "Sessions."),
    STAT(ephemerals, "drover_keeper_ephemerals", "gauge", "Ephemeral nodes."),
    STAT(watches, "drover_keeper_watches", "gauge", "Watches."),
    STAT(journal_records, "drover_journal_records_total", "counter",
         "Records written to the journal."),
    STAT(journal_bytes, "drover_journal_bytes_total", "counter", "Bytes written to the journal."),
    STAT(journal_syncs, "drover_journal_syncs_total", "counter", "Syncs of the journal."),
    STAT(is_full, "drover_journal_full", "gauge",
         "1 while there is no room for what is added: such changes are refused."),
    STAT(replay_segments, "drover_journal_replay_segments", "gauge",
         "Segments of the journal that a start would read."),
    STAT(reserve_bytes, "drover_journal_reserve_bytes", "gauge",
         "Room on the disk that is kept back for deletions and a start."),
    STAT(snapshots, "drover_snapshots_total", "counter", "Snapshots written."),
    STAT(snapshot_zxid, "drover_snapshot_zxid", "gauge",
         "The transaction at which the newest snapshot begins."),
};

static void collect_keeper(void *arg, struct buf *page)
{
    struct context *h = arg;
    struct local_stats stats;
    local_stats(h->local, &stats);
    for (size_t i = 0; i < sizeof STATS / sizeof *STATS; i++) {
        uint64_t value; /* signed members are never negative */
        memcpy(&value, (const char *)&stats + STATS[i].at, sizeof value);
        metrics_put_family(page, STATS[i].name, STATS[i].type, STATS[i].help);
        metrics_put_sample(page, STATS[i].name, STR(""), (double)value);
    }
}

/* 0: there is none. */
static double read_snapshot_time(void *arg)
{
    struct local_stats stats;
    local_stats(arg, &stats);
    return (double)stats.snapshot_ms / 1000;
}

static void journal_metrics(struct metrics *to, struct local *l)
{
    struct local_stats stats;
    local_stats(l, &stats);
    if (!stats.rounds)
        return;
    metrics_show_histogram(to, "drover_journal_round_seconds", NULL,
                           "Time to write a round of records, and to sync it.", stats.rounds);
    metrics_show_histogram(to, "drover_snapshot_seconds", NULL, "Time to take a snapshot.",
                           stats.snapshot_times);
    metrics_read(to, "drover_snapshot_timestamp_seconds", "gauge", NULL,
                 "When the newest snapshot was complete, in seconds since the epoch; 0: there is "
                 "none.",
                 read_snapshot_time, l);
}

static double read_sessions(void *arg)
{
    return (double)sessions_count(arg);
}

static double read_version(void *arg)
{
    (void)arg;
    return 1;
}

static double read_ready(void *arg)
{
    return !status_waits_for(arg);
}

void status_metrics(struct module_set *m)
{
    struct metrics *to = m->context->metrics;
    metrics_read(to, "drover_build_info", "gauge", "version=\"" DROVER_VERSION "\"", "The version.",
                 read_version, NULL);
    metrics_read(to, "drover_ready", "gauge", NULL, "1 when /readyz says so.", read_ready, m);
    metrics_read(to, "drover_http_sessions", "gauge", NULL, "Sessions of clients over HTTP.",
                 read_sessions, m->context->sessions);
    process_metrics(to);
    if (m->context->local) {
        metrics_collector(to, collect_keeper, m->context);
        journal_metrics(to, m->context->local);
    }
}
