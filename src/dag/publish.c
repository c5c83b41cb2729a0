/* Publishes state changes and output: to requests that wait, and as events. */
#include <inttypes.h>
#include <stdio.h>

#include "base/uv_check.h"
#include "dag/service.h"

enum { PRINTED_MS = 50 };

uint64_t dag_key(const char *kind, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    return http_key(kind, str_of(text), (struct str){0});
}

void dag_wake_all(struct dag *d, const char *kind, int64_t number)
{
    http_topic_wake(&d->topic, dag_key(kind, number), HTTP_TOPIC_ALL);
}

static void on_printer(uv_timer_t *timer)
{
    struct dag *d = timer->data;
    for (uint32_t i = 0; i < d->running.count; i++)
        if (d->running.nodes[i]->run)
            dag_wake_all(d, "output", (int64_t)d->running.nodes[i]->id);
}

/* Requests that wait for output are woken 20 times a second at most, not with every line. */
void dag_printed(struct dag *d)
{
    if (!d->closing && !uv_is_active((uv_handle_t *)&d->printer))
        UV_CHECK(uv_timer_start(&d->printer, on_printer, PRINTED_MS, 0));
}

static void publish_event(struct dag *d, const struct dag_node *n, const char *state)
{
    CLEANUP(buf_release) struct buf json = {0};
    char id[24];
    snprintf(id, sizeof id, "%" PRIu64, n->id);
    if (d->graph.shown[n->index] == SHOWN_NONE)
        buf_printf(&json, "{\"id\":\"%s\",\"state\":\"%s\"}", id, state);
    else
        node_put_metadata(&json, d, n, ~0u);
    events_publish(d->context->events,
                   &(struct event){
                       .kind = "node",
                       .id = str_of(id),
                       .type = str_of(node_type_name(graph_plan(&d->graph, n)->type)),
                       .state = str_of(state),
                       .json = buf_str(&json),
                   });
}

void dag_publish(struct dag *d, struct dag_node *n)
{
    if (!n) {
        if (!d->ready)
            dag_wake_all(d, "stopped", 0);
        dag_wake_all(d, "added", 0);
        return;
    }
    uint8_t shown = d->graph.shown[n->index];
    const struct dag_run *run = n->chunk->run;
    if (node_state_is_terminal(shown)) {
        dag_wake_all(d, "ended", (int64_t)n->id);
        dag_wake_all(d, "output", (int64_t)n->id);
        if (run && !dag_run_lives(run)) {
            dag_wake_all(d, "run", (int64_t)run->number);
            d->runs_ended = true;
            dag_soon(d);
        }
    }
    if (d->context->events)
        publish_event(d, n, shown == SHOWN_NONE ? "deleted" : node_state_name(shown));
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
    uint8_t state = (uint8_t)dag_visible(d, n);
    if (d->graph.shown[n->index] == state)
        return;
    graph_show(&d->graph, n, state);
    dag_publish(d, n);
}
