/*
 * Queues over HTTP. The handlers run on threads of the pool; each borrows the server's session.
 * Messages are in the task store, which on an ensemble another server may lead: then the client is
 * sent there.
 */
#include "queue/http.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "http/metrics.h"
#include "queue/membership.h"
#include "queue/message.h"
#include "server/leader.h"
#include "task/service.h"

enum {
    LIST_LIMIT = 1000,
    WAITING_MAX = 1000,      /* waiting messages are counted up to this */
    POST_MAX = 1000,         /* messages of one request */
    WAIT_MS_MAX = 60 * 1000, /* for a message */
};

/* Errors. */

void queue_refuse(struct http_request *r, int err)
{
    const char *message = err == DROVER_NO_NODE        ? "there is no such queue"
                          : err == DROVER_BAD_ARGUMENT ? QUEUE_NAME_RULE
                          : err == DROVER_EXISTS       ? "there is a queue of that name already"
                          : err == DROVER_IN_USE       ? "there is a group of tasks of that name"
                          : err == DROVER_TOO_BIG      ? "there are too many queues"
                          : err == DROVER_DAMAGED      ? "the queue's node holds invalid data"
                          : err == DROVER_CLOSED       ? "the keeper is unreachable: try again"
                                                       : NULL;
    http_reply_err(r, err, message);
}

void queue_refuse_task(struct http_request *r, int err)
{
    struct queue_module *module = r->arg;
    if (err == DROVER_NOT_LEADER)
        leader_redirect(module->context->leader, r, "no server leads yet: try again");
    else
        http_reply_err(r, err, NULL);
}

bool queue_enter(struct http_request *r, struct queues *qs)
{
    struct queue_module *module = r->arg;
    *qs = (struct queues){context_keeper(module->context), module->ns};
    if (!qs->keeper)
        queue_refuse(r, DROVER_CLOSED);
    return qs->keeper;
}

bool queue_leave(struct http_request *r, struct queues *qs, int err)
{
    struct queue_module *module = r->arg;
    context_return(module->context, qs->keeper);
    if (err == DROVER_NOT_LEADER)
        queue_refuse_task(r, err);
    else if (err)
        queue_refuse(r, err);
    return !err;
}

const char *queue_named(struct http_request *r, struct str name, bool or_error_queue)
{
    if (queue_valid_name(name) || (or_error_queue && str_eq(name, STR(QUEUE_ERROR))))
        return arena_text(&r->arena, name);
    if (str_eq(name, STR(QUEUE_ERROR)))
        http_reply_field(r, "queue", "%s is the queue of messages that were skipped", QUEUE_ERROR);
    else
        queue_refuse(r, DROVER_BAD_ARGUMENT);
    return NULL;
}

/* Queues. */

/* Both open an object, which the caller closes. */

static void put_name(struct buf *b, const char *name)
{
    json_open(b, '{');
    json_member_text(b, "queue", str_of(name));
}

/* The last id that the task store has given. INT64_MAX: another server leads, and knows. */
static int64_t last_id_of(const struct queue_module *m)
{
    struct service_stats stats;
    service_stats(m->context->tasks, &stats);
    return service_is_ready(m->context->tasks) ? stats.last_id : INT64_MAX;
}

/* Tells that `last` is larger than any id that was given, if it is. */
static void put_info(struct buf *b, const char *name, const struct queue_info *info,
                     const struct queue_module *m)
{
    char last[32] = "";
    if (info->last)
        snprintf(last, sizeof last, "%" PRId64, info->last);
    put_name(b, name);
    json_member_text(b, "last", str_of(last));
    json_member_text(b, "worker", info->worker[0] ? str_of(info->worker) : (struct str){0});
    queue_put_warning(b, info->last, last_id_of(m));
}

void queue_put_warning(struct buf *b, int64_t last, int64_t last_id)
{
    char text[256];
    if (last <= last_id)
        return;
    snprintf(text, sizeof text,
             "last is %" PRId64 ", beyond the newest message, %" PRId64 ": workers skip new "
             "messages up to that id. Set last to the id of the last processed message",
             last, last_id);
    json_member_text(b, "warning", str_of(text));
}

void queue_publish(struct queue_module *m, const char *kind, const char *name, const char *state,
                   struct buf *b)
{
    json_member_text(b, "state", str_of(state));
    json_close(b, '}');
    events_publish(m->context->events, &(struct event){.kind = kind,
                                                       .id = str_of(name),
                                                       .state = str_of(state),
                                                       .json = buf_str(b)});
    buf_release(b);
}

static void tell(struct http_request *r, const char *name, const char *state)
{
    struct buf b = {0};
    put_name(&b, name);
    queue_publish(r->arg, "queue", name, state, &b);
}

/*
 * Whether a queue can get that name: the tasks of a group would become the messages of a queue with
 * its name, and retention would delete them.
 */
static int check_new(const struct queues *qs, struct service *tasks, const char *name)
{
    struct queue_info info;
    int err = queue_get(qs, name, &info);
    if (err != DROVER_NO_NODE)
        return err && err != DROVER_DAMAGED ? err : DROVER_EXISTS;
    int count = queue_messages_count(tasks, str_of(name), 0, 1);
    return count > 0 ? DROVER_IN_USE : count;
}

static void post_queue(struct http_request *r)
{
    const struct queue_in *in = r->in;
    struct service *tasks = ((struct queue_module *)r->arg)->context->tasks;
    char made[QUEUE_NAME_LEN + 1];
    const char *name = made;
    struct queues qs;
    CLEANUP(buf_release) struct buf b = {0};
    queue_make_name(made);
    if ((in->queue.p && !(name = queue_named(r, in->queue, false))) || !queue_enter(r, &qs))
        return;
    int err = in->queue.p ? check_new(&qs, tasks, name) : 0;
    if (!queue_leave(r, &qs, err ? err : queue_create(&qs, name)))
        return;
    tell(r, name, "created");
    put_name(&b, name);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

/* Skips a queue that has gone meanwhile, or holds invalid data. */
static int put_queue(struct buf *b, const struct queues *qs, const char *name,
                     const struct queue_module *m)
{
    struct queue_info info;
    int err = queue_get(qs, name, &info);
    if (err)
        return err == DROVER_NO_NODE || err == DROVER_DAMAGED ? 0 : err;
    put_info(b, name, &info, m);
    json_close(b, '}');
    return 0;
}

static int put_queues(struct buf *b, const struct queues *qs, const char *after, int64_t limit,
                      const struct http_request *r)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    int err = queues_list(qs, &names);
    size_t i = 0;
    while (!err && i < names.count && *after && strcmp(names.names[i], after) <= 0)
        i++;
    json_open(b, '{');
    json_member_open(b, "queues", '[');
    for (; !err && i < names.count && limit > 0; i++)
        if (http_reaches(r, SCOPE_QUEUE, str_of(names.names[i]))) {
            err = put_queue(b, qs, names.names[i], r->arg);
            limit--;
        }
    json_close(b, ']');
    if (i && i < names.count)
        json_member_text(b, "next", str_of(names.names[i - 1]));
    json_close(b, '}');
    return err;
}

static void get_queues(struct http_request *r)
{
    const struct queue_in *in = r->in;
    int64_t limit = in->limit && in->limit < LIST_LIMIT ? in->limit : LIST_LIMIT;
    struct queues qs;
    CLEANUP(buf_release) struct buf b = {0};
    if (queue_enter(r, &qs) &&
        queue_leave(r, &qs, put_queues(&b, &qs, arena_text(&r->arena, in->after), limit, r)))
        http_reply(r, 200, buf_str(&b));
}

static void get_queue(struct http_request *r)
{
    const struct queue_in *in = r->in;
    struct queue_module *module = r->arg;
    const char *name = queue_named(r, in->queue, false);
    struct queue_info info;
    struct queues qs;
    CLEANUP(buf_release) struct buf b = {0};
    if (!name || !queue_enter(r, &qs) || !queue_leave(r, &qs, queue_get(&qs, name, &info)))
        return;
    put_info(&b, name, &info, module);
    int waiting =
        queue_messages_count(module->context->tasks, str_of(name), info.last, WAITING_MAX);
    if (waiting >= 0) /* otherwise another server leads, and knows */
        json_member_int(&b, "waiting", waiting);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

static void delete_queue(struct http_request *r)
{
    const struct queue_in *in = r->in;
    struct service *tasks = ((struct queue_module *)r->arg)->context->tasks;
    const char *name = queue_named(r, in->queue, false);
    struct queues qs;
    if (!name || !queue_enter(r, &qs))
        return;
    if (!queue_leave(r, &qs, service_is_ready(tasks) ? queue_remove(&qs, name) : DROVER_NOT_LEADER))
        return;
    tell(r, name, "deleted");
    queue_messages_sweep(tasks, str_of(name), INT64_MAX);
    http_reply(r, 200, STR("{}"));
}

/* Workers, and where they meet. */

static void put_workers(struct buf *b, const struct queue_membership *c)
{
    json_open(b, '{');
    json_member_open(b, "workers", '[');
    for (size_t i = 0; i < c->worker_count; i++) {
        json_open(b, '{');
        json_member_text(b, "worker", str_of(c->workers[i].name));
        json_member_open(b, "queues", '[');
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
    CLEANUP(queue_membership_release) struct queue_membership c = {0};
    struct queues qs;
    CLEANUP(buf_release) struct buf b = {0};
    if (!queue_enter(r, &qs))
        return;
    int err = queue_membership_read(&c, &qs, &(struct queue_warnings){0});
    if (!queue_leave(r, &qs, err == DROVER_NO_NODE ? 0 : err))
        return;
    put_workers(&b, &c);
    http_reply(r, 200, buf_str(&b));
}

static void get_keeper(struct http_request *r)
{
    struct queue_module *module = r->arg;
    const char *url = module->context->keeper_url;
    CLEANUP(buf_release) struct buf b = {0};
    json_open(&b, '{');
    json_member_text(&b, "keeper", url ? str_of(url) : (struct str){0});
    json_member_text(&b, "namespace", str_of(module->ns));
    json_member_bool(&b, "tokens", module->context->wire);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

/* Routes. */

/* clang-format off */
#define QUEUE_FIELD(help) FIELD_TEXT(IN_PATH | NAMES_QUEUE, struct queue_in, queue, "queue", 1, \
                                     INT64_MAX, help)
#define WAIT FIELD_INT(IN_QUERY, struct queue_in, wait_ms, "wait", 0, WAIT_MS_MAX, \
                       "Wait so many milliseconds for a message")
#define NAME "Name of the queue"
#define NAME_OR_ERROR "Name of the queue, or " QUEUE_ERROR
#define NO_QUEUE "404 No such queue\n503"

static const struct route_field MESSAGE_ITEM = {.kind = FIELD_KIND_TEXT, .max = INT64_MAX};

static const struct route_shape SHAPES[] = {
    {"Queue", "(queue:text last:text worker:text|null warning?:text waiting?:int)"},
    {"Message", "(id:int time:int data:text)"},
};

static const struct route ROUTES[] = {
    {METHOD_POST, "/v1/queues", post_queue, ROLE_SUBMIT | ROUTE_WORKER, "Create a queue",
     "createQueue", .reply = "queue:text",
     .errors = "409 There is a queue of that name, or a group of tasks\n" ROUTE_LEADER,
     ROUTE_IN(struct queue_in,
              FIELD_TEXT(IN_BODY | NAMES_QUEUE, struct queue_in, queue, "queue", 1, INT64_MAX,
                         "Its name; 32 random hex digits unless given"))},
    {METHOD_GET, "/v1/queues", get_queues, ROLE_READ | ROUTE_WORKER | ROUTE_LIMITS,
     "List the queues: how far each is processed, and by which worker", "listQueues",
     .reply = "queues:[Queue] next?:text", .errors = "503",
     ROUTE_IN(struct queue_in,
              FIELD_TEXT(IN_QUERY, struct queue_in, after, "after", 0, INT64_MAX,
                         "Start after this queue"),
              FIELD_INT(IN_QUERY, struct queue_in, limit, "limit", 0, INT64_MAX,
                        "At most so many, and at most 1000; 0: as many as that",
                        .preset = LIST_LIMIT))},
    {METHOD_GET, "/v1/queues/{queue}", get_queue, ROLE_READ | ROUTE_WORKER, "Show a queue",
     "getQueue", .reply = "Queue", .errors = NO_QUEUE,
     ROUTE_IN(struct queue_in, QUEUE_FIELD(NAME))},
    {METHOD_DELETE, "/v1/queues/{queue}", delete_queue, ROLE_SUBMIT | ROUTE_WORKER,
     "Remove a queue and its messages", "removeQueue", .reply = "()",
     .errors = "404 No such queue\n" ROUTE_LEADER,
     ROUTE_IN(struct queue_in, QUEUE_FIELD(NAME))},
    {METHOD_POST, "/v1/queues/{queue}/messages", queue_post_messages, ROLE_SUBMIT | ROUTE_WORKER,
     "Post messages", "postMessages", .reply = "id?:int ids?:[int] warning?:text",
     .errors = "404 No such queue\n" ROUTE_LEADER, .example = "{\"data\": \"a message\"}",
     ROUTE_IN(struct queue_in, QUEUE_FIELD(NAME_OR_ERROR),
              FIELD_TEXT(IN_BODY, struct queue_in, data, "data", 0, INT64_MAX,
                         "One message; its id is the answer"),
              FIELD_LIST_(IN_BODY, struct queue_in, messages, message_count, "messages", 1,
                          POST_MAX, "Several, all or none; their ids are the answer", &MESSAGE_ITEM,
                          sizeof(struct str)))},
    {METHOD_GET, "/v1/queues/{queue}/messages", queue_get_messages, ROLE_READ | ROUTE_WORKER,
     "Read messages in order, after one of them", "readMessages",
     .reply = "messages:[Message] next?:int",
     .errors = "404 No such queue\n" ROUTE_LEADER,
     ROUTE_IN(struct queue_in, QUEUE_FIELD(NAME_OR_ERROR),
              FIELD_TEXT(IN_QUERY, struct queue_in, after, "after", 0, INT64_MAX,
                         "Id of a message; empty: from the start"),
              FIELD_INT(IN_QUERY, struct queue_in, limit, "limit", 0, MESSAGES_LIMIT_MAX,
                        "At most so many; 0: as many as fit, at most 1000",
                        .preset = MESSAGES_LIMIT),
              WAIT)},
    {METHOD_GET, "/v1/posted", queue_get_posted, ROLE_READ | ROUTE_WORKER | ROUTE_LIMITS,
     "List the queues that have new messages", "waitForMessages",
     .reply = "posted:int queues:[text]|null", .errors = ROUTE_LEADER,
     ROUTE_IN(struct queue_in,
              FIELD_INT(IN_QUERY, struct queue_in, posted, "after", 0, INT64_MAX,
                        "The number `posted` of the last answer"),
              WAIT)},
    {METHOD_GET, "/v1/workers", get_workers, ROLE_READ | ROUTE_WORKER,
     "List the workers and the queues they handle", "listWorkers",
     .reply = "workers:[(worker:text queues:[text])]", .errors = "503"},
    {METHOD_GET, "/v1/keeper", get_keeper, ROLE_READ | ROUTE_LIMITS, "Show where workers meet",
     "getKeeper",     .reply = "keeper:text|null namespace:text tokens:bool"},
};
/* clang-format on */

/* The module. */

static const char *queue_ns;
static int64_t retention_ms, error_retention_ms;

static int parse_namespace(const struct option *o, const char *text, struct err_info *e)
{
    if (!queues_valid_namespace(text))
        return err_set(e, DROVER_BAD_ARGUMENT, "'%s' is not a path such as /a/b", text);
    *(const char **)o->target = text;
    return 0;
}

static const struct option OPTIONS[] = {
    {"queue-namespace", "PATH", "The node below which queues and their workers are.",
     parse_namespace, &queue_ns, .initial = QUEUE_NAMESPACE},
    {"queue-retention", "TIME", "Remove messages of queues that are older.", option_span,
     &retention_ms, 1, INT64_MAX, .initial = "3d", .flags = OPTION_RELOADS},
    {"queue-error-retention", "TIME",
     "The same for the queue " QUEUE_ERROR ", of messages that failed.", option_span,
     &error_retention_ms, 1, INT64_MAX, .initial = "30d", .flags = OPTION_RELOADS},
};

static int module_open(struct context *h, void **ret_module, struct err_info *ret_error)
{
    struct queue_module *module = mem_alloc(sizeof *module);
    (void)ret_error;
    *module = (struct queue_module){
        .context = h,
        .ns = queue_ns,
        .retention_ms = retention_ms,
        .error_retention_ms = error_retention_ms,
        .messages = metrics_counter(h->metrics, "drover_queue_messages_total", NULL,
                                    "Messages that came to queues."),
    };
    queue_messages_open(module);
    module->metrics = queue_metrics_open(module);
    *ret_module = module;
    return 0;
}

static struct route_table module_routes(void *arg)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, arg, "Queues",
                                SHAPES, sizeof SHAPES / sizeof *SHAPES};
}

static void module_reload(void *arg)
{
    struct queue_module *module = arg;
    module->retention_ms = retention_ms;
    module->error_retention_ms = error_retention_ms;
    periodic_wake(module->sweep);
}

static void module_close(void *arg)
{
    struct queue_module *module = arg;
    queue_metrics_close(module->metrics);
    queue_messages_close(module);
    free(module);
}

const struct module queue_module = {
    .name = "queues",
    .open = module_open,
    .routes = module_routes,
    .reload = module_reload,
    .close = module_close,
    .options = OPTIONS,
    .option_count = sizeof OPTIONS / sizeof *OPTIONS,
};
