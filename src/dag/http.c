/*
 * The DAG module: opens the service, reads the stored state, publishes state changes. A worker
 * thread reads the stored state, at the start and again after a commit has failed.
 */
#include "dag/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "base/uv_check.h"
#include "dag/http_impl.h"
#include "server/leader.h"

enum { AGAIN_MS = 500, PRINTED_MS = 50 };

/* Publishing state changes. */

static void wake_output(struct dag *d, const struct dag_node *n)
{
    http_topic_wake(&d->topic, dag_key("output", (int64_t)n->id), HTTP_TOPIC_ALL);
}

static void on_printer(uv_timer_t *timer)
{
    struct dag *d = timer->data;
    d->printing = false;
    for (uint32_t i = 0; i < d->running.count; i++)
        if (d->running.nodes[i]->run)
            wake_output(d, d->running.nodes[i]);
}

/* Requests that wait for output are woken 20 times a second at most, not with every line. */
void dag_printed(struct dag *d)
{
    if (d->printing || d->closing)
        return;
    d->printing = true;
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
            http_topic_wake(&d->topic, dag_key("stopped", 0), HTTP_TOPIC_ALL);
        http_topic_wake(&d->topic, dag_key("added", 0), HTTP_TOPIC_ALL);
        return;
    }
    uint8_t shown = d->graph.shown[n->index];
    bool removed = shown == SHOWN_NONE;
    if (node_state_is_terminal(shown)) {
        http_topic_wake(&d->topic, dag_key("ended", (int64_t)n->id), HTTP_TOPIC_ALL);
        wake_output(d, n);
    }
    if (d->context->events)
        publish_event(d, n, removed ? "deleted" : node_state_name(shown));
}

/*
 * Reading the stored state: on the leader's thread when this server becomes the leader; on a worker
 * thread, with the embedded keeper, after a commit has failed.
 */

/* News from the leader's thread: first that it no longer leads, then that it leads. */
void dag_take_news(struct dag *d)
{
    struct err_info why;
    pthread_mutex_lock(&d->lock);
    struct dag_saved *saved = d->saved;
    bool stopped = d->stopped;
    d->saved = NULL;
    d->stopped = false;
    pthread_mutex_unlock(&d->lock);
    if (stopped)
        dag_end(d, DROVER_NOT_LEADER);
    if (saved && d->ready)
        dag_saved_free(saved);
    else if (saved && dag_begin(d, saved, &why))
        log_error("%s", why.text);
}

static void leave_news(struct dag *d, struct dag_saved *saved, bool stopped)
{
    LOCKED(&d->lock);
    dag_saved_free(d->saved);
    d->saved = saved; /* when the DAG is closing, dag_release() frees it */
    d->stopped |= stopped;
    if (!d->closing)
        uv_async_send(&d->wake);
}

static int on_lead(void *arg, struct keeper *k, const struct keeper_op *fence, struct err_info *e)
{
    struct dag_saved *saved;
    (void)fence; /* the task store puts it into every commit */
    TRY(dag_read(k, &saved, e));
    leave_news(arg, saved, false);
    return 0;
}

static void on_stop(void *arg)
{
    leave_news(arg, NULL, true);
}

static int read_saved(struct dag *d, struct dag_saved **ret_saved, struct err_info *e)
{
    struct keeper *k = context_keeper(d->context);
    if (!k)
        return err_set(e, DROVER_CLOSED, "dag: closing");
    int err = dag_read(k, ret_saved, e);
    context_return(d->context, k);
    return err;
}

static void work_read(uv_work_t *work)
{
    struct dag *d = work->data;
    struct dag_saved *saved;
    d->read_err = read_saved(d, &saved, &d->read_why);
    if (!d->read_err)
        leave_news(d, saved, false);
}

static void try_again(struct dag *d);

static void after_read(uv_work_t *work, int status)
{
    struct dag *d = work->data;
    (void)status;
    if (d->read_err) {
        log_error("%s", d->read_why.text);
        try_again(d);
    }
    dag_release(d);
}

static void on_again(uv_timer_t *timer)
{
    struct dag *d = timer->data;
    d->open_handles++;
    d->reading.data = d;
    uv_queue_work(d->context->loop, &d->reading, work_read, after_read);
}

static void try_again(struct dag *d)
{
    if (!d->closing && !d->context->leader)
        UV_CHECK(uv_timer_start(&d->again, on_again, AGAIN_MS, 0));
}

void dag_failed(struct dag *d, int err)
{
    log_warning("dag: a commit failed: %s; reading the stored state again",
                drover_err_message(err));
    if (d->context->leader)
        leader_doubt(d->context->leader);
    try_again(d);
}

/* With the embedded keeper, the nodes are there before the first client connects. */
static int read_first(struct dag *d, struct err_info *ret_error)
{
    struct dag_saved *saved;
    TRY(read_saved(d, &saved, ret_error));
    return dag_begin(d, saved, ret_error);
}

/* The module. */

static bool is_id(struct str word)
{
    uint64_t id;
    return graph_parse_id(word, &id);
}

static bool is_type(struct str word)
{
    return node_type_of(word) >= 0;
}

static bool is_state(struct str word)
{
    return node_state_of(word) >= 0 || str_eq(word, STR("deleted"));
}

static const struct event_words EVENT_WORDS = {"node", is_id, is_type, is_state};

static int64_t agent_jobs = -1; /* -1: one per core */
static const char *log_dir;

static const struct option OPTIONS[] = {
    {"jobs", "N",
     "Run at most N commands of the DAG at a time in this process; 0: leave them to\n"
     "agents. Default: the number of cores.",
     option_number, &agent_jobs, 0, 100000},
    {"log-dir", "DIR",
     "Keep the full output of commands in this directory, one file per run: NODE-TRY.log.",
     option_text, &log_dir},
};

static void module_close(void *module)
{
    dag_close(module);
}

static int module_open(struct context *h, void **ret_module, struct err_info *ret_error)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (log_dir)
        TRY(run_make_log_dir(log_dir, ret_error));
    struct dag *d = dag_open(h);
    d->log_dir = log_dir;
    d->jobs = agent_jobs >= 0 ? (uint32_t)agent_jobs : (uint32_t)(cores > 0 ? cores : 1);
    if (h->events)
        events_know(h->events, &EVENT_WORDS);
    int err = 0;
    if (h->leader)
        leader_follow(h->leader,
                      &(struct leader_follower){.lead = on_lead, .stop = on_stop, .arg = d});
    else
        err = read_first(d, ret_error);
    if (err)
        dag_close(d);
    else
        *ret_module = d;
    return err;
}

static struct route_table module_routes(void *module)
{
    return (struct route_table){DAG_ROUTES,   DAG_ROUTE_COUNT,      module,
                                .tag = "DAG", .shapes = DAG_SHAPES, .shape_count = DAG_SHAPE_COUNT};
}

static bool module_ready(void *module)
{
    return ((struct dag *)module)->ready;
}

const struct module dag_module = {
    .name = "dag",
    .open = module_open,
    .routes = module_routes,
    .ready = module_ready,
    .close = module_close,
    .options = OPTIONS,
    .option_count = sizeof OPTIONS / sizeof *OPTIONS,
};
