/* What programs fill in, checked as the routes of a server check it. */
#include <inttypes.h>

#include "base/json.h"
#include "base/result.h"
#include "client/store_library.h"
#include "task/find.h"
#include "task/tail.h"

int store_check_text(struct str text, const char *what, struct err_info *e)
{
    return json_is_text(text) ? 0 : err_set(e, DROVER_BAD_ARGUMENT, "%s is not UTF-8 text", what);
}

/* An optional text of limited length. */
static int read_text(const char *text, size_t len, size_t max, const char *what,
                     struct str *ret_text, struct err_info *e)
{
    struct str given = result_text(text, len);
    if (given.len > max)
        return err_set(e, DROVER_BAD_ARGUMENT, "%s must have at most %zu bytes", what, max);
    TRY(store_check_text(given, what, e));
    *ret_text = given;
    return 0;
}

static int read_extra(const struct drover_task *t, struct task_extra *x, struct err_info *e)
{
    if (t->priority < -TASK_PRIORITY_MAX || t->priority > TASK_PRIORITY_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "priority must be from %d to %d", -TASK_PRIORITY_MAX,
                       TASK_PRIORITY_MAX);
    if (t->on_key < DROVER_KEY_REFUSE || t->on_key > DROVER_KEY_REPLACE)
        return err_set(e, DROVER_BAD_ARGUMENT, "on_key is none of its values");
    x->priority = (int32_t)t->priority;
    x->expires = t->expires;
    TRY(read_text(t->key, t->key_len, TASK_KEY_LEN_MAX, "key", &x->key, e));
    if (t->on_key && !x->key.len)
        return err_set(e, DROVER_BAD_ARGUMENT, "on_key needs a key");
    return read_text(t->share, t->share_len, TASK_SHARE_LEN_MAX, "share", &x->share, e);
}

static int read_data(const struct drover_task *t, struct str *ret_data, struct err_info *e)
{
    *ret_data = result_text(t->data, t->data_len);
    return t->bytes ? 0 : store_check_text(*ret_data, "data", e);
}

int store_convert_adds(struct arena *a, const struct drover_task *tasks, size_t count,
                       const struct task **ret_tasks, struct err_info *e)
{
    struct task *list = arena_zalloc(a, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        struct task_extra x = {.binary = tasks[i].bytes != 0};
        TRY(read_extra(&tasks[i], &x, e));
        TRY(read_data(&tasks[i], &list[i].data, e));
        list[i].group = result_text(tasks[i].group, tasks[i].group_len);
        TRY(store_check_text(list[i].group, "group", e));
        list[i].timespec = tasks[i].timespec;
        list[i].on_key = (unsigned)tasks[i].on_key & 3;
        if (!task_extra_is_plain(&x))
            list[i].extra = task_extra_copy(a, &x);
    }
    *ret_tasks = list;
    return 0;
}

int store_convert_updates(struct arena *a, const struct drover_task *tasks, size_t count,
                          const struct task **ret_tasks, struct err_info *e)
{
    static const struct task_extra binary = {.binary = true};
    struct task *list = arena_zalloc(a, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        list[i].id = tasks[i].id;
        list[i].timespec = tasks[i].timespec;
        TRY(read_data(&tasks[i], &list[i].data, e));
        list[i].extra = tasks[i].bytes ? &binary : NULL;
    }
    *ret_tasks = list;
    return 0;
}

int store_convert_edits(struct arena *a, const struct store_edits *from,
                        const struct task_edit **ret_edits, size_t *ret_count, struct err_info *e)
{
    size_t count = from->fail_count + from->finish_count + from->release_count;
    struct task_edit *edits = arena_zalloc(a, (count + 1) * sizeof *edits), *at = edits;
    for (size_t i = 0; i < from->fail_count; i++, at++) {
        const struct drover_fail *f = &from->fails[i];
        if (f->attempts < 0)
            return err_set(e, DROVER_BAD_ARGUMENT, "attempts must not be less than 0");
        *at = (struct task_edit){.kind = EDIT_FAIL,
                                 .id = f->id,
                                 .number = f->retry_ms > 0 ? f->retry_ms
                                           : f->retry_ms   ? 0
                                                           : -1,
                                 .dead = f->dead != 0,
                                 .attempts = f->attempts};
        TRY(read_text(f->error, f->error_len, SIZE_MAX, "error", &at->text, e));
    }
    for (size_t i = 0; i < from->finish_count; i++, at++) {
        const struct drover_finish *f = &from->finishes[i];
        *at = (struct task_edit){.kind = EDIT_FINISH, .id = f->id};
        TRY(read_text(f->result, f->result_len, TASK_RESULT_LEN_MAX, "result", &at->text, e));
    }
    for (size_t i = 0; i < from->release_count; i++, at++)
        *at = (struct task_edit){.kind = EDIT_RELEASE, .id = from->releases[i]};
    *ret_edits = edits;
    *ret_count = count;
    return 0;
}

int store_convert_filter(const struct drover_filter *f, struct store_filter *ret_filter,
                         struct store_cursor *ret_from, struct err_info *e)
{
    struct store_filter to = {
        .states = f->states, .internal = f->internal != 0, .ids = f->ids, .id_count = f->id_count};
    struct store_cursor from = {0};
    if (f->states & ~((1U << TASK_STATES) - 1))
        return err_set(e, DROVER_BAD_ARGUMENT, "states has a state that no task is in");
    TRY(read_text(f->group, 0, SIZE_MAX, "group", &to.group, e));
    TRY(read_text(f->key, 0, SIZE_MAX, "key", &to.key, e));
    TRY(read_text(f->text, 0, SIZE_MAX, "text", &to.text, e));
    TRY(read_text(f->error, 0, SIZE_MAX, "error", &to.error, e));
    TRY(read_text(f->origin, 0, SIZE_MAX, "origin", &to.origin, e));
    if (f->id_count > TASK_IDS_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "at most %d ids", TASK_IDS_MAX);
    if (f->after && !cursor_read(str_of(f->after), &from))
        return err_set(e, DROVER_BAD_ARGUMENT, "after must be the next of a search");
    *ret_filter = to;
    *ret_from = from;
    return 0;
}
