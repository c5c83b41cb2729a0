/*
 * Tasks over HTTP, on the loop.
 *
 * A call holds a request of the service beside the HTTP request, with a copy of the body and all that was
 * read from it: the client may leave while a commit is under way, and then the call outlives it. Calls
 * are used again, so that a request allocates little.
 */
#include "task/http.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "server/leader.h"
#include "task/body.h"
#include "task/service.h"
#include "task/task_metrics.h"

enum { SPARE_MAX = 1024, OUT_KEPT_MAX = 64 * 1024 };

struct task_http {
    struct context *context;
    struct service *service;
    struct leader *leader; /* NULL: the embedded keeper */
    struct task_metrics metrics;
    bool leader_begun;
    uv_async_t wake;
    uv_timer_t timer;
    int64_t timer_ms; /* what it is set to, by clock_boot_ms() */
    struct call *spare;
    size_t spare_count;
    struct buf out;
    int handles; /* still open */
};

struct call {
    struct task_http *h;
    struct http_request *r; /* NULL: its client has left */
    struct task_request request;
    struct arena arena;
    struct buf out; /* what a read has found */
    uint64_t started_ns;
    int status;

    /* Of reads. */
    int64_t *ids;
    size_t id_count, limit;
    struct str group;
    bool owned;
    struct call *next;
};

static struct call *call_new(struct http_request *r)
{
    struct task_http *h = r->arg;
    struct call *c = h->spare;

    if (c) {
        h->spare = c->next;
        h->spare_count--;
    } else {
        c = mem_zalloc(sizeof *c);
    }
    c->h = h;
    c->r = r;
    c->status = 200;
    c->out.len = 0;
    memset(&c->request, 0, sizeof c->request);
    r->handler_data = c;
    return c;
}

static void call_free(struct call *c)
{
    struct task_http *h = c->h;

    arena_reset(&c->arena);
    if (c->out.cap > OUT_KEPT_MAX)
        buf_release(&c->out);
    if (h->spare_count >= SPARE_MAX) {
        arena_release(&c->arena);
        buf_release(&c->out);
        free(c);
        return;
    }
    c->next = h->spare;
    h->spare = c;
    h->spare_count++;
}

/* The timer follows the service. */

static void on_timer(uv_timer_t *timer);

static void set_timer(struct task_http *h)
{
    int64_t due_ms = service_due_ms(h->service), now_ms;

    if (due_ms == h->timer_ms)
        return;
    h->timer_ms = due_ms;
    if (due_ms == INT64_MAX) {
        uv_timer_stop(&h->timer);
        return;
    }
    now_ms = clock_boot_ms();
    uv_update_time(h->context->loop);
    uv_timer_start(&h->timer, on_timer, due_ms > now_ms ? (uint64_t)(due_ms - now_ms) : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct task_http *h = timer->data;

    h->timer_ms = INT64_MAX;
    service_tick(h->service);
    set_timer(h);
}

static void on_wake(uv_async_t *async)
{
    struct task_http *h = async->data;

    if (h->leader && !h->leader_begun) { /* now that all rooms are open that lead with us */
        h->leader_begun = true;
        leader_begin(h->leader);
    }
    service_dispatch(h->service);
    set_timer(h);
}

static void on_service_wake(void *arg)
{
    struct task_http *h = arg;

    uv_async_send(&h->wake);
}

/* Answers. */

static void reply_elsewhere(struct call *c)
{
    char url[LEADER_URL_SIZE];

    leader_url(c->h->leader, url);
    http_reply_elsewhere(c->r, url, "no server leads yet: try again");
}

static void reply(struct call *c, const struct task_reply *a)
{
    struct buf *out = &c->h->out;

    out->len = 0;
    if (a->err == DROVER_REFUSED) {
        body_put_errors(out, a->errors, a->error_count);
        http_reply(c->r, 409, (struct str){out->p, out->len});
    } else if (a->err == DROVER_NOT_LEADER) {
        reply_elsewhere(c);
    } else if (a->err) {
        http_reply_err(c->r, a->err, NULL);
    } else if (c->request.kind == TASK_READ) {
        http_reply(c->r, c->status, (struct str){c->out.p, c->out.len});
    } else {
        body_put_tasks(out, a->tasks, a->task_count);
        http_reply(c->r, 200, (struct str){out->p, out->len});
    }
    if (out->cap > OUT_KEPT_MAX)
        buf_release(out);
}

static void on_done(void *arg, const struct task_reply *a)
{
    struct call *c = arg;

    histogram_add(c->h->metrics.latency[c->request.kind], uv_hrtime() - c->started_ns);
    if (c->r)
        reply(c, a);
    call_free(c);
}

static void on_gone(struct http_request *r)
{
    struct call *c = r->handler_data;

    c->r = NULL;
    if (service_cancel(c->h->service, &c->request))
        call_free(c);
}

static void submit(struct call *c)
{
    c->request.done = on_done;
    c->request.arg = c;
    c->r->gone = on_gone;
    c->started_ns = uv_hrtime();
    service_submit(c->h->service, &c->request);
}

static void reject(struct call *c, int status, const char *why)
{
    http_reply_error(c->r, status, why);
    call_free(c);
}

/* Changes. */

static void post(struct http_request *r, int (*read)(const struct json *, struct arena *,
                                                     struct task_request *, struct err_info *))
{
    struct call *c = call_new(r);
    struct str body = {arena_text(&c->arena, r->body), r->body.len};
    struct json *v = NULL;
    struct err_info e;
    int err = json_read(&c->arena, body, HTTP_VALUES_MAX, &v, &e);

    if (!err)
        err = read(v, &c->arena, &c->request, &e);
    if (err)
        reject(c, drover_err_http_status(err), e.text);
    else
        submit(c);
}

static void post_update(struct http_request *r)
{
    post(r, body_update);
}

static void post_claim(struct http_request *r)
{
    post(r, body_claim);
}

/* Reads. */

static void put_one(struct call *c, struct store *s, int64_t id, struct buf *scratch)
{
    struct task t;
    int err;

    scratch->len = 0;
    err = store_get(s, id, scratch, &t);
    if (!err)
        body_put_task(&c->out, &t);
    else if (c->status == 200 && err != DROVER_NO_TASK)
        c->status = 500;
    if (err)
        json_put_null(&c->out);
}

static void read_task(void *arg, struct store *s, int64_t now_ms)
{
    struct call *c = arg;
    struct buf scratch = {0};
    struct task t;

    (void)now_ms;
    c->out.len = 0;
    if (store_get(s, c->ids[0], &scratch, &t)) {
        const char *why = arena_printf(&c->arena, "there is no such task");

        c->status = 404;
        body_put_errors(&c->out, &why, 1);
    } else {
        body_put_task(&c->out, &t);
    }
    buf_release(&scratch);
}

static void read_tasks(void *arg, struct store *s, int64_t now_ms)
{
    struct call *c = arg;
    struct buf scratch = {0};

    (void)now_ms;
    c->out.len = 0;
    json_open(&c->out, '[');
    for (size_t i = 0; i < c->id_count; i++)
        put_one(c, s, c->ids[i], &scratch);
    json_close(&c->out, ']');
    buf_release(&scratch);
}

static void read_group(void *arg, struct store *s, int64_t now_ms)
{
    struct call *c = arg;
    struct store_list list = {0};

    c->out.len = 0;
    if (store_list(s, c->group, -1, c->limit, c->owned, now_ms, &c->arena, &list))
        c->status = 500;
    json_open(&c->out, '[');
    for (size_t i = 0; i < list.count; i++)
        body_put_task(&c->out, &list.tasks[i]);
    json_close(&c->out, ']');
}

static int by_name(const void *a, const void *b)
{
    const struct store_group *x = a, *y = b;
    size_t len = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.p, y->name.p, len);

    return order ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

static void read_groups(void *arg, struct store *s, int64_t now_ms)
{
    struct call *c = arg;
    struct store_group *groups;
    size_t count;

    store_groups(s, now_ms, &c->arena, &groups, &count);
    qsort(groups, count, sizeof *groups, by_name);
    c->out.len = 0;
    json_open(&c->out, '[');
    for (size_t i = 0; i < count; i++)
        json_put_text(&c->out, groups[i].name);
    json_close(&c->out, ']');
}

static void submit_read(struct call *c, void (*read)(void *arg, struct store *s, int64_t now_ms))
{
    c->request.kind = TASK_READ;
    c->request.read = read;
    submit(c);
}

static void get_groups(struct http_request *r)
{
    submit_read(call_new(r), read_groups);
}

static void get_task(struct http_request *r)
{
    struct call *c = call_new(r);
    int64_t id = body_id(r->params[0]);

    if (!id) {
        reject(c, 400, "the id of a task is a number");
        return;
    }
    c->ids = arena_alloc(&c->arena, sizeof id);
    c->ids[0] = id;
    submit_read(c, read_task);
}

static void get_tasks(struct http_request *r)
{
    struct call *c = call_new(r);
    int err = body_ids(r->params[0], &c->arena, &c->ids, &c->id_count);

    if (err)
        reject(c, drover_err_http_status(err),
               err == DROVER_TOO_BIG ? "too many ids" : "ids are numbers with commas between them");
    else
        submit_read(c, read_tasks);
}

static void get_group(struct http_request *r)
{
    int64_t limit = 0;
    struct str name, owned;
    struct call *c;

    if (!http_decode(r, r->params[0], &name))
        return;
    if (http_query_number(r, "limit", &limit) < 0)
        return;
    c = call_new(r);
    c->owned = false;
    if (http_query(r, "owned", &owned) && !body_truth(owned, &c->owned)) {
        reject(c, 400, "owned is one of 0, 1, yes, no, true, false");
        return;
    }
    if (http_query(r, "limit", &owned) && !limit) { /* none at all */
        http_reply(r, 200, STR("[]"));
        call_free(c);
        return;
    }
    c->limit = (size_t)limit;
    c->group = (struct str){arena_text(&c->arena, name), name.len};
    submit_read(c, read_group);
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/groups", get_groups, 0, "The names of all groups that have tasks."},
    {METHOD_GET, "/task/{id}", get_task, 0, "A task."},
    {METHOD_GET, "/tasks/{ids}", get_tasks, 0,
     "Tasks by their ids, null for one that is not there."},
    {METHOD_GET, "/group/{name}", get_group, 0, "The tasks of a group: limit=N, owned=yes."},
    {METHOD_POST, "/update", post_update, 0, "Adds, changes and deletes tasks, all or nothing."},
    {METHOD_POST, "/claim", post_claim, 0, "Claims tasks of a group for some time."},
};

/* On an ensemble: the store is here while this server leads. */

static struct keeper *borrow(void *arg)
{
    struct task_http *h = arg;

    return context_keeper(h->context);
}

static void give_back(void *arg, struct keeper *k)
{
    struct task_http *h = arg;

    context_return(h->context, k);
}

static void on_note(void *arg, const char *line)
{
    (void)arg;
    log_warning("%s", line);
}

static int on_lead(void *arg, struct keeper *k, const struct keeper_op *fence, struct err_info *e)
{
    struct task_http *h = arg;
    int err = service_start(h->service, k, fence, e);

    if (!err)
        log_info("this server leads");
    return err;
}

static void on_stop(void *arg)
{
    struct task_http *h = arg;

    service_stop(h->service);
}

static void on_doubt(void *arg)
{
    struct task_http *h = arg;

    leader_doubt(h->leader);
}

static void on_session(void *arg, struct keeper *k)
{
    struct task_http *h = arg;

    (void)k;
    if (h->leader)
        leader_session_changed(h->leader);
}

static void stand_for_leader(struct task_http *h)
{
    struct leader_options o = {.url = h->context->url ? h->context->url : "",
                               .borrow = borrow,
                               .give_back = give_back,
                               .note = on_note,
                               .arg = h};
    struct leader_follower f = {.lead = on_lead, .stop = on_stop, .arg = h};

    h->leader = h->context->leader = leader_open(&o);
    leader_follow(h->leader, &f);
    context_listen(h->context, on_session, h);
}

/* The room. */

static int module_open(struct context *context, void **ret_module, struct err_info *ret_error)
{
    struct task_http *h = mem_zalloc(sizeof *h);
    struct service_options o = {
        .wake = on_service_wake, .wake_arg = h, .doubt = on_doubt, .doubt_arg = h};
    int err;

    h->context = context;
    h->timer_ms = INT64_MAX;
    err = context_connect(context, on_service_wake, h, &o.keeper, ret_error);
    if (!err)
        err = service_open(&o, &h->service, ret_error);
    if (err) {
        free(h);
        return err;
    }
    h->handles = 2;
    UV_CHECK(uv_async_init(context->loop, &h->wake, on_wake));
    UV_CHECK(uv_timer_init(context->loop, &h->timer));
    h->wake.data = h->timer.data = h;
    context->tasks = h->service;
    task_metrics_open(&h->metrics, context->metrics, h->service);
    if (!context->local) {
        stand_for_leader(h);
        uv_async_send(&h->wake);
    }
    *ret_module = h;
    return 0;
}

static struct route_table module_routes(void *module)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, module};
}

static bool module_ready(void *module)
{
    struct task_http *h = module;
    char url[LEADER_URL_SIZE];

    leader_url(h->leader, url);
    return url[0] || service_is_ready(h->service); /* or it knows who is */
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct task_http *h = handle->data;

    if (--h->handles)
        return;
    while (h->spare) {
        struct call *c = h->spare;

        h->spare = c->next;
        arena_release(&c->arena);
        buf_release(&c->out);
        free(c);
    }
    buf_release(&h->out);
    free(h);
}

static void module_close(void *module)
{
    struct task_http *h = module;

    if (h->leader)
        leader_close(h->leader);
    h->leader = h->context->leader = NULL;
    service_close(h->service);
    h->context->tasks = NULL;
    uv_close((uv_handle_t *)&h->wake, on_handle_closed);
    uv_close((uv_handle_t *)&h->timer, on_handle_closed);
}

const struct module task_module = {
    .name = "tasks",
    .open = module_open,
    .routes = module_routes,
    .ready = module_ready,
    .close = module_close,
};
