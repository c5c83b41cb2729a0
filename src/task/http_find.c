/* Finding tasks, and acting on those that were found. */
#include <stdlib.h>

#include "task/body.h"
#include "task/find.h"
#include "task/http_v1.h"

enum { EXAMPLES = 3 };

const struct route_field V1_FILTER_FIELDS[] = {
    FIELD_TEXT(IN_BODY, struct v1_filter_in, group, "group", 1, INT64_MAX, "Of this group"),
    FIELD_TEXTS(IN_BODY, struct v1_filter_in, states, state_count, "state", 0, TASK_STATES,
                "In one of these states"),
    FIELD_TEXT(IN_BODY, struct v1_filter_in, text, "text", 1, INT64_MAX, "With this in its data"),
    FIELD_TEXT(IN_BODY, struct v1_filter_in, key, "key", 1, INT64_MAX, "With this key"),
    FIELD_TEXT(IN_BODY, struct v1_filter_in, error, "error", 1, INT64_MAX,
               "With this in its last error"),
    FIELD_TEXT(IN_BODY, struct v1_filter_in, origin, "origin", 1, INT64_MAX,
               "Dead tasks of this group"),
    FIELD_IDS(IN_BODY, struct v1_filter_in, ids, id_count, "ids", 0, TASK_IDS_MAX,
              "Among these tasks"),
    {.name = {NULL, 0}},
};

static void put_next(struct buf *b, const struct store_cursor *c)
{
    char text[CURSOR_SIZE];
    cursor_write(c, text);
    json_key(b, "next");
    if (c->end)
        json_put_null(b);
    else
        json_put_text(b, str_of(text));
}

/* False after an answer. */
static bool read_filter(struct http_request *r, const struct v1_filter_in *in,
                        struct store_filter *ret_filter)
{
    const char *field = r->json ? "filter.state" : "state"; /* of a body, or of a query */
    *ret_filter = (struct store_filter){.group = in->group,
                                        .key = in->key,
                                        .text = in->text,
                                        .error = in->error,
                                        .origin = in->origin,
                                        .ids = in->ids,
                                        .id_count = in->id_count,
                                        .internal = in->internal,
                                        .who = r->who};
    for (size_t i = 0; i < in->state_count; i++) {
        enum task_state state = task_state_of(in->states[i]);
        if (state == TASK_STATES) {
            http_reply_field(r, field,
                             "state must be one of available, delayed, retrying, claimed, dead, "
                             "done");
            return false;
        }
        ret_filter->states |= 1U << state;
    }
    return true;
}

struct find_work {
    struct store_filter filter;
    struct store_cursor from, cursor;
    size_t limit;
};

static struct find_work *find_begin(struct http_request *r, const struct v1_filter_in *filter,
                                    struct str after, int64_t limit)
{
    struct find_work *w = arena_zalloc(&r->arena, sizeof *w);
    w->limit = (size_t)limit;
    if (!read_filter(r, filter, &w->filter))
        return NULL;
    if (after.p && !cursor_read(after, &w->from)) {
        http_reply_field(r, "after", "after must be the next of an answer");
        return NULL;
    }
    return w;
}

static void read_found(void *arg, struct store *s, int64_t now_ms)
{
    struct v1_call *c = arg;
    struct find_work *w = c->data;
    struct store_list list;
    w->cursor = w->from;
    c->out.len = 0;
    c->err = store_find_tasks(s, &w->filter, now_ms, &w->cursor, w->limit, c->arena, &list);
    if (c->err)
        return;
    json_open(&c->out, '{');
    json_member_open(&c->out, "tasks", '[');
    for (size_t i = 0; i < list.count; i++)
        body_put_state(&c->out, &list.tasks[i], now_ms);
    json_close(&c->out, ']');
    put_next(&c->out, &w->cursor);
    json_close(&c->out, '}');
}

void v1_find_tasks(struct http_request *r)
{
    const struct v1_find_in *in = r->in;
    struct find_work *w = find_begin(r, &in->filter, in->after, in->limit);
    if (!w)
        return;
    struct v1_call *c = v1_begin(r);
    c->data = w;
    v1_read(c, read_found);
}

static void read_one(void *arg, struct store *s, int64_t now_ms)
{
    struct v1_call *c = arg;
    const struct v1_task_in *in = c->in;
    struct task t;
    c->out.len = 0;
    c->err = v1_get(c, s, in->id, &t);
    if (!c->err)
        body_put_state(&c->out, &t, now_ms);
}

void v1_get_task(struct http_request *r)
{
    v1_read(v1_begin(r), read_one);
}

/* Bulk: finds and changes in one transaction. */

static int prepare(void *arg, struct store *s, int64_t now_ms, struct task_update *u)
{
    struct v1_call *c = arg;
    struct task_bulk *b = c->data;
    b->arena = c->arena;
    TRY(bulk_prepare(b, s, now_ms, u));
    c->out.len = 0;
    json_open(&c->out, '{');
    json_member_open(&c->out, "examples", '[');
    for (size_t i = 0; i < b->matched && i < EXAMPLES; i++)
        body_put_state(&c->out, b->tasks[i], now_ms);
    json_close(&c->out, ']');
    return 0;
}

static void finish_bulk(struct v1_call *c, const struct task_reply *reply)
{
    const struct task_bulk *b = c->data;
    json_member_int(&c->out, "matched", (int64_t)b->matched);
    json_member_int(&c->out, "changed", (int64_t)bulk_changed(b));
    put_next(&c->out, &b->next);
    json_close(&c->out, '}');
    v1_finish(c, reply);
}

static bool is_empty(const struct v1_filter_in *f)
{
    return !f->group.len && !f->text.len && !f->key.len && !f->error.len && !f->origin.len &&
           !f->state_count && !f->ids;
}

/* What the fields cannot say. False after an answer. */
static bool check_bulk(struct http_request *r, const struct v1_bulk_in *in,
                       const struct v1_filter_in *filter, enum task_edit_kind kind)
{
    const struct json *priority = json_get(r->json, "priority");
    if (is_empty(filter) && !in->all)
        http_reply_field(r, "filter", "the filter is empty: \"all\": true means every task");
    else if ((kind == EDIT_MOVE) != (in->group.p != NULL))
        http_reply_field(r, "group", "group goes with move, and move needs it");
    else if ((kind == EDIT_PRIORITY) != (priority && priority->kind != JSON_NULL))
        http_reply_field(r, "priority", "priority goes with the action priority, which needs it");
    else if (in->group.p && !http_reaches(r, SCOPE_GROUP, in->group))
        http_forbid_name(r, in->group);
    else
        return true;
    return false;
}

void v1_bulk(struct http_request *r)
{
    static const enum task_edit_kind kinds[] = {EDIT_DELETE, EDIT_RETRY, EDIT_MOVE, EDIT_RELEASE,
                                                EDIT_PRIORITY};
    static const struct v1_filter_in none = {0};
    const struct v1_bulk_in *in = r->in;
    const struct v1_filter_in *filter = in->filter ? in->filter : &none;
    if (!check_bulk(r, in, filter, kinds[in->action]))
        return;
    const struct find_work *find = find_begin(r, filter, in->after, in->limit);
    if (!find)
        return;
    struct v1_call *c = v1_begin(r);
    struct task_bulk *b = arena_alloc(&r->arena, sizeof *b);
    *b = (struct task_bulk){.filter = find->filter,
                            .from = find->from,
                            .limit = find->limit,
                            .kind = kinds[in->action],
                            .group = in->group,
                            .priority = in->priority,
                            .dry_run = in->dry_run};
    c->data = b;
    c->finish = finish_bulk;
    c->request.kind = TASK_UPDATE;
    c->request.prepare = prepare;
    c->request.update = (struct task_update){
        .clientid = in->clientid, .operate = true, .skips = true, .who = r->who};
    v1_submit(c);
}
