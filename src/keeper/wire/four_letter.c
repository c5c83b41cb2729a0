/*
 * The four-letter words: a connection that begins with one gets a text and is closed. The words and
 * the lines of their answers are those that operators' scripts expect from ZooKeeper.
 */
#include <inttypes.h>

#include "keeper/wire/wire_impl.h"

#define VERSION_LINE "3.8.0-drover-" DROVER_VERSION ", built with drover"

static void put_connections(struct wire_conn *c, struct buf *out)
{
    struct wire_conn *each;
    TAILQ_FOREACH(each, &c->w->conns, link)
        buf_printf(out,
                   " /%s[%d](queued=%zu,recved=%" PRIu64 ",sent=%" PRIu64 ",sid=0x%" PRIx64 ")\n",
                   each->peer, each->session ? 1 : 0, each->barrier_count, each->received,
                   each->sent, (uint64_t)each->session);
    buf_printf(out, "\n");
}

static size_t outstanding(const struct wire *w)
{
    struct wire_conn *c;
    size_t sum = 0;
    TAILQ_FOREACH(c, &w->conns, link)
        sum += c->barrier_count;
    return sum;
}

static void put_server(struct wire_conn *c, struct buf *out)
{
    const struct tree *t = &c->w->l->tree;
    buf_printf(out, "Latency min/avg/max: 0/0.0/0\nReceived: %" PRIu64 "\nSent: %" PRIu64 "\n",
               c->w->received, c->w->sent);
    buf_printf(out, "Connections: %zu\nOutstanding: %zu\nZxid: 0x%" PRIx64 "\n", c->w->conn_count,
               outstanding(c->w), (uint64_t)t->zxid);
    buf_printf(out, "Mode: standalone\nNode count: %" PRIu32 "\n", t->nodes.count);
}

static void put_metrics(struct wire_conn *c, struct buf *out)
{
    const struct local *l = c->w->l;
    const struct {
        const char *name;
        uint64_t value;
    } lines[] = {
        {"zk_znode_count", l->tree.nodes.count},
        {"zk_watch_count", l->watches.count},
        {"zk_ephemerals_count", l->tree.ephemerals},
        {"zk_global_sessions", l->tree.sessions.count},
        {"zk_num_alive_connections", c->w->conn_count},
        {"zk_connection_rejected", c->w->rejected},
        {"zk_outstanding_requests", outstanding(c->w)},
        {"zk_packets_received", c->w->received},
        {"zk_packets_sent", c->w->sent},
        {"drover_journal_records", l->journal.records},
        {"drover_journal_bytes", l->journal.bytes},
        {"drover_journal_syncs", l->journal.syncs},
        {"drover_snapshots", l->stats.snapshots},
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        buf_printf(out, "%s\t%" PRIu64 "\n", lines[i].name, lines[i].value);
}

static void put_configuration(struct wire_conn *c, struct buf *out)
{
    const char *port = strrchr(c->w->address, ':') + 1;
    const struct wire_options *o = &c->w->o;
    buf_printf(out, "clientPort=%s\ndataDir=%s\nmaxClientCnxns=%" PRId64 "\n", port,
               c->w->l->dir ? c->w->l->dir : "", o->connections_per_address);
    buf_printf(out, "minSessionTimeout=%" PRId64 "\nmaxSessionTimeout=%" PRId64 "\nserverId=0\n",
               o->timeout_min_ms, o->timeout_max_ms);
}

static void put_sessions(struct wire_conn *c, struct buf *out)
{
    const struct tree *t = &c->w->l->tree;
    buf_printf(out, "Sessions (%" PRIu32 "):\n", t->sessions.count);
    for (uint32_t i = 0; i < t->sessions.len; i++)
        if (t->sessions.list[i])
            buf_printf(out, "\t0x%" PRIx64 "\t%" PRId32 "ms\n", (uint64_t)t->sessions.list[i]->id,
                       t->sessions.list[i]->timeout_ms);
    buf_printf(out, "ephemeral nodes dump:\n");
    for (uint32_t i = 0; i < t->sessions.len; i++) {
        const struct tree_session *s = t->sessions.list[i];
        if (!s || !s->first_ephemeral)
            continue;
        buf_printf(out, "0x%" PRIx64 ":\n", (uint64_t)s->id);
        for (uint32_t ref = s->first_ephemeral; ref;
             ref = node_at(&t->nodes, ref)->more->next_owned) {
            buf_printf(out, "\t");
            nodes_put_path(&t->nodes, ref, out);
            buf_printf(out, "\n");
        }
    }
}

/* A word, how its answer begins, and what follows. */
static const struct {
    char word[5];
    const char *text;
    void (*put[2])(struct wire_conn *c, struct buf *out);
} WORDS[] = {
    {"ruok", "imok"},
    {"isro", "rw"},
    {"envi", "Environment:\nzookeeper.version=" VERSION_LINE "\n"},
    {"srvr", "Zookeeper version: " VERSION_LINE "\n", {put_server}},
    {"stat", "Zookeeper version: " VERSION_LINE "\nClients:\n", {put_connections, put_server}},
    {"mntr", "zk_version\t" VERSION_LINE "\nzk_server_state\tstandalone\n", {put_metrics}},
    {"conf", "", {put_configuration}},
    {"cons", "", {put_connections}},
    {"dump", "SessionTracker dump:\n", {put_sessions}},
};

bool wire_word(struct wire_conn *c, const char *four)
{
    size_t i = 0, count = sizeof WORDS / sizeof *WORDS;
    while (i < count && memcmp(four, WORDS[i].word, 4) != 0)
        i++;
    if (i == count)
        return false;
    CLEANUP(buf_release) struct buf out = {0};
    buf_printf(&out, "%s", WORDS[i].text);
    pthread_mutex_lock(&c->w->l->lock);
    for (int n = 0; n < 2 && WORDS[i].put[n]; n++)
        WORDS[i].put[n](c, &out);
    pthread_mutex_unlock(&c->w->l->lock);
    wire_conn_put(c, buf_str(&out), 0);
    wire_conn_finish(c);
    return true;
}
