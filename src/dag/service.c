/* The service: opening and closing, the lists of nodes, timers. */
#include "dag/service.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/uv_check.h"
#include "dag/dag_impl.h"

int64_t dag_now_ms(const struct dag *d)
{
    return service_now_ms(d->o.tasks);
}

uint64_t dag_key(const char *kind, int64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, number);
    return http_key(kind, str_of(text), (struct str){0});
}

/* A node that waits for its next attempt is published as running. */
enum node_state dag_visible(const struct dag *d, const struct dag_node *n)
{
    enum node_state state = graph_state(&d->graph, n);

    if (n->ahead)
        return n->attempts > 1 ? NODE_RUNNING : NODE_INCIPIENT;
    return state == NODE_INCIPIENT && n->attempts ? NODE_RUNNING : state;
}

void dag_put_head(struct buf *b, const struct dag *d, uint64_t last)
{
    buf_printf(b, "{\"client\":%" PRId64 ",\"last\":%" PRIu64 "}", d->client, last);
}

/* The lists of running and parked nodes. */

void dag_enter_running(struct dag *d, struct dag_node *n, int64_t agent, int64_t lease_at)
{
    mem_grow(d->running, d->running_count, d->running_cap);
    d->running[d->running_count++] = n;
    n->running_at = d->running_count;
    n->agent = agent;
    n->lease_at = lease_at;
    dag_arm(d, n->lease_at);
}

void dag_leave_running(struct dag *d, struct dag_node *n)
{
    struct dag_node *last = d->running[--d->running_count];

    d->running[n->running_at - 1] = last;
    last->running_at = n->running_at;
    n->running_at = 0;
    n->agent = AGENT_NONE;
}

void dag_park(struct dag *d, struct dag_node *n, int64_t due_ms)
{
    mem_grow(d->parked, d->parked_count, d->parked_cap);
    d->parked[d->parked_count++] = n;
    n->parked_at = d->parked_count;
    n->parked = true;
    n->due_at = due_ms;
    plan_park(&d->graph.plan, n->ref);
    dag_arm(d, due_ms);
}

void dag_unpark(struct dag *d, struct dag_node *n)
{
    if (!n->parked)
        return;
    struct dag_node *last = d->parked[--d->parked_count];
    d->parked[n->parked_at - 1] = last;
    last->parked_at = n->parked_at;
    n->parked_at = 0;
    n->parked = false;
}

/* Time. */

static void on_timer(uv_timer_t *timer)
{
    struct dag *d = timer->data;
    int64_t now = dag_now_ms(d), next = INT64_MAX;

    d->timer_at = INT64_MAX;
    dag_commit_retry(d);
    next = serve_agent_tick(d->agent, now);
    for (uint32_t i = d->parked_count; i-- > 0;) {
        struct dag_node *n = d->parked[i];

        if (n->due_at <= now) {
            dag_unpark(d, n);
            plan_unpark(&d->graph.plan, n->ref);
            dag_soon(d);
        } else if (n->due_at < next) {
            next = n->due_at;
        }
    }
    for (uint32_t i = d->running_count; i-- > 0;) {
        struct dag_node *n = d->running[i];

        if (n->lease_at <= now && !n->task_busy)
            dag_lease_ended(d, n);
        else if (n->lease_at < next)
            next = n->lease_at;
    }
    if (next != INT64_MAX)
        dag_arm(d, next);
}

void dag_arm(struct dag *d, int64_t at_ms)
{
    int64_t now = dag_now_ms(d), in = at_ms > now ? at_ms - now : 1;

    if (at_ms >= d->timer_at)
        return;
    d->timer_at = at_ms;
    uv_update_time(d->o.loop);
    UV_CHECK(uv_timer_start(&d->timer, on_timer, (uint64_t)in, 0));
}

/* The end of a loop iteration. */

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

void dag_soon(struct dag *d)
{
    if (!d->idling)
        UV_CHECK(uv_idle_start(&d->idle, on_idle));
    d->idling = true;
}

static void on_check(uv_check_t *check)
{
    struct dag *d = check->data;
    int err = d->failing;

    if (!d->idling)
        return;
    d->idling = false;
    uv_idle_stop(&d->idle);
    if (!d->ready)
        return;
    if (!err) {
        serve_agent_schedule(d->agent);
        dag_offer(d);
        dag_commit_flush(d);
        return;
    }
    dag_end(d, err);
    d->o.failed(d->o.arg, err);
}

/* Opening and closing. */

static void on_wake(uv_async_t *wake)
{
    dag_soon(wake->data);
}

struct dag *dag_open(const struct dag_options *o)
{
    struct dag *d = mem_zalloc(sizeof *d);

    d->o = *o;
    d->timer_at = INT64_MAX;
    UV_CHECK(uv_check_init(o->loop, &d->check));
    UV_CHECK(uv_idle_init(o->loop, &d->idle));
    UV_CHECK(uv_timer_init(o->loop, &d->timer));
    UV_CHECK(uv_async_init(o->loop, &d->wake, on_wake));
    UV_CHECK(uv_mutex_init(&d->missed_lock));
    d->check.data = d->idle.data = d->timer.data = d->wake.data = d;
    d->open_handles = 4;
    UV_CHECK(uv_check_start(&d->check, on_check));
    uv_unref((uv_handle_t *)&d->check);
    http_topic_init(&d->topic);
    d->started = o->data_dir ? started_open(o->data_dir) : NULL;
    d->agent = serve_agent_open(d);
    dag_observe(d, true);
    return d;
}

/* The replies to submitted batches come later, and then only free them. */
static void drop_commits(struct dag *d, int err)
{
    for (struct dag_commit *t = d->inflight, *next; t; t = next) {
        next = t->next;
        t->dag = NULL;
        t->next = t->prev = NULL;
        dag_commit_notify(t, DROVER_UNKNOWN);
    }
    for (struct dag_commit *t = d->stalled, *next; t; t = next) {
        next = t->stalled_next;
        dag_commit_free(t); /* it was not submitted: there is no reply */
    }
    d->inflight = d->stalled = NULL;
    d->retrying = false;
    if (d->commit) {
        struct dag_commit *t = d->commit;

        d->commit = NULL;
        t->dag = NULL;
        dag_commit_notify(t, err);
        dag_commit_free(t);
    }
}

void dag_end(struct dag *d, int err)
{
    if (!d->ready)
        return;
    d->ready = false;
    d->failing = 0;
    serve_agent_drop(d->agent);
    dag_drop_adds(d, err);
    drop_commits(d, err);
    d->o.shown(d->o.arg, NULL); /* ends the requests that wait for nodes */
    for (int i = 0; i < BUCKET_KINDS; i++)
        map_release(&d->buckets[i]);
    map_release(&d->by_slot);
    d->running_count = d->parked_count = 0;
    d->timer_at = INT64_MAX;
    uv_timer_stop(&d->timer);
    graph_release(&d->graph);
}

static void on_closed(uv_handle_t *handle)
{
    struct dag *d = handle->data;

    if (--d->open_handles)
        return;
    http_topic_release(&d->topic);
    uv_mutex_destroy(&d->missed_lock);
    started_close(d->started);
    free(d->running);
    free(d->parked);
    free(d);
}

void dag_close(struct dag *d)
{
    dag_observe(d, false);
    dag_end(d, DROVER_CLOSED);
    serve_agent_close(d->agent);
    uv_close((uv_handle_t *)&d->wake, on_closed);
    uv_close((uv_handle_t *)&d->check, on_closed);
    uv_close((uv_handle_t *)&d->idle, on_closed);
    uv_close((uv_handle_t *)&d->timer, on_closed);
}
