/*
 * The module: opens and closes the service, keeps the timers, reads the stored state.
 */
#include "dag/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/uv_check.h"
#include "dag/run_log.h"
#include "server/auth.h"
#include "server/ground.h"
#include "server/leader.h"

enum {
    AGAIN_MS = 500,
};

int64_t dag_now_ms(const struct dag *d)
{
    return service_now_ms(d->context->tasks);
}

/* Time. */

static void end_lease(struct dag *d, struct dag_node *n)
{
    struct run_end end = {.how = RUN_EXITED, .lost = true, .reason = "lost its agent"};
    if (n->begun)
        dag_end_run(d, n, &end, NULL, NULL);
    else
        dag_unclaim(d, n);
}

static void on_timer(uv_timer_t *timer)
{
    struct dag *d = timer->data;
    d->timer_at = INT64_MAX;
    dag_commit_retry(d);
    int64_t now = dag_now_ms(d), next = serve_agent_tick(d, now);
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
            end_lease(d, n);
        else if (n->lease_at < next)
            next = n->lease_at;
    }
    if (d->prune_at <= now)
        dag_soon(d);
    else if (d->prune_at < next)
        next = d->prune_at;
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

/* Stopping. */

static void end_dag(struct dag *d, int err)
{
    if (!d->ready)
        return;
    d->ready = false;
    d->failing = 0;
    serve_agent_drop(d);
    dag_drop_adds(d, err);
    dag_commit_drop_all(d, err);
    dag_publish(d, NULL); /* ends the requests that wait for nodes */
    for (int i = 0; i < BUCKET_KINDS; i++)
        map_release(&d->buckets[i]);
    map_release(&d->by_slot);
    d->running.count = d->parked.count = 0;
    d->timer_at = INT64_MAX;
    uv_timer_stop(&d->timer);
    if (d->last_id < d->graph.last_id)
        d->last_id = d->graph.last_id;
    if (d->last_run < d->graph.last_run)
        d->last_run = d->graph.last_run;
    d->stop_count = 0;
    graph_release(&d->graph);
}

/* One handle less, or the read in flight has ended. The last one frees the DAG. */
static void release(struct dag *d)
{
    if (--d->open_handles)
        return;
    http_topic_release(&d->topic);
    pthread_mutex_destroy(&d->lock);
    dag_saved_free(d->saved);
    started_close(d->started);
    free(d->running.nodes);
    free(d->parked.nodes);
    free(d->stops);
    dag_agents_free(d->agents);
    free(d);
}

/*
 * Reading the stored state: on the leader's thread when this server becomes the leader; on a worker
 * thread, with the embedded keeper, after a commit has failed.
 */

/* News from the leader's thread: first that it no longer leads, then that it leads. */
static void take_news(struct dag *d)
{
    if (d->loading)
        return;
    pthread_mutex_lock(&d->lock);
    struct dag_saved *saved = d->saved;
    bool stopped = d->stopped;
    d->saved = NULL;
    d->stopped = false;
    pthread_mutex_unlock(&d->lock);
    if (stopped)
        end_dag(d, DROVER_NOT_LEADER);
    if (saved && d->ready)
        dag_saved_free(saved);
    else if (saved)
        dag_begin(d, saved);
}

static void leave_news(struct dag *d, struct dag_saved *saved, bool stopped)
{
    LOCKED(&d->lock);
    dag_saved_free(d->saved);
    d->saved = saved; /* when the DAG is closing, release() frees it */
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
    release(d);
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

static void on_failed(struct dag *d, int err)
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
    dag_begin(d, saved);
    return 0;
}

/* The end of a loop iteration. */

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
        end_dag(d, err);
        on_failed(d, err);
        return;
    }
    dag_stop_runs(d);
    dag_keep_runs(d);
    serve_agent_schedule(d);
    dag_offer(d);
    dag_commit_flush(d);
}

static void on_wake(uv_async_t *wake)
{
    take_news(wake->data);
    dag_soon(wake->data);
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

static int64_t agent_jobs;
static struct dag_keep keep_runs = {-1, -1};
static const char *log_dir;
static struct policy policy;

static int parse_keep(const struct option *o, const char *text, struct err_info *e)
{
    struct dag_keep *keep = o->target;
    int64_t count = -1, ms = -1;
    struct option span = {.name = o->name, .target = &ms, .max = INT64_C(1) << 40};
    if (!option_digits(text, 0, INT32_MAX, &count))
        TRY(option_span(&span, text, e));
    *keep = (struct dag_keep){count, ms};
    return 0;
}

static const struct option OPTIONS[] = {
    {"jobs", "N",
     "Run at most N commands of the DAG at a time in this process; 0: leave them to\n"
     "agents. Default: the number of cores.",
     option_number, &agent_jobs, 0, 100000, .find_initial = serve_agent_default_jobs,
     .flags = OPTION_RELOADS},
    {"log-dir", "DIR",
     "Keep the full output of commands in this directory, one file per run: NODE-TRY.log.",
     option_text, &log_dir},
    {"keep-runs", "N|TIME",
     "Remove ended runs beyond the newest N, or so long after their end (7d), with their nodes\n"
     "and output. Without it all are kept.",
     parse_keep, &keep_runs, .flags = OPTION_RELOADS},
    POLICY_OPTIONS(policy),
};

static void on_closed(uv_handle_t *handle)
{
    release(handle->data);
}

static void module_close(void *module)
{
    struct dag *d = module;
    uv_handle_t *handles[] = {(uv_handle_t *)&d->wake,  (uv_handle_t *)&d->check,
                              (uv_handle_t *)&d->idle,  (uv_handle_t *)&d->timer,
                              (uv_handle_t *)&d->again, (uv_handle_t *)&d->printer};
    {
        LOCKED(&d->lock);
        d->closing = true;
    }
    if (d->context->auth)
        auth_set_nodes(d->context->auth, NULL, NULL);
    dag_observe(d, false);
    d->context->dag = NULL;
    end_dag(d, DROVER_CLOSED);
    runner_close(d->agent.runner);
    d->context->policy = NULL;
    policy_close(d->policy);
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++)
        uv_close(handles[i], on_closed);
}

static struct dag *open_dag(struct context *h)
{
    struct dag *d = mem_zalloc(sizeof *d);
    d->context = h;
    d->log_dir = log_dir;
    d->policy = &policy;
    d->jobs = serve_agent_jobs(agent_jobs);
    d->keep = keep_runs;
    d->timer_at = d->prune_at = INT64_MAX;
    d->adding_end = &d->adding;
    d->agent.ahead_last = &d->agent.ahead;
    pthread_mutex_init(&d->lock, NULL);
    UV_CHECK(uv_check_init(h->loop, &d->check));
    UV_CHECK(uv_idle_init(h->loop, &d->idle));
    UV_CHECK(uv_timer_init(h->loop, &d->timer));
    UV_CHECK(uv_timer_init(h->loop, &d->again));
    UV_CHECK(uv_timer_init(h->loop, &d->printer));
    UV_CHECK(uv_async_init(h->loop, &d->wake, on_wake));
    d->check.data = d->idle.data = d->timer.data = d->again.data = d->printer.data = d->wake.data =
        d;
    d->open_handles = 6;
    UV_CHECK(uv_check_start(&d->check, on_check));
    uv_unref((uv_handle_t *)&d->check);
    http_topic_init(&d->topic);
    d->started = h->data_dir ? started_open(h->data_dir) : NULL;
    d->agent.runner = runner_open(h->loop);
    d->agents = dag_agents_new();
    dag_observe(d, true);
    dag_metrics_open(d);
    return d;
}

static int module_open(struct context *h, void **ret_module, struct err_info *ret_error)
{
    if (log_dir)
        TRY(run_log_make_dir(log_dir, ret_error));
    TRY(policy_open(&policy, agent_jobs != 0, ret_error));
    h->policy = &policy;
    struct dag *d = open_dag(h);
    if (h->events)
        events_know(h->events, &EVENT_WORDS);
    int err = h->leader ? 0 : read_first(d, ret_error);
    if (h->leader)
        leader_follow(h->leader,
                      &(struct leader_follower){.lead = on_lead, .stop = on_stop, .arg = d});
    ground_own(h, DAG_ROOT);
    for (int kind = 0; kind < BUCKET_KINDS; kind++)
        ground_lead(h, DAG_KIND_ROOTS[kind]);
    ground_lead(h, DAG_HEAD);
    if (h->auth)
        auth_set_nodes(h->auth, dag_runs, d);
    if (err)
        module_close(d);
    else
        *ret_module = h->dag = d;
    return err;
}

/* Commands that run go on; with fewer jobs the next ones wait. */
static void module_reload(void *module)
{
    struct dag *d = module;
    d->jobs = serve_agent_jobs(agent_jobs);
    d->keep = keep_runs;
    d->runs_ended = true;
    dag_soon(d);
}

static bool module_ready(void *module)
{
    return ((struct dag *)module)->ready;
}

const struct module dag_module = {
    .name = "dag",
    .open = module_open,
    .routes = dag_routes,
    .ready = module_ready,
    .reload = module_reload,
    .close = module_close,
    .options = OPTIONS,
    .option_count = sizeof OPTIONS / sizeof *OPTIONS,
};
