/* Messages over HTTP: posting, reading, and waiting for some. */
#include <stdlib.h>

#include "queue/http_impl.h"
#include "queue/message.h"

enum {
    POST_MAX = 1000,         /* messages in one request */
    WAIT_MS_MAX = 60 * 1000, /* for a message to come */
};

/* Whether there is such a queue, or 404. The error queue always is. */
static bool check_queue(struct http_request *r, const char *name)
{
    struct queue_info info;
    struct queues qs;
    int err;

    if (!strcmp(name, QUEUE_ERROR))
        return true;
    if (!queue_enter(r, &qs))
        return false;
    err = queue_get(&qs, name, &info);
    queue_leave(r, &qs);
    if (err && err != DROVER_DAMAGED) {
        queue_refuse(r, err);
        return false;
    }
    return true;
}

/* {"data": "..."} or {"messages": ["...", "..."]}: how many, or the error that was answered. */
static int parse_post(struct http_request *r, struct str **ret_data, bool *ret_single)
{
    static const char *const members[] = {"data", "messages", NULL};
    const struct json *body = queue_body(r), *list = NULL;
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

void queue_post_messages(struct http_request *r)
{
    struct queue_module *module = r->arg;
    const char *name = queue_named(r, true);
    struct str *data;
    struct buf b = {0};
    int64_t *ids;
    bool single;
    int count, err;

    if (!name || (count = parse_post(r, &data, &single)) < 0 || !check_queue(r, name))
        return;
    ids = arena_alloc(&r->arena, (size_t)count * sizeof *ids);
    err = queue_messages_post(module->context->tasks, str_of(name), data, (size_t)count, ids);
    if (err) {
        queue_refuse_task(module, r, err);
        return;
    }
    message_feed_nudge(module->feed);
    put_ids(&b, ids, count, single);
    queue_answer(r, 200, &b);
}

static void put_messages(struct buf *b, const struct queue_message_list *list)
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

/* A queue's `last` can be given as it is: empty while nothing has been processed. */
static bool read_after(struct http_request *r, int64_t *ret_after)
{
    struct str text;

    if (http_query(r, "after", &text) && !text.len)
        return true;
    return http_query_number(r, "after", ret_after) >= 0;
}

void queue_get_messages(struct http_request *r)
{
    struct queue_module *module = r->arg;
    const char *name = queue_named(r, true);
    int64_t after = 0, limit = MESSAGES_LIMIT, wait_ms = 0;
    uint64_t seen = http_topic_seen(&module->posted);
    struct queue_message_list list = {0};
    struct buf b = {0};
    int err;

    if (!name || !read_after(r, &after) || http_query_number(r, "limit", &limit) < 0 ||
        http_query_number(r, "wait", &wait_ms) < 0)
        return;
    if (!limit || limit > MESSAGES_LIMIT_MAX || wait_ms > WAIT_MS_MAX) {
        http_reply_errorf(r, 400, "limit must be from 1 to %d, wait at most %d ms",
                          MESSAGES_LIMIT_MAX, WAIT_MS_MAX);
        return;
    }
    if (!check_queue(r, name))
        return;
    err = queue_messages_read(module->context->tasks, str_of(name), after, (size_t)limit, &list);
    if (err) {
        queue_refuse_task(module, r, err);
        return;
    }
    if (list.count || !wait_ms || !http_wait(r, &module->posted, seen, wait_ms)) {
        put_messages(&b, &list);
        queue_answer(r, 200, &b);
    }
    queue_message_list_release(&list);
}

/* Waiting for messages of any queue. */

static void put_posted(struct buf *b, const struct message_feed_list *list, bool is_new)
{
    json_open(b, '{');
    json_key(b, "posted");
    json_put_int(b, list->number);
    json_key(b, "queues");
    if (list->queues || !is_new) {
        json_open(b, '[');
        for (size_t i = 0; i < list->count; i++)
            json_put_text(b, str_of(list->queues[i]));
        json_close(b, ']');
    } else {
        json_put_null(b);
    }
    json_close(b, '}');
}

void queue_get_posted(struct http_request *r)
{
    struct queue_module *module = r->arg;
    uint64_t seen = http_topic_seen(&module->posted);
    int64_t after = 0, wait_ms = 0;
    struct message_feed_list list;
    struct buf b = {0};
    bool is_new;

    if (http_query_number(r, "after", &after) < 0 || http_query_number(r, "wait", &wait_ms) < 0)
        return;
    if (wait_ms > WAIT_MS_MAX) {
        http_reply_errorf(r, 400, "wait must be at most %d ms", WAIT_MS_MAX);
        return;
    }
    if (!service_is_ready(module->context->tasks)) {
        queue_send_on(module, r);
        return;
    }
    is_new = message_feed_since(module->feed, after, &r->arena, &list);
    if (!is_new && wait_ms && http_wait(r, &module->posted, seen, wait_ms))
        return;
    put_posted(&b, &list, is_new);
    queue_answer(r, 200, &b);
}
