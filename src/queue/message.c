#include "queue/message.h"

#include <stdlib.h>

#include "base/mem.h"
#include "task/service.h"

/* the owner of posted tasks; their time is now, so anybody may change them */
enum { CLIENTID = 1, SWEEP_AT_ONCE = 1000, SWEEP_ROUNDS_MAX = 1000 };

struct posted {
    int err;
    int64_t *ids;
};

static void on_posted(void *arg, const struct task_reply *reply)
{
    struct posted *p = arg;
    p->err = reply->err;
    for (size_t i = 0; !reply->err && i < reply->task_count; i++)
        p->ids[i] = reply->tasks[i].id;
}

int queue_messages_post(struct service *s, struct str queue, const struct str *data, size_t count,
                        int64_t *ret_ids)
{
    struct posted p = {.ids = ret_ids};
    struct task *adds = mem_zalloc((count + 1) * sizeof *adds);
    struct task_request r = {
        .kind = TASK_UPDATE,
        .update = {.clientid = CLIENTID, .adds = adds, .add_count = count},
        .done = on_posted,
        .arg = &p,
    };

    for (size_t i = 0; i < count; i++)
        adds[i] = (struct task){.group = queue, .data = data[i]};
    service_call(s, &r);
    free(adds);
    return p.err;
}

/* Reading, under the service's lock: a few tasks at a time, until there is enough data. */

struct message_reading {
    struct str queue;
    int64_t after;
    size_t limit;
    bool count_only;
    int err;
    struct queue_message_list list;
};

enum { READ_AT_ONCE = 20 };

static bool add(struct message_reading *r, const struct task *t, size_t *len)
{
    if (r->list.count && *len + t->data.len > MESSAGES_LEN_MAX && !r->count_only)
        return false;
    if (!r->count_only)
        r->list.messages[r->list.count] = (struct queue_message){
            t->id, t->timespec, {arena_text(&r->list.arena, t->data), t->data.len}};
    r->list.count++;
    r->after = t->id;
    *len += t->data.len;
    return true;
}

/* Returns how many fitted. */
static size_t add_some(struct message_reading *r, const struct store_list *some, size_t *len)
{
    size_t count = 0;
    while (count < some->count && add(r, &some->tasks[count], len))
        count++;
    return count;
}

static void on_read(void *arg, struct store *s, int64_t now_ms)
{
    struct message_reading *r = arg;
    CLEANUP(arena_release) struct arena a = {0};
    struct store_list some;
    size_t len = 0, wanted;
    r->list.messages = arena_alloc(&r->list.arena, (r->limit + 1) * sizeof *r->list.messages);
    do {
        wanted = r->limit - r->list.count;
        wanted = wanted < READ_AT_ONCE ? wanted : READ_AT_ONCE;
        arena_reset(&a);
        r->err = wanted ? store_list(s, r->queue, r->after, wanted, true, now_ms, &a, &some) : 0;
        if (!wanted || r->err)
            break;
    } while (add_some(r, &some, &len) == wanted);
}

static void on_done(void *arg, const struct task_reply *reply)
{
    struct message_reading *r = arg;
    if (reply->err)
        r->err = reply->err;
}

int queue_messages_read(struct service *s, struct str queue, int64_t after, size_t limit,
                        struct queue_message_list *ret_list)
{
    struct message_reading reading = {.queue = queue, .after = after, .limit = limit};
    struct task_request r = {.kind = TASK_READ, .read = on_read, .done = on_done, .arg = &reading};
    service_call(s, &r);
    if (reading.err)
        queue_message_list_release(&reading.list);
    else
        *ret_list = reading.list;
    return reading.err;
}

int queue_messages_count(struct service *s, struct str queue, int64_t after, size_t max)
{
    struct message_reading reading = {
        .queue = queue, .after = after, .limit = max, .count_only = true};
    struct task_request r = {.kind = TASK_READ, .read = on_read, .done = on_done, .arg = &reading};

    service_call(s, &r);
    arena_release(&reading.list.arena);
    return reading.err ? reading.err : (int)reading.list.count;
}

/*
 * Retention, one page at a time. A client that claims a message as a task moves its time into the
 * future.
 */

static size_t too_old(const struct queue_message_list *list, int64_t before_ms, int64_t *ids)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->messages[i].time_ms < before_ms)
            ids[count++] = list->messages[i].id;
    return count;
}

/*
 * Removes old messages of the page after *after and advances *after. 0: no more pages with old
 * messages.
 */
static int sweep_page(struct service *s, struct str queue, int64_t before_ms, int64_t *after)
{
    int64_t ids[SWEEP_AT_ONCE];
    struct queue_message_list list;
    struct posted p = {0};
    struct task_request r = {.kind = TASK_UPDATE, .done = on_posted, .arg = &p};
    TRY(queue_messages_read(s, queue, *after, SWEEP_AT_ONCE, &list));
    size_t count = too_old(&list, before_ms, ids);
    if (list.count)
        *after = list.messages[list.count - 1].id;
    queue_message_list_release(&list);
    r.update = (struct task_update){.clientid = CLIENTID, .deletes = ids, .delete_count = count};
    if (count)
        service_call(s, &r);
    return p.err ? p.err : (int)count;
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
