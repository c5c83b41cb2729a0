/* Fields with default values (no deletes, a timespec of now) are left out. */
#include "client/task_client.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/result.h"

/* Requests. */

static struct str text_of(const char *text, size_t len)
{
    if (!text)
        return STR("");
    return len ? (struct str){text, len} : str_of(text);
}

static int put_text(struct buf *b, const char *key, struct str text, struct err_info *ret_error)
{
    if (!json_is_text(text))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s is not UTF-8 text", key);
    json_key(b, key);
    json_put_text(b, text);
    return 0;
}

static void put_ids(struct buf *b, const char *key, const int64_t *ids, size_t count)
{
    if (!count)
        return;
    json_member_open(b, key, '[');
    for (size_t i = 0; i < count; i++)
        json_put_int(b, ids[i]);
    json_close(b, ']');
}

static int put_task(struct buf *b, const struct drover_task *t, bool is_add,
                    struct err_info *ret_error)
{
    int err = 0;

    json_open(b, '{');
    if (is_add) {
        err = put_text(b, "group", text_of(t->group, t->group_len), ret_error);
    } else {
        json_member_int(b, "id", t->id);
    }
    if (!err && t->data)
        err = put_text(b, "data", text_of(t->data, t->data_len), ret_error);
    if (t->timespec) {
        json_member_int(b, "timespec", t->timespec);
    }
    json_close(b, '}');
    return err;
}

static int put_tasks(struct buf *b, const char *key, const struct drover_task *tasks, size_t count,
                     struct err_info *ret_error)
{
    int err = 0;

    if (!count)
        return 0;
    json_member_open(b, key, '[');
    for (size_t i = 0; i < count && !err; i++)
        err = put_task(b, &tasks[i], !strcmp(key, "adds"), ret_error);
    json_close(b, ']');
    return err;
}

static void open_body(struct buf *b, int64_t given, int64_t clientid, const char *requestid)
{
    json_open(b, '{');
    json_member_int(b, "clientid", given ? given : clientid);
    if (requestid) {
        json_member_text(b, "requestid", str_of(requestid));
    }
}

int task_body_update(struct buf *b, const struct drover_update *u, int64_t clientid,
                     const char *requestid, struct err_info *ret_error)
{
    open_body(b, u->clientid, clientid, requestid);
    int err = put_tasks(b, "adds", u->adds, u->add_count, ret_error);
    if (!err)
        err = put_tasks(b, "updates", u->updates, u->update_count, ret_error);
    put_ids(b, "deletes", u->deletes, u->delete_count);
    put_ids(b, "depends", u->depends, u->depend_count);
    json_close(b, '}');
    return err;
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
    int err;

    open_body(b, c->clientid, clientid, requestid);
    if (c->group_count == 1)
        err = put_text(b, "group", str_of(c->groups[0]), ret_error);
    else
        err = put_groups(b, c, ret_error);
    json_member_int(b, "duration", c->duration_ms);
    if (wait_ms > 0) {
        json_member_int(b, "wait", wait_ms);
    }
    if (c->limit) {
        json_member_int(b, "limit", (int64_t)c->limit);
    }
    put_ids(b, "deletes", c->deletes, c->delete_count);
    put_ids(b, "depends", c->depends, c->depend_count);
    json_close(b, '}');
    return err;
}

/* Answers. */

static int read_task(struct drover_result *r, const struct json *v, struct err_info *ret_error)
{
    struct str group = {0}, data = STR("");
    struct drover_task rest = {0};

    if (json_get_int(v, "id", &rest.id, ret_error) <= 0 ||
        json_get_text(v, "group", &group, ret_error) <= 0 ||
        json_get_text(v, "data", &data, ret_error) < 0 ||
        json_get_int(v, "timespec", &rest.timespec, ret_error) < 0 ||
        json_get_int(v, "ownerid", &rest.ownerid, ret_error) < 0)
        return err_set(ret_error, DROVER_IO, "the server did not reply with a task");
    result_add_task(r, group, data, &rest);
    return 0;
}

static int read_tasks(struct drover_result *r, const struct json *list, struct err_info *ret_error)
{
    int err = 0;

    result_init(r, list->count, 0);
    json_each(v, list)
        if (!err && v->kind != JSON_NULL)
            err = read_task(r, v, ret_error);
    if (err)
        drover_result_release(r);
    return err;
}

static int read_errors(struct drover_result *r, const struct json *list)
{
    result_init(r, 0, list->count);
    json_each(v, list)
        if (v->kind == JSON_TEXT)
            result_add_error(r, v->text);
    return 0;
}

static int read_one(struct drover_result *r, const struct json *v, struct err_info *ret_error)
{
    result_init(r, 1, 0);
    int err = read_task(r, v, ret_error);
    if (err)
        drover_result_release(r);
    return err;
}

int task_body_read(struct str text, struct drover_result *ret_result, struct err_info *ret_error)
{
    struct arena a = {0};
    struct err_info ignored;
    const struct json *v = json_parse(&a, text, &ignored);
    const struct json *tasks = v && v->kind == JSON_LIST ? v : json_get(v, "tasks");
    const struct json *errors = json_get(v, "errors");
    struct drover_result r;
    int err;

    if (tasks && tasks->kind == JSON_LIST)
        err = read_tasks(&r, tasks, ret_error);
    else if (errors && errors->kind == JSON_LIST)
        err = read_errors(&r, errors);
    else if (json_get(v, "id"))
        err = read_one(&r, v, ret_error);
    else
        err = err_set(ret_error, DROVER_IO, "unexpected reply; is the server drover serve?");
    arena_release(&a);
    if (!err)
        *ret_result = r;
    return err;
}

int task_body_read_groups(struct str text, struct drover_groups *ret_groups,
                          struct err_info *ret_error)
{
    struct arena *a = mem_zalloc(sizeof *a);
    struct drover_groups g = {.memory = a};
    struct err_info ignored;
    const struct json *v = json_parse(a, text, &ignored);

    if (!v || v->kind != JSON_LIST) {
        drover_groups_release(&g);
        return err_set(ret_error, DROVER_IO, "unexpected reply; is the server drover serve?");
    }
    g.names = arena_alloc(a, v->count * sizeof *g.names);
    json_each(name, v)
        if (name->kind == JSON_TEXT)
            g.names[g.count++] = arena_text(a, name->text);
    *ret_groups = g;
    return 0;
}
