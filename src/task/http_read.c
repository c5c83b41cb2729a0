/*
 * Reading tasks over HTTP, on the loop.
 *
 * A list is of the ids that there are when it begins: those that the request names, or those of the
 * group. Their tasks are read a slice at a time, each through the service, so that no slice shows
 * what is not on disk. An id is that of one state of a task: it is given anew with each change. So
 * a task is listed as it was when the list began, or not at all if it was changed or deleted before
 * its turn came.
 *
 * As with changes, a call is in the memory of its HTTP request, and outlives a client that leaves
 * while the service has it.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "task/body.h"
#include "task/group_list.h"
#include "task/http_impl.h"

enum { SLICE_IDS = 8192 }; /* looked at for a slice: most may be gone */

struct read_call;

typedef void read_fn(struct read_call *c, struct store *s, int64_t now_ms);

struct read_call {
    struct task_http *h;
    struct http_request *r; /* NULL: its client has left */
    struct task_request request;
    bool submitted; /* the service has it */
    uint64_t started_ns;
    const struct task_read *in;
    const struct identity *who; /* who sent it; NULL: no limits */
    struct arena *arena;        /* of the HTTP request */
    struct http_memory memory;  /* its memory, when the client has left */

    read_fn *read;
    struct buf found; /* by the read: the slice */
    size_t slice_len; /* that it should have */
    bool sliced;      /* it is not the first one */
    int err;
    const int64_t *ids; /* of a list */
    size_t id_count;
    size_t begin, at;          /* where this slice begins, and the next one */
    bool more;                 /* tasks in the group than the limit */
    struct group_list *groups; /* of the list of groups; NULL: another one */
};

static void call_free(struct read_call *c)
{
    struct http_memory memory = c->memory;
    buf_release(&c->found);
    http_memory_release(&memory);
}

static void next_slice(struct http_request *r);
static void on_looked(struct read_call *c, int err);

/* False: the answer has ended. */
static bool reply(struct read_call *c, int err)
{
    bool more = c->at < c->id_count;
    if (err && c->sliced) {
        http_stream_abort(c->r);
        return false;
    }
    if (err) {
        task_reply_err(c->h, c->r, err);
        return false;
    }
    if (more && !c->sliced && !http_take_room(c->r, c->id_count * sizeof *c->ids)) {
        http_reply_short(c->r);
        return false;
    }
    if (c->more && !c->sliced)
        http_add_header(c->r, "Drover-More", STR("true"));
    c->sliced = more;
    return http_reply_slice(c->r, &c->found, more ? next_slice : NULL);
}

static void on_done(void *arg, const struct task_reply *a)
{
    struct read_call *c = arg;
    struct buf found = c->found;
    c->submitted = false;
    histogram_add(c->h->metrics.latency[TASK_READ], uv_hrtime() - c->started_ns);
    if (!c->r)
        call_free(c);
    else if (c->groups)
        on_looked(c, a->err);
    else if (!reply(c, a->err ? a->err : c->err))
        buf_release(&found);
}

/* On an ensemble it is called again if its batch is refused. */
static void on_read(void *arg, struct store *s, int64_t now_ms)
{
    struct read_call *c = arg;
    c->found.len = c->sliced;
    c->err = 0;
    c->read(c, s, now_ms);
}

static void submit(struct read_call *c)
{
    c->submitted = true;
    c->started_ns = uv_hrtime();
    c->slice_len = http_slice_len(c->r);
    c->request =
        (struct task_request){.kind = TASK_READ, .read = on_read, .done = on_done, .arg = c};
    service_submit(c->h->service, &c->request);
}

static void next_slice(struct http_request *r)
{
    struct read_call *c = r->handler_data;
    http_slice_begin(&c->found);
    c->begin = c->at;
    submit(c);
}

static void on_gone(struct http_request *r)
{
    struct read_call *c = r->handler_data;
    if (!c->submitted) {
        buf_release(&c->found);
        return;
    }
    http_take_memory(r, &c->memory);
    c->arena = &c->memory.arena;
    c->r = NULL;
}

static void get(struct http_request *r, read_fn *read, struct group_list *groups_or_null)
{
    struct read_call *c = arena_alloc(&r->arena, sizeof *c);
    *c = (struct read_call){.h = r->arg,
                            .r = r,
                            .in = r->in,
                            .who = r->who,
                            .arena = &r->arena,
                            .read = read,
                            .groups = groups_or_null};
    r->handler_data = c;
    r->gone = on_gone;
    submit(c);
}

/* Tasks beyond the limits of the sender do not exist. */
static bool reaches(const struct read_call *c, struct str group)
{
    return !c->who || identity_reaches(c->who, SCOPE_GROUP, group);
}

/* In the scratch arena, which is emptied before. */
static int find_task(const struct read_call *c, struct store *s, int64_t id, struct arena *scratch,
                     struct task *ret_task)
{
    arena_reset(scratch);
    TRY(store_get(s, id, scratch, ret_task));
    return reaches(c, ret_task->group) ? 0 : DROVER_NO_TASK;
}

static void read_task(struct read_call *c, struct store *s, int64_t now_ms)
{
    CLEANUP(arena_release) struct arena scratch = {0};
    struct task t;
    (void)now_ms;
    c->err = find_task(c, s, c->in->id, &scratch, &t);
    if (!c->err)
        body_put_task(&c->found, &t);
}

/* The next tasks of the list; null for those that are not there, if that is wanted. */
static void put_slice(struct read_call *c, struct store *s, bool nulls)
{
    CLEANUP(arena_release) struct arena scratch = {0};
    size_t end = c->id_count - c->begin < SLICE_IDS ? c->id_count : c->begin + SLICE_IDS;
    struct task t;
    if (!c->sliced)
        json_open(&c->found, '[');
    for (c->at = c->begin; c->at < end && c->found.len < c->slice_len && !c->err; c->at++) {
        int err = find_task(c, s, c->ids[c->at], &scratch, &t);
        if (!err)
            body_put_task(&c->found, &t);
        else if (err != DROVER_NO_TASK)
            c->err = err;
        else if (nulls)
            json_put_null(&c->found);
    }
    if (c->at == c->id_count)
        json_close(&c->found, ']');
}

static void read_tasks(struct read_call *c, struct store *s, int64_t now_ms)
{
    (void)now_ms;
    c->ids = c->in->ids;
    c->id_count = c->in->id_count;
    put_slice(c, s, true);
}

static void read_group(struct read_call *c, struct store *s, int64_t now_ms)
{
    size_t limit = (size_t)c->in->limit;
    if (!c->sliced) {
        int64_t *ids = NULL;
        store_list_ids(s, c->in->group, limit ? limit + 1 : 0, c->in->owned, now_ms, c->arena, &ids,
                       &c->id_count);
        c->ids = ids;
        c->more = limit && c->id_count > limit;
        c->id_count -= c->more;
    }
    put_slice(c, s, false);
}

/* The names of all groups: first they are gathered in steps, then sent in slices. */

static void look(struct read_call *c, struct store *s, int64_t now_ms)
{
    group_list_look(c->groups, s, now_ms);
}

static void look_again(struct http_request *r)
{
    submit(r->handler_data);
}

static void put_names(struct http_request *r)
{
    struct read_call *c = r->handler_data;
    if (c->sliced)
        http_slice_begin(&c->found);
    else
        json_open(&c->found, '[');
    while (c->found.len < http_slice_len(r) && c->groups->count)
        json_put_text(&c->found, group_list_next(c->groups)->name);
    c->sliced = c->groups->count;
    if (!c->sliced)
        json_close(&c->found, ']');
    struct buf found = c->found;
    if (!http_reply_slice(r, &found, c->sliced ? put_names : NULL))
        buf_release(&found);
}

static void on_looked(struct read_call *c, int err)
{
    if (err)
        task_reply_err(c->h, c->r, err);
    else if (!http_take_room(c->r, c->groups->fresh_len))
        http_reply_short(c->r);
    else if (group_list_keep(c->groups))
        http_later(c->r, look_again);
    else
        put_names(c->r);
}

void task_get_groups(struct http_request *r)
{
    struct group_list *l = arena_zalloc(&r->arena, sizeof *l);
    *l = (struct group_list){.arena = &r->arena, .who = r->who, .internal = true, .living = true};
    get(r, look, l);
}

void task_get_task(struct http_request *r)
{
    get(r, read_task, NULL);
}

void task_get_tasks(struct http_request *r)
{
    get(r, read_tasks, NULL);
}

void task_get_group(struct http_request *r)
{
    get(r, read_group, NULL);
}
