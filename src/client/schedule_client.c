/* Schedules of a server: the calls of drover/schedule.h. */
#include <stdio.h>

#include "base/mem.h"
#include "base/result.h"
#include "client/task_client.h"

enum { PAGE = 1000 };

static const char *const MISSED[] = {"one", "skip", "all"}, *const OVERLAP[] = {"allow", "skip"};

/* Requests. */

static int put_text(struct buf *b, const char *name, const char *text, size_t len,
                    struct err_info *e)
{
    struct str given = result_text(text, len);
    if (!json_is_text(given))
        return err_set(e, DROVER_BAD_ARGUMENT, "%s is not UTF-8 text", name);
    if (given.len)
        json_member_text(b, name, given);
    return 0;
}

static int put_task(struct buf *b, const struct drover_task *t, struct err_info *e)
{
    if (t->bytes || t->share || t->expires || t->timespec || t->on_key)
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "the task of a schedule has a group, data, a priority and a key only");
    json_member_open(b, "task", '{');
    TRY(put_text(b, "group", t->group, t->group_len, e));
    TRY(put_text(b, "data", t->data, t->data_len, e));
    TRY(put_text(b, "key", t->key, t->key_len, e));
    if (t->priority)
        json_member_int(b, "priority", t->priority);
    json_close(b, '}');
    return 0;
}

static int put_graph(struct buf *b, const char *graph, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct err_info why;
    if (!json_parse(&a, str_of(graph), &why))
        return err_set(e, DROVER_BAD_ARGUMENT, "graph is not JSON: %.400s", why.text);
    json_member_raw(b, "graph", str_of(graph));
    return 0;
}

static int put_schedule(struct buf *b, const struct drover_schedule *s, struct err_info *e)
{
    if (s->missed < DROVER_MISSED_ONE || s->missed > DROVER_MISSED_ALL ||
        s->overlap < DROVER_OVERLAP_ALLOW || s->overlap > DROVER_OVERLAP_SKIP)
        return err_set(e, DROVER_BAD_ARGUMENT, "missed or overlap is none of its values");
    json_open(b, '{');
    TRY(put_text(b, "cron", s->cron, 0, e));
    TRY(put_text(b, "timezone", s->timezone, 0, e));
    if (s->every_ms)
        json_member_int(b, "every", s->every_ms);
    if (s->task)
        TRY(put_task(b, s->task, e));
    if (s->graph)
        TRY(put_graph(b, s->graph, e));
    json_member_text(b, "missed", str_of(MISSED[s->missed]));
    json_member_text(b, "overlap", str_of(OVERLAP[s->overlap]));
    if (s->paused)
        json_member_bool(b, "paused", s->paused > 0);
    json_close(b, '}');
    return 0;
}

/* Answers. */

static const char *text_of(const struct json *v, const char *name, struct arena *a)
{
    struct str text = json_text_of(v, name);
    return text.len ? arena_text(a, text) : NULL;
}

static unsigned word_of(const struct json *v, const char *name, const char *const *words,
                        unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (str_eq(json_text_of(v, name), str_of(words[i])))
            return i;
    return 0;
}

static const struct drover_task *read_task(const struct json *v, struct arena *a)
{
    if (!v)
        return NULL;
    struct drover_task *t = arena_zalloc(a, sizeof *t);
    struct str data = json_text_of(v, "data"), key = json_text_of(v, "key"),
               group = json_text_of(v, "group");
    t->group = arena_text(a, group);
    t->group_len = group.len;
    t->data = arena_text(a, data);
    t->data_len = data.len;
    t->key = key.len ? arena_text(a, key) : NULL;
    t->key_len = key.len;
    t->priority = json_int_of(v, "priority");
    return t;
}

static void read_times(const struct json *list, struct drover_schedule *s)
{
    json_each(time, list)
        if (time->kind == JSON_INT && s->time_count < DROVER_SCHEDULE_TIMES)
            s->times[s->time_count++] = time->number;
}

static struct drover_schedule read_schedule(const struct json *v, struct arena *a)
{
    const struct json *graph = json_get(v, "graph"), *paused = json_get(v, "paused");
    struct drover_schedule s = {
        .name = text_of(v, "name", a),
        .cron = text_of(v, "cron", a),
        .timezone = text_of(v, "timezone", a),
        .every_ms = json_int_of(v, "every"),
        .task = read_task(json_get(v, "task"), a),
        .graph = graph ? arena_text(a, graph->raw) : NULL,
        .missed = (enum drover_missed)word_of(v, "missed", MISSED, 3),
        .overlap = (enum drover_overlap)word_of(v, "overlap", OVERLAP, 2),
        .paused = paused && paused->kind == JSON_BOOL && paused->truth,
        .next_ms = json_int_of(v, "next"),
        .last_ms = json_int_of(v, "last"),
        .runs = json_int_of(v, "runs"),
        .last_task = json_int_of(v, "last_task"),
        .last_node = json_int_of(v, "last_node"),
        .last_nodes = json_int_of(v, "last_nodes"),
        .error = text_of(v, "error", a),
    };
    read_times(json_list(json_get(v, "times")), &s);
    return s;
}

/* Appends the schedules of a list, or one. */
static void add_schedules(struct drover_schedules *to, size_t *cap, const struct json *v)
{
    struct arena *a = to->memory;
    size_t more = v->kind == JSON_LIST ? v->count : 1;
    if (to->count + more > *cap) {
        *cap = to->count + more + *cap;
        struct drover_schedule *all = arena_alloc(a, *cap * sizeof *all);
        for (size_t i = 0; i < to->count; i++)
            all[i] = to->schedules[i];
        to->schedules = all;
    }
    if (v->kind != JSON_LIST)
        to->schedules[to->count++] = read_schedule(v, a);
    else
        json_each(one, v)
            to->schedules[to->count++] = read_schedule(one, a);
}

/* Calls. */

/* A request about one schedule: "/v1/schedules/NAME" and the verb. */
struct schedule_request {
    const char *method, *name, *verb;
    struct str body;
    bool once; /* it is not safe to repeat */
};

static int ask_one(struct drover_client *c, const struct schedule_request *q, struct arena *a,
                   const struct json **ret_json, struct err_info *e)
{
    CLEANUP(buf_release) struct buf path = {0};
    struct transport_answer answer;
    if (!q->name || !q->name[0] || !json_is_text(str_of(q->name)))
        return err_set(e, DROVER_BAD_ARGUMENT, "name is empty, or not UTF-8 text");
    buf_printf(&path, "/v1/schedules/");
    task_client_put_quoted(&path, q->name);
    buf_printf(&path, "%s", q->verb);
    if (q->once)
        TRY(task_client_call(c, q->method, buf_text(&path), q->body, 0, &answer, e));
    else
        TRY(task_client_insist(c, q->method, buf_text(&path), q->body, 0, &answer, e));
    int err = task_client_parse(&answer, a, ret_json, e);
    return err == DROVER_NO_TASK ? DROVER_NO_NODE : err;
}

static int call(struct drover_client *c, const struct schedule_request *q,
                struct drover_schedules *ret_schedules, struct err_info *e)
{
    struct arena *a = mem_zalloc(sizeof *a);
    struct drover_schedules all = {.memory = a};
    const struct json *v;
    size_t cap = 0;
    int err = ask_one(c, q, a, &v, e);
    if (!err)
        add_schedules(&all, &cap, v);
    if (err || !ret_schedules)
        drover_schedules_release(&all);
    else
        *ret_schedules = all;
    return err;
}

int drover_client_put_schedule(struct drover_client *c, const struct drover_schedule *s,
                               struct drover_schedules *ret_schedules,
                               struct drover_error *ret_error)
{
    CLEANUP(buf_release) struct buf body = {0};
    TRY(put_schedule(&body, s, ret_error));
    return call(c, &(struct schedule_request){"PUT", s->name, "", buf_str(&body), false},
                ret_schedules, ret_error);
}

int drover_client_get_schedule(struct drover_client *c, const char *name,
                               struct drover_schedules *ret_schedules,
                               struct drover_error *ret_error)
{
    int err = call(c, &(struct schedule_request){.method = "GET", .name = name, .verb = ""},
                   ret_schedules, ret_error);
    return err == DROVER_NO_NODE ? 0 : err ? err : 1;
}

int drover_client_delete_schedule(struct drover_client *c, const char *name,
                                  struct drover_error *ret_error)
{
    int err = call(c, &(struct schedule_request){.method = "DELETE", .name = name, .verb = ""},
                   NULL, ret_error);
    return err == DROVER_NO_NODE ? 0 : err ? err : 1;
}

int drover_client_pause_schedule(struct drover_client *c, const char *name,
                                 struct drover_schedules *ret_schedules,
                                 struct drover_error *ret_error)
{
    return call(c, &(struct schedule_request){.method = "POST", .name = name, .verb = "/pause"},
                ret_schedules, ret_error);
}

int drover_client_resume_schedule(struct drover_client *c, const char *name,
                                  struct drover_schedules *ret_schedules,
                                  struct drover_error *ret_error)
{
    return call(c, &(struct schedule_request){.method = "POST", .name = name, .verb = "/resume"},
                ret_schedules, ret_error);
}

int drover_client_run_schedule(struct drover_client *c, const char *name,
                               struct drover_schedules *ret_schedules,
                               struct drover_error *ret_error)
{
    const struct schedule_request q = {
        .method = "POST", .name = name, .verb = "/run", .once = true};
    return call(c, &q, ret_schedules, ret_error);
}

static int list_all(struct drover_client *c, const char *after, size_t limit,
                    struct drover_schedules *all, struct err_info *e)
{
    size_t cap = 0;
    do {
        CLEANUP(arena_release) struct arena a = {0};
        CLEANUP(buf_release) struct buf path = {0};
        const struct json *v;
        size_t left = limit ? limit - all->count : PAGE;
        buf_printf(&path, "/v1/schedules?limit=%zu", left < PAGE ? left : PAGE);
        task_client_put_query(&path, "after", after);
        TRY(task_client_ask(c, "GET", buf_text(&path), (struct str){0}, 0, &a, &v, e));
        add_schedules(all, &cap, json_list(json_get(v, "schedules")));
        after = all->next = text_of(v, "next", all->memory);
    } while (after && (!limit || all->count < limit));
    return (int)all->count;
}

int drover_client_list_schedules(struct drover_client *c, const char *after, size_t limit,
                                 struct drover_schedules *ret_schedules,
                                 struct drover_error *ret_error)
{
    if (after && !json_is_text(str_of(after)))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "after is not UTF-8 text");
    struct drover_schedules all = {.memory = mem_zalloc(sizeof(struct arena))};
    int count = list_all(c, after, limit, &all, ret_error);
    if (count < 0)
        drover_schedules_release(&all);
    else
        *ret_schedules = all;
    return count;
}
