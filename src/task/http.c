/*
 * Tasks over HTTP, on the loop.
 *
 * A call holds a request of the service beside the HTTP request, in the memory of that, so it
 * allocates nothing of its own. When the client leaves while a commit is under way, the call
 * outlives it and takes over its memory.
 */
#include "task/http.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "server/ground.h"
#include "server/leader.h"
#include "task/body.h"
#include "task/http_impl.h"
#include "task/task_tree.h"

enum { OUT_KEPT_MAX = 64 * 1024 };

/* A request of the service, in the memory of the HTTP request, which is freed with the answer. */
struct task_call {
    struct task_http *h;
    struct http_request *r; /* NULL: its client has left */
    struct task_request *request;
    uint64_t started_ns;

    struct http_memory memory; /* of the HTTP request, when the client has left */
};

/* The timer follows the service. */

static void on_timer(uv_timer_t *timer);

static void set_timer(struct task_http *h)
{
    int64_t due_ms = service_due_ms(h->service);
    if (due_ms == h->timer_ms)
        return;
    h->timer_ms = due_ms;
    if (due_ms == INT64_MAX) {
        uv_timer_stop(&h->timer);
        return;
    }
    int64_t now_ms = clock_boot_ms();
    uv_update_time(h->context->loop);
    UV_CHECK(
        uv_timer_start(&h->timer, on_timer, due_ms > now_ms ? (uint64_t)(due_ms - now_ms) : 0, 0));
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
    leader_begin(h->context->leader); /* now that all modules that follow it are open */
    service_dispatch(h->service);
    set_timer(h);
}

static void on_service_wake(void *arg)
{
    struct task_http *h = arg;
    uv_async_send(&h->wake);
}

/* Answers. */

void task_reply_err(struct task_http *h, struct http_request *r, int err)
{
    if (err == DROVER_NOT_LEADER)
        leader_redirect(h->context->leader, r, "no server leads yet: try again");
    else
        http_reply_err(r, err, NULL);
}

static void reply(struct task_call *c, const struct task_reply *a)
{
    struct buf *out = &c->h->out;
    out->len = 0;
    if (a->err == DROVER_REFUSED || a->err == DROVER_GROUP_FULL) {
        http_reply_reasons(c->r, a->err, a->errors, a->error_count);
    } else if (a->err == DROVER_NO_AUTH) {
        http_forbid(c->r, ROLE_RUN);
    } else if (a->err) {
        task_reply_err(c->h, c->r, a->err);
    } else {
        body_put_tasks(out, a->tasks, a->task_count);
        http_reply(c->r, 200, buf_str(out));
    }
    if (out->cap > OUT_KEPT_MAX)
        buf_release(out);
}

static void call_free(struct task_call *c)
{
    struct http_memory memory = c->memory;
    http_memory_release(&memory);
}

static void on_done(void *arg, const struct task_reply *a)
{
    struct task_call *c = arg;
    histogram_add(c->h->metrics.latency[c->request->kind], uv_hrtime() - c->started_ns);
    if (c->r)
        reply(c, a);
    else
        call_free(c);
}

static void on_gone(struct http_request *r)
{
    struct task_call *c = r->handler_data;
    http_take_memory(r, &c->memory);
    c->r = NULL;
    if (service_cancel(c->h->service, c->request))
        call_free(c);
}

static void submit(struct http_request *r, struct task_request *request)
{
    struct task_call *c = arena_alloc(&r->arena, sizeof *c);
    *c = (struct task_call){.h = r->arg, .r = r, .request = request, .started_ns = uv_hrtime()};
    request->done = on_done;
    request->arg = c;
    r->handler_data = c;
    r->gone = on_gone;
    service_submit(c->h->service, request);
}

/* Changes. */

/* Adding needs another role than changing what is there. */
static unsigned missing_role(const struct http_request *r, const struct task_update *u)
{
    if (u->add_count && !http_may(r, ROLE_SUBMIT))
        return ROLE_SUBMIT;
    bool changes = u->update_count + u->delete_count + u->edit_count;
    return changes && !http_may(r, ROLE_WORK) ? ROLE_WORK : 0;
}

/* The first group beyond the limits of the sender; NULL: none. */
static const struct str *group_beyond(const struct http_request *r, const struct task_in *in)
{
    const struct task_update *u = &in->request.update;
    const struct task_claim *c = &in->request.claim;
    for (size_t i = 0; i < u->add_count; i++)
        if (!http_reaches(r, SCOPE_GROUP, u->adds[i].group))
            return &u->adds[i].group;
    for (size_t i = 0; i < c->group_count; i++)
        if (!http_reaches(r, SCOPE_GROUP, c->groups[i]))
            return &c->groups[i];
    return NULL;
}

static void post(struct http_request *r, enum task_kind kind)
{
    struct task_in *in = r->in;
    const char *field = NULL, *wrong = body_finish(in, kind, r->json, &r->arena, &field);
    unsigned missing = missing_role(r, &in->request.update);
    const struct str *beyond = group_beyond(r, in);
    in->request.update.who = in->request.claim.who = r->who;
    if (wrong)
        http_reply_field(r, field, "%s", wrong);
    else if (missing)
        http_forbid(r, missing);
    else if (beyond)
        http_forbid_name(r, *beyond);
    else if (kind != TASK_CLAIM || in->request.wait_ms <= 0 || http_may_wait(r))
        submit(r, &in->request);
}

static void post_update(struct http_request *r)
{
    post(r, TASK_UPDATE);
}

static void post_claim(struct http_request *r)
{
    post(r, TASK_CLAIM);
}

/* Routes. */

#define CHANGE_ERRORS                                                                              \
    "409 Refused, with all reasons. Nothing was changed\n"                                         \
    "413 A list, or the transaction, is too large\n"                                               \
    "429 A group has as many tasks as it may have. Nothing was changed\n507\n" ROUTE_LEADER

static const struct route ROUTES[] = {
    {METHOD_GET, "/groups", task_get_groups, ROLE_READ | ROUTE_LIMITS,
     "List the groups that have tasks", "listGroups", .reply = "[text]", .errors = ROUTE_LEADER},
    {METHOD_GET, "/task/{id}", task_get_task, ROLE_READ | ROUTE_LIMITS, "Show a task", "getTask",
     .reply = "Task", .errors = "404 No such task\n" ROUTE_LEADER,
     ROUTE_IN(struct task_read, FIELD_ID(IN_PATH, struct task_read, id, "id", "The task"))},
    {METHOD_GET, "/tasks/{ids}", task_get_tasks, ROLE_READ | ROUTE_LIMITS,
     "Show tasks by their ids, with null for each that does not exist", "getTasks",
     .reply = "[Task|null]", .errors = "413 More than 10,000 ids\n" ROUTE_LEADER,
     ROUTE_IN(struct task_read, FIELD_IDS(IN_PATH, struct task_read, ids, id_count, "ids", 1,
                                          TASK_IDS_MAX, "The tasks, comma-separated"))},
    {METHOD_GET, "/group/{name}", task_get_group, ROLE_READ, "List the tasks of a group",
     "listTasks", .reply = "[Task]", .errors = ROUTE_LEADER,
     ROUTE_IN(
         struct task_read,
         FIELD_TEXT(IN_PATH | NAMES_GROUP, struct task_read, group, "name", 1, INT64_MAX,
                    "The group"),
         FIELD_INT(IN_QUERY, struct task_read, limit, "limit", 0, INT64_MAX,
                   "At most so many; 0, or not given: all"),
         FIELD_BOOL(IN_QUERY, struct task_read, owned, "owned",
                    "Also those that are owned; only those that can be claimed unless given"))},
    {METHOD_POST, "/update", post_update, ROLE_WORK | ROLE_SUBMIT | ROUTE_LIMITS,
     "Add, replace and delete tasks, all or nothing", "updateTasks", .reply = "tasks:[Task]",
     .errors = CHANGE_ERRORS,
     .example = "{\"clientid\": 1643, \"adds\": [{\"group\": \"map\", \"data\": \"a\"}]}",
     .in_size = sizeof(struct task_in), .fields = TASK_UPDATE_FIELDS},
    {METHOD_POST, "/claim", post_claim, ROLE_WORK | ROUTE_LIMITS,
     "Claim tasks of a group for some time", "claimTasks", .reply = "tasks:[Task]",
     .errors = CHANGE_ERRORS,
     .example = "{\"clientid\": 1532, \"group\": \"map\", \"duration\": 60000}",
     .in_size = sizeof(struct task_in), .fields = TASK_CLAIM_FIELDS},
};

static const struct route_shape SHAPES[] = {
    {"Task", BODY_TASK_SHAPE},
};

static struct route_table routes(void *module)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, module, "Tasks", SHAPES, 1};
}

/* On an ensemble: the store is here while this server leads. */

static int on_lead(void *arg, struct keeper *k, const struct keeper_op *fence, struct err_info *e)
{
    return service_start(arg, k, fence, e);
}

static void on_stop(void *arg)
{
    service_stop(arg);
}

static void on_doubt(void *arg)
{
    struct context *context = arg;
    leader_doubt(context->leader);
}

/* The module. */

static void on_written(void *arg)
{
    service_dispatch(arg);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct task_http *h = handle->data;
    if (--h->handles)
        return;
    buf_release(&h->out);
    free(h);
}

/* Frees it, too. */
static void close_handles(struct task_http *h)
{
    uv_close((uv_handle_t *)&h->wake, on_handle_closed);
    uv_close((uv_handle_t *)&h->timer, on_handle_closed);
}

/* The handles come first: the keeper wakes the service while it still loads. */
static struct task_http *open_handles(struct context *context)
{
    struct task_http *h = mem_alloc(sizeof *h);
    *h = (struct task_http){.context = context, .timer_ms = INT64_MAX, .handles = 2};
    UV_CHECK(uv_async_init(context->loop, &h->wake, on_wake));
    UV_CHECK(uv_timer_init(context->loop, &h->timer));
    h->wake.data = h->timer.data = h;
    return h;
}

static int module_open(struct context *context, void **ret_module, struct err_info *ret_error)
{
    struct task_http *h = open_handles(context);
    struct service_options o = {
        .wake = on_service_wake, .wake_arg = h, .doubt = on_doubt, .doubt_arg = context};
    int err = context_connect(context, on_service_wake, h, &o.keeper, ret_error);
    if (!err)
        err = service_open(&o, &h->service, ret_error);
    if (err) {
        close_handles(h);
        return err;
    }
    context->tasks = h->service;
    context->on_written = on_written;
    context->on_written_arg = h->service;
    task_metrics_open(&h->metrics, context->metrics, h->service);
    if (!context->local) {
        struct leader_follower f = {.lead = on_lead, .stop = on_stop, .arg = h->service};
        leader_open(context);
        leader_follow(context->leader, &f);
        uv_async_send(&h->wake);
    }
    ground_own(context, TASK_NODE_HEAD);
    ground_own(context, REQUEST_LOG_ROOT);
    *ret_module = h;
    return 0;
}

static bool module_ready(void *module)
{
    struct task_http *h = module;
    char url[LEADER_URL_SIZE];
    leader_url(h->context->leader, url);
    return url[0] || service_is_ready(h->service); /* or it knows who is */
}

static void module_close(void *module)
{
    struct task_http *h = module;
    leader_close(h->context);
    service_close(h->service);
    h->context->tasks = NULL;
    h->context->on_written = NULL;
    close_handles(h);
}

const struct module task_module = {
    .name = "tasks",
    .open = module_open,
    .routes = routes,
    .ready = module_ready,
    .close = module_close,
};
