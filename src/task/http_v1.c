#include "task/http_v1.h"

#include <stdlib.h>

#include "base/mem.h"
#include "server/ground.h"
#include "server/leader.h"
#include "task/body.h"
#include "task/settings_json.h"

static void call_release(struct v1_call *c)
{
    struct http_memory memory = c->memory;
    buf_release(&c->out);
    http_memory_release(&memory);
}

static void on_gone(struct http_request *r)
{
    struct v1_call *c = r->handler_data;
    if (!c->submitted) {
        buf_release(&c->out);
        return;
    }
    http_take_memory(r, &c->memory);
    c->arena = &c->memory.arena;
    c->r = NULL;
}

struct v1_call *v1_begin(struct http_request *r)
{
    struct v1_call *c = arena_alloc(&r->arena, sizeof *c);
    *c = (struct v1_call){.v1 = r->arg, .r = r, .arena = &r->arena, .who = r->who, .in = r->in};
    r->handler_data = c;
    r->gone = on_gone;
    return c;
}

void v1_finish(struct v1_call *c, const struct task_reply *reply)
{
    CLEANUP(buf_release) struct buf out = c->out; /* c is freed with the answer */
    int err = reply->err ? reply->err : c->err;
    if (err == DROVER_REFUSED)
        http_reply_reasons(c->r, err, reply->errors, reply->error_count);
    else if (err == DROVER_NOT_LEADER)
        leader_redirect(c->v1->context->leader, c->r, "no server leads yet: try again");
    else if (err == DROVER_NO_TASK && out.len)
        http_reply_err(c->r, err, buf_text(&out));
    else if (err)
        http_reply_err(c->r, err, NULL);
    else
        http_reply(c->r, 200, buf_str(&out));
}

static void on_done(void *arg, const struct task_reply *reply)
{
    struct v1_call *c = arg;
    c->submitted = false;
    if (c->r)
        (c->finish ? c->finish : v1_finish)(c, reply);
    else
        call_release(c);
}

void v1_submit(struct v1_call *c)
{
    c->submitted = true;
    c->request.done = on_done;
    c->request.arg = c;
    service_submit(c->v1->service, &c->request);
}

void v1_read(struct v1_call *c, void (*read)(void *arg, struct store *s, int64_t now_ms))
{
    c->request.kind = TASK_READ;
    c->request.read = read;
    v1_submit(c);
}

bool v1_reaches(const struct v1_call *c, struct str group)
{
    return !c->who || identity_reaches(c->who, SCOPE_GROUP, group);
}

int v1_get(struct v1_call *c, struct store *s, int64_t id, struct task *ret_task)
{
    int err = store_get(s, id, c->arena, ret_task);
    if (!err && !v1_reaches(c, ret_task->group))
        err = DROVER_NO_TASK;
    if (err == DROVER_NO_TASK)
        store_put_missing(s, id, c->who, &c->out);
    return err;
}

#define CHANGE_ERRORS "507\n" ROUTE_LEADER
#define PACE "oldest:int per_minute?:(added:int claimed:int finished:int failed:int dead:int)"
#define GROUP_PATTERN                                                                              \
    FIELD_TEXT(IN_PATH | NAMES_GROUP, struct v1_group_in, group, "group", 1, TASK_GROUP_LEN_MAX,   \
               "The group, or a prefix and *")

static const struct route ROUTES[] = {
    {METHOD_GET, "/v1/tasks", v1_find_tasks, ROLE_READ | ROUTE_LIMITS, "Find tasks", "findTasks",
     .reply = "tasks:[Task] next:text|null", .errors = ROUTE_LEADER,
     ROUTE_IN(
         struct v1_find_in,
         FIELD_TEXT(IN_QUERY, struct v1_find_in, filter.group, "group", 1, INT64_MAX,
                    "Of this group"),
         FIELD_TEXTS(IN_QUERY, struct v1_find_in, filter.states, filter.state_count, "state", 0,
                     TASK_STATES, "In one of these states, comma-separated"),
         FIELD_TEXT(IN_QUERY, struct v1_find_in, filter.text, "text", 1, INT64_MAX,
                    "With this in its data"),
         FIELD_TEXT(IN_QUERY, struct v1_find_in, filter.key, "key", 1, INT64_MAX, "With this key"),
         FIELD_TEXT(IN_QUERY, struct v1_find_in, filter.error, "error", 1, INT64_MAX,
                    "With this in its last error"),
         FIELD_TEXT(IN_QUERY, struct v1_find_in, filter.origin, "origin", 1, INT64_MAX,
                    "Dead tasks of this group"),
         FIELD_BOOL(IN_QUERY, struct v1_find_in, filter.internal, "internal",
                    "Also messages of queues and tasks of nodes"),
         FIELD_TEXT(IN_QUERY, struct v1_find_in, after, "after", 1, 64,
                    "Go on where an answer with this `next` ended"),
         FIELD_INT(IN_QUERY, struct v1_find_in, limit, "limit", 1, TASK_IDS_MAX,
                   "At most so many in one answer", .preset = 100))},
    {METHOD_GET, "/v1/tasks/{id}", v1_get_task, ROLE_READ | ROUTE_LIMITS,
     "Show a task with its state", "showTask", .reply = "Task",
     .errors = "404 No such task\n" ROUTE_LEADER,
     ROUTE_IN(struct v1_task_in, FIELD_ID(IN_PATH, struct v1_task_in, id, "id", "The task"))},
    {METHOD_GET, "/v1/tasks/{id}/wait", v1_wait, ROLE_READ | ROUTE_LIMITS,
     "Wait until a task has ended, and get its result or its error", "waitForTask",
     .reply = "id:int first:int state:text result?:text error?:text group?:text",
     .errors = "404 No such task\n" ROUTE_LEADER,
     ROUTE_IN(struct v1_task_in, FIELD_ID(IN_PATH, struct v1_task_in, id, "id", "The task"),
              FIELD_INT(IN_QUERY, struct v1_task_in, timeout, "timeout", 0, INT64_MAX,
                        "How long to wait at most, in ms; then the answer has its present state",
                        .preset = 60000))},
    {METHOD_POST, "/v1/tasks/bulk", v1_bulk, ROLE_WORK | ROUTE_LIMITS,
     "Act on many tasks, a bounded number at a time", "changeManyTasks",
     .reply = "matched:int changed:int examples:[Task] next:text|null", .errors = CHANGE_ERRORS,
     .example = "{\"filter\": {\"group\": \"mail/dead\"}, \"action\": \"retry\"}",
     ROUTE_IN(
         struct v1_bulk_in,
         FIELD_OBJECT(IN_BODY, struct v1_bulk_in, filter, "filter", struct v1_filter_in,
                      V1_FILTER_FIELDS, "Which tasks"),
         FIELD_BOOL(IN_BODY, struct v1_bulk_in, all, "all", "Needed if the filter is empty"),
         FIELD_CHOICE(IN_BODY | REQUIRED, struct v1_bulk_in, action, "action",
                      "delete|retry|move|release|priority", "What to do"),
         FIELD_TEXT(IN_BODY, struct v1_bulk_in, group, "group", 1, TASK_GROUP_LEN_MAX,
                    "Of move: where to"),
         FIELD_INT(IN_BODY, struct v1_bulk_in, priority, "priority", -TASK_PRIORITY_MAX,
                   TASK_PRIORITY_MAX, "Of priority: the new one"),
         FIELD_BOOL(IN_BODY, struct v1_bulk_in, dry_run, "dry_run", "Change nothing, only count"),
         FIELD_TEXT(IN_BODY, struct v1_bulk_in, after, "after", 1, 64,
                    "Go on where an answer with this `next` ended"),
         FIELD_INT(IN_BODY, struct v1_bulk_in, limit, "limit", 1, 1000,
                   "At most so many in one request", .preset = 1000),
         FIELD_INT(IN_BODY, struct v1_bulk_in, clientid, "clientid", TASK_CLIENT_MIN, INT64_MAX,
                   "The client's own id"))},
    {METHOD_GET, "/v1/groups", v1_list_groups, ROLE_READ | ROUTE_LIMITS,
     "List the groups, by name, with their tasks by state", "listGroupCounts",
     .reply = "groups:[GroupCounts] next:text|null", .errors = ROUTE_LEADER,
     ROUTE_IN(struct v1_group_in,
              FIELD_TEXT(IN_QUERY, struct v1_group_in, after, "after", 1, INT64_MAX,
                         "Only names behind this one"),
              FIELD_INT(IN_QUERY, struct v1_group_in, limit, "limit", 1, TASK_IDS_MAX,
                        "At most so many in one answer", .preset = 1000),
              FIELD_BOOL(IN_QUERY, struct v1_group_in, internal, "internal",
                         "Also groups of messages of queues and of nodes"))},
    {METHOD_GET, "/v1/groups/{group}", v1_get_group, ROLE_READ,
     "Show the settings of a group, its tasks by state, and who has those that are claimed",
     "getGroup",
     .reply = "group:text pattern:text|null settings:Settings counts:Counts " PACE " "
              "claimed:[(id:int first:int ownerid:int until:int)]",
     .errors = ROUTE_LEADER, ROUTE_IN(struct v1_group_in, GROUP_PATTERN)},
    {METHOD_PUT, "/v1/groups/{group}", v1_put_group, ROLE_ADMIN,
     "Change settings of a group; what is not given stays as it is", "setGroup",
     .reply = "group:text settings:Settings", .errors = CHANGE_ERRORS,
     .example = "{\"limit\": 5, \"rate\": {\"count\": 10, \"per\": 1000}}",
     ROUTE_IN(
         struct v1_group_in, GROUP_PATTERN,
         FIELD_JSON(IN_BODY, struct v1_group_in, settings, "", SETTINGS_SHAPE, "The settings"))},
    {METHOD_DELETE, "/v1/groups/{group}", v1_delete_group, ROLE_ADMIN,
     "Remove the settings of a group; its tasks stay", "unsetGroup", .reply = "group:text",
     .errors = "404 There are no settings of this name\n" CHANGE_ERRORS,
     ROUTE_IN(struct v1_group_in, GROUP_PATTERN)},
};

#define COUNTS "available:int delayed:int retrying:int claimed:int dead:int done:int"

/* Task is a shape of http.c. */
static const struct route_shape SHAPES[] = {
    {"Settings", SETTINGS_SHAPE},
    {"Counts", "(" COUNTS ")"},
    {"GroupCounts", "(group:text " COUNTS " " PACE ")"},
};

static struct route_table routes(void *module)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, module, "Tasks",
                                SHAPES, sizeof SHAPES / sizeof *SHAPES};
}

static int module_open(struct context *context, void **ret_module, struct err_info *ret_error)
{
    struct task_v1 *v = mem_zalloc(sizeof *v);
    (void)ret_error;
    v->context = context;
    v->service = context->tasks;
    events_know(context->events, &TASK_EVENT_WORDS);
    service_watch(v->service, v1_on_event, v);
    ground_own(context, SETTINGS_ROOT);
    *ret_module = v;
    return 0;
}

static void module_close(void *module)
{
    struct task_v1 *v = module;
    service_watch(v->service, NULL, NULL);
    v1_release_outcomes(v);
    free(v);
}

const struct module task_v1_module = {
    .name = "groups",
    .open = module_open,
    .routes = routes,
    .close = module_close,
};
