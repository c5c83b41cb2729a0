/*
 * Queues over HTTP. The handlers run on the pool: each borrows the server's session for as long as it
 * takes. Messages are the task store's, which on an ensemble another server may have: then the client is
 * sent there.
 */
#include "queue/http.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "queue/assign.h"
#include "queue/census.h"
#include "queue/sweep.h"
#include "queue/tasks.h"
#include "task/leader.h"

enum {
    LIST_LIMIT = 1000,
    POST_MAX = 1000,         /* messages in one request */
    WAIT_MS_MAX = 60 * 1000, /* for a message to come */
    WAITING_MAX = 1000,      /* so many that wait are counted */
};

struct queue_room {
    struct house *house;
    const char *ns;
    struct sweep *sweep;
    struct http_topic posted; /* a message */
};

/* Refusals. */

static void reply_refusal(struct http_request *r, int err)
{
    const char *message = err == DROVER_NO_NODE        ? "there is no such queue"
                          : err == DROVER_BAD_ARGUMENT ? "the name of a queue has 32 hex digits"
                          : err == DROVER_TOO_BIG      ? "there are too many queues"
                          : err == DROVER_DAMAGED      ? "the queue's node holds rubbish"
                          : err == DROVER_CLOSED       ? "the keeper is away: try again"
                                                       : NULL;

    http_reply_err(r, err, message);
}

/* Another server leads: that is where the messages are. */
static void reply_elsewhere(struct queue_room *room, struct http_request *r)
{
    char url[LEADER_URL_SIZE] = "";
    struct buf b = {0};

    if (room->house->leader)
        leader_url(room->house->leader, url);
    if (!url[0]) {
        http_add_header(r, "Retry-After", STR("1"));
        http_reply_error(r, 503, "no server leads yet: try again");
        return;
    }
    buf_printf(&b, "%s%.*s", url, (int)r->head.path.len, r->head.path.p);
    if (r->head.query.len)
        buf_printf(&b, "?%.*s", (int)r->head.query.len, r->head.query.p);
    http_add_header(r, "Location", (struct str){b.p, b.len});
    http_reply_error(r, 307, "another server leads");
    buf_release(&b);
}

static void reply_task_err(struct queue_room *room, struct http_request *r, int err)
{
    if (err == DROVER_NOT_LEADER)
        reply_elsewhere(room, r);
    else
        http_reply_err(r, err, NULL);
}

/* The server's session, or 503. Give it back with leave(). */
static bool enter(struct http_request *r, struct queues *qs)
{
    struct queue_room *room = r->arg;

    *qs = (struct queues){house_keeper(room->house), room->ns};
    if (!qs->keeper)
        reply_refusal(r, DROVER_CLOSED);
    return qs->keeper;
}

static void leave(struct http_request *r, struct queues *qs)
{
    struct queue_room *room = r->arg;

    house_return(room->house, qs->keeper);
}

static void reply_buf(struct http_request *r, int status, struct buf *b)
{
    http_reply(r, status, (struct str){b->p, b->len});
    buf_release(b);
}

/* The name of a queue in the path, NUL-terminated, or 400. */
static const char *queue_of(struct http_request *r, bool or_error_queue)
{
    struct str name;

    if (!http_decode(r, r->params[0], &name))
        return NULL;
    if (!queue_valid_name(name) && !(or_error_queue && str_eq(name, STR(QUEUE_ERROR)))) {
        reply_refusal(r, DROVER_BAD_ARGUMENT);
        return NULL;
    }
    return arena_text(&r->arena, name);
}

static const struct json *object_of(struct http_request *r)
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

static void post_queue(struct http_request *r)
{
    static const char *const members[] = {NULL};
    char name[QUEUE_NAME_LEN + 1];
    struct err_info e;
    struct queues qs;
    struct buf b = {0};
    const struct json *body = r->body.len ? object_of(r) : NULL;
    int err;

    if (r->body.len && !body)
        return;
    if (body && json_only(body, members, &e)) {
        http_reply_error(r, 400, e.text);
        return;
    }
    if (!enter(r, &qs))
        return;
    err = queue_create(&qs, name);
    leave(r, &qs);
    if (err) {
        reply_refusal(r, err);
        return;
    }
    json_open(&b, '{');
    json_key(&b, "queue");
    json_put_text(&b, str_of(name));
    json_close(&b, '}');
    reply_buf(r, 200, &b);
}

/* A queue that goes, or holds rubbish, while it is listed is left out. */
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
    if (!enter(r, &qs))
        return;
    err = put_queues(&b, &qs, after, limit < LIST_LIMIT ? limit : LIST_LIMIT);
    leave(r, &qs);
    if (err) {
        buf_release(&b);
        reply_refusal(r, err);
        return;
    }
    reply_buf(r, 200, &b);
}

static void get_queue(struct http_request *r)
{
    struct queue_room *room = r->arg;
    const char *name = queue_of(r, false);
    struct queue_info info;
    struct queues qs;
    struct buf b = {0};
    int err, waiting;

    if (!name || !enter(r, &qs))
        return;
    err = queue_get(&qs, name, &info);
    leave(r, &qs);
    if (err) {
        reply_refusal(r, err);
        return;
    }
    json_open(&b, '{');
    put_info(&b, name, &info);
    waiting = tasks_count(room->house->tasks, str_of(name), info.last, WAITING_MAX);
    if (waiting >= 0) { /* where another server leads, it knows */
        json_key(&b, "waiting");
        json_put_int(&b, waiting);
    }
    json_close(&b, '}');
    reply_buf(r, 200, &b);
}

static void delete_queue(struct http_request *r)
{
    struct queue_room *room = r->arg;
    const char *name = queue_of(r, false);
    struct queues qs;
    int err;

    if (!name || !enter(r, &qs))
        return;
    err = service_is_ready(room->house->tasks) ? 0 : DROVER_NOT_LEADER;
    if (!err)
        err = queue_remove(&qs, name);
    leave(r, &qs);
    if (err == DROVER_NOT_LEADER) {
        reply_elsewhere(room, r);
    } else if (err) {
        reply_refusal(r, err);
    } else {
        tasks_sweep(room->house->tasks, str_of(name),
                    INT64_MAX); /* retention gets what it missed */
        http_reply(r, 200, STR("{}"));
    }
}

/* Messages. */

/* Whether there is such a queue, or 404. The error queue always is. */
static bool check_queue(struct http_request *r, const char *name)
{
    struct queue_info info;
    struct queues qs;
    int err;

    if (!strcmp(name, QUEUE_ERROR))
        return true;
    if (!enter(r, &qs))
        return false;
    err = queue_get(&qs, name, &info);
    leave(r, &qs);
    if (err && err != DROVER_DAMAGED) {
        reply_refusal(r, err);
        return false;
    }
    return true;
}

/* {"data": "..."} or {"messages": ["...", "..."]}: how many, or the error that was answered. */
static int parse_post(struct http_request *r, struct str **ret_data, bool *ret_single)
{
    static const char *const members[] = {"data", "messages", NULL};
    const struct json *body = object_of(r), *list = NULL;
    struct str *data, one;
    struct err_info e;
    int count = 0, single;

    if (!body)
        return DROVER_BAD_ARGUMENT;
    if (json_only(body, members, &e) || (single = json_get_text(body, "data", &one, &e)) < 0 ||
        json_get_list(body, "messages", &list, &e) < 0) {
        http_reply_error(r, 400, e.text);
        return DROVER_BAD_ARGUMENT;
    }
    if (single + (list != NULL) != 1 || (list && (!list->count || list->count > POST_MAX))) {
        http_reply_errorf(r, 400, "give data, a string, or messages, a list of 1 to %d strings",
                          POST_MAX);
        return DROVER_BAD_ARGUMENT;
    }
    data = arena_alloc(&r->arena, (list ? list->count : 1) * sizeof *data);
    if (single)
        data[count++] = one;
    for (const struct json *v = list ? list->first : NULL; v; v = v->next) {
        if (v->kind != JSON_TEXT) {
            http_reply_error(r, 400, "a message is a string");
            return DROVER_BAD_ARGUMENT;
        }
        data[count++] = v->text;
    }
    *ret_data = data;
    *ret_single = single;
    return count;
}

static void put_ids(struct buf *b, const int64_t *ids, int count, bool single)
{
    json_open(b, '{');
    json_key(b, single ? "id" : "ids");
    if (single) {
        json_put_int(b, ids[0]);
    } else {
        json_open(b, '[');
        for (int i = 0; i < count; i++)
            json_put_int(b, ids[i]);
        json_close(b, ']');
    }
    json_close(b, '}');
}

static void post_messages(struct http_request *r)
{
    struct queue_room *room = r->arg;
    const char *name = queue_of(r, true);
    struct str *data;
    struct buf b = {0};
    int64_t *ids;
    bool single;
    int count, err;

    if (!name || (count = parse_post(r, &data, &single)) < 0 || !check_queue(r, name))
        return;
    ids = arena_alloc(&r->arena, (size_t)count * sizeof *ids);
    err = tasks_post(room->house->tasks, str_of(name), data, (size_t)count, ids);
    if (err) {
        reply_task_err(room, r, err);
        return;
    }
    http_topic_signal(&room->posted, HTTP_TOPIC_ALL);
    put_ids(&b, ids, count, single);
    reply_buf(r, 200, &b);
}

static void put_messages(struct buf *b, const struct message_list *list)
{
    json_open(b, '{');
    json_key(b, "messages");
    json_open(b, '[');
    for (size_t i = 0; i < list->count; i++) {
        json_open(b, '{');
        json_key(b, "id");
        json_put_int(b, list->messages[i].id);
        json_key(b, "time");
        json_put_int(b, list->messages[i].time_ms);
        json_key(b, "data");
        json_put_text(b, list->messages[i].data);
        json_close(b, '}');
    }
    json_close(b, ']');
    json_close(b, '}');
}

static void get_messages(struct http_request *r)
{
    struct queue_room *room = r->arg;
    const char *name = queue_of(r, true);
    int64_t after = 0, limit = MESSAGES_LIMIT, wait_ms = 0;
    uint64_t seen = http_topic_seen(&room->posted);
    struct message_list list = {0};
    struct buf b = {0};
    int err;

    if (!name || http_query_number(r, "after", &after) < 0 ||
        http_query_number(r, "limit", &limit) < 0 || http_query_number(r, "wait", &wait_ms) < 0)
        return;
    if (!limit || limit > MESSAGES_LIMIT_MAX || wait_ms > WAIT_MS_MAX) {
        http_reply_errorf(r, 400, "limit must be from 1 to %d, wait at most %d ms",
                          MESSAGES_LIMIT_MAX, WAIT_MS_MAX);
        return;
    }
    if (!check_queue(r, name))
        return;
    err = tasks_read(room->house->tasks, str_of(name), after, (size_t)limit, &list);
    if (err) {
        reply_task_err(room, r, err);
        return;
    }
    if (list.count || !wait_ms || !http_wait(r, &room->posted, seen, wait_ms)) {
        put_messages(&b, &list);
        reply_buf(r, 200, &b);
    }
    message_list_release(&list);
}

/* Workers, and where they meet. */

static void put_workers(struct buf *b, const struct census *c)
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
    struct census_notes quiet = {0};
    struct census c = {0};
    struct queues qs;
    struct buf b = {0};
    int err;

    if (!enter(r, &qs))
        return;
    err = census_read(&c, &qs, &quiet);
    leave(r, &qs);
    if (err && err != DROVER_NO_NODE) {
        reply_refusal(r, err);
    } else {
        put_workers(&b, &c);
        reply_buf(r, 200, &b);
    }
    census_release(&c);
}

static void get_keeper(struct http_request *r)
{
    struct queue_room *room = r->arg;
    struct buf b = {0};

    json_open(&b, '{');
    json_key(&b, "keeper");
    if (room->house->keeper_url)
        json_put_text(&b, str_of(room->house->keeper_url));
    else
        json_put_null(&b);
    json_key(&b, "namespace");
    json_put_text(&b, str_of(room->ns));
    json_close(&b, '}');
    reply_buf(r, 200, &b);
}

static const struct route ROUTES[] = {
    {METHOD_POST, "/v1/queues", post_queue, ROUTE_WORKER, "Creates a queue."},
    {METHOD_GET, "/v1/queues", get_queues, ROUTE_WORKER, "The queues, how far, and whose."},
    {METHOD_GET, "/v1/queues/{queue}", get_queue, ROUTE_WORKER, "One queue."},
    {METHOD_DELETE, "/v1/queues/{queue}", delete_queue, ROUTE_WORKER,
     "Removes a queue and its messages."},
    {METHOD_POST, "/v1/queues/{queue}/messages", post_messages, ROUTE_WORKER, "Posts messages."},
    {METHOD_GET, "/v1/queues/{queue}/messages", get_messages, ROUTE_WORKER,
     "Messages of a queue in order, after one of them."},
    {METHOD_GET, "/v1/workers", get_workers, ROUTE_WORKER, "The workers, and what they handle."},
    {METHOD_GET, "/v1/keeper", get_keeper, 0, "Where workers meet: the keeper's URL."},
};

/* The room. */

static void on_added(void *arg)
{
    struct queue_room *room = arg;

    http_topic_signal(&room->posted, HTTP_TOPIC_ALL);
}

static int room_open(struct house *h, void **ret_room, struct err_info *ret_error)
{
    struct queue_room *room = mem_zalloc(sizeof *room);

    (void)ret_error;
    room->house = h;
    room->ns = h->queue_ns ? h->queue_ns : QUEUE_NAMESPACE;
    http_topic_init(&room->posted);
    room->sweep = sweep_start(&(struct sweep_options){
        .house = h,
        .ns = room->ns,
        .retention_ms = h->queue_retention_ms ? h->queue_retention_ms : SWEEP_RETENTION_MS,
        .error_retention_ms =
            h->queue_error_retention_ms ? h->queue_error_retention_ms : SWEEP_ERROR_RETENTION_MS,
        .added = on_added,
        .arg = room,
    });
    *ret_room = room;
    return 0;
}

static struct route_table room_routes(void *arg)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, arg};
}

static void room_close(void *arg)
{
    struct queue_room *room = arg;

    sweep_free(room->sweep);
    http_topic_release(&room->posted);
    free(room);
}

const struct room queue_room = {
    .name = "queues",
    .open = room_open,
    .routes = room_routes,
    .close = room_close,
};
