/* Fields with default values (no deletes, a timespec of now) are left out. */
#include "client/task_client.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/result.h"
#include "client/group_body.h"

/* Requests. */

static int put_text(struct buf *b, const char *key, struct str text, struct err_info *ret_error)
{
    if (!json_is_text(text))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s is not UTF-8 text", key);
    json_member_text(b, key, text);
    return 0;
}

/* The same, left out if it is empty. */
static int put_given(struct buf *b, const char *key, const char *text, size_t len,
                     struct err_info *ret_error)
{
    struct str given = result_text(text, len);
    return given.len ? put_text(b, key, given, ret_error) : 0;
}

static void put_number(struct buf *b, const char *key, int64_t number)
{
    if (number)
        json_member_int(b, key, number);
}

/* Only names by the first id are so far below zero. */
bool task_body_is_first(int64_t id)
{
    return id < 0 && id - INT64_MIN < -id;
}

static void put_id(struct buf *b, int64_t id)
{
    char text[40];
    if (!task_body_is_first(id)) {
        json_put_int(b, id);
        return;
    }
    snprintf(text, sizeof text, "first:%" PRId64, id - INT64_MIN);
    json_put_text(b, str_of(text));
}

void task_body_put_ids(struct buf *b, const char *key, const int64_t *ids, size_t count)
{
    json_member_open(b, key, '[');
    for (size_t i = 0; i < count; i++)
        put_id(b, ids[i]);
    json_close(b, ']');
}

static void put_ids(struct buf *b, const char *key, const int64_t *ids, size_t count)
{
    if (count)
        task_body_put_ids(b, key, ids, count);
}

static int put_data(struct buf *b, const struct drover_task *t, struct err_info *ret_error)
{
    struct str data = result_text(t->data, t->data_len);
    if (!t->bytes)
        return t->data ? put_text(b, "data", data, ret_error) : 0;
    CLEANUP(buf_release) struct buf text = {0};
    base64_put(&text, (const unsigned char *)data.p, data.len);
    json_member_text(b, "data64", (struct str){buf_text(&text), text.len});
    return 0;
}

static int put_extra(struct buf *b, const struct drover_task *t, struct err_info *ret_error)
{
    static const char *const words[] = {NULL, "keep", "replace"};
    put_number(b, "priority", t->priority);
    TRY(put_given(b, "key", t->key, t->key_len, ret_error));
    if (t->on_key > DROVER_KEY_REFUSE && t->on_key <= DROVER_KEY_REPLACE)
        json_member_text(b, "on_key", str_of(words[t->on_key]));
    TRY(put_given(b, "share", t->share, t->share_len, ret_error));
    put_number(b, "expires", t->expires);
    return 0;
}

static int put_task(struct buf *b, const struct drover_task *t, bool is_add,
                    struct err_info *ret_error)
{
    json_open(b, '{');
    if (is_add)
        TRY(put_text(b, "group", result_text(t->group, t->group_len), ret_error));
    else {
        json_key(b, "id");
        put_id(b, t->id);
    }
    TRY(put_data(b, t, ret_error));
    put_number(b, "timespec", t->timespec);
    if (is_add)
        TRY(put_extra(b, t, ret_error));
    json_close(b, '}');
    return 0;
}

static int put_tasks(struct buf *b, const char *key, const struct drover_task *tasks, size_t count,
                     struct err_info *ret_error)
{
    if (!count)
        return 0;
    json_member_open(b, key, '[');
    for (size_t i = 0; i < count; i++)
        TRY(put_task(b, &tasks[i], !strcmp(key, "adds"), ret_error));
    json_close(b, ']');
    return 0;
}

static int put_fails(struct buf *b, const struct drover_fail *fails, size_t count,
                     struct err_info *ret_error)
{
    if (!count)
        return 0;
    json_member_open(b, "fails", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(b, '{');
        json_key(b, "id");
        put_id(b, fails[i].id);
        TRY(put_given(b, "error", fails[i].error, fails[i].error_len, ret_error));
        if (fails[i].retry_ms)
            json_member_int(b, "retry_in", fails[i].retry_ms > 0 ? fails[i].retry_ms : 0);
        put_number(b, "attempts", fails[i].attempts);
        if (fails[i].dead)
            json_member_bool(b, "dead", true);
        json_close(b, '}');
    }
    json_close(b, ']');
    return 0;
}

static int put_finishes(struct buf *b, const struct drover_finish *finishes, size_t count,
                        struct err_info *ret_error)
{
    if (!count)
        return 0;
    json_member_open(b, "finishes", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(b, '{');
        json_key(b, "id");
        put_id(b, finishes[i].id);
        TRY(put_given(b, "result", finishes[i].result, finishes[i].result_len, ret_error));
        json_close(b, '}');
    }
    json_close(b, ']');
    return 0;
}

/* What updates and claims have in common, and the end of the body. */
#define PUT_CHANGES(b, r, ret_error)                                                               \
    do {                                                                                           \
        put_ids(b, "deletes", (r)->deletes, (r)->delete_count);                                    \
        put_ids(b, "depends", (r)->depends, (r)->depend_count);                                    \
        TRY(put_fails(b, (r)->fails, (r)->fail_count, ret_error));                                 \
        TRY(put_finishes(b, (r)->finishes, (r)->finish_count, ret_error));                         \
        put_ids(b, "releases", (r)->releases, (r)->release_count);                                 \
        json_close(b, '}');                                                                        \
    } while (0)

static void open_body(struct buf *b, int64_t given, int64_t clientid, const char *requestid)
{
    json_open(b, '{');
    json_member_int(b, "clientid", given ? given : clientid);
    if (requestid)
        json_member_text(b, "requestid", str_of(requestid));
}

int task_body_update(struct buf *b, const struct drover_update *u, int64_t clientid,
                     const char *requestid, struct err_info *ret_error)
{
    open_body(b, u->clientid, clientid, requestid);
    TRY(put_tasks(b, "adds", u->adds, u->add_count, ret_error));
    TRY(put_tasks(b, "updates", u->updates, u->update_count, ret_error));
    PUT_CHANGES(b, u, ret_error);
    return 0;
}

static int put_groups(struct buf *b, const struct drover_claim *c, struct err_info *ret_error)
{
    json_member_open(b, "groups", '[');
    for (size_t i = 0; i < c->group_count; i++) {
        if (!json_is_text(str_of(c->groups[i])))
            return err_set(ret_error, DROVER_BAD_ARGUMENT, "group is not UTF-8 text");
        json_put_text(b, str_of(c->groups[i]));
    }
    json_close(b, ']');
    return 0;
}

int task_body_claim(struct buf *b, const struct drover_claim *c, int64_t clientid, int64_t wait_ms,
                    const char *requestid, struct err_info *ret_error)
{
    open_body(b, c->clientid, clientid, requestid);
    TRY(c->group_count == 1 ? put_text(b, "group", str_of(c->groups[0]), ret_error)
                            : put_groups(b, c, ret_error));
    json_member_int(b, "duration", c->duration_ms);
    if (wait_ms > 0)
        json_member_int(b, "wait", wait_ms);
    if (c->limit)
        json_member_int(b, "limit", (int64_t)c->limit);
    if (c->tasks_only)
        json_member_bool(b, "tasks_only", true);
    PUT_CHANGES(b, c, ret_error);
    return 0;
}

/* Answers. */

/* NULL: it is not there. */
static const char *read_text(const struct json *v, const char *name, size_t *ret_len)
{
    struct str text = json_text_of(v, name);
    *ret_len = text.len;
    return text.len ? text.p : NULL;
}

static void read_extra(struct drover_task *t, const struct json *v)
{
    t->priority = json_int_of(v, "priority");
    t->key = read_text(v, "key", &t->key_len);
    t->share = read_text(v, "share", &t->share_len);
    t->expires = json_int_of(v, "expires");
    t->state = group_body_state(json_text_of(v, "state"));
    t->first = json_int_of(v, "first");
    t->attempts = json_int_of(v, "attempts");
    t->claims = json_int_of(v, "claims");
    t->created = json_int_of(v, "created");
    t->ended = json_int_of(v, "ended");
    t->error = read_text(v, "error", &t->error_len);
    t->origin = read_text(v, "origin", &t->origin_len);
    t->result = read_text(v, "result", &t->result_len);
}

static int read_task(struct drover_result *r, const struct json *v, struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf bytes = {0};
    struct str group = {0}, data = STR(""), data64 = {0};
    struct drover_task rest = {0};
    if (json_get_int(v, "id", &rest.id, ret_error) <= 0 ||
        json_get_text(v, "group", &group, ret_error) <= 0 ||
        json_get_text(v, "data", &data, ret_error) < 0 ||
        json_get_text(v, "data64", &data64, ret_error) < 0 ||
        (data64.p && !base64_read(data64, &bytes)) ||
        json_get_int(v, "timespec", &rest.timespec, ret_error) < 0 ||
        json_get_int(v, "ownerid", &rest.ownerid, ret_error) < 0)
        return err_set(ret_error, DROVER_IO, "the server did not reply with a task");
    rest.bytes = data64.p != NULL;
    read_extra(&rest, v);
    result_add_task(r, group, data64.p ? buf_str(&bytes) : data, &rest);
    return 0;
}

int task_body_unexpected(struct err_info *ret_error)
{
    return err_set(ret_error, DROVER_IO, "unexpected reply; is the server drover serve?");
}

/* Adds the tasks of a list, or one task. */
int task_body_add(struct drover_result *r, size_t *cap, const struct json *v,
                  struct err_info *ret_error)
{
    result_grow(r, cap, v->kind == JSON_LIST ? v->count : 1);
    if (v->kind != JSON_LIST)
        return read_task(r, v, ret_error);
    json_each(task, v)
        if (task->kind != JSON_NULL)
            TRY(read_task(r, task, ret_error));
    return 0;
}

int task_body_read(struct str text, struct drover_result *ret_result, struct err_info *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct json *v = json_parse(&a, text, NULL), *errors = json_get(v, "errors");
    const struct json *tasks = v && v->kind == JSON_LIST ? v : json_get(v, "tasks");
    struct drover_result r = {0};
    size_t cap = 0;
    int err = 0;

    result_init(&r, 0, errors && errors->kind == JSON_LIST ? errors->count : 0);
    if (tasks && tasks->kind == JSON_LIST) {
        err = task_body_add(&r, &cap, tasks, ret_error);
    } else if (errors && errors->kind == JSON_LIST) {
        json_each(line, errors)
            if (line->kind == JSON_TEXT)
                result_add_error(&r, line->text);
    } else if (json_get(v, "id")) {
        err = task_body_add(&r, &cap, v, ret_error);
    } else {
        err = task_body_unexpected(ret_error);
    }
    if (err)
        drover_result_release(&r);
    else
        *ret_result = r;
    return err;
}

int task_body_read_groups(struct str text, struct drover_groups *ret_groups,
                          struct err_info *ret_error)
{
    struct arena *a = mem_zalloc(sizeof *a);
    struct drover_groups g = {.memory = a};
    const struct json *v = json_parse(a, text, NULL);
    if (!v || v->kind != JSON_LIST) {
        drover_groups_release(&g);
        return task_body_unexpected(ret_error);
    }
    g.names = arena_alloc(a, v->count * sizeof *g.names);
    json_each(name, v)
        if (name->kind == JSON_TEXT)
            g.names[g.count++] = arena_text(a, name->text);
    *ret_groups = g;
    return 0;
}
