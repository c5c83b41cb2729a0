#include "queue/message.h"

#include <stdlib.h>

#include "base/mem.h"
#include "task/service.h"

/* the owner of posted tasks; their time is now, so anybody may change them */
enum { READ_AT_ONCE = 20, SWEEP_AT_ONCE = 1000, SWEEP_ROUNDS_MAX = 1000 };

struct message_update {
    int err;
    int64_t *ids; /* of the answer */
};

static void on_updated(void *arg, const struct task_reply *reply)
{
    struct message_update *m = arg;
    m->err = reply->err;
    for (size_t i = 0; !reply->err && i < reply->task_count; i++)
        m->ids[i] = reply->tasks[i].id;
}

static int update(struct service *s, const struct task_update *u, int64_t *ret_ids)
{
    struct message_update m = {.ids = ret_ids};
    struct task_request r = {.kind = TASK_UPDATE, .update = *u, .done = on_updated, .arg = &m};
    service_call(s, &r);
    return m.err;
}

int queue_messages_post(struct service *s, struct str queue, const struct str *data, size_t count,
                        int64_t *ret_ids)
{
    CLEANUP(mem_free) struct task *adds = mem_zalloc((count + 1) * sizeof *adds);
    for (size_t i = 0; i < count; i++)
        adds[i] = (struct task){.group = queue, .data = data[i]};
    return update(
        s, &(struct task_update){.clientid = TASK_MESSAGES, .adds = adds, .add_count = count},
        ret_ids);
}

/* Reading, under the service's lock: a few tasks at a time, until there is enough data. */

struct message_reading {
    struct str queue;
    int64_t after;
    size_t limit;
    bool count_only;

    int64_t last; /* message that was read */
    int err;
    struct queue_message_list list;
};

/* Adds the tasks of a page. False: the next one is one too many, or too large. */
static bool add_page(struct message_reading *r, const struct store_list *page, size_t *len)
{
    struct queue_message_list *list = &r->list;
    for (size_t i = 0; i < page->count; i++) {
        const struct task *t = &page->tasks[i];
        *len += t->data.len;
        list->more =
            list->count == r->limit || (list->count && *len > MESSAGES_LEN_MAX && !r->count_only);
        if (list->more)
            return false;
        if (!r->count_only)
            list->messages[list->count] = (struct queue_message){
                t->id, t->timespec, {arena_text(&list->arena, t->data), t->data.len}};
        list->count++;
        r->last = t->id;
    }
    return true;
}

static void on_read(void *arg, struct store *s, int64_t now_ms)
{
    struct message_reading *r = arg;
    CLEANUP(arena_release) struct arena a = {0};
    struct store_list page = {0};
    size_t len = 0, wanted;
    r->last = r->after; /* a read may be repeated, and starts over */
    r->list.count = 0;
    r->list.more = false;
    arena_reset(&r->list.arena);
    r->list.messages = arena_alloc(&r->list.arena, (r->limit + 1) * sizeof *r->list.messages);
    do {
        wanted = r->limit + 1 - r->list.count; /* the last one only shows that there are more */
        wanted = wanted < READ_AT_ONCE ? wanted : READ_AT_ONCE;
        arena_reset(&a);
        r->err = store_list(s, r->queue, r->last, wanted, true, now_ms, &a, &page);
    } while (!r->err && add_page(r, &page, &len) && page.count == wanted);
}

static void on_done(void *arg, const struct task_reply *reply)
{
    struct message_reading *r = arg;
    if (reply->err)
        r->err = reply->err;
}

static int read_messages(struct service *s, struct message_reading *reading)
{
    struct task_request r = {.kind = TASK_READ, .read = on_read, .done = on_done, .arg = reading};
    service_call(s, &r);
    return reading->err;
}

int queue_messages_read(struct service *s, struct str queue, int64_t after, size_t limit,
                        struct queue_message_list *ret_list)
{
    struct message_reading r = {.queue = queue, .after = after, .limit = limit};
    int err = read_messages(s, &r);
    if (err)
        queue_message_list_release(&r.list);
    else
        *ret_list = r.list;
    return err;
}

int queue_messages_count(struct service *s, struct str queue, int64_t after, size_t max)
{
    struct message_reading r = {.queue = queue, .after = after, .limit = max, .count_only = true};
    int err = read_messages(s, &r);
    arena_release(&r.list.arena);
    return err ? err : (int)r.list.count;
}

/*
 * Retention, one page at a time: removes old messages of the page after *after and advances *after.
 * A client that claims a message as a task moves its time into the future. 0: no more pages with
 * old messages.
 */
static int sweep_page(struct service *s, struct str queue, int64_t before_ms, int64_t *after)
{
    CLEANUP(queue_message_list_release) struct queue_message_list list = {0};
    int64_t ids[SWEEP_AT_ONCE];
    struct task_update u = {.clientid = TASK_MESSAGES, .deletes = ids};
    TRY(queue_messages_read(s, queue, *after, SWEEP_AT_ONCE, &list));
    for (size_t i = 0; i < list.count; i++) {
        *after = list.messages[i].id;
        if (list.messages[i].time_ms < before_ms)
            ids[u.delete_count++] = list.messages[i].id;
    }
    if (u.delete_count)
        TRY(update(s, &u, NULL));
    return (int)u.delete_count;
}

int queue_messages_sweep(struct service *s, struct str queue, int64_t before_ms)
{
    int64_t after = 0;
    int swept = 0, some = 1;
    for (int i = 0; i < SWEEP_ROUNDS_MAX && some > 0; i++) {
        some = sweep_page(s, queue, before_ms, &after);
        swept += some > 0 ? some : 0;
    }
    return some < 0 ? some : swept;
}
