/*
 * Queues over HTTP. The handlers run on the pool: each borrows the server's session for as long as
 * it takes. Messages are the task store's, which on an ensemble another server may have: then the
 * client is sent there.
 */
#include "queue/http.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "http/metrics.h"
#include "queue/assign.h"
#include "queue/http_impl.h"
#include "queue/membership.h"
#include "queue/message.h"
#include "server/leader.h"

enum {
    LIST_LIMIT = 1000,
    WAITING_MAX = 1000, /* so many that wait are counted */
};

/* Refusals. */

void queue_refuse(struct http_request *r, int err)
{
    const char *message = err == DROVER_NO_NODE        ? "there is no such queue"
                          : err == DROVER_BAD_ARGUMENT ? "the name of a queue has 32 hex digits"
                          : err == DROVER_TOO_BIG      ? "there are too many queues"
                          : err == DROVER_DAMAGED      ? "the queue's node holds invalid data"
                          : err == DROVER_CLOSED       ? "the keeper is unreachable: try again"
                                                       : NULL;

    http_reply_err(r, err, message);
}

/* Another server leads: that is where the messages are. */
void queue_send_on(struct queue_module *module, struct http_request *r)
{
    char url[LEADER_URL_SIZE];

    leader_url(module->context->leader, url);
    http_reply_elsewhere(r, url, "no server leads yet: try again");
}

void queue_refuse_task(struct queue_module *module, struct http_request *r, int err)
{
    if (err == DROVER_NOT_LEADER)
        queue_send_on(module, r);
    else
        http_reply_err(r, err, NULL);
}

/* The server's session, or 503. Give it back with queue_leave(). */
bool queue_enter(struct http_request *r, struct queues *qs)
{
    struct queue_module *module = r->arg;

    *qs = (struct queues){context_keeper(module->context), module->ns};
    if (!qs->keeper)
        queue_refuse(r, DROVER_CLOSED);
    return qs->keeper;
}

void queue_leave(struct http_request *r, struct queues *qs)
{
    struct queue_module *module = r->arg;

    context_return(module->context, qs->keeper);
}

void queue_answer(struct http_request *r, int status, struct buf *b)
{
    http_reply(r, status, (struct str){b->p, b->len});
    buf_release(b);
}

/* The name of a queue in the path, NUL-terminated, or 400. */
const char *queue_named(struct http_request *r, bool or_error_queue)
{
    struct str name;

    if (!http_decode(r, r->params[0], &name))
        return NULL;
    if (!queue_valid_name(name) && !(or_error_queue && str_eq(name, STR(QUEUE_ERROR)))) {
        queue_refuse(r, DROVER_BAD_ARGUMENT);
        return NULL;
    }
    return arena_text(&r->arena, name);
}

const struct json *queue_body(struct http_request *r)
{
    const struct json *body = http_json(r);

    if (body && body->kind != JSON_OBJECT) {
        http_reply_error(r, 400, "the body must be an object");
        return NULL;
    }
    return body;
}

/* Queues. */

static void put_info(struct buf *b, const char *name, const struct queue_info *info)
{
    char last[32] = "";

    if (info->last)
        snprintf(last, sizeof last, "%" PRId64, info->last);
    json_key(b, "queue");
    json_put_text(b, str_of(name));
    json_key(b, "last");
    json_put_text(b, str_of(last));
    json_key(b, "worker");
    if (info->worker[0])
        json_put_text(b, str_of(info->worker));
    else
        json_put_null(b);
}

static void tell(struct http_request *r, const char *name, const char *state)
{
    struct queue_module *module = r->arg;
    struct buf b = {0};

    json_open(&b, '{');
    json_key(&b, "queue");
    json_put_text(&b, str_of(name));
    json_key(&b, "state");
    json_put_text(&b, str_of(state));
    json_close(&b, '}');
    events_publish(module->context->events, &(struct event){.kind = "queue",
                                                            .id = str_of(name),
                                                            .state = str_of(state),
                                                            .json = {b.p, b.len}});
    buf_release(&b);
}

static void post_queue(struct http_request *r)
{
    static const char *const members[] = {NULL};
    char name[QUEUE_NAME_LEN + 1];
    struct err_info e;
    struct queues qs;
    struct buf b = {0};
    const struct json *body = r->body.len ? queue_body(r) : NULL;
    int err;

    if (r->body.len && !body)
        return;
    if (body && json_only(body, members, &e)) {
        http_reply_error(r, 400, e.text);
        return;
    }
    if (!queue_enter(r, &qs))
        return;
    err = queue_create(&qs, name);
    queue_leave(r, &qs);
    if (err) {
        queue_refuse(r, err);
        return;
    }
    tell(r, name, "created");
    json_open(&b, '{');
    json_key(&b, "queue");
    json_put_text(&b, str_of(name));
    json_close(&b, '}');
    queue_answer(r, 200, &b);
}

/* A queue that goes, or holds invalid data, while it is listed is left out. */
static int put_queue(struct buf *b, const struct queues *qs, const char *name)
{
    struct queue_info info;
    int err = queue_get(qs, name, &info);

    if (err)
        return err == DROVER_NO_NODE || err == DROVER_DAMAGED ? 0 : err;
    json_open(b, '{');
    put_info(b, name, &info);
    json_close(b, '}');
    return 0;
}

static int put_queues(struct buf *b, const struct queues *qs, struct str after, int64_t limit)
{
    struct keeper_names names = {0};
    int err = queues_list(qs, &names);
    size_t i = 0;

    while (!err && i < names.count && after.len && strcmp(names.names[i], after.p) <= 0)
        i++;
    json_open(b, '{');
    json_key(b, "queues");
    json_open(b, '[');
    for (; !err && i < names.count && limit > 0; i++, limit--)
        err = put_queue(b, qs, names.names[i]);
    json_close(b, ']');
    if (i && i < names.count) {
        json_key(b, "next");
        json_put_text(b, str_of(names.names[i - 1]));
    }
    json_close(b, '}');
    keeper_names_release(&names);
    return err;
}

static void get_queues(struct http_request *r)
{
    int64_t limit = LIST_LIMIT;
    struct str after = {0};
    struct queues qs;
    struct buf b = {0};
    int err;

    if (http_query_number(r, "limit", &limit) < 0)
        return;
    if (http_query(r, "after", &after))
        after.p = arena_text(&r->arena, after);
    if (!queue_enter(r, &qs))
        return;
    err = put_queues(&b, &qs, after, limit < LIST_LIMIT ? limit : LIST_LIMIT);
    queue_leave(r, &qs);
    if (err) {
        buf_release(&b);
        queue_refuse(r, err);
        return;
    }
    queue_answer(r, 200, &b);
}

static void get_queue(struct http_request *r)
{
    struct queue_module *module = r->arg;
    const char *name = queue_named(r, false);
    struct queue_info info;
    struct queues qs;
    struct buf b = {0};
    int err, waiting;

    if (!name || !queue_enter(r, &qs))
        return;
    err = queue_get(&qs, name, &info);
    queue_leave(r, &qs);
    if (err) {
        queue_refuse(r, err);
        return;
    }
    json_open(&b, '{');
    put_info(&b, name, &info);
    waiting = queue_messages_count(module->context->tasks, str_of(name), info.last, WAITING_MAX);
    if (waiting >= 0) { /* where another server leads, it knows */
        json_key(&b, "waiting");
        json_put_int(&b, waiting);
    }
    json_close(&b, '}');
    queue_answer(r, 200, &b);
}

static void delete_queue(struct http_request *r)
{
    struct queue_module *module = r->arg;
    const char *name = queue_named(r, false);
    struct queues qs;
    int err;

    if (!name || !queue_enter(r, &qs))
        return;
    err = service_is_ready(module->context->tasks) ? 0 : DROVER_NOT_LEADER;
    if (!err)
        err = queue_remove(&qs, name);
    queue_leave(r, &qs);
    if (err == DROVER_NOT_LEADER) {
        queue_send_on(module, r);
    } else if (err) {
        queue_refuse(r, err);
    } else {
        tell(r, name, "deleted");
        queue_messages_sweep(module->context->tasks, str_of(name),
                             INT64_MAX); /* retention gets what it missed */
        http_reply(r, 200, STR("{}"));
    }
}

/* Workers, and where they meet. */

static void put_workers(struct buf *b, const struct queue_membership *c)
{
    json_open(b, '{');
    json_key(b, "workers");
    json_open(b, '[');
    for (size_t i = 0; i < c->worker_count; i++) {
        json_open(b, '{');
        json_key(b, "worker");
        json_put_text(b, str_of(c->workers[i].name));
        json_key(b, "queues");
        json_open(b, '[');
        for (size_t q = 0; q < c->workers[i].queue_count; q++)
            json_put_text(b, c->workers[i].queues[q]);
        json_close(b, ']');
        json_close(b, '}');
    }
    json_close(b, ']');
    json_close(b, '}');
}

static void get_workers(struct http_request *r)
{
    struct queue_warnings quiet = {0};
    struct queue_membership c = {0};
    struct queues qs;
    struct buf b = {0};
    int err;

    if (!queue_enter(r, &qs))
        return;
    err = queue_membership_read(&c, &qs, &quiet);
    queue_leave(r, &qs);
    if (err && err != DROVER_NO_NODE) {
        queue_refuse(r, err);
    } else {
        put_workers(&b, &c);
        queue_answer(r, 200, &b);
    }
    queue_membership_release(&c);
}

static void get_keeper(struct http_request *r)
{
    struct queue_module *module = r->arg;
    struct buf b = {0};

    json_open(&b, '{');
    json_key(&b, "keeper");
    if (module->context->keeper_url)
        json_put_text(&b, str_of(module->context->keeper_url));
    else
        json_put_null(&b);
    json_key(&b, "namespace");
    json_put_text(&b, str_of(module->ns));
    json_close(&b, '}');
    queue_answer(r, 200, &b);
}

static const struct route ROUTES[] = {
    {METHOD_POST, "/v1/queues", post_queue, ROUTE_WORKER, "Creates a queue."},
    {METHOD_GET, "/v1/queues", get_queues, ROUTE_WORKER, "The queues, how far, and whose."},
    {METHOD_GET, "/v1/queues/{queue}", get_queue, ROUTE_WORKER, "One queue."},
    {METHOD_DELETE, "/v1/queues/{queue}", delete_queue, ROUTE_WORKER,
     "Removes a queue and its messages."},
    {METHOD_POST, "/v1/queues/{queue}/messages", queue_post_messages, ROUTE_WORKER,
     "Posts messages."},
    {METHOD_GET, "/v1/queues/{queue}/messages", queue_get_messages, ROUTE_WORKER,
     "Messages of a queue in order, after one of them."},
    {METHOD_GET, "/v1/posted", queue_get_posted, ROUTE_WORKER,
     "The queues that have got messages lately."},
    {METHOD_GET, "/v1/workers", get_workers, ROUTE_WORKER, "The workers, and what they handle."},
    {METHOD_GET, "/v1/keeper", get_keeper, 0, "Where workers meet: the keeper's URL."},
};

/* The room. */

static void on_posted(void *arg, const char *queue, int64_t id, int64_t count)
{
    struct queue_module *module = arg;
    struct buf b = {0};

    counter_add(module->messages, (uint64_t)count);
    json_open(&b, '{');
    json_key(&b, "queue");
    json_put_text(&b, str_of(queue));
    json_key(&b, "id");
    json_put_int(&b, id);
    json_key(&b, "count");
    json_put_int(&b, count);
    json_key(&b, "state");
    json_put_text(&b, STR("posted"));
    json_close(&b, '}');
    events_publish(module->context->events, &(struct event){.kind = "message",
                                                            .id = str_of(queue),
                                                            .state = STR("posted"),
                                                            .json = {b.p, b.len}});
    buf_release(&b);
}

static void on_told(void *arg)
{
    struct queue_module *module = arg;

    http_topic_signal(&module->posted, HTTP_TOPIC_ALL);
}

static const char *queue_ns = QUEUE_NAMESPACE;
static int64_t retention_ms = SWEEP_RETENTION_MS, error_retention_ms = SWEEP_ERROR_RETENTION_MS;

static int parse_namespace(const struct option *o, const char *text, struct err_info *e)
{
    if (!queues_valid_namespace(text))
        return err_set(e, DROVER_BAD_ARGUMENT, "'%s' is not a path such as /a/b", text);
    *(const char **)o->target = text;
    return 0;
}

static const struct option OPTIONS[] = {
    {"queue-namespace", "PATH",
     "The node below which queues and their workers are. Default: " QUEUE_NAMESPACE ".",
     parse_namespace, &queue_ns},
    {"queue-retention", "TIME", "Remove messages of queues that are older. Default: 3d.",
     option_span, &retention_ms, 1, INT64_MAX},
    {"queue-error-retention", "TIME",
     "The same for the queue " QUEUE_ERROR ", of messages that failed. Default: 30d.", option_span,
     &error_retention_ms, 1, INT64_MAX},
};

static int module_open(struct context *h, void **ret_module, struct err_info *ret_error)
{
    struct queue_module *module = mem_zalloc(sizeof *module);

    (void)ret_error;
    module->context = h;
    module->ns = queue_ns;
    http_topic_init(&module->posted);
    module->messages = metrics_counter(h->metrics, "drover_queue_messages_total", NULL,
                                       "Messages that came to queues.");
    module->sweep = queue_sweep_start(&(struct queue_sweep_options){
        .context = h,
        .ns = module->ns,
        .retention_ms = retention_ms,
        .error_retention_ms = error_retention_ms,
    });
    module->feed = message_feed_start(&(struct message_feed_options){
        .tasks = h->tasks, .posted = on_posted, .told = on_told, .arg = module});
    *ret_module = module;
    return 0;
}

static struct route_table module_routes(void *arg)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, arg};
}

static void module_close(void *arg)
{
    struct queue_module *module = arg;

    message_feed_free(module->feed);
    queue_sweep_free(module->sweep);
    http_topic_release(&module->posted);
    free(module);
}

const struct module queue_module = {
    .name = "queues",
    .open = module_open,
    .routes = module_routes,
    .close = module_close,
    .options = OPTIONS,
    .option_count = sizeof OPTIONS / sizeof *OPTIONS,
};
