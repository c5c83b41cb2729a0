#include "server/limits.h"

#include "http/metrics.h"
#include "keeper/wire/wire.h"
#include "server/context.h"
#include "server/serve.h"

static void collect(void *arg, struct buf *page)
{
    static const char refused[] = "drover_zookeeper_connections_refused_total";
    static const char sessions[] = "drover_zookeeper_sessions_refused_total";
    static const char evicted[] = "drover_zookeeper_connections_evicted_total";
    const struct context *h = arg;
    struct wire_counts c;
    wire_counts(h->wire, &c);
    metrics_put_family(page, "drover_zookeeper_connections", "gauge",
                       "Connections to the ZooKeeper port that are open.");
    metrics_put_sample(page, "drover_zookeeper_connections", STR(""), (double)c.connections);
    metrics_put_family(page, refused, "counter", "Connections that were one too many.");
    for (enum door_answer a = DOOR_LET_IN + 1; a < DOOR_ANSWERS; a++) {
        CLEANUP(buf_release) struct buf label = {0};
        metrics_put_label(&label, "reason", str_of(door_reason(a)));
        metrics_put_sample(page, refused, buf_str(&label), (double)c.answers[a]);
    }
    metrics_put_family(page, sessions, "counter", "Sessions that were one too many.");
    metrics_put_sample(page, sessions, STR(""), (double)c.sessions_refused);
    metrics_put_family(page, "drover_zookeeper_memory_bytes", "gauge",
                       "Memory of requests and answers on the ZooKeeper port.");
    metrics_put_sample(page, "drover_zookeeper_memory_bytes", STR(""), (double)c.memory);
    metrics_put_family(page, evicted, "counter",
                       "Connections that were closed because that was too much.");
    metrics_put_sample(page, evicted, STR(""), (double)c.evicted);
}

void limits_open(struct context *h)
{
    if (h->wire)
        metrics_collector(h->metrics, collect, h);
}

int64_t limits_wire_memory(const struct serve_options *o)
{
    return o->wire.listen.count + o->wire.tls_listen.count ? o->memory / 4 : 0;
}
