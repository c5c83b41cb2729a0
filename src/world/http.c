/*
 * Worlds over HTTP. Every handler runs on a worker and is straight-line code: read what came, do it
 * with the world and a keeper, answer. Looking and queueing use the server's session, claims and
 * their ends (http_claim.c) the client's own.
 */
#include "world/http.h"

#include <stdlib.h>

#include "base/mem.h"
#include "world/http_call.h"
#include "world/name.h"

enum {
    LIST_LIMIT_DEFAULT = 1000,
    LIST_LIMIT_MAX = 100000,
};

/* Worlds. */

static void post_world(struct http_request *r)
{
    static const char *const members[] = {"world", NULL};
    struct world_module *worlds = r->arg;
    const struct json *body = world_body(r, members);
    struct str name = {0};
    struct err_info e = {""};
    struct buf out = {0};
    struct keeper *k;
    int err;

    if (!body)
        return;
    err = json_get_text(body, "world", &name, &e);
    if (err == 0)
        err_set(&e, 0, "world is missing");
    if (err <= 0) {
        http_reply_error(r, 400, e.text);
        return;
    }
    k = context_keeper(worlds->context);
    if (!k) {
        http_reply_err(r, DROVER_CLOSED, "the keeper is unreachable: try again");
        return;
    }
    err = world_init(k, name, &e);
    context_return(worlds->context, k);
    if (err) {
        world_refuse(r, err, &e);
        return;
    }
    json_open(&out, '{');
    world_put_text(&out, "world", name);
    json_close(&out, '}');
    http_reply(r, 200, (struct str){out.p, out.len});
    buf_release(&out);
}

static void put_worlds(struct buf *out, const struct keeper_names *names)
{
    struct str prefix = STR("zoott_");

    json_open(out, '{');
    json_key(out, "worlds");
    json_open(out, '[');
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
    struct world_module *worlds = r->arg;
    struct keeper *k = context_keeper(worlds->context);
    struct keeper_names names = {0};
    struct buf out = {0};
    int err = k ? keeper_children(k, "/", &names, NULL) : DROVER_CLOSED;

    if (k)
        context_return(worlds->context, k);
    if (err) {
        http_reply_err(r, err, NULL);
        return;
    }
    put_worlds(&out, &names);
    http_reply(r, 200, (struct str){out.p, out.len});
    buf_release(&out);
    keeper_names_release(&names);
}

/* Queueing. */

/* The name function over HTTP: a template in which {parent} and {child} stand for the names. */
static struct str fill_template(void *arg, struct arena *a, struct str parent, struct str child)
{
    const struct str *template = arg;
    struct buf b = {0};
    struct str rest = *template, filled;

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
    filled = (struct str){arena_text(a, (struct str){b.p ? b.p : "", b.len}), b.len};
    buf_release(&b);
    return filled;
}

struct world_queue_request {
    struct world_task task;
    struct world_parent parent;
    bool has_parent;
    struct str child_name;
};

static int read_queue_request(const struct json *body, struct world_queue_request *q,
                              struct err_info *e)
{
    static const char *const task_members[] = {"name", "type", "data", NULL};
    static const char *const parent_members[] = {"name", "type", NULL};
    const struct json *task = NULL, *parent = NULL, *data;
    int err = json_get_object(body, "task", &task, e);

    if (err == 0)
        return err_set(e, DROVER_BAD_ARGUMENT, "task is missing");
    if (err < 0 || (err = json_only(task, task_members, e)) ||
        (err = world_read_text(task, "name", &q->task.name, e)) ||
        (err = world_read_text(task, "type", &q->task.type, e)))
        return err;
    data = json_get(task, "data");
    q->task.data = data ? data->raw : STR("null");
    err = json_get_object(body, "parent", &parent, e);
    q->has_parent = err == 1;
    if (err < 0 || (q->has_parent && ((err = json_only(parent, parent_members, e)) ||
                                      (err = world_read_text(parent, "name", &q->parent.name, e)) ||
                                      (err = world_read_text(parent, "type", &q->parent.type, e)))))
        return err;
    err = json_get_text(body, "child_name", &q->child_name, e);
    if (err == 1 && !q->has_parent)
        return err_set(e, DROVER_BAD_ARGUMENT, "child_name goes with parent");
    return err < 0 ? err : 0;
}

static void put_queued(struct world_call *c, const struct world_paths *paths)
{
    const char *root = world_root(c->world);

    json_open(&c->out, '{');
    json_key(&c->out, "paths");
    json_open(&c->out, '[');
    for (size_t i = 0; i < paths->count; i++)
        json_put_text(&c->out, str_of(paths->list[i]));
    json_close(&c->out, ']');
    json_key(&c->out, "nodes");
    json_open(&c->out, '[');
    for (size_t i = 0; i < paths->count; i++)
        json_put_text(&c->out, str_of(world_key(&c->r->arena, root, str_of(paths->list[i]))));
    json_close(&c->out, ']');
    json_close(&c->out, '}');
}

static void post_task(struct http_request *r)
{
    static const char *const members[] = {"task", "parent", "child_name", NULL};
    const struct json *body = world_body(r, members);
    struct world_queue_request q = {0};
    struct world_paths paths;
    struct err_info e = {""};
    struct world_call c;
    int err;

    if (!body)
        return;
    err = read_queue_request(body, &q, &e);
    if (err) {
        world_refuse(r, err, &e);
        return;
    }
    if (!world_call_begin(&c, r, (struct str){0}))
        return;
    err = world_queue(c.world, c.k, &r->arena, &q.task, q.has_parent ? &q.parent : NULL,
                      q.child_name.p ? fill_template : NULL, &q.child_name, &paths, &c.e);
    if (!err)
        put_queued(&c, &paths);
    world_call_answer(&c, err);
}

/* Looking. */

static void put_item(struct buf *b, const struct world_item *i)
{
    world_put_text(b, "node", i->key);
    world_put_record(b, &i->record);
    world_put_text(b, "state", str_of(world_state_name(i->state)));
    if (i->since_ms) {
        json_key(b, "since");
        json_put_int(b, i->since_ms);
    }
}

static bool read_state(struct http_request *r, enum world_state *ret_state)
{
    struct str text;

    if (!http_query(r, "state", &text)) {
        *ret_state = WORLD_IS_PENDING;
        return true;
    }
    for (int s = WORLD_IS_PENDING; s <= WORLD_IS_COMPLETED; s++)
        if (str_eq(text, str_of(world_state_name((enum world_state)s)))) {
            *ret_state = (enum world_state)s;
            return true;
        }
    http_reply_error(r, 400, "state must be pending, working or completed");
    return false;
}

static void get_tasks(struct http_request *r)
{
    enum world_state state;
    int64_t limit = LIST_LIMIT_DEFAULT;
    struct world_items items = {0};
    struct str after = STR("");
    struct world_call c;
    int err;

    if (!read_state(r, &state) || http_query_number(r, "limit", &limit) < 0)
        return;
    if (limit < 1 || limit > LIST_LIMIT_MAX) {
        http_reply_errorf(r, 400, "limit must be from 1 to %d", LIST_LIMIT_MAX);
        return;
    }
    http_query(r, "after", &after);
    if (!world_call_begin(&c, r, (struct str){0}))
        return;
    err = world_list(c.world, c.k, &r->arena, state, after, (size_t)limit, &items);
    json_open(&c.out, '{');
    json_key(&c.out, "tasks");
    json_open(&c.out, '[');
    for (size_t i = 0; i < items.count; i++) {
        json_open(&c.out, '{');
        put_item(&c.out, &items.list[i]);
        json_close(&c.out, '}');
    }
    json_close(&c.out, ']');
    world_put_text(&c.out, "next",
                   items.more ? items.list[items.count - 1].key : (struct str){NULL, 0});
    json_close(&c.out, '}');
    world_call_answer(&c, err);
}

/* The path of a task comes as a|b, a/b, or as it stands in the tree. */
static char *key_of(struct world_call *c, struct str path)
{
    struct str root = str_of(world_root(c->world));
    char *key;

    if (str_starts(path, root) && path.len > root.len && path.p[root.len] == '/')
        path = (struct str){path.p + root.len + 1, path.len - root.len - 1};
    key = arena_text(&c->r->arena, path);
    for (char *at = key; *at; at++)
        if (*at == '/')
            *at = '|';
    return key;
}

static void get_task(struct http_request *r)
{
    struct world_item item;
    struct str data, path;
    struct world_call c;
    int err;

    if (!http_decode(r, r->params[1], &path) || !world_call_begin(&c, r, (struct str){0}))
        return;
    err = world_get(c.world, c.k, &r->arena, str_of(key_of(&c, path)), &item, &data, &c.e);
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
    struct world_call c;
    struct str path;
    int err;

    if (!http_decode(r, r->params[1], &path) || !world_call_begin(&c, r, (struct str){0}))
        return;
    err = world_remove(c.world, c.k, str_of(key_of(&c, path)), INT64_MAX, &c.e);
    if (!err)
        buf_put_str(&c.out, STR("{}"));
    world_call_answer(&c, err);
}

/*
 * The tree as objects in lists: each level opens when the first child comes, closes after the last.
 */
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
    world_put_text(t->out, "node", key);
    world_put_text(t->out, "state", str_of(world_state_name(state)));
    json_key(t->out, "tasks");
    json_open(t->out, '[');
    t->depth = depth;
    return 0;
}

static void get_tree(struct http_request *r)
{
    struct tree_writer t;
    struct world_call c;
    int err;

    if (!world_call_begin(&c, r, (struct str){0}))
        return;
    t = (struct tree_writer){&c.out, -1};
    json_open(&c.out, '{');
    world_put_text(&c.out, "root", str_of(world_root(c.world)));
    json_key(&c.out, "tasks");
    json_open(&c.out, '[');
    err = world_walk(c.world, c.k, write_task, &t);
    close_to(&t, 0);
    json_close(&c.out, ']');
    json_close(&c.out, '}');
    world_call_answer(&c, err);
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/v1/worlds", get_worlds, ROUTE_WORKER, "The worlds."},
    {METHOD_POST, "/v1/worlds", post_world, ROUTE_WORKER, "Makes a world."},
    {METHOD_POST, "/v1/worlds/{world}/tasks", post_task, ROUTE_WORKER,
     "Queues a task, below all that match its parent."},
    {METHOD_GET, "/v1/worlds/{world}/tasks", get_tasks, ROUTE_WORKER,
     "The tasks that are pending, working or completed."},
    {METHOD_GET, "/v1/worlds/{world}/tasks/{path...}", get_task, ROUTE_WORKER,
     "One task, with its data."},
    {METHOD_DELETE, "/v1/worlds/{world}/tasks/{path...}", delete_task, ROUTE_WORKER,
     "Removes a task that nobody works on and that has none below it."},
    {METHOD_GET, "/v1/worlds/{world}/tree", get_tree, ROUTE_WORKER, "The whole tree."},
    {METHOD_POST, "/v1/worlds/{world}/claim", world_post_claim, ROUTE_WORKER,
     "Takes the oldest task of a type that nothing blocks."},
    {METHOD_POST, "/v1/worlds/{world}/complete", world_post_complete, ROUTE_WORKER,
     "Ends a claim: the task is done."},
    {METHOD_POST, "/v1/worlds/{world}/release", world_post_release, ROUTE_WORKER,
     "Ends a claim: the task is there for others."},
    {METHOD_POST, "/v1/worlds/{world}/fail", world_post_fail, ROUTE_WORKER,
     "Ends a claim: the task has failed and stays pending."},
};

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
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, module};
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
