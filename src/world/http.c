/*
 * Worlds over HTTP. Every handler runs on a thread of the pool. Reading and queueing use the
 * server's session, claims and their ends (http_claim.c) the client's own.
 */
#include "world/http.h"

#include <stdlib.h>

#include "base/mem.h"
#include "world/name.h"

enum {
    LIST_LIMIT_DEFAULT = 1000,
    LIST_LIMIT_MAX = 100000,
    WAIT_MAX_MS = 3600 * 1000,
};

/* Answers with a list that `put` writes, or an error. */
static void reply(struct http_request *r, int err, const struct err_info *e, struct buf *out)
{
    if (err)
        http_reply_err(r, err, e && e->text[0] ? e->text : NULL);
    else
        http_reply(r, 200, buf_str(out));
    buf_release(out);
}

/* Worlds. */

struct world_in {
    struct str world;
};

static void post_world(struct http_request *r)
{
    const struct world_in *in = r->in;
    struct world_module *m = r->arg;
    struct keeper *k = context_keeper(m->context);
    struct err_info e = {""};
    struct buf out = {0};
    int err = k ? world_init(k, in->world, &e) : DROVER_CLOSED;

    if (k)
        context_return(m->context, k);
    json_open(&out, '{');
    json_member_text(&out, "world", in->world);
    json_close(&out, '}');
    reply(r, err, &e, &out);
}

static void put_worlds(struct buf *out, const struct keeper_names *names)
{
    struct str prefix = STR("zoott_");

    json_open(out, '{');
    json_member_open(out, "worlds", '[');
    for (size_t i = 0; i < names->count; i++) {
        struct str name = str_of(names->names[i]);
        struct str world = {name.p + prefix.len, name.len - prefix.len};

        if (str_starts(name, prefix) && !world_check_world(world, NULL))
            json_put_text(out, world);
    }
    json_close(out, ']');
    json_close(out, '}');
}

static void get_worlds(struct http_request *r)
{
    struct world_module *m = r->arg;
    struct keeper *k = context_keeper(m->context);
    struct keeper_names names = {0};
    struct buf out = {0};
    int err = k ? keeper_children(k, "/", &names, NULL) : DROVER_CLOSED;

    if (k)
        context_return(m->context, k);
    put_worlds(&out, &names);
    keeper_names_release(&names);
    reply(r, err, NULL, &out);
}

/* Queueing. */

struct world_task_in {
    struct str name, type;
    const struct json *data;
};

struct world_queue_in {
    struct str world, child_name;
    const struct world_task_in *task;
    const struct world_parent *parent;
};

/* The name function over HTTP: a template in which {parent} and {child} stand for the names. */
static struct str fill_template(void *arg, struct arena *a, struct str parent, struct str child)
{
    const struct str *template = arg;
    struct buf b = {0};
    struct str rest = *template;

    while (rest.len) {
        struct str parent_word = STR("{parent}"), child_word = STR("{child}");
        struct str word = {rest.p, 1}, text = {rest.p, 1};

        if (str_starts(rest, parent_word))
            word = parent_word, text = parent;
        else if (str_starts(rest, child_word))
            word = child_word, text = child;
        buf_put_str(&b, text);
        rest = (struct str){rest.p + word.len, rest.len - word.len};
    }
    return arena_take(a, &b);
}

static void put_queued(struct world_call *c, const struct world_paths *paths)
{
    const char *root = world_root(c->world);

    json_open(&c->out, '{');
    json_member_open(&c->out, "paths", '[');
    for (size_t i = 0; i < paths->count; i++)
        json_put_text(&c->out, str_of(paths->list[i]));
    json_close(&c->out, ']');
    json_member_open(&c->out, "nodes", '[');
    for (size_t i = 0; i < paths->count; i++)
        json_put_text(&c->out, str_of(world_key(&c->r->arena, root, str_of(paths->list[i]))));
    json_close(&c->out, ']');
    json_close(&c->out, '}');
}

static void post_task(struct http_request *r)
{
    const struct world_queue_in *in = r->in;
    struct str template = in->child_name;
    struct world_task task = {in->task->name, in->task->type,
                              in->task->data ? in->task->data->raw : STR("null")};
    struct world_paths paths;
    struct world_call c;
    int err;

    if (template.p && !in->parent) {
        http_reply_field(r, "child_name", "child_name goes with parent");
        return;
    }
    if (!world_call_begin(&c, r, in->world, (struct str){0}))
        return;
    err = world_queue(c.world, c.k, &r->arena, &task, in->parent, template.p ? fill_template : NULL,
                      &template, &paths, &c.e);
    if (!err)
        put_queued(&c, &paths);
    world_call_answer(&c, err);
}

/* Reading. */

struct world_list_in {
    struct str world, after, path;
    int64_t limit;
    int state;
};

static void put_item(struct buf *b, const struct world_item *i)
{
    json_member_text(b, "node", i->key);
    world_put_record(b, &i->record);
    json_member_text(b, "state", str_of(world_state_name(i->state)));
    if (i->since_ms)
        json_member_int(b, "since", i->since_ms);
}

static void get_tasks(struct http_request *r)
{
    const struct world_list_in *in = r->in;
    struct world_items items = {0};
    struct world_call c;

    if (!world_call_begin(&c, r, in->world, (struct str){0}))
        return;
    int err = world_list(c.world, c.k, &r->arena, (enum world_state)in->state,
                         in->after.p ? in->after : STR(""), (size_t)in->limit, &items);
    json_open(&c.out, '{');
    json_member_open(&c.out, "tasks", '[');
    for (size_t i = 0; i < items.count; i++) {
        json_open(&c.out, '{');
        put_item(&c.out, &items.list[i]);
        json_close(&c.out, '}');
    }
    json_close(&c.out, ']');
    json_member_text(&c.out, "next",
                     items.more ? items.list[items.count - 1].key : (struct str){0});
    json_close(&c.out, '}');
    world_call_answer(&c, err);
}

/* The path of a task comes as a|b, a/b, or as in the tree. */
static struct str key_of(struct world_call *c, struct str path)
{
    struct str root = str_of(world_root(c->world));

    if (str_starts(path, root) && path.len > root.len && path.p[root.len] == '/')
        path = (struct str){path.p + root.len + 1, path.len - root.len - 1};
    char *key = arena_text(&c->r->arena, path);
    for (char *at = key; *at; at++)
        if (*at == '/')
            *at = '|';
    return str_of(key);
}

static void get_task(struct http_request *r)
{
    const struct world_list_in *in = r->in;
    struct world_item item;
    struct world_call c;
    struct str data;

    if (!world_call_begin(&c, r, in->world, (struct str){0}))
        return;
    int err = world_get(c.world, c.k, &r->arena, key_of(&c, in->path), &item, &data, &c.e);
    if (!err) {
        json_open(&c.out, '{');
        put_item(&c.out, &item);
        world_put_data(&c, data);
        json_close(&c.out, '}');
    }
    world_call_answer(&c, err);
}

static void delete_task(struct http_request *r)
{
    const struct world_list_in *in = r->in;
    struct world_call c;

    if (!world_call_begin(&c, r, in->world, (struct str){0}))
        return;
    int err = world_remove(c.world, c.k, key_of(&c, in->path), INT64_MAX, &c.e);
    if (!err)
        buf_put_str(&c.out, STR("{}"));
    world_call_answer(&c, err);
}

/* The tree as nested lists: a level opens with its first child and closes after the last. */
struct tree_writer {
    struct buf *out;
    int depth; /* of the last task written, -1: none yet */
};

static void close_to(struct tree_writer *t, int depth)
{
    for (; t->depth >= depth; t->depth--) {
        json_close(t->out, ']');
        json_close(t->out, '}');
    }
}

static int write_task(void *arg, struct str key, int depth, enum world_state state)
{
    struct tree_writer *t = arg;

    close_to(t, depth);
    json_open(t->out, '{');
    json_member_text(t->out, "node", key);
    json_member_text(t->out, "state", str_of(world_state_name(state)));
    json_member_open(t->out, "tasks", '[');
    t->depth = depth;
    return 0;
}

static void get_tree(struct http_request *r)
{
    const struct world_list_in *in = r->in;
    struct world_call c;

    if (!world_call_begin(&c, r, in->world, (struct str){0}))
        return;
    struct tree_writer t = {&c.out, -1};
    json_open(&c.out, '{');
    json_member_text(&c.out, "root", str_of(world_root(c.world)));
    json_member_open(&c.out, "tasks", '[');
    int err = world_walk(c.world, c.k, write_task, &t);
    close_to(&t, 0);
    json_close(&c.out, ']');
    json_close(&c.out, '}');
    world_call_answer(&c, err);
}

/* Routes. */

/* clang-format off */
#define WORLD_FIELD(T) FIELD_TEXT(IN_PATH, T, world, "world", 1, INT64_MAX, "Name of the world")
#define PATH_FIELD                                                                                 \
    FIELD_TEXT(IN_PATH, struct world_list_in, path, "path", 1, INT64_MAX,                          \
               "Key of the task (a_t|b_t), with / or |, or its path in the tree")
#define SESSION_FIELD(T)                                                                           \
    FIELD_TEXT(IN_BODY | REQUIRED, T, session, "session", 0, INT64_MAX, "The session that claims")
#define END_FIELDS                                                                                 \
    WORLD_FIELD(struct world_end_in), SESSION_FIELD(struct world_end_in),                          \
    FIELD_TEXT(IN_BODY | REQUIRED, struct world_end_in, node, "node", 0, INT64_MAX,                \
               "Key of the task")
#define NO_WORLD "404 No such world\n503"
#define NO_TASK "404 No such world or task\n503"
#define CLAIM_ERRORS                                                                               \
    "404 No such world, or nobody works on the task\n409 Another session works on it\n"            \
    "410 The session has ended\n503"
#define END_REPLY "node:text state:=pending|completed"

static const struct route_field TASK_FIELDS[] = {
    FIELD_TEXT(IN_BODY | REQUIRED, struct world_task_in, name, "name", 0, INT64_MAX, "Name"),
    FIELD_TEXT(IN_BODY | REQUIRED, struct world_task_in, type, "type", 0, INT64_MAX, "Type"),
    FIELD_JSON(IN_BODY, struct world_task_in, data, "data", "any", "Data; null by default"),
    {.name = {NULL, 0}},
};

static const struct route_field PARENT_FIELDS[] = {
    FIELD_TEXT(IN_BODY | REQUIRED, struct world_parent, name, "name", 0, INT64_MAX,
               "Regular expression for the whole name"),
    FIELD_TEXT(IN_BODY | REQUIRED, struct world_parent, type, "type", 0, INT64_MAX,
               "Regular expression for the whole type"),
    {.name = {NULL, 0}},
};

static const struct route_shape SHAPES[] = {
    {"WorldTask", "(node:text name:text type:text path:text parent:text|null failures?:int "
                  "error?:text state:=pending|working|completed|none since?:int data?:any)"},
    {"WorldClaim", "(name:text type:text path:text parent:text|null failures?:int error?:text "
                   "data:any)"},
    {"WorldNode", "(node:text state:=pending|working|completed|none tasks:[WorldNode])"},
};

static const struct route ROUTES[] = {
    {METHOD_GET, "/v1/worlds", get_worlds, ROUTE_WORKER, "List the worlds", "listWorlds",
     .reply = "worlds:[text]", .errors = "503"},
    {METHOD_POST, "/v1/worlds", post_world, ROUTE_WORKER, "Create a world", "createWorld",
     .reply = "world:text", .errors = "503", .example = "{\"world\": \"build\"}",
     ROUTE_IN(struct world_in, FIELD_TEXT(IN_BODY | REQUIRED, struct world_in, world, "world", 0,
                                          INT64_MAX, "Name of the world"))},
    {METHOD_POST, "/v1/worlds/{world}/tasks", post_task, ROUTE_WORKER,
     "Queue a task, below all tasks that match its parent", "queueWorldTask",
     .reply = "paths:[text] nodes:[text]",
     .errors = "404 No such world, or no task matches the parent\n"
               "409 Another task has the name\n503",
     .example = "{\"task\": {\"name\": \"kernel\", \"type\": \"compile\", \"data\": {\"j\": 8}}}",
     ROUTE_IN(struct world_queue_in, WORLD_FIELD(struct world_queue_in),
              FIELD_OBJECT(IN_BODY | REQUIRED, struct world_queue_in, task, "task",
                           struct world_task_in, TASK_FIELDS, "The task"),
              FIELD_OBJECT(IN_BODY, struct world_queue_in, parent, "parent", struct world_parent,
                           PARENT_FIELDS, "Its parents; none: at the top"),
              FIELD_TEXT(IN_BODY, struct world_queue_in, child_name, "child_name", 0, INT64_MAX,
                         "Names the task below each parent: {parent} and {child} are replaced"))},
    {METHOD_GET, "/v1/worlds/{world}/tasks", get_tasks, ROUTE_WORKER,
     "List the tasks in a state", "listWorldTasks",
     .reply = "tasks:[WorldTask] next:text|null", .errors = NO_WORLD,
     ROUTE_IN(struct world_list_in, WORLD_FIELD(struct world_list_in),
              FIELD_CHOICE(IN_QUERY, struct world_list_in, state, "state",
                           "pending|working|completed", "The state"),
              FIELD_TEXT(IN_QUERY, struct world_list_in, after, "after", 0, INT64_MAX,
                         "Start after this key"),
              FIELD_INT(IN_QUERY, struct world_list_in, limit, "limit", 1, LIST_LIMIT_MAX,
                        "At most so many", .preset = LIST_LIMIT_DEFAULT))},
    {METHOD_GET, "/v1/worlds/{world}/tasks/{path...}", get_task, ROUTE_WORKER,
     "Show a task with its data", "getWorldTask", .reply = "WorldTask", .errors = NO_TASK,
     ROUTE_IN(struct world_list_in, WORLD_FIELD(struct world_list_in), PATH_FIELD)},
    {METHOD_DELETE, "/v1/worlds/{world}/tasks/{path...}", delete_task, ROUTE_WORKER,
     "Remove a task that has no children and is not being worked on", "removeWorldTask",
     .reply = "()",
     .errors = "404 No such world or task\n409 It has children, or is worked on\n503",
     ROUTE_IN(struct world_list_in, WORLD_FIELD(struct world_list_in), PATH_FIELD)},
    {METHOD_GET, "/v1/worlds/{world}/tree", get_tree, ROUTE_WORKER, "Show the whole tree",
     "getWorldTree", .reply = "root:text tasks:[WorldNode]", .errors = NO_WORLD,
     ROUTE_IN(struct world_list_in, WORLD_FIELD(struct world_list_in))},
    {METHOD_POST, "/v1/worlds/{world}/claim", world_post_claim, ROUTE_WORKER,
     "Claim the oldest task of a type that nothing blocks", "claimWorldTask",
     .reply = "node:text|null task?:WorldClaim",
     .errors = "404 No such world\n410 The session has ended\n503",
     .example = "{\"types\": [\"compile\"], \"session\": \"ID\", \"wait\": 30000}",
     ROUTE_IN(struct world_claim_in, WORLD_FIELD(struct world_claim_in),
              SESSION_FIELD(struct world_claim_in),
              FIELD_TEXTS(IN_BODY | REQUIRED, struct world_claim_in, types, type_count, "types", 1,
                          WORLD_TYPES_MAX, "Types that the handler supports"),
              FIELD_INT(IN_BODY, struct world_claim_in, wait_ms, "wait", 0, WAIT_MAX_MS,
                        "Wait so many milliseconds for a task"))},
    {METHOD_POST, "/v1/worlds/{world}/complete", world_post_complete, ROUTE_WORKER,
     "Complete a claimed task", "completeWorldTask", .reply = END_REPLY, .errors = CLAIM_ERRORS,
     .example = "{\"node\": \"kernel_compile\", \"session\": \"ID\"}",
     ROUTE_IN(struct world_end_in, END_FIELDS)},
    {METHOD_POST, "/v1/worlds/{world}/release", world_post_release, ROUTE_WORKER,
     "Release a claimed task for others", "releaseWorldTask", .reply = END_REPLY,
     .errors = CLAIM_ERRORS, .example = "{\"node\": \"kernel_compile\", \"session\": \"ID\"}",
     ROUTE_IN(struct world_end_in, END_FIELDS)},
    {METHOD_POST, "/v1/worlds/{world}/fail", world_post_fail, ROUTE_WORKER,
     "Report a failure; the task stays pending, behind the others", "failWorldTask",
     .reply = END_REPLY, .errors = CLAIM_ERRORS,
     .example = "{\"node\": \"kernel_compile\", \"session\": \"ID\", \"error\": \"disk full\"}",
     ROUTE_IN(struct world_end_in, END_FIELDS,
              FIELD_TEXT(IN_BODY, struct world_end_in, error, "error", 0, INT64_MAX,
                         "What went wrong"))},
};
/* clang-format on */

/* The module. */

static int64_t retention_ms; /* 0: completed tasks are kept */

static const struct option OPTIONS[] = {
    {"world-retention", "TIME",
     "Remove tasks of worlds this long after they were completed. Default: never.", option_span,
     &retention_ms, 1, INT64_MAX},
};

static int module_open(struct context *h, void **ret_module, struct err_info *ret_error)
{
    struct world_module *w = mem_zalloc(sizeof *w);

    (void)ret_error;
    w->context = h;
    w->registry = world_registry_new(h);
    if (retention_ms)
        w->sweep = world_sweep_start(h, w->registry, retention_ms);
    *ret_module = w;
    return 0;
}

static struct route_table module_routes(void *module)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, module, "Worlds",
                                SHAPES, sizeof SHAPES / sizeof *SHAPES};
}

static void module_close(void *module)
{
    struct world_module *w = module;

    if (w->sweep)
        world_sweep_free(w->sweep);
    world_registry_free(w->registry);
    free(w);
}

const struct module world_module = {.name = "worlds",
                                    .open = module_open,
                                    .routes = module_routes,
                                    .close = module_close,
                                    .options = OPTIONS,
                                    .option_count = sizeof OPTIONS / sizeof *OPTIONS};
