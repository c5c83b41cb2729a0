/* Fields with default values (no deletes, a timespec of now) are left out. */
#include "client/task_client.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/result.h"

/* Requests. */

static int put_text(struct buf *b, const char *key, struct str text, struct err_info *ret_error)
{
    if (!json_is_text(text))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s is not UTF-8 text", key);
    json_member_text(b, key, text);
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
    json_open(b, '{');
    if (is_add)
        TRY(put_text(b, "group", result_text(t->group, t->group_len), ret_error));
    else
        json_member_int(b, "id", t->id);
    if (t->data)
        TRY(put_text(b, "data", result_text(t->data, t->data_len), ret_error));
    if (t->timespec)
        json_member_int(b, "timespec", t->timespec);
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
    put_ids(b, "deletes", u->deletes, u->delete_count);
    put_ids(b, "depends", u->depends, u->depend_count);
    json_close(b, '}');
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
    put_ids(b, "deletes", c->deletes, c->delete_count);
    put_ids(b, "depends", c->depends, c->depend_count);
    json_close(b, '}');
    return 0;
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

static int unexpected(struct err_info *ret_error)
{
    return err_set(ret_error, DROVER_IO, "unexpected reply; is the server drover serve?");
}

/* Adds the tasks of a list, or one task. */
static int read_tasks(struct drover_result *r, const struct json *v, struct err_info *ret_error)
{
    result_init(r, v->kind == JSON_LIST ? v->count : 1, 0);
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
    int err = 0;

    if (tasks && tasks->kind == JSON_LIST) {
        err = read_tasks(&r, tasks, ret_error);
    } else if (errors && errors->kind == JSON_LIST) {
        result_init(&r, 0, errors->count);
        json_each(line, errors)
            if (line->kind == JSON_TEXT)
                result_add_error(&r, line->text);
    } else if (json_get(v, "id")) {
        err = read_tasks(&r, v, ret_error);
    } else {
        return unexpected(ret_error);
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
        return unexpected(ret_error);
    }
    g.names = arena_alloc(a, v->count * sizeof *g.names);
    json_each(name, v)
        if (name->kind == JSON_TEXT)
            g.names[g.count++] = arena_text(a, name->text);
    *ret_groups = g;
    return 0;
}
