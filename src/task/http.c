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
#include "base/log.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "server/ground.h"
#include "server/leader.h"
#include "task/body.h"
#include "task/task_tree.h"

enum { OUT_KEPT_MAX = 64 * 1024 };

struct task_http {
    struct context *context;
    struct service *service;
    struct task_metrics metrics;
    uv_async_t wake;
    uv_timer_t timer;
    int64_t timer_ms; /* what it is set to, by clock_boot_ms() */
    struct buf out;
    int handles; /* still open */
};

/* What the reads take. */
struct task_read {
    int64_t id, limit;
    const int64_t *ids;
    size_t id_count;
    struct str group;
    bool owned;
};

struct task_call;

typedef void read_fn(struct task_call *c, struct store *s, int64_t now_ms);

/* A request of the service, in the memory of the HTTP request, which is freed with the answer. */
struct task_call {
    struct task_http *h;
    struct http_request *r; /* NULL: its client has left */
    struct task_request *request;
    uint64_t started_ns;

    read_fn *read;
    struct buf found; /* by the read */
    bool more;        /* than the limit */
    int err;

    const struct task_read *in; /* what it takes */
    const struct identity *who; /* who sent it; NULL: no limits */
    struct arena *arena;        /* of the HTTP request */
    struct http_memory memory;  /* its memory, when the client has left */
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

static void reply(struct task_call *c, const struct task_reply *a)
{
    struct buf *out = &c->h->out;
    out->len = 0;
    if (a->err == DROVER_REFUSED) {
        http_reply_reasons(c->r, a->err, a->errors, a->error_count);
    } else if (a->err == DROVER_NOT_LEADER) {
        leader_redirect(c->h->context->leader, c->r, "no server leads yet: try again");
    } else if (a->err || c->err) {
        http_reply_err(c->r, a->err ? a->err : c->err, NULL);
    } else if (c->request->kind == TASK_READ) {
        if (c->more)
            http_add_header(c->r, "Drover-More", STR("true"));
        http_reply(c->r, 200, buf_str(&c->found));
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
    buf_release(&c->found);
    http_memory_release(&memory);
}

static void on_done(void *arg, const struct task_reply *a)
{
    struct task_call *c = arg;
    struct buf found = c->found;
    histogram_add(c->h->metrics.latency[c->request->kind], uv_hrtime() - c->started_ns);
    if (c->r) {
        reply(c, a);
        buf_release(&found);
    } else {
        call_free(c);
    }
}

static void on_gone(struct http_request *r)
{
    struct task_call *c = r->handler_data;
    http_take_memory(r, &c->memory);
    c->arena = &c->memory.arena;
    c->r = NULL;
    if (service_cancel(c->h->service, c->request))
        call_free(c);
}

static void submit(struct http_request *r, struct task_request *request, read_fn *read)
{
    struct task_call *c = arena_alloc(&r->arena, sizeof *c);
    *c = (struct task_call){.h = r->arg,
                            .r = r,
                            .request = request,
                            .started_ns = uv_hrtime(),
                            .read = read,
                            .in = r->in,
                            .who = r->who,
                            .arena = &r->arena};
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
    return u->update_count + u->delete_count && !http_may(r, ROLE_WORK) ? ROLE_WORK : 0;
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
    const char *wrong = body_finish(in, kind, r->json);
    unsigned missing = missing_role(r, &in->request.update);
    const struct str *beyond = group_beyond(r, in);
    in->request.update.who = in->request.claim.who = r->who;
    if (wrong)
        http_reply_field(r, "group", "%s", wrong);
    else if (missing)
        http_forbid(r, missing);
    else if (beyond)
        http_forbid_name(r, *beyond);
    else if (kind != TASK_CLAIM || in->request.wait_ms <= 0 || http_may_wait(r))
        submit(r, &in->request, NULL);
}

static void post_update(struct http_request *r)
{
    post(r, TASK_UPDATE);
}

static void post_claim(struct http_request *r)
{
    post(r, TASK_CLAIM);
}

/*
 * Reads. Each may be called again, if the batch of its request is refused on an ensemble. Tasks
 * beyond the limits of the sender do not exist.
 */

static bool reaches(const struct task_call *c, struct str group)
{
    return !c->who || identity_reaches(c->who, SCOPE_GROUP, group);
}

static int find_task(const struct task_call *c, struct store *s, int64_t id, struct buf *scratch,
                     struct task *ret_task)
{
    TRY(store_get(s, id, scratch, ret_task));
    return reaches(c, ret_task->group) ? 0 : DROVER_NO_TASK;
}

static void read_task(struct task_call *c, struct store *s, int64_t now_ms)
{
    const struct task_read *in = c->in;
    CLEANUP(buf_release) struct buf scratch = {0};
    struct task t;
    (void)now_ms;
    c->err = find_task(c, s, in->id, &scratch, &t);
    if (!c->err)
        body_put_task(&c->found, &t);
}

static void read_tasks(struct task_call *c, struct store *s, int64_t now_ms)
{
    const struct task_read *in = c->in;
    CLEANUP(buf_release) struct buf scratch = {0};
    struct task t;
    (void)now_ms;
    json_open(&c->found, '[');
    for (size_t i = 0; i < in->id_count; i++) {
        scratch.len = 0;
        int err = find_task(c, s, in->ids[i], &scratch, &t);
        if (!err)
            body_put_task(&c->found, &t);
        else if (err == DROVER_NO_TASK)
            json_put_null(&c->found);
        else
            c->err = err;
    }
    json_close(&c->found, ']');
}

static void read_group(struct task_call *c, struct store *s, int64_t now_ms)
{
    const struct task_read *in = c->in;
    struct store_list list = {0};
    size_t limit = (size_t)in->limit, one_more = limit ? limit + 1 : 0;
    c->err = store_list(s, in->group, -1, one_more, in->owned, now_ms, c->arena, &list);
    c->more = limit && list.count > limit;
    json_open(&c->found, '[');
    for (size_t i = 0; i < list.count - c->more; i++)
        body_put_task(&c->found, &list.tasks[i]);
    json_close(&c->found, ']');
}

static int by_name(const void *a, const void *b)
{
    const struct store_group *x = a, *y = b;
    size_t len = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.p, y->name.p, len);
    return order ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

static void read_groups(struct task_call *c, struct store *s, int64_t now_ms)
{
    struct store_group *groups;
    size_t count;
    store_groups(s, now_ms, c->arena, &groups, &count);
    qsort(groups, count, sizeof *groups, by_name);
    json_open(&c->found, '[');
    for (size_t i = 0; i < count; i++)
        if (reaches(c, groups[i].name))
            json_put_text(&c->found, groups[i].name);
    json_close(&c->found, ']');
}

static void on_read(void *arg, struct store *s, int64_t now_ms)
{
    struct task_call *c = arg;
    c->found.len = 0;
    c->err = 0;
    c->read(c, s, now_ms);
}

static void get(struct http_request *r, read_fn *read)
{
    struct task_request *request = arena_zalloc(&r->arena, sizeof *request);
    request->kind = TASK_READ;
    request->read = on_read;
    submit(r, request, read);
}

static void get_groups(struct http_request *r)
{
    get(r, read_groups);
}

static void get_task(struct http_request *r)
{
    get(r, read_task);
}

static void get_tasks(struct http_request *r)
{
    get(r, read_tasks);
}

static void get_group(struct http_request *r)
{
    get(r, read_group);
}

/* Routes. */

#define CHANGE_ERRORS                                                                              \
    "409 Refused, with all reasons. Nothing was changed\n"                                         \
    "413 A list, or the transaction, is too large\n507\n" ROUTE_LEADER

static const struct route ROUTES[] = {
    {METHOD_GET, "/groups", get_groups, ROLE_READ | ROUTE_LIMITS, "List the groups that have tasks",
     "listGroups", .reply = "[text]", .errors = ROUTE_LEADER},
    {METHOD_GET, "/task/{id}", get_task, ROLE_READ | ROUTE_LIMITS, "Show a task", "getTask",
     .reply = "Task", .errors = "404 No such task\n" ROUTE_LEADER,
     ROUTE_IN(struct task_read,
              FIELD_INT(IN_PATH, struct task_read, id, "id", 0, INT64_MAX, "The task"))},
    {METHOD_GET, "/tasks/{ids}", get_tasks, ROLE_READ | ROUTE_LIMITS,
     "Show tasks by their ids, with null for each that does not exist", "getTasks",
     .reply = "[Task|null]", .errors = "413 More than 10,000 ids\n" ROUTE_LEADER,
     ROUTE_IN(struct task_read, FIELD_INTS(IN_PATH, struct task_read, ids, id_count, "ids", 1,
                                           TASK_IDS_MAX, "The tasks, comma-separated"))},
    {METHOD_GET, "/group/{name}", get_group, ROLE_READ, "List the tasks of a group", "listTasks",
     .reply = "[Task]", .errors = ROUTE_LEADER,
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
    {"Task", "(id:int group:text data:text timespec:int ownerid:int)"},
};

static struct route_table routes(void *module)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, module, "Tasks", SHAPES, 1};
}

/* On an ensemble: the store is here while this server leads. */

static int on_lead(void *arg, struct keeper *k, const struct keeper_op *fence, struct err_info *e)
{
    int err = service_start(arg, k, fence, e);
    if (!err)
        log_event(LOG_LEVEL_INFO, (struct log_fields){.event = "leads"}, "this server leads");
    return err;
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

static int module_open(struct context *context, void **ret_module, struct err_info *ret_error)
{
    struct task_http *h = mem_zalloc(sizeof *h);
    struct service_options o = {
        .wake = on_service_wake, .wake_arg = h, .doubt = on_doubt, .doubt_arg = context};

    h->context = context;
    h->timer_ms = INT64_MAX;
    int err = context_connect(context, on_service_wake, h, &o.keeper, ret_error);
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

static void on_handle_closed(uv_handle_t *handle)
{
    struct task_http *h = handle->data;
    if (--h->handles)
        return;
    buf_release(&h->out);
    free(h);
}

static void module_close(void *module)
{
    struct task_http *h = module;
    leader_close(h->context);
    service_close(h->service);
    h->context->tasks = NULL;
    h->context->on_written = NULL;
    uv_close((uv_handle_t *)&h->wake, on_handle_closed);
    uv_close((uv_handle_t *)&h->timer, on_handle_closed);
}

const struct module task_module = {
    .name = "tasks",
    .open = module_open,
    .routes = routes,
    .ready = module_ready,
    .close = module_close,
};
