/* /v1/schedules. A schedule that adds nodes takes the role `run` beside `submit`. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "dag/service.h"
#include "schedule/schedules.h"
#include "server/audit.h"
#include "server/leader.h"

/* A list ends behind the schedule whose spec makes it this long; to read them takes time. */
enum { LIST_LEN_MAX = 256 * 1024 };

struct schedule_task_in {
    struct str group, data, key;
    int64_t priority;
};

struct schedule_in {
    struct str name, cron, timezone, after;
    int64_t every, limit;
    const struct schedule_task_in *task;
    const struct json *graph;
    int missed, overlap;
    bool paused;
};

/* Answers. */

static void put_members(struct buf *b, const struct json *spec, bool whole)
{
    json_each(m, spec) {
        if (!whole && str_eq(m->key, STR("graph")))
            continue;
        json_key_str(b, m->key);
        json_put_raw(b, m->raw);
    }
}

static void put_time(struct buf *b, const char *name, int64_t time_ms, int64_t none)
{
    json_key(b, name);
    if (time_ms == none)
        json_put_null(b);
    else
        json_put_int(b, time_ms);
}

static void put_times(struct buf *b, const struct schedule *s, int64_t now_ms)
{
    int64_t time_ms = s->state.paused ? schedule_after(s, now_ms) : s->state.next_ms;
    json_member_open(b, "times", '[');
    for (int i = 0; i < SCHEDULE_TIMES && time_ms != INT64_MAX; i++) {
        json_put_int(b, time_ms);
        time_ms = schedule_after(s, time_ms);
    }
    json_close(b, ']');
}

/* whole: with its nodes and the next times. */
static void put_schedule(struct buf *b, const struct schedule *s, bool whole, int64_t now_ms)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct schedule_state *state = &s->state;
    bool stands = state->paused || (!s->zone && !s->every_ms);
    json_open(b, '{');
    json_member_text(b, "name", str_of(s->name));
    put_members(b, json_parse(&a, str_of(s->spec), NULL), whole);
    json_member_bool(b, "paused", state->paused);
    put_time(b, "next", stands ? INT64_MAX : state->next_ms, INT64_MAX);
    put_time(b, "last", state->last_ms, 0);
    json_member_int(b, "runs", state->runs);
    if (state->task)
        json_member_int(b, "last_task", state->task);
    if (state->node_count) {
        json_member_int(b, "last_node", state->node);
        json_member_int(b, "last_nodes", state->node_count);
    }
    if (s->error)
        json_member_text(b, "error", str_of(s->error));
    if (whole)
        put_times(b, s, now_ms);
    json_close(b, '}');
}

void schedule_answer(struct http_request *r, const struct schedule *s, int64_t now_ms)
{
    CLEANUP(buf_release) struct buf b = {0};
    if (s->exists) {
        put_schedule(&b, s, true, now_ms);
    } else {
        json_open(&b, '{');
        json_member_text(&b, "name", str_of(s->name));
        json_close(&b, '}');
    }
    http_reply(r, 200, buf_str(&b));
}

void schedule_answer_err(struct schedules *all, struct http_request *r, int err,
                         const struct task_reply *reply_or_null)
{
    if (err == DROVER_NO_NODE)
        http_reply_error(r, 404, "there is no such schedule");
    else if (err == DROVER_NO_AUTH)
        http_forbid(r, ROLE_RUN);
    else if (err == DROVER_NOT_LEADER)
        leader_redirect(all->context->leader, r, "no server leads yet: try again");
    else if (reply_or_null && (err == DROVER_REFUSED || err == DROVER_GROUP_FULL))
        http_reply_reasons(r, err, reply_or_null->errors, reply_or_null->error_count);
    else
        http_reply_err(r, err, NULL);
}

/* Reading. */

static bool is_ready(struct http_request *r)
{
    const struct schedules *all = r->arg;
    if (!all->table)
        leader_redirect(all->context->leader, r, "no server leads yet: try again");
    return all->table;
}

/* NULL: it was answered. */
static struct schedule *named(struct http_request *r)
{
    const struct schedule_in *in = r->in;
    struct schedules *all = r->arg;
    if (!is_ready(r))
        return NULL;
    struct schedule *s = schedule_table_find(all->table, in->name);
    if (s && s->exists)
        return s;
    http_reply_error(r, 404, "there is no such schedule");
    return NULL;
}

static void get_one(struct http_request *r)
{
    struct schedule *s = named(r);
    if (s)
        schedule_answer(r, s, clock_wall_ms());
}

static void get_all(struct http_request *r)
{
    const struct schedule_in *in = r->in;
    struct schedules *all = r->arg;
    CLEANUP(buf_release) struct buf b = {0};
    if (!is_ready(r))
        return;
    const struct schedule_table *t = all->table;
    size_t i = in->after.p ? schedule_table_seek(t, in->after) : 0, len = 0;
    json_open(&b, '{');
    json_member_open(&b, "schedules", '[');
    for (int64_t shown = 0; i < t->count && shown < in->limit && len < LIST_LEN_MAX; i++) {
        if (!t->by_name[i]->exists)
            continue;
        put_schedule(&b, t->by_name[i], false, 0);
        len += strlen(t->by_name[i]->spec);
        shown++;
    }
    json_close(&b, ']');
    json_key(&b, "next");
    if (i < t->count)
        json_put_text(&b, str_of(t->by_name[i - 1]->name));
    else
        json_put_null(&b);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

/* Changing. */

/* Changes of a schedule that adds nodes, or may do so when their turn comes. False: answered. */
static bool audit_change(struct http_request *r, const struct schedule *s)
{
    struct schedules *all = r->arg;
    return !s || !(s->is_graph || s->busy) || !http_may_run(r) ||
           audit_begin(all->context->audit, r, NULL);
}

static void put_task(struct buf *b, const struct schedule_task_in *task)
{
    json_member_open(b, "task", '{');
    json_member_text(b, "group", task->group);
    json_member_text(b, "data", task->data.p ? task->data : STR(""));
    if (task->priority)
        json_member_int(b, "priority", task->priority);
    if (task->key.len)
        json_member_text(b, "key", task->key);
    json_close(b, '}');
}

/* The spec, with what was given. */
static void put_spec(struct buf *b, const struct schedule_in *in)
{
    static const char *const missed[] = {"one", "skip", "all"}, *const overlap[] = {"allow",
                                                                                    "skip"};
    json_open(b, '{');
    if (in->cron.p)
        json_member_text(b, "cron", in->cron);
    if (in->timezone.p)
        json_member_text(b, "timezone", in->timezone);
    if (in->every)
        json_member_int(b, "every", in->every);
    if (in->task)
        put_task(b, in->task);
    if (in->graph)
        json_member_raw(b, "graph", in->graph->raw);
    json_member_text(b, "missed", str_of(missed[in->missed]));
    json_member_text(b, "overlap", str_of(overlap[in->overlap]));
    json_close(b, '}');
}

/* Whether the nodes could be added now. */
static bool check_graph(struct http_request *r, const struct json *graph)
{
    struct schedules *all = r->arg;
    struct draft draft;
    struct err_info why;
    if (!all->dag->ready) {
        leader_redirect(all->context->leader, r, "the DAG is loading: try again");
        return false;
    }
    int err = dag_draft(all->dag, graph, &r->arena, &draft, &why);
    if (err) {
        http_reply_field(r, "graph", "graph: %s", why.text);
        return false;
    }
    bool empty = !draft.count, /* the nodes have no ids yet */
        audited = !empty && dag_audit_add(all->context->audit, r, graph, 0);
    draft_release(&draft);
    if (empty)
        http_reply_field(r, "graph", "graph: there is no node");
    return audited;
}

/* NULL: it was answered. */
static struct schedule *read_spec(struct http_request *r)
{
    const struct schedule_in *in = r->in;
    struct schedules *all = r->arg;
    CLEANUP(buf_release) struct buf text = {0};
    const char *field = NULL;
    struct err_info why;
    put_spec(&text, in);
    struct schedule *s = mem_zalloc(sizeof *s);
    const struct json *spec = json_parse(&r->arena, arena_take(&r->arena, &text), NULL);
    if (schedule_read(s, spec, schedule_table_zone, all->table, &field, &why)) {
        http_reply_field(r, field, "%s", why.text);
        schedule_free(s);
        return NULL;
    }
    return s;
}

static struct schedule *find_or_make(struct schedule_table *t, struct str name)
{
    struct schedule *s = schedule_table_find(t, name);
    if (s)
        return s;
    s = mem_zalloc(sizeof *s);
    s->name = mem_dup(name.p, name.len);
    schedule_table_add(t, s);
    return s;
}

static bool was_given(const struct http_request *r, const char *name)
{
    return json_get(r->json, name);
}

static void put_one(struct http_request *r)
{
    const struct schedule_in *in = r->in;
    struct schedules *all = r->arg;
    if (!is_ready(r))
        return;
    if (in->graph && !http_may_run(r)) {
        http_forbid(r, ROLE_RUN);
        return;
    }
    if (in->name.len && memchr(in->name.p, 0, in->name.len)) {
        http_reply_field(r, "name", "name: a name has no NUL");
        return;
    }
    struct schedule *fresh = read_spec(r);
    if (!fresh)
        return;
    if (in->graph ? !check_graph(r, in->graph)
                  : !audit_change(r, schedule_table_find(all->table, in->name))) {
        schedule_free(fresh);
        return;
    }
    if (all->table->count >= SCHEDULES_MAX) {
        schedule_free(fresh);
        http_reply_err(r, DROVER_TOO_MANY, "there are too many schedules");
        return;
    }
    struct schedule_op *op =
        schedule_op_new(all, SCHEDULE_PUT, find_or_make(all->table, in->name), r);
    op->fresh = fresh;
    op->set_paused = was_given(r, "paused") ? in->paused : -1;
    schedule_op_start(op);
}

static void change(struct http_request *r, enum schedule_op_kind kind)
{
    struct schedule *s = named(r);
    if (s && audit_change(r, s))
        schedule_op_start(schedule_op_new(r->arg, kind, s, r));
}

static void delete_one(struct http_request *r)
{
    change(r, SCHEDULE_DELETE);
}

static void post_run(struct http_request *r)
{
    change(r, SCHEDULE_RUN);
}

static void post_pause(struct http_request *r)
{
    change(r, SCHEDULE_PAUSE);
}

static void post_resume(struct http_request *r)
{
    change(r, SCHEDULE_RESUME);
}

#define NAME                                                                                       \
    FIELD_TEXT(IN_PATH, struct schedule_in, name, "name", 1, SCHEDULE_NAME_LEN_MAX, "The schedule")
#define NAMED ROUTE_IN(struct schedule_in, NAME)
#define NONE "404 No such schedule\n"
#define CHANGE_ERRORS "507\n" ROUTE_LEADER

static const struct route_field TASK_FIELDS[] = {
    FIELD_TEXT(IN_BODY | REQUIRED, struct schedule_task_in, group, "group", 1, TASK_GROUP_LEN_MAX,
               "Its group"),
    FIELD_TEXT(IN_BODY, struct schedule_task_in, data, "data", 0, INT64_MAX, "Its data"),
    FIELD_INT(IN_BODY, struct schedule_task_in, priority, "priority", -TASK_PRIORITY_MAX,
              TASK_PRIORITY_MAX, "Smaller goes first"),
    FIELD_TEXT(IN_BODY, struct schedule_task_in, key, "key", 1, TASK_KEY_LEN_MAX,
               "Unique in its group: while a task has it, no other is added"),
    {.name = {NULL, 0}},
};

static const struct route ROUTES[] = {
    {METHOD_GET, "/v1/schedules", get_all, ROLE_READ, "List the schedules, by name",
     "listSchedules", .reply = "schedules:[Schedule] next:text|null", .errors = ROUTE_LEADER,
     ROUTE_IN(struct schedule_in,
              FIELD_TEXT(IN_QUERY, struct schedule_in, after, "after", 1, SCHEDULE_NAME_LEN_MAX,
                         "Only names behind this one"),
              FIELD_INT(IN_QUERY, struct schedule_in, limit, "limit", 1, 1000,
                        "At most so many in one answer", .preset = 100))},
    {METHOD_GET, "/v1/schedules/{name}", get_one, ROLE_READ,
     "Show a schedule and its next five times", "getSchedule", .reply = "Schedule",
     .errors = NONE ROUTE_LEADER, NAMED},
    {METHOD_PUT, "/v1/schedules/{name}", put_one, ROLE_SUBMIT | ROUTE_LARGE,
     "Make a schedule, or replace what it does", "setSchedule", .reply = "Schedule",
     .errors = "413 The graph is too large\n" CHANGE_ERRORS,
     .example = "{\"cron\": \"0 9 * * mon-fri\", \"timezone\": \"Europe/Berlin\", \"task\": "
                "{\"group\": \"report\", \"data\": \"daily\"}}",
     ROUTE_IN(struct schedule_in, NAME,
              FIELD_TEXT(IN_BODY, struct schedule_in, cron, "cron", 1, CRON_LEN_MAX,
                         "When: five fields, or six with seconds, or a word such as @daily"),
              FIELD_TEXT(IN_BODY, struct schedule_in, timezone, "timezone", 1, TIME_ZONE_NAME_MAX,
                         "Of cron: such as Europe/Berlin; UTC unless given"),
              FIELD_INT(IN_BODY, struct schedule_in, every, "every", SCHEDULE_EVERY_MIN_MS,
                        TASK_MS_MAX, "Instead of cron: every so many ms"),
              FIELD_OBJECT(IN_BODY, struct schedule_in, task, "task", struct schedule_task_in,
                           TASK_FIELDS, "The task to add"),
              FIELD_JSON(IN_BODY, struct schedule_in, graph, "graph", "[object]",
                         "Instead of a task: nodes, as in POST /v1/nodes. This takes the role run"),
              FIELD_CHOICE(IN_BODY, struct schedule_in, missed, "missed", SCHEDULE_MISSED_WORDS,
                           "What to do with times at which no server ran"),
              FIELD_CHOICE(IN_BODY, struct schedule_in, overlap, "overlap", SCHEDULE_OVERLAP_WORDS,
                           "skip: add nothing while what was added last has not ended"),
              FIELD_BOOL(IN_BODY, struct schedule_in, paused, "paused",
                         "Whether it stands still; as before unless given"))},
    {METHOD_DELETE, "/v1/schedules/{name}", delete_one, ROLE_SUBMIT,
     "Delete a schedule; what it added stays", "deleteSchedule", .reply = "name:text",
     .errors = NONE CHANGE_ERRORS, NAMED},
    {METHOD_POST, "/v1/schedules/{name}/run", post_run, ROLE_SUBMIT,
     "Add the task or the nodes now; the times stay", "runSchedule", .reply = "Schedule",
     .errors = NONE "409 Refused, with the reason\n429 The group is full\n" CHANGE_ERRORS, NAMED},
    {METHOD_POST, "/v1/schedules/{name}/pause", post_pause, ROLE_SUBMIT,
     "Pause a schedule: its times do not come, and are not missed", "pauseSchedule",
     .reply = "Schedule", .errors = NONE CHANGE_ERRORS, NAMED},
    {METHOD_POST, "/v1/schedules/{name}/resume", post_resume, ROLE_SUBMIT,
     "Resume a schedule with its next time", "resumeSchedule", .reply = "Schedule",
     .errors = NONE CHANGE_ERRORS, NAMED},
};

static const struct route_shape SHAPES[] = {
    {"Schedule",
     "(name:text cron?:text timezone?:text every?:int task?:(group:text data:text priority?:int "
     "key?:text) graph?:[object] missed:text overlap:text paused:bool next:int|null last:int|null "
     "runs:int last_task?:int last_node?:int last_nodes?:int error?:text times?:[int])"},
};

struct route_table schedule_routes(void *module)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, module, "Schedules",
                                SHAPES, sizeof SHAPES / sizeof *SHAPES};
}
