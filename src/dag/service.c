/* The service: opening and closing, the lists of nodes, timers. */
#include "dag/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"
#include "base/uv_check.h"

int64_t dag_now_ms(const struct dag *d)
{
    return service_now_ms(d->context->tasks);
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

void dag_show(struct dag *d, struct dag_node *n)
{
    uint8_t *shown = &d->graph.shown[n->index], state = (uint8_t)dag_visible(d, n);
    if (*shown == state)
        return;
    *shown = state;
    dag_publish(d, n);
}

/* The lists of running and parked nodes. */

static void list_add(struct node_list *l, struct dag_node *n)
{
    mem_grow(l->nodes, l->count, l->cap);
    n->list_at = l->count;
    l->nodes[l->count++] = n;
}

static void list_remove(struct node_list *l, struct dag_node *n)
{
    struct dag_node *last = l->nodes[--l->count];
    l->nodes[n->list_at] = last;
    last->list_at = n->list_at;
}

void dag_enter_running(struct dag *d, struct dag_node *n, int64_t agent, int64_t lease_at)
{
    list_add(&d->running, n);
    n->agent = agent;
    n->lease_at = lease_at;
    dag_arm(d, lease_at);
}

void dag_leave_running(struct dag *d, struct dag_node *n)
{
    list_remove(&d->running, n);
    n->agent = AGENT_NONE;
}

void dag_park(struct dag *d, struct dag_node *n, int64_t due_ms)
{
    list_add(&d->parked, n);
    n->parked = true;
    n->due_at = due_ms;
    plan_park(&d->graph.plan, n->ref);
    dag_arm(d, due_ms);
}

void dag_unpark(struct dag *d, struct dag_node *n)
{
    if (n->parked)
        list_remove(&d->parked, n);
    n->parked = false;
}

/* Time. */

static void on_timer(uv_timer_t *timer)
{
    struct dag *d = timer->data;
    d->timer_at = INT64_MAX;
    dag_commit_retry(d);
    int64_t now = dag_now_ms(d), next = serve_agent_tick(d->agent, now);
    for (uint32_t i = d->parked.count; i-- > 0;) {
        struct dag_node *n = d->parked.nodes[i];
        if (n->due_at <= now) {
            dag_unpark(d, n);
            plan_unpark(&d->graph.plan, n->ref);
            dag_soon(d);
        } else if (n->due_at < next) {
            next = n->due_at;
        }
    }
    for (uint32_t i = d->running.count; i-- > 0;) {
        struct dag_node *n = d->running.nodes[i];
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
    uv_update_time(d->context->loop);
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
    if (err) {
        dag_end(d, err);
        dag_failed(d, err);
        return;
    }
    serve_agent_schedule(d->agent);
    dag_offer(d);
    dag_commit_flush(d);
}

static void on_wake(uv_async_t *wake)
{
    dag_take_news(wake->data);
    dag_soon(wake->data);
}

/* Opening and closing. */

struct dag *dag_open(struct context *context)
{
    struct dag *d = mem_zalloc(sizeof *d);
    d->context = context;
    d->timer_at = INT64_MAX;
    d->adding_end = &d->adding;
    pthread_mutex_init(&d->lock, NULL);
    UV_CHECK(uv_check_init(context->loop, &d->check));
    UV_CHECK(uv_idle_init(context->loop, &d->idle));
    UV_CHECK(uv_timer_init(context->loop, &d->timer));
    UV_CHECK(uv_timer_init(context->loop, &d->again));
    UV_CHECK(uv_timer_init(context->loop, &d->printer));
    UV_CHECK(uv_async_init(context->loop, &d->wake, on_wake));
    d->check.data = d->idle.data = d->timer.data = d->again.data = d->printer.data = d->wake.data =
        d;
    d->open_handles = 6;
    UV_CHECK(uv_check_start(&d->check, on_check));
    uv_unref((uv_handle_t *)&d->check);
    http_topic_init(&d->topic);
    d->started = context->data_dir ? started_open(context->data_dir) : NULL;
    d->agent = serve_agent_open(d);
    dag_observe(d, true);
    return d;
}

void dag_end(struct dag *d, int err)
{
    if (!d->ready)
        return;
    d->ready = false;
    d->failing = 0;
    serve_agent_drop(d->agent);
    dag_drop_adds(d, err);
    dag_commit_drop_all(d, err);
    dag_publish(d, NULL); /* ends the requests that wait for nodes */
    for (int i = 0; i < BUCKET_KINDS; i++)
        map_release(&d->buckets[i]);
    map_release(&d->by_slot);
    d->running.count = d->parked.count = 0;
    d->timer_at = INT64_MAX;
    uv_timer_stop(&d->timer);
    graph_release(&d->graph);
}

void dag_release(struct dag *d)
{
    if (--d->open_handles)
        return;
    http_topic_release(&d->topic);
    pthread_mutex_destroy(&d->lock);
    dag_saved_free(d->saved);
    started_close(d->started);
    free(d->running.nodes);
    free(d->parked.nodes);
    free(d);
}

static void on_closed(uv_handle_t *handle)
{
    dag_release(handle->data);
}

void dag_close(struct dag *d)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&d->wake,  (uv_handle_t *)&d->check,
                              (uv_handle_t *)&d->idle,  (uv_handle_t *)&d->timer,
                              (uv_handle_t *)&d->again, (uv_handle_t *)&d->printer};

    {
        LOCKED(&d->lock);
        d->closing = true;
    }
    dag_observe(d, false);
    dag_end(d, DROVER_CLOSED);
    serve_agent_close(d->agent);
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++)
        uv_close(handles[i], on_closed);
}
