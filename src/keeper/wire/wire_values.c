/*
 * What the four-letter words report: the values that ZooKeeper 3.8 has, with its labels and in its
 * order, so that scripts and monitoring agents can read them. A value that has no meaning here (of
 * the Java runtime, of an ensemble, of queues between threads) is left out; none is made up. The
 * names in JSON are those of ZooKeeper's AdminServer.
 */
#include <dirent.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/wire/wire_impl.h"
#include "keeper/wire/wire_report.h"

/* Agents look for "built on". */
#define VERSION "3.8.0-drover-" DROVER_VERSION ", built on " __DATE__

static double average(const struct summary *s)
{
    return s->count ? (double)s->sum / (double)s->count : 0;
}

static struct summary all_latencies(const struct wire *w)
{
    struct summary all = w->totals.latency[WIRE_READ];
    summary_merge(&all, &w->totals.latency[WIRE_UPDATE]);
    return all;
}

/* Connections. */

/* As the numbers of Java's selectors: 1 is reading, 4 is writing. */
static int interest(const struct wire_conn *c)
{
    return (c->paused || c->close_when_sent || c->closing ? 0 : 1) | (c->writing ? 4 : 0);
}

static void put_session(struct report *r, const struct wire_conn *c)
{
    const struct wire_traffic *t = &c->traffic;
    const struct tree_session *s = sessions_find(&c->w->l->tree.sessions, c->session);
    report_hex(r, "sid", "session_id", c->session);
    report_text(r, "lop", "last_operation", t->last_op ? t->last_op : "NA");
    report_int(r, "est", "established", c->since_ms);
    report_int(r, "to", "session_timeout", s ? s->timeout_ms : 0);
    if (t->last_xid)
        report_hex(r, "lcxid", "last_cxid", t->last_xid - 1);
    report_hex(r, "lzxid", "last_zxid", t->last_zxid - 1);
    report_int(r, "lresp", "last_response_time", t->last_sent_ms);
    report_int(r, "llat", "last_latency", t->last_latency_ms);
    report_int(r, "minlat", "min_latency", t->latency.min);
    report_int(r, "avglat", "avg_latency", (int64_t)average(&t->latency));
    report_int(r, "maxlat", "max_latency", t->latency.max);
}

static void put_connection(struct report *r, const struct wire_conn *c, bool brief)
{
    report_open(r, NULL, '{');
    report_text(r, NULL, "remote_socket_address", c->peer);
    report_int(r, NULL, "interest_ops", interest(c));
    report_line(r, " /%s[%d](", c->peer, interest(c));
    report_int(r, "queued", "outstanding_requests", (int64_t)c->unsent);
    report_int(r, "recved", "packets_received", (int64_t)c->traffic.received);
    report_int(r, "sent", "packets_sent", (int64_t)c->traffic.sent);
    if (!brief && c->session)
        put_session(r, c);
    report_close(r, '}');
    if (!r->json)
        r->out->len--; /* the comma after the last value */
    report_line(r, ")\n");
}

static void put_connections(struct wire *w, struct report *r, bool brief)
{
    struct report line = {r->out, r->json, "", "=", ","};
    const struct wire_conn *c;
    report_open(r, "connections", '[');
    TAILQ_FOREACH(c, &w->conns, link)
        put_connection(&line, c, brief);
    report_close(r, ']');
    report_line(r, "\n");
}

void wire_put_connections(struct wire *w, struct report *r)
{
    LOCKED(&w->l->lock);
    put_connections(w, r, false);
}

/* The server. */

/* ZooKeeper has the root twice, as "" and as "/". */
static int64_t node_count(const struct tree *t)
{
    return (int64_t)t->nodes.count + 1;
}

static void put_version(struct report *r)
{
    report_text(r, "Zookeeper version", "version", VERSION);
    report_bool(r, "read_only", false);
}

static void put_statistics(struct wire *w, struct report *r)
{
    const struct tree *t = &w->l->tree;
    struct summary latency = all_latencies(w);
    report_open(r, "server_stats", '{');
    report_line(r, "Latency min/avg/max: %lld/", (long long)latency.min);
    report_real(&(struct report){r->out, r->json, "", "", "/"}, "", "avg_latency",
                average(&latency));
    report_line(r, "%lld\n", (long long)latency.max);
    report_int(r, NULL, "min_latency", latency.min);
    report_int(r, NULL, "max_latency", latency.max);
    report_int(r, "Received", "packets_received", (int64_t)w->totals.received);
    report_int(r, "Sent", "packets_sent", (int64_t)w->totals.sent);
    report_int(r, "Connections", "num_alive_client_connections", (int64_t)w->conn_count);
    report_int(r, "Outstanding", "outstanding_requests", (int64_t)w->unsent);
    report_hex(r, "Zxid", "last_processed_zxid", t->zxid);
    report_text(r, "Mode", "server_state", "standalone");
    report_int(r, NULL, "uptime", clock_boot_ms() - w->started_ms);
    report_close(r, '}');
    report_int(r, "Node count", "node_count", node_count(t));
}

void wire_put_server(struct wire *w, struct report *r)
{
    LOCKED(&w->l->lock);
    put_version(r);
    put_statistics(w, r);
}

void wire_put_status(struct wire *w, struct report *r)
{
    LOCKED(&w->l->lock);
    put_version(r);
    report_line(r, "Clients:\n");
    put_connections(w, r, true);
    put_statistics(w, r);
}

/* The process. */

/* New systems have the number, which is quicker than to list them. */
static int64_t open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct stat listed = {0};
    if (!dir)
        return 0;
    fstat(dirfd(dir), &listed);
    int64_t count = listed.st_size;
    for (const struct dirent *e; listed.st_size == 0 && (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count - 1; /* this directory's own */
}

static int64_t most_descriptors(void)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)limit.rlim_cur;
}

static void put_summary(struct report *r, const char *name, const struct summary *s)
{
    const struct {
        const char *suffix;
        int64_t value;
    } parts[] = {{"min", s->min}, {"max", s->max}, {"cnt", (int64_t)s->count}, {"sum", s->sum}};
    char label[64];
    snprintf(label, sizeof label, "avg_%s", name);
    report_real(r, label, label, average(s));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(label, sizeof label, "%s_%s", parts[i].suffix, name);
        report_int(r, label, label, parts[i].value);
    }
}

/*
 * Those of the journal come last, with names of our own. Every line must begin with zk_: an agent
 * may refuse the whole answer otherwise.
 */
void wire_put_monitor(struct wire *w, struct report *r)
{
    int64_t descriptors = open_descriptors();
    LOCKED(&w->l->lock);
    const struct local *l = w->l;
    const struct wire_totals *t = &w->totals;
    struct summary latency = all_latencies(w);
    const struct {
        const char *name;
        uint64_t value;
    } values[] = {
        {"max_latency", (uint64_t)latency.max},
        {"min_latency", (uint64_t)latency.min},
        {"packets_received", t->received},
        {"packets_sent", t->sent},
        {"num_alive_connections", w->conn_count},
        {"outstanding_requests", w->unsent},
        {"znode_count", (uint64_t)node_count(&l->tree)},
        {"watch_count", w->watch_count},
        {"ephemerals_count", l->tree.ephemerals},
        {"approximate_data_size", l->tree.nodes.bytes},
        {"global_sessions", l->tree.sessions.count},
        {"uptime", (uint64_t)(clock_boot_ms() - w->started_ms)},
        {"open_file_descriptor_count", (uint64_t)descriptors},
        {"max_file_descriptor_count", (uint64_t)most_descriptors()},
        {"bytes_received_count", t->received_bytes},
        {"response_bytes", t->sent_bytes},
        {"connection_request_count", t->hellos},
        {"connection_revalidate_count", t->resumed},
        {"connection_rejected", t->rejected},
        {"sessionless_connections_expired", t->timeouts},
        {"drover_journal_records", l->journal.records},
        {"drover_journal_bytes", l->journal.bytes},
        {"drover_journal_syncs", l->journal.syncs},
        {"drover_snapshots", l->stats.snapshots},
    };

    report_text(r, "version", "version", VERSION);
    report_text(r, "server_state", "server_state", "standalone");
    report_real(r, "avg_latency", "avg_latency", average(&latency));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        report_int(r, values[i].name, values[i].name, (int64_t)values[i].value);
    put_summary(r, "readlatency", &t->latency[WIRE_READ]);
    put_summary(r, "updatelatency", &t->latency[WIRE_UPDATE]);
    put_summary(r, "fsynctime", &l->journal.sync_ms);
    put_summary(r, "snapshottime", &l->snapshot_ms);
}

/* The disk. Its sizes are those of the snapshots and of the journal, which share a directory. */

struct sizes {
    int64_t data, log;
};

static struct sizes directory_sizes(const char *path)
{
    struct sizes s = {0};
    DIR *dir = path ? opendir(path) : NULL;
    if (!dir)
        return s;
    for (const struct dirent *e; (e = readdir(dir));) {
        struct stat file;
        bool log = str_starts(str_of(e->d_name), STR("journal-"));
        if (!log && !str_starts(str_of(e->d_name), STR("snapshot-")))
            continue;
        if (!fstatat(dirfd(dir), e->d_name, &file, 0))
            *(log ? &s.log : &s.data) += file.st_size;
    }
    closedir(dir);
    return s;
}

void wire_put_directories(struct wire *w, struct report *r)
{
    struct sizes s = directory_sizes(w->l->dir);
    report_int(r, "datadir_size", "datadir_size", s.data);
    report_int(r, "logdir_size", "logdir_size", s.log);
}

void wire_put_configuration(struct wire *w, struct report *r)
{
    const struct wire_options *o = &w->o;
    const char *dir = w->l->dir ? w->l->dir : "";
    struct sizes s = directory_sizes(w->l->dir);
    report_int(r, "clientPort", "client_port", strtol(strrchr(w->addresses[0], ':') + 1, NULL, 10));
    report_int(r, "secureClientPort", "secure_client_port", -1);
    report_text(r, "dataDir", "data_dir", dir);
    report_int(r, "dataDirSize", "data_dir_size", s.data);
    report_text(r, "dataLogDir", "data_log_dir", dir);
    report_int(r, "dataLogSize", "data_log_size", s.log);
    report_int(r, "maxClientCnxns", "max_client_cnxns",
               o->connections_per_address ? o->connections_per_address : o->connections_max);
    report_int(r, "minSessionTimeout", "min_session_timeout", o->timeout_min_ms);
    report_int(r, "maxSessionTimeout", "max_session_timeout", o->timeout_max_ms);
    report_int(r, "clientPortListenBacklog", "client_port_listen_backlog", WIRE_BACKLOG);
    report_int(r, "serverId", "server_id", 0);
}

/* From the file alone: getpwuid() may ask another machine, and the loop would wait. */
static const struct passwd *find_user(uid_t id)
{
    FILE *file = fopen("/etc/passwd", "re");
    const struct passwd *user = NULL;
    if (!file)
        return NULL;
    do
        user = fgetpwent(file);
    while (user && user->pw_uid != id);
    fclose(file);
    return user;
}

void wire_put_environment(struct wire *w, struct report *r)
{
    const struct passwd *user = find_user(geteuid());
    struct utsname system = {0};
    char dir[4096] = "";
    (void)w;
    uname(&system);
    if (!getcwd(dir, sizeof dir))
        dir[0] = '\0';
    report_line(r, "Environment:\n");
    report_text(r, "zookeeper.version", "zookeeper.version", VERSION);
    report_text(r, "host.name", "host.name", system.nodename);
    report_text(r, "java.version", "java.version", "none");
    report_text(r, "os.name", "os.name", system.sysname);
    report_text(r, "os.arch", "os.arch", system.machine);
    report_text(r, "os.version", "os.version", system.release);
    if (user) {
        report_text(r, "user.name", "user.name", user->pw_name);
        report_text(r, "user.home", "user.home", user->pw_dir);
    }
    report_text(r, "user.dir", "user.dir", dir);
}
