/*
 * Limits on what requests hold while they are under way: those that wait have a maximum. A request
 * that would be one too many gets 503 with Retry-After, and nothing has happened for it.
 *
 * Everything here runs on the loop.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "http/conn.h"

static const struct {
    const char *label, *words; /* of the metric, of the log */
} LIMITS[HTTP_LIMITS] = {
    [HTTP_LIMIT_WAITS] = {"waits", "too many wait"},
    [HTTP_LIMIT_SESSIONS] = {"sessions", "there are too many sessions"},
    [HTTP_LIMIT_MEMORY] = {"memory", "bodies and answers use up the memory (--memory)"},
};

void http_reply_busy(struct http_request *r, enum http_limit limit, const char *message)
{
    ((struct exchange *)r)->limit = limit;
    reply_with(r, 503, drover_err_name(DROVER_TOO_MANY), NULL, message);
}

void limits_count(struct exchange *x)
{
    if (!x->limit)
        return;
    uint64_t unsaid = refusals_add(&x->server->refusals[x->limit], clock_boot_ms());
    if (unsaid)
        log_warning("refused %" PRIu64 " requests: %s", unsaid, LIMITS[x->limit].words);
}

bool limits_enter(struct exchange *x)
{
    struct http_server *s = x->server;
    if (!x->has_place && s->waiting >= s->options.waits_max)
        return false;
    s->waiting += !x->has_place;
    x->has_place = true;
    return true;
}

void limits_refuse_wait(struct exchange *x)
{
    http_reply_busy(&x->request, HTTP_LIMIT_WAITS, "too many requests wait: try again");
}

bool http_may_wait(struct http_request *r)
{
    struct exchange *x = (struct exchange *)r;
    if (limits_enter(x))
        return true;
    limits_refuse_wait(x);
    return false;
}

void limits_leave(struct exchange *x)
{
    x->server->waiting -= x->has_place;
    x->has_place = false;
}

/* Metrics. */

static double read_waiting(void *arg)
{
    return (double)((const struct http_server *)arg)->waiting;
}

static double read_refused(void *arg)
{
    return (double)((const struct refusals *)arg)->count;
}

void limits_metrics(struct http_server *s, struct metrics *m)
{
    memory_metrics(s, m);
    metrics_read(m, "drover_http_waiting_requests", "gauge", NULL,
                 "Requests that wait for something, event streams included.", read_waiting, s);
    for (int i = HTTP_LIMIT_NONE + 1; i < HTTP_LIMITS; i++) {
        CLEANUP(buf_release) struct buf label = {0};
        metrics_put_label(&label, "limit", str_of(LIMITS[i].label));
        metrics_read(m, "drover_http_requests_refused_total", "counter", buf_text(&label),
                     "Requests that were refused because a limit was reached.", read_refused,
                     &s->refusals[i]);
    }
}
