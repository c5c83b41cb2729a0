/* Messages over HTTP: posting, reading, and waiting for new ones; and their retention. */
#include "base/log.h"
#include "queue/http.h"
#include "queue/message.h"

enum { SWEEP_EVERY_MIN_MS = 1000, SWEEP_EVERY_MAX_MS = 10 * 60 * 1000 };

uint64_t queue_messages_key(struct str queue)
{
    return http_key("messages", queue, (struct str){0});
}

uint64_t queue_posted_key(void)
{
    return http_key("posted", (struct str){0}, (struct str){0});
}

/* Whether the queue exists, or answers 404. The error queue always does. */
static bool check_queue(struct http_request *r, const char *name)
{
    struct queue_info info;
    struct queues qs;
    if (!strcmp(name, QUEUE_ERROR))
        return true;
    if (!queue_enter(r, &qs))
        return false;
    int err = queue_get(&qs, name, &info);
    return queue_leave(r, &qs, err == DROVER_DAMAGED ? 0 : err);
}

static void put_ids(struct buf *b, const int64_t *ids, size_t count, bool single)
{
    json_open(b, '{');
    if (single) {
        json_member_int(b, "id", ids[0]);
    } else {
        json_member_open(b, "ids", '[');
        for (size_t i = 0; i < count; i++)
            json_put_int(b, ids[i]);
        json_close(b, ']');
    }
    json_close(b, '}');
}

void queue_post_messages(struct http_request *r)
{
    const struct queue_messages_in *in = r->in;
    struct queue_module *module = r->arg;
    const char *name = queue_named(r, in->queue, true);
    const struct str *data = in->data.p ? &in->data : in->messages;
    size_t count = in->data.p ? 1 : in->message_count;
    CLEANUP(buf_release) struct buf b = {0};

    if (!name)
        return;
    if (!in->data.p == !in->messages) {
        http_reply_field(r, "data", "give data, a string, or messages, a list of strings");
        return;
    }
    if (!check_queue(r, name))
        return;
    int64_t *ids = arena_alloc(&r->arena, count * sizeof *ids);
    int err = queue_messages_post(module->context->tasks, str_of(name), data, count, ids);
    if (err) {
        queue_refuse_task(r, err);
        return;
    }
    message_feed_nudge(module->feed);
    put_ids(&b, ids, count, in->data.p);
    http_reply(r, 200, buf_str(&b));
}

static void put_messages(struct buf *b, const struct queue_message_list *list)
{
    json_open(b, '{');
    json_member_open(b, "messages", '[');
    for (size_t i = 0; i < list->count; i++) {
        json_open(b, '{');
        json_member_int(b, "id", list->messages[i].id);
        json_member_int(b, "time", list->messages[i].time_ms);
        json_member_text(b, "data", list->messages[i].data);
        json_close(b, '}');
    }
    json_close(b, ']');
    json_close(b, '}');
}

void queue_get_messages(struct http_request *r)
{
    const struct queue_messages_in *in = r->in;
    struct queue_module *module = r->arg;
    const char *name = queue_named(r, in->queue, true);
    uint64_t keys[] = {queue_messages_key(in->queue), queue_messages_key((struct str){0})};
    struct http_watch w = http_watch(r, &module->context->topic, keys, 2);
    CLEANUP(queue_message_list_release) struct queue_message_list list = {0};
    CLEANUP(buf_release) struct buf b = {0};
    int64_t after = 0;

    if (!name)
        return;
    if (in->after.p && queue_parse_id(in->after, &after)) { /* `last` as it is: may be empty */
        http_reply_field(r, "after", "after must be the id of a message");
        return;
    }
    if (!check_queue(r, name))
        return;
    int err =
        queue_messages_read(module->context->tasks, str_of(name), after, (size_t)in->limit, &list);
    if (err) {
        queue_refuse_task(r, err);
    } else if (list.count || !in->wait_ms || !http_park(r, &w, in->wait_ms)) {
        put_messages(&b, &list);
        http_reply(r, 200, buf_str(&b));
    }
}

/* Waiting for messages of any queue. */

void queue_get_posted(struct http_request *r)
{
    const struct queue_posted_in *in = r->in;
    struct queue_module *module = r->arg;
    uint64_t key = queue_posted_key();
    struct http_watch w = http_watch(r, &module->context->topic, &key, 1);
    CLEANUP(buf_release) struct buf b = {0};

    if (!service_is_ready(module->context->tasks))
        queue_refuse_task(r, DROVER_NOT_LEADER);
    else if (message_feed_put(module->feed, in->after, &b) || !in->wait_ms ||
             !http_park(r, &w, in->wait_ms))
        http_reply(r, 200, buf_str(&b));
}

/* Retention. */

static int64_t sweep_one(struct queue_module *m, struct str queue, int64_t retention_ms)
{
    struct service *tasks = m->context->tasks;
    int swept = queue_messages_sweep(tasks, queue, service_now_ms(tasks) - retention_ms);
    return swept > 0 ? swept : 0;
}

static void sweep_all(struct periodic *p, void *arg)
{
    struct queue_module *m = arg;
    struct keeper *k = service_is_ready(m->context->tasks) ? context_keeper(m->context) : NULL;
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    int64_t swept = 0;
    if (!k)
        return;
    if (!queues_list(&(struct queues){k, m->ns}, &names)) {
        for (size_t i = 0; i < names.count && !periodic_is_stopping(p); i++)
            swept += sweep_one(m, str_of(names.names[i]), m->retention_ms);
        swept += sweep_one(m, STR(QUEUE_ERROR), m->error_retention_ms);
    }
    context_return(m->context, k);
    if (swept)
        log_info("queues: removed %lld messages that were too old", (long long)swept);
}

struct periodic *queue_sweep_start(struct queue_module *m)
{
    int64_t shorter_ms =
        m->retention_ms < m->error_retention_ms ? m->retention_ms : m->error_retention_ms;
    int64_t every_ms = shorter_ms / 100;
    if (every_ms < SWEEP_EVERY_MIN_MS)
        every_ms = SWEEP_EVERY_MIN_MS;
    else if (every_ms > SWEEP_EVERY_MAX_MS)
        every_ms = SWEEP_EVERY_MAX_MS;
    return periodic_start("queue-sweep", every_ms, sweep_all, m);
}
