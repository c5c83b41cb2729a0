/*
 * The DAG module: opens the service, reads the stored state, publishes state changes. A worker
 * thread reads the stored state, at the start and again after a commit has failed.
 */
#include "dag/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
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
    struct dag_http *h = timer->data;
    struct dag *d = h->dag;

    h->printing = false;
    for (uint32_t i = 0; i < d->running_count; i++)
        if (d->running[i]->run)
            wake_output(d, d->running[i]);
}

/* Requests that wait for output are woken 20 times a second at most, not with every line. */
static void on_printed(void *arg)
{
    struct dag_http *h = arg;

    if (h->printing || h->closing)
        return;
    h->printing = true;
    UV_CHECK(uv_timer_start(&h->printer, on_printer, PRINTED_MS, 0));
}

static void publish(struct dag_http *h, const struct dag_node *n, const char *state,
                    struct str json)
{
    char id[24];

    snprintf(id, sizeof id, "%" PRIu64, n->id);
    events_publish(h->context->events,
                   &(struct event){
                       .kind = "node",
                       .id = str_of(id),
                       .type = str_of(node_type_name(graph_plan(&h->dag->graph, n)->type)),
                       .state = str_of(state),
                       .json = json,
                   });
}

static void on_removed(struct dag_http *h, struct dag_node *n)
{
    char json[64];

    node_waits_notify(n);
    snprintf(json, sizeof json, "{\"id\":\"%" PRIu64 "\",\"state\":\"deleted\"}", n->id);
    if (h->context->events)
        publish(h, n, "deleted", str_of(json));
}

static void on_shown(void *arg, struct dag_node *n)
{
    struct dag_http *h = arg;
    struct buf b = {0};
    uint8_t shown = n ? h->dag->graph.shown[n->index] : 0;

    if (!n) {
        if (!h->dag->ready)
            node_waits_end(&h->dag->graph);
        http_topic_wake(&h->dag->topic, dag_key("added", 0), HTTP_TOPIC_ALL);
        return;
    }
    if (shown == SHOWN_NONE) {
        on_removed(h, n);
        return;
    }
    if (node_state_is_terminal(shown)) {
        node_waits_notify(n);
        wake_output(h->dag, n);
    }
    if (!h->context->events)
        return;
    node_put_metadata(&b, h->dag, n, ~0u);
    publish(h, n, node_state_name(shown), buf_str(&b));
    buf_release(&b);
}

/*
 * Reading the stored state: on the leader's thread when this server becomes the leader; on a worker
 * thread, with the embedded keeper, after a commit has failed.
 */

static void begin_dag(struct dag_http *h, struct dag_saved *saved)
{
    struct err_info why;

    if (h->closing || h->dag->ready)
        dag_saved_free(saved);
    else if (dag_begin(h->dag, saved, &why))
        log_error("%s", why.text);
}

/* News from the leader's thread: first that it no longer leads, then that it leads. */
static void on_news(uv_async_t *async)
{
    struct dag_http *h = async->data;

    uv_mutex_lock(&h->lock);
    struct dag_saved *saved = h->saved;
    bool stopped = h->stopped;
    h->saved = NULL;
    h->stopped = false;
    uv_mutex_unlock(&h->lock);
    if (stopped)
        dag_end(h->dag, DROVER_NOT_LEADER);
    if (saved)
        begin_dag(h, saved);
}

static void leave_news(struct dag_http *h, struct dag_saved *saved, bool stopped)
{
    uv_mutex_lock(&h->lock);
    if (h->saved)
        dag_saved_free(h->saved);
    h->saved = saved; /* when the module is closing, on_closed() frees it */
    h->stopped |= stopped;
    if (!h->closing)
        uv_async_send(&h->news);
    uv_mutex_unlock(&h->lock);
}

static int on_lead(void *arg, struct keeper *k, const struct keeper_op *fence, struct err_info *e)
{
    struct dag_saved *saved;
    int err = dag_read(k, &saved, e);

    (void)fence; /* the task store puts it into every commit */
    if (!err)
        leave_news(arg, saved, false);
    return err;
}

static void on_stop(void *arg)
{
    leave_news(arg, NULL, true);
}

static void start_reading(struct dag_http *h);

static void on_again(uv_timer_t *timer)
{
    start_reading(timer->data);
}

static void try_again(struct dag_http *h)
{
    if (!h->closing && !h->context->leader)
        UV_CHECK(uv_timer_start(&h->again, on_again, AGAIN_MS, 0));
}

static void on_failed(void *arg, int err)
{
    struct dag_http *h = arg;

    log_warning("dag: a commit failed: %s; reading the stored state again",
                drover_err_message(err));
    if (h->context->leader)
        leader_doubt(h->context->leader);
    try_again(h);
}

static int read_saved(struct dag_http *h, struct dag_saved **ret_saved, struct err_info *e)
{
    struct keeper *k = context_keeper(h->context);
    int err = k ? dag_read(k, ret_saved, e) : err_set(e, DROVER_CLOSED, "dag: closing");

    if (k)
        context_return(h->context, k);
    return err;
}

static void work_read(uv_work_t *work)
{
    struct dag_http *h = work->data;
    struct dag_saved *saved;

    h->read_err = read_saved(h, &saved, &h->read_why);
    if (!h->read_err)
        leave_news(h, saved, false);
}

static void release(struct dag_http *h)
{
    if (--h->handles)
        return;
    uv_mutex_destroy(&h->lock);
    if (h->saved)
        dag_saved_free(h->saved);
    free(h);
}

static void after_read(uv_work_t *work, int status)
{
    struct dag_http *h = work->data;

    (void)status;
    if (h->read_err) {
        log_error("%s", h->read_why.text);
        try_again(h);
    }
    release(h);
}

static void start_reading(struct dag_http *h)
{
    h->handles++;
    h->reading.data = h;
    uv_queue_work(h->context->loop, &h->reading, work_read, after_read);
}

/* With the embedded keeper, the nodes are there before the first client connects. */
static int read_first(struct dag_http *h, struct err_info *ret_error)
{
    struct dag_saved *saved;
    int err = read_saved(h, &saved, ret_error);

    return err ? err : dag_begin(h->dag, saved, ret_error);
}

static void follow_leader(struct dag_http *h)
{
    struct leader_follower f = {.lead = on_lead, .stop = on_stop, .arg = h};

    leader_follow(h->context->leader, &f);
}

/* The module. */

static void on_closed(uv_handle_t *handle)
{
    release(handle->data);
}

static void module_close(void *arg)
{
    struct dag_http *h = arg;

    uv_mutex_lock(&h->lock);
    h->closing = true;
    uv_mutex_unlock(&h->lock);
    dag_close(h->dag);
    uv_close((uv_handle_t *)&h->again, on_closed);
    uv_close((uv_handle_t *)&h->news, on_closed);
    uv_close((uv_handle_t *)&h->printer, on_closed);
}

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

static int module_open(struct context *h, void **ret_module, struct err_info *ret_error)
{
    struct dag_http *module;
    int err = log_dir ? run_make_log_dir(log_dir, ret_error) : 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct dag_options o = {
        .loop = h->loop,
        .tasks = h->tasks,
        .url = h->url,
        .password = h->token,
        .jobs = agent_jobs >= 0 ? (uint32_t)agent_jobs : (uint32_t)(cores > 0 ? cores : 1),
        .log_dir = log_dir,
        .embedded = h->local != NULL,
        .data_dir = h->data_dir,
        .printed = on_printed,
        .failed = on_failed,
        .shown = on_shown,
    };

    if (err)
        return err;
    o.arg = module = mem_zalloc(sizeof *module);
    module->context = h;
    if (h->events)
        events_know(h->events, &EVENT_WORDS);
    module->dag = dag_open(&o);
    UV_CHECK(uv_timer_init(h->loop, &module->again));
    UV_CHECK(uv_timer_init(h->loop, &module->printer));
    UV_CHECK(uv_async_init(h->loop, &module->news, on_news));
    UV_CHECK(uv_mutex_init(&module->lock));
    module->again.data = module->printer.data = module->news.data = module;
    module->handles = 3;
    if (h->leader)
        follow_leader(module);
    else
        err = read_first(module, ret_error);
    if (err)
        module_close(module);
    else
        *ret_module = module;
    return err;
}

static struct route_table module_routes(void *module)
{
    return (struct route_table){DAG_ROUTES,   DAG_ROUTE_COUNT,      module,
                                .tag = "DAG", .shapes = DAG_SHAPES, .shape_count = DAG_SHAPE_COUNT};
}

static bool module_ready(void *module)
{
    return ((struct dag_http *)module)->dag->ready;
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
