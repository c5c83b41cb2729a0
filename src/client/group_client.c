/*
 * Searches, changes of many tasks, waiting for the end of one, and groups: the calls of a client
 * below /v1. Lists come in pages, which are put together here.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/result.h"
#include "client/group_body.h"
#include "client/task_client.h"

enum { PAGE = 1000, GROUPS_PAGE = 10000, WAIT_MAX_MS = 600 * 1000 };

static const struct str NO_BODY;

/* A text that would not come back as it was finds nothing: it is refused. */
static int check_text(const char *text, const char *what, struct err_info *e)
{
    return !text || json_is_text(str_of(text))
               ? 0
               : err_set(e, DROVER_BAD_ARGUMENT, "%s is not UTF-8 text", what);
}

static int check_filter(const struct drover_filter *f, struct err_info *e)
{
    if (f->states >= DROVER_TASK_DELETED)
        return err_set(e, DROVER_BAD_ARGUMENT, "states has a state that no task is in");
    TRY(check_text(f->group, "group", e));
    TRY(check_text(f->key, "key", e));
    TRY(check_text(f->text, "text", e));
    TRY(check_text(f->error, "error", e));
    TRY(check_text(f->origin, "origin", e));
    return check_text(f->after, "after", e);
}

/* Searches. */

static void put_states(struct buf *path, unsigned states)
{
    for (unsigned i = 0, count = 0; i < GROUP_BODY_STATES; i++)
        if (states & 1U << i)
            buf_printf(path, "%s%s", count++ ? "," : "&state=", GROUP_BODY_STATE[i]);
}

static int find_page(struct drover_client *c, const struct drover_filter *f, const char *after,
                     size_t limit, struct arena *a, const struct json **ret_json,
                     struct err_info *e)
{
    CLEANUP(buf_release) struct buf path = {0};
    buf_printf(&path, "/v1/tasks?limit=%zu", limit);
    if (f->internal)
        buf_printf(&path, "&internal=1");
    put_states(&path, f->states);
    task_client_put_query(&path, "group", f->group);
    task_client_put_query(&path, "key", f->key);
    task_client_put_query(&path, "text", f->text);
    task_client_put_query(&path, "error", f->error);
    task_client_put_query(&path, "origin", f->origin);
    task_client_put_query(&path, "after", after);
    return task_client_ask(c, "GET", buf_text(&path), NO_BODY, 0, a, ret_json, e);
}

static int find_all(struct drover_client *c, const struct drover_filter *f, size_t limit,
                    struct drover_result *r, struct err_info *e)
{
    size_t cap = 0;
    const char *after = f->after;
    do {
        CLEANUP(arena_release) struct arena a = {0};
        const struct json *v;
        size_t left = limit ? limit - r->task_count : PAGE;
        TRY(find_page(c, f, after, left < PAGE ? left : PAGE, &a, &v, e));
        TRY(task_body_add(r, &cap, json_list(json_get(v, "tasks")), e));
        struct str next = json_text_of(v, "next");
        after = r->next = next.len ? arena_text(r->memory, next) : NULL;
    } while (after && (!limit || r->task_count < limit));
    return (int)r->task_count;
}

int drover_client_find(struct drover_client *c, const struct drover_filter *f, size_t limit,
                       struct drover_result *ret_result, struct drover_error *ret_error)
{
    struct drover_result r;
    if (f->ids)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "ids are for a bulk");
    TRY(check_filter(f, ret_error));
    result_init(&r, 0, 0);
    int count = find_all(c, f, limit, &r, ret_error);
    if (count < 0)
        drover_result_release(&r);
    else
        *ret_result = r;
    return count;
}

/* Changes of many. */

static void put_text(struct buf *b, const char *name, const char *text)
{
    if (text)
        json_member_text(b, name, str_of(text));
}

static void put_filter(struct buf *b, const struct drover_filter *f)
{
    json_member_open(b, "filter", '{');
    put_text(b, "group", f->group);
    put_text(b, "key", f->key);
    put_text(b, "text", f->text);
    put_text(b, "error", f->error);
    put_text(b, "origin", f->origin);
    if (f->ids)
        task_body_put_ids(b, "ids", f->ids, f->id_count);
    if (f->states) {
        json_member_open(b, "state", '[');
        for (unsigned i = 0; i < GROUP_BODY_STATES; i++)
            if (f->states & 1U << i)
                json_put_text(b, str_of(GROUP_BODY_STATE[i]));
        json_close(b, ']');
    }
    json_close(b, '}');
}

static int put_bulk(struct drover_client *c, const struct drover_bulk *bulk, const char *after,
                    struct buf *b, struct err_info *e)
{
    static const char *const actions[] = {"delete", "retry", "move", "release", "priority"};
    if (bulk->action < DROVER_BULK_DELETE || bulk->action > DROVER_BULK_PRIORITY)
        return err_set(e, DROVER_BAD_ARGUMENT, "there is no such action");
    json_open(b, '{');
    json_member_int(b, "clientid", bulk->clientid ? bulk->clientid : c->clientid);
    put_filter(b, &bulk->filter);
    json_member_text(b, "action", str_of(actions[bulk->action]));
    if (bulk->action == DROVER_BULK_MOVE)
        put_text(b, "group", bulk->group);
    if (bulk->action == DROVER_BULK_PRIORITY)
        json_member_int(b, "priority", bulk->priority);
    if (bulk->all)
        json_member_bool(b, "all", true);
    if (bulk->dry_run)
        json_member_bool(b, "dry_run", true);
    put_text(b, "after", after);
    json_close(b, '}');
    return 0;
}

static int bulk_all(struct drover_client *c, const struct drover_bulk *bulk,
                    struct drover_bulk_count *count, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    const char *after = bulk->filter.after;
    do {
        CLEANUP(buf_release) struct buf body = {0};
        const struct json *v;
        TRY(put_bulk(c, bulk, after, &body, e));
        arena_reset(&a);
        TRY(task_client_ask(c, "POST", "/v1/tasks/bulk", buf_str(&body), 0, &a, &v, e));
        count->matched += json_int_of(v, "matched");
        count->changed += json_int_of(v, "changed");
        struct str next = json_text_of(v, "next");
        after = next.len ? arena_text(&a, next) : NULL;
        if (bulk->progress && bulk->progress(bulk->arg, count->matched, count->changed))
            return err_set(e, DROVER_CLOSED, "stopped by the caller");
    } while (after);
    return 0;
}

int drover_client_bulk(struct drover_client *c, const struct drover_bulk *b,
                       struct drover_bulk_count *ret_count, struct drover_error *ret_error)
{
    struct drover_bulk_count count = {0};
    TRY(check_filter(&b->filter, ret_error));
    TRY(check_text(b->group, "group", ret_error));
    int err = bulk_all(c, b, &count, ret_error);
    if (ret_count)
        *ret_count = count;
    return err;
}

/*
 * Waiting. One request lasts as long as possible: a result that is not kept reaches only those who
 * wait at that moment.
 */
int drover_client_wait(struct drover_client *c, int64_t id, int64_t timeout_ms,
                       struct drover_result *ret_result, struct drover_error *ret_error)
{
    const int ended = DROVER_TASK_DEAD | DROVER_TASK_DONE | DROVER_TASK_DELETED;
    int64_t end_ms = clock_boot_ms() + (timeout_ms > 0 ? timeout_ms : 0);
    for (;;) {
        CLEANUP(buf_release) struct buf path = {0};
        struct transport_answer answer;
        int64_t left_ms = end_ms - clock_boot_ms();
        left_ms = left_ms < 0 ? 0 : left_ms > WAIT_MAX_MS ? WAIT_MAX_MS : left_ms;
        buf_printf(&path, "/v1/tasks/");
        task_client_put_id(&path, id);
        buf_printf(&path, "/wait?timeout=%lld", (long long)left_ms);
        TRY(task_client_insist(c, "GET", buf_text(&path), NO_BODY, TRANSPORT_TIMEOUT_MS + left_ms,
                               &answer, ret_error));
        CLEANUP(drover_result_release) struct drover_result r = {0};
        TRY(task_client_read(&answer, &r, ret_error));
        if (r.task_count != 1)
            return task_body_unexpected(ret_error);
        bool has_ended = r.tasks[0].state & ended;
        if (has_ended || clock_boot_ms() >= end_ms) {
            *ret_result = r;
            r = (struct drover_result){0};
            return has_ended;
        }
        id = DROVER_FIRST(r.tasks[0].first);
    }
}

/* Groups. */

static void add_groups(struct drover_groups *g, struct drover_counts **counts, size_t *cap,
                       const struct json *list)
{
    struct arena *a = g->memory;
    if (g->count + list->count > *cap) {
        *cap = g->count + list->count + *cap;
        const char **names = arena_alloc(a, *cap * sizeof *names);
        struct drover_counts *more = arena_alloc(a, *cap * sizeof *more);
        for (size_t i = 0; i < g->count; i++) {
            names[i] = g->names[i];
            more[i] = (*counts)[i];
        }
        g->names = names;
        g->counts = *counts = more;
    }
    json_each(v, list) {
        (*counts)[g->count] = group_body_read_counts(v);
        g->names[g->count++] = arena_text(a, json_text_of(v, "group"));
    }
}

static int count_all(struct drover_client *c, int internal, struct drover_groups *g,
                     struct err_info *e)
{
    struct drover_counts *counts = NULL;
    const char *after = NULL;
    size_t cap = 0;
    do {
        CLEANUP(arena_release) struct arena a = {0};
        CLEANUP(buf_release) struct buf path = {0};
        const struct json *v;
        buf_printf(&path, "/v1/groups?limit=%d&internal=%d", GROUPS_PAGE, internal != 0);
        task_client_put_query(&path, "after", after);
        TRY(task_client_ask(c, "GET", buf_text(&path), NO_BODY, 0, &a, &v, e));
        add_groups(g, &counts, &cap, json_list(json_get(v, "groups")));
        struct str next = json_text_of(v, "next");
        after = next.len ? arena_text(g->memory, next) : NULL;
    } while (after);
    return 0;
}

int drover_client_count_groups(struct drover_client *c, int internal,
                               struct drover_groups *ret_groups, struct drover_error *ret_error)
{
    struct drover_groups g = {.memory = mem_zalloc(sizeof(struct arena))};
    int err = count_all(c, internal, &g, ret_error);
    if (err)
        drover_groups_release(&g);
    else
        *ret_groups = g;
    return err;
}

/* Sends a request about one group or pattern. */
static int ask_group(struct drover_client *c, const char *method, const char *group,
                     struct str body, struct arena *a, const struct json **ret_json,
                     struct err_info *e)
{
    CLEANUP(buf_release) struct buf path = {0};
    TRY(check_text(group, "group", e));
    buf_printf(&path, "/v1/groups/");
    task_client_put_quoted(&path, group);
    return task_client_ask(c, method, buf_text(&path), body, 0, a, ret_json, e);
}

static void read_group(const struct json *v, struct drover_group *g)
{
    const struct json *list = json_list(json_get(v, "claimed"));
    struct str pattern = json_text_of(v, "pattern");
    struct arena *a = g->memory;
    struct drover_task *claimed = arena_zalloc(a, (list->count + 1) * sizeof *claimed);
    g->pattern = pattern.len ? arena_text(a, pattern) : NULL;
    group_body_read_settings(json_get(v, "settings"), a, &g->settings);
    g->counts = group_body_read_counts(json_get(v, "counts"));
    g->claimed = claimed;
    json_each(task, list)
        claimed[g->claimed_count++] = (struct drover_task){.id = json_int_of(task, "id"),
                                                           .first = json_int_of(task, "first"),
                                                           .ownerid = json_int_of(task, "ownerid"),
                                                           .timespec = json_int_of(task, "until"),
                                                           .state = DROVER_TASK_CLAIMED};
}

int drover_client_group(struct drover_client *c, const char *group, struct drover_group *ret_group,
                        struct drover_error *ret_error)
{
    struct arena *a = mem_zalloc(sizeof *a);
    struct drover_group g = {.memory = a};
    const struct json *v;
    int err = ask_group(c, "GET", group, NO_BODY, a, &v, ret_error);
    if (err) {
        drover_group_release(&g);
        return err;
    }
    read_group(v, &g);
    *ret_group = g;
    return 0;
}

int drover_client_set_group(struct drover_client *c, const char *pattern,
                            const struct drover_settings *settings, struct drover_error *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    CLEANUP(buf_release) struct buf body = {0};
    const struct json *v;
    TRY(group_body_put_settings(&body, settings, ret_error));
    return ask_group(c, "PUT", pattern, buf_str(&body), &a, &v, ret_error);
}

int drover_client_unset_group(struct drover_client *c, const char *pattern,
                              struct drover_error *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct json *v;
    int err = ask_group(c, "DELETE", pattern, NO_BODY, &a, &v, ret_error);
    return err == DROVER_NO_TASK ? 0 : err ? err : 1;
}
