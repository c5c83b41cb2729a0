#include "queue/tasks.h"

#include <stdlib.h>

#include "base/mem.h"

/* Who posts. Messages belong to nobody: their time is now. */
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

int tasks_post(struct service *s, struct str queue, const struct str *data, size_t count,
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

/* Reading, under the service's lock: some at a time, until there is enough data. */

struct reading {
    struct str queue;
    int64_t after;
    size_t limit;
    int err;
    struct message_list list;
};

enum { READ_AT_ONCE = 20 };

static size_t copy_some(struct reading *r, const struct store_list *some, size_t *len)
{
    for (size_t i = 0; i < some->count; i++) {
        const struct task *t = &some->tasks[i];
        char *text;

        if (r->list.count && *len + t->data.len > MESSAGES_LEN_MAX)
            return i;
        text = arena_text(&r->list.arena, t->data);
        r->list.messages[r->list.count++] =
            (struct message){t->id, t->timespec, {text, t->data.len}};
        r->after = t->id;
        *len += t->data.len;
    }
    return some->count;
}

static void on_read(void *arg, struct store *s, int64_t now_ms)
{
    struct reading *r = arg;
    struct arena a = {0};
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
    } while (copy_some(r, &some, &len) == wanted);
    arena_release(&a);
}

static void on_done(void *arg, const struct task_reply *reply)
{
    struct reading *r = arg;

    if (reply->err)
        r->err = reply->err;
}

int tasks_read(struct service *s, struct str queue, int64_t after, size_t limit,
               struct message_list *ret_list)
{
    struct reading reading = {.queue = queue, .after = after, .limit = limit};
    struct task_request r = {.kind = TASK_READ, .read = on_read, .done = on_done, .arg = &reading};

    service_call(s, &r);
    if (reading.err)
        message_list_release(&reading.list);
    else
        *ret_list = reading.list;
    return reading.err;
}

/* Sweeping. */

static size_t too_old(const struct message_list *list, int64_t before_ms, int64_t *ids)
{
    size_t count = 0;

    while (count < list->count && list->messages[count].time_ms < before_ms) {
        ids[count] = list->messages[count].id;
        count++;
    }
    return count;
}

static int sweep_some(struct service *s, struct str queue, int64_t before_ms)
{
    int64_t ids[SWEEP_AT_ONCE];
    struct message_list list;
    struct posted p = {0};
    struct task_request r = {.kind = TASK_UPDATE, .done = on_posted, .arg = &p};
    size_t count;
    int err = tasks_read(s, queue, 0, SWEEP_AT_ONCE, &list);

    if (err)
        return err;
    count = too_old(&list, before_ms, ids);
    message_list_release(&list);
    r.update = (struct task_update){.clientid = CLIENTID, .deletes = ids, .delete_count = count};
    if (count)
        service_call(s, &r);
    return p.err ? p.err : (int)count;
}

int tasks_sweep(struct service *s, struct str queue, int64_t before_ms)
{
    int swept = 0, some = 1;

    for (int i = 0; i < SWEEP_ROUNDS_MAX && some > 0; i++) {
        some = sweep_some(s, queue, before_ms);
        swept += some > 0 ? some : 0;
    }
    return some < 0 ? some : swept;
}
