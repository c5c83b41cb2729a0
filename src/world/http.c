/*
 * Worlds over HTTP: the handlers. Each handler runs on a thread of the pool. Reading
 * and queueing use the server's session, claims and their ends the client's own.
 */
#include "world/http_in.h"

#include "server/sessions.h"
#include "world/impl.h"

/* What a handler works with: a world, a keeper, and a buffer for the answer. */
struct world_call {
    struct http_request *r;
    const struct world_in *in;
    struct world_registry *registry;
    struct world *world; /* NULL: the call is about all worlds */
    struct keeper *k;
    bool own; /* k is a client's session */
    struct buf out;
    struct err_info e;
};

/* What a call is about, and whose session it uses. */
enum scope { ALL_WORLDS, ONE_WORLD, OWN_SESSION };

/*
 * Gets the world and a keeper: the session of a client, or the server's. False: it has answered
 * with an error. End it, or answer, which ends it too: with an error, or with what is in `out`.
 */
static bool call_begin(struct world_call *c, struct http_request *r, enum scope scope)
{
    struct world_registry *s = r->arg;
    *c = (struct world_call){.r = r, .in = r->in, .registry = s, .own = scope == OWN_SESSION};
    int err = scope == ALL_WORLDS ? 0 : world_registry_get(s, c->in->world, &c->world, &c->e);
    if (err) {
        http_reply_err(r, err, c->e.text);
        return false;
    }
    if (c->own)
        c->k = session_of_request(s->context, r, c->in->session);
    else if (!(c->k = context_keeper(s->context)))
        http_reply_err(r, DROVER_CLOSED, WORLD_UNREACHABLE);
    if (!c->k && c->world)
        world_registry_put(s, c->world);
    return c->k != NULL;
}

/* Before the answer, so that the session is free for the client's next request. */
static void call_end(struct world_call *c)
{
    if (c->own)
        sessions_done(c->registry->context->sessions, c->k);
    else
        context_return(c->registry->context, c->k);
    if (c->world)
        world_registry_put(c->registry, c->world);
}

static void call_answer(struct world_call *c, int err)
{
    call_end(c);
    if (err == DROVER_SESSION_EXPIRED && !c->own) /* the server's: it will open another */
        err = err_set(&c->e, DROVER_CLOSED, WORLD_UNREACHABLE);
    if (err)
        http_reply_err(c->r, err, c->e.text[0] ? c->e.text : NULL);
    else
        http_reply(c->r, 200, buf_str(&c->out));
    buf_release(&c->out);
}

/* Worlds. */

void world_post_world(struct http_request *r)
{
    struct world_call c;
    if (!call_begin(&c, r, ALL_WORLDS))
        return;
    json_open(&c.out, '{');
    json_member_text(&c.out, "world", c.in->world);
    json_close(&c.out, '}');
    call_answer(&c, world_init(c.k, c.in->world, &c.e));
}

void world_get_worlds(struct http_request *r)
{
    struct str prefix = STR("zoott_");
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    struct world_call c;
    if (!call_begin(&c, r, ALL_WORLDS))
        return;
    int err = keeper_children(c.k, "/", &names, NULL);
    json_open(&c.out, '{');
    json_member_open(&c.out, "worlds", '[');
    for (size_t i = 0; i < names.count; i++) {
        struct str name = str_of(names.names[i]);
        struct str world = {name.p + prefix.len, name.len - prefix.len};
        if (str_starts(name, prefix) && !world_check_world(world, NULL) &&
            http_reaches(r, SCOPE_WORLD, world))
            json_put_text(&c.out, world);
    }
    json_close(&c.out, ']');
    json_close(&c.out, '}');
    call_answer(&c, err);
}

/* Queueing. */

/* The name function over HTTP: a template in which {parent} and {child} stand for the names. */
static struct str fill_template(void *arg, struct arena *a, struct str parent, struct str child)
{
    struct str rest = *(const struct str *)arg;
    struct buf b = {0};
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
    const char *root = c->world->root;
    json_open(&c->out, '{');
    json_member_texts(&c->out, "paths", (const char *const *)paths->list, paths->count);
    json_member_open(&c->out, "nodes", '[');
    for (size_t i = 0; i < paths->count; i++)
        json_put_text(&c->out, str_of(world_key(&c->r->arena, root, str_of(paths->list[i]))));
    json_close(&c->out, ']');
    json_close(&c->out, '}');
}

void world_post_task(struct http_request *r)
{
    const struct world_in *in = r->in;
    struct str template = in->child_name;
    struct world_task task = {in->task->name, in->task->type,
                              in->task->data ? in->task->data->raw : STR("null"),
                              in->task->attempts};
    struct world_paths paths;
    struct world_call c;
    if (template.p && !in->parent) {
        http_reply_field(r, "child_name", "child_name goes with parent");
        return;
    }
    if (!call_begin(&c, r, ONE_WORLD))
        return;
    int err = world_queue(c.world, c.k, &r->arena, &task, in->parent,
                          template.p ? fill_template : NULL, &template, &paths, &c.e);
    if (!err)
        put_queued(&c, &paths);
    call_answer(&c, err);
}

/* Reading. */

/* The data of a task is JSON, unless another client wrote it: then it is shown as text. */
static void put_data(struct world_call *c, struct str data)
{
    if (json_parse(&c->r->arena, data, NULL))
        json_member_raw(&c->out, "data", data);
    else
        json_member_text(&c->out, "data", data);
}

static void put_item(struct buf *b, const struct world_item *i)
{
    json_member_text(b, "node", i->key);
    world_record_put(b, &i->record);
    json_member_text(b, "state", str_of(world_state_name(i->state)));
    if (i->since_ms)
        json_member_int(b, "since", i->since_ms);
}

void world_get_tasks(struct http_request *r)
{
    struct world_items items = {0};
    struct world_call c;
    if (!call_begin(&c, r, ONE_WORLD))
        return;
    size_t limit = c.in->limit ? (size_t)c.in->limit : LIST_LIMIT_MAX;
    int err = world_list(c.world, c.k, &r->arena, (enum world_state)c.in->state,
                         c.in->after.p ? c.in->after : STR(""), limit, &items);
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
    call_answer(&c, err);
}

/* The path of a task comes as a|b, a/b, or as in the tree. */
static struct str key_of(struct world_call *c)
{
    return str_of(world_key(&c->r->arena, c->world->root, c->in->path));
}

void world_get_task(struct http_request *r)
{
    struct world_item item;
    struct world_call c;
    struct str data;
    if (!call_begin(&c, r, ONE_WORLD))
        return;
    int err = world_get(c.world, c.k, &r->arena, key_of(&c), &item, &data, &c.e);
    if (!err) {
        json_open(&c.out, '{');
        put_item(&c.out, &item);
        put_data(&c, data);
        json_close(&c.out, '}');
    }
    call_answer(&c, err);
}

void world_delete_task(struct http_request *r)
{
    struct world_call c;
    if (!call_begin(&c, r, ONE_WORLD))
        return;
    buf_put_str(&c.out, STR("{}"));
    call_answer(&c, world_remove(c.world, c.k, key_of(&c), INT64_MAX, &c.e));
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

void world_get_tree(struct http_request *r)
{
    struct world_call c;
    if (!call_begin(&c, r, ONE_WORLD))
        return;
    struct tree_writer t = {&c.out, -1};
    json_open(&c.out, '{');
    json_member_text(&c.out, "root", str_of(c.world->root));
    json_member_open(&c.out, "tasks", '[');
    int err = world_walk(c.world, c.k, write_task, &t);
    close_to(&t, 0);
    json_close(&c.out, ']');
    json_close(&c.out, '}');
    call_answer(&c, err);
}

/* Claims. */

static void put_claim(struct world_call *c, const struct world_claim *claim)
{
    json_open(&c->out, '{');
    json_member_text(&c->out, "node", claim->key);
    json_member_open(&c->out, "task", '{');
    world_record_put(&c->out, &claim->record);
    put_data(c, claim->data);
    json_close(&c->out, '}');
    json_close(&c->out, '}');
}

static struct http_watch watch(struct world_registry *s, struct http_request *r)
{
    const struct world_in *in = r->in;
    uint64_t *keys = arena_alloc(&r->arena, (in->type_count + 1) * sizeof *keys);
    for (size_t i = 0; i < in->type_count; i++)
        keys[i] = world_type_key(in->world, in->types[i]);
    keys[in->type_count] = world_list_key(in->world);
    return session_watch(s->context, r, in->session, keys, in->type_count + 1);
}

/* Only the first and the last run of a waiting claim insist on an exact refresh of the list. */
void world_post_claim(struct http_request *r)
{
    const struct world_in *in = r->in;
    struct world_registry *s = r->arg;
    struct http_watch w = watch(s, r);
    bool look = !http_was_parked(r) || http_wait_over(r);
    struct world_claim claim;
    struct world_call c;
    if (!call_begin(&c, r, OWN_SESSION))
        return;
    int err = world_claim(c.world, c.k, &r->arena, in->types, in->type_count, look, &claim, &c.e);
    if (err) {
        if (err == 1)
            put_claim(&c, &claim);
        call_answer(&c, err == 1 ? 0 : err);
        return;
    }
    call_end(&c);
    if (!session_park(s->context, r, in->session, &w, in->wait_ms))
        http_reply(r, 200, STR("{\"node\":null}"));
}

enum end { COMPLETE, RELEASE, FAIL, RETRY };

/* Retrying ends no claim, but takes a node and answers with its state too. */
static void end_claim(struct http_request *r, enum end how)
{
    struct world_call c;
    bool pending = true, failed = false;
    if (!call_begin(&c, r, how == RETRY ? ONE_WORLD : OWN_SESSION))
        return;
    struct str node = c.in->node, error = c.in->error.p ? c.in->error : STR("");
    int err = how == COMPLETE  ? world_complete(c.world, c.k, node, &pending, &c.e)
              : how == RELEASE ? world_release(c.world, c.k, node, &c.e)
              : how == RETRY   ? world_retry(c.world, c.k, node, &c.e)
                               : world_fail(c.world, c.k, node, error, c.in->final, &failed, &c.e);
    enum world_state state = failed    ? WORLD_IS_FAILED
                             : pending ? WORLD_IS_PENDING
                                       : WORLD_IS_COMPLETED;
    json_open(&c.out, '{');
    json_member_text(&c.out, "node", node);
    json_member_text(&c.out, "state", str_of(world_state_name(state)));
    json_close(&c.out, '}');
    call_answer(&c, err);
}

void world_post_complete(struct http_request *r)
{
    end_claim(r, COMPLETE);
}

void world_post_release(struct http_request *r)
{
    end_claim(r, RELEASE);
}

void world_post_fail(struct http_request *r)
{
    end_claim(r, FAIL);
}

void world_post_retry(struct http_request *r)
{
    end_claim(r, RETRY);
}
