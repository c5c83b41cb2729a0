/* Health, readiness, and the metrics of process and keeper. */
#include "server/modules.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "http/metrics.h"

static void get_healthz(struct http_request *r)
{
    http_reply(r, 200, STR("{\"status\":\"ok\"}"));
}

/* What the server waits for; NULL: nothing. */
static const char *waits_for(struct health *h)
{
    struct keeper *k = context_keeper(h->context);

    if (!k)
        return "the keeper";
    context_return(h->context, k);
    return modules_not_ready(h->modules);
}

static void answer_ready(struct http_request *r, const char *waiting)
{
    if (waiting)
        http_reply_errorf(r, 503, "waiting for %s", waiting);
    else
        http_reply(r, 200, STR("{\"status\":\"ok\"}"));
}

/*
 * A session may look alive while the ensemble cannot be reached, so readiness asks the ensemble. A
 * commit does not wait for a connection. The session is not borrowed meanwhile: closing it calls
 * back, too.
 */
struct health_probe {
    struct http_request *request; /* NULL: the client has left */
};

static void on_probe_gone(struct http_request *r)
{
    struct health_probe *p = r->handler_data;

    p->request = NULL;
}

static void on_probe_done(void *arg, int err, const struct keeper_result *results, size_t count)
{
    struct health_probe *p = arg;

    (void)results;
    (void)count;
    if (p->request)
        answer_ready(p->request, err ? "the ensemble" : NULL);
    free(p);
}

static int probe_ensemble(struct health *h, struct http_request *r)
{
    struct keeper_op look = keeper_op_check("/", KEEPER_ANY_VERSION);
    struct keeper *k = context_keeper(h->context);
    struct health_probe *p;

    if (!k)
        return DROVER_UNKNOWN;
    p = mem_zalloc(sizeof *p);
    p->request = r;
    r->handler_data = p;
    r->gone = on_probe_gone;
    int err = keeper_commit(k, &look, 1, on_probe_done, p);
    context_return(h->context, k);
    if (err)
        free(p);
    return err;
}

static void get_readyz(struct http_request *r)
{
    struct health *h = r->arg;
    const char *waiting = waits_for(h);

    if (waiting || h->context->local)
        answer_ready(r, waiting);
    else if (probe_ensemble(h, r))
        answer_ready(r, "the ensemble");
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/healthz", get_healthz, ROUTE_OPEN, "Tell whether the server runs", "getHealth",
     .reply = "status:=ok"},
    {METHOD_GET, "/readyz", get_readyz, 0, "Tell whether the server is ready for requests",
     "getReadiness", .reply = "status:=ok", .errors = "503 What it waits for"},
};

struct route_table health_routes(struct health *h)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, h, .tag = "Server"};
}

/* Metrics. */

/* Members of struct local_stats. */
static const struct {
    const char *name, *type, *help;
    size_t at;
} KEEPER[] = {
    {"drover_keeper_zxid", "counter", "The newest transaction.",
     offsetof(struct local_stats, zxid)},
    {"drover_keeper_durable_zxid", "counter", "The newest transaction that is on disk.",
     offsetof(struct local_stats, durable_zxid)},
    {"drover_keeper_nodes", "gauge", "Nodes in the tree.", offsetof(struct local_stats, nodes)},
    {"drover_keeper_sessions", "gauge", "Sessions.", offsetof(struct local_stats, sessions)},
    {"drover_keeper_ephemerals", "gauge", "Ephemeral nodes.",
     offsetof(struct local_stats, ephemerals)},
    {"drover_keeper_watches", "gauge", "Watches.", offsetof(struct local_stats, watches)},
    {"drover_journal_records_total", "counter", "Records written to the journal.",
     offsetof(struct local_stats, journal_records)},
    {"drover_journal_bytes_total", "counter", "Bytes written to the journal.",
     offsetof(struct local_stats, journal_bytes)},
    {"drover_journal_syncs_total", "counter", "Syncs of the journal.",
     offsetof(struct local_stats, journal_syncs)},
    {"drover_snapshots_total", "counter", "Snapshots written.",
     offsetof(struct local_stats, snapshots)},
    {"drover_snapshot_zxid", "gauge", "The transaction at which the newest snapshot begins.",
     offsetof(struct local_stats, snapshot_zxid)},
};

static void collect_keeper(void *arg, struct buf *page)
{
    struct health *h = arg;

    local_stats(h->context->local, &h->stats);
    for (size_t i = 0; i < sizeof KEEPER / sizeof *KEEPER; i++) {
        uint64_t value; /* signed members are never negative */

        memcpy(&value, (const char *)&h->stats + KEEPER[i].at, sizeof value);
        metrics_put_family(page, KEEPER[i].name, KEEPER[i].type, KEEPER[i].help);
        metrics_put_sample(page, KEEPER[i].name, STR(""), (double)value);
    }
}

static double read_version(void *arg)
{
    (void)arg;
    return 1;
}

static double read_ready(void *arg)
{
    return !waits_for(arg);
}

static double read_resident(void *arg)
{
    FILE *in = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    (void)arg;
    if (in) {
        if (fscanf(in, "%*u %lu", &pages) != 1)
            pages = 0;
        fclose(in);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

void health_init(struct health *h, struct context *context, struct modules *modules)
{
    struct metrics *m = context->metrics;

    h->context = context;
    h->modules = modules;
    metrics_gauge(m, "drover_info", "version=\"" DROVER_VERSION "\"", "The version.", read_version,
                  NULL);
    metrics_gauge(m, "drover_ready", NULL, "1 when /readyz says so.", read_ready, h);
    metrics_gauge(m, "process_resident_memory_bytes", NULL, "Memory in use.", read_resident, NULL);
    if (context->local)
        metrics_collector(m, collect_keeper, h);
}
