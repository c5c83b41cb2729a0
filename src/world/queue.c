/*
 * Queueing: one transaction. For every child it creates or sets the node in the tree, creates or
 * sets the pending node (its version tells a claimant), deletes the completed node, and the working
 * node of a task that has failed; and it sets the world's root, whose version counts changes for
 * the tree index.
 *
 * The transaction is planned from what is read. If it fails because a node came or went meanwhile,
 * everything is read and planned again.
 */
#include "base/json.h"
#include "world/impl.h"

enum { OPS_PER_CHILD = 4, ROOT = 1 };

struct world_child {
    struct str key;
    struct world_record record;
    bool is_new;     /* it was not pending */
    bool has_failed; /* it was, and comes back */
};

struct world_plan {
    struct world *w;
    struct keeper *k;
    struct arena *a;
    const struct world_task *task;
    struct err_info *e;
    struct world_child *children;
    struct world_paths paths; /* of the children */
    struct txn t;
    int64_t zxid; /* of the transaction */
};

static int check_task(const struct world_task *t, struct arena *a, struct err_info *e)
{
    struct err_info why;
    TRY(world_check_name(t->name, "name", e));
    TRY(world_check_name(t->type, "type", e));
    if (t->attempts < 0 || t->attempts > WORLD_ATTEMPTS_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "attempts is a number from 0 to %d",
                       WORLD_ATTEMPTS_MAX);
    if (!json_parse(a, t->data, &why))
        return err_set(e, DROVER_BAD_ARGUMENT, "the data is %.400s", why.text);
    return 0;
}

static int no_world(struct world *w, struct err_info *e)
{
    return err_set(e, DROVER_NO_NODE, "there is no world '%s'", w->name);
}

/* Expressions and matches. */

static void expression_end(struct expression **x)
{
    expression_free(*x);
}

static int find(struct world *w, struct keeper *k, struct arena *a,
                const struct world_parent *which, struct world_matches *ret_matches,
                struct err_info *e)
{
    CLEANUP(expression_end) struct expression *name = NULL, *type = NULL;
    TRY(expression_new(which->name, "parent's name", &name, e));
    TRY(expression_new(which->type, "parent's type", &type, e));
    int err = world_index_find(w->index, k, a, name, type, ret_matches, e);
    if (err == DROVER_NO_NODE)
        return no_world(w, e);
    return err && err != DROVER_BAD_ARGUMENT ? err_explain(e, err) : err;
}

int world_find(struct world *w, struct keeper *k, struct arena *a, const struct world_parent *which,
               struct world_paths *ret_paths, struct err_info *ret_error)
{
    struct world_matches matches;
    TRY(find(w, k, a, which, &matches, ret_error));
    ret_paths->list = arena_alloc(a, (matches.count + 1) * sizeof *ret_paths->list);
    ret_paths->count = matches.count;
    for (size_t i = 0; i < matches.count; i++)
        ret_paths->list[i] = matches.list[i].path;
    return 0;
}

/* Children. */

/* parent is a path; NULL: at the top. */
static int add_child(struct world_plan *p, const char *parent, struct str name)
{
    const char *root = p->w->root;
    const char *above = parent ? world_key(p->a, root, str_of(parent)) : "";
    struct world_child *c = &p->children[p->paths.count];
    TRY(world_check_name(name, "name of the child", p->e));
    c->key = str_of(arena_printf(p->a, "%s%s%.*s_%.*s", above, parent ? "|" : "", STR_ARGS(name),
                                 STR_ARGS(p->task->type)));
    if (c->key.len > WORLD_KEY_LEN_MAX)
        return err_set(p->e, DROVER_BAD_ARGUMENT, "the task's path would be longer than %d bytes",
                       WORLD_KEY_LEN_MAX);
    world_record_make(p->a, root, c->key, p->task->type, &c->record);
    c->record.attempts = p->task->attempts;
    p->paths.list[p->paths.count++] = (char *)c->record.path.p;
    return 0;
}

static int add_children(struct world_plan *p, const struct world_parent *parent,
                        world_name_fn *name_fn, void *name_arg)
{
    struct world_matches matches = {&(struct world_match){0}, 1}; /* no parent: at the top */
    if (parent)
        TRY(find(p->w, p->k, p->a, parent, &matches, p->e));
    if (!matches.count)
        return err_set(p->e, DROVER_NO_NODE, "no task matches the parent '%.*s' of type '%.*s'",
                       STR_ARGS(parent->name), STR_ARGS(parent->type));
    if (matches.count * OPS_PER_CHILD >= KEEPER_MULTI_MAX)
        return err_set(p->e, DROVER_TOO_BIG, "%zu tasks match the parent: too many at once",
                       matches.count);
    p->children = arena_alloc(p->a, matches.count * sizeof *p->children);
    p->paths.list = arena_alloc(p->a, matches.count * sizeof *p->paths.list);
    for (size_t i = 0; i < matches.count; i++) {
        const struct world_match *m = &matches.list[i];
        struct str name = p->task->name;
        if (parent && name_fn)
            name = name_fn(name_arg, p->a, m->name, name);
        TRY(add_child(p, m->path, name));
    }
    return 0;
}

/* The plan. */

/* Whether a list has a node with the child's key. EXISTS: it belongs to another task. */
static int is_listed(struct world_plan *p, const struct world_child *c, const char *list,
                     const char *path, struct world_record *ret_record,
                     struct keeper_stat *ret_stat)
{
    struct world_record r;
    struct str data;
    int err = world_read(p->k, p->a, path, &data, ret_stat);
    if (err)
        return err == DROVER_NO_NODE ? 0 : err_explain(p->e, err);
    if (world_record_read(p->a, data, c->key, &r))
        return err_set(p->e, DROVER_EXISTS, "%s/%.200s is there already and holds something else",
                       list, c->key.p);
    if (!world_record_is_of(&r, p->w->root))
        return err_set(p->e, DROVER_EXISTS,
                       "another world has a task of this name: %s/%.150s is of %.*s", list,
                       c->key.p, (int)(r.path.len < 200 ? r.path.len : 200), r.path.p);
    if (!str_eq(r.name, c->record.name) || !str_eq(r.type, c->record.type))
        return err_set(
            p->e, DROVER_EXISTS,
            "%.200s is already the task '%.*s' of type '%.*s': the two cannot be told apart",
            c->key.p, STR_ARGS(r.name), STR_ARGS(r.type));
    *ret_record = r;
    return 1;
}

/* Sets a node that exists, or creates it. */
static void plan_put(struct world_plan *p, bool exists, const char *path, struct str data,
                     int32_t version)
{
    txn_add(&p->t, 0,
            exists ? keeper_op_set(path, data, version)
                   : keeper_op_create(path, data, KEEPER_NO_STAT));
}

static int plan_child(struct world_plan *p, struct world_child *c)
{
    const char *pending = world_list_path(p->a, WORLD_PENDING, c->key);
    const char *completed = world_list_path(p->a, WORLD_COMPLETED, c->key);
    int err = keeper_exists(p->k, c->record.path.p, NULL);
    if (err && err != DROVER_NO_NODE)
        return err_explain(p->e, err);
    plan_put(p, !err, c->record.path.p, p->task->data, KEEPER_ANY_VERSION);
    struct world_record listed = {0};
    struct keeper_stat stat;
    int is_pending = is_listed(p, c, WORLD_PENDING, pending, &listed, &stat);
    if (is_pending < 0)
        return is_pending;
    c->is_new = !is_pending;
    c->has_failed = listed.failed;
    int unmarked = c->has_failed ? world_plan_unmark(&p->t, p->k, c->key, p->e) : 0;
    if (unmarked < 0)
        return unmarked;
    plan_put(p, is_pending, pending, world_record_write(p->a, &c->record),
             c->has_failed ? stat.version : KEEPER_ANY_VERSION);
    /* After the pending list: a task that was completed in between is in this one. */
    int is_completed = is_listed(p, c, WORLD_COMPLETED, completed, &listed, &stat);
    if (is_completed == 1)
        txn_add(&p->t, 0, keeper_op_delete(completed, KEEPER_ANY_VERSION));
    return is_completed < 0 ? is_completed : 0;
}

static int plan_all(struct world_plan *p)
{
    struct str root_data;
    int err = world_read(p->k, p->a, p->w->root, &root_data, NULL);
    if (err)
        return err == DROVER_NO_NODE ? no_world(p->w, p->e) : err_explain(p->e, err);
    p->t = (struct txn){.a = p->a};
    for (size_t i = 0; i < p->paths.count; i++)
        TRY(plan_child(p, &p->children[i]));
    txn_add(&p->t, ROOT, keeper_op_set(p->w->root, root_data, KEEPER_ANY_VERSION));
    return 0;
}

static int commit(struct world_plan *p)
{
    world_index_begin(p->w->index);
    int err = world_commit(p->w, p->k, &p->t);
    const struct keeper_stat *root = err ? NULL : txn_stat(&p->t, ROOT);
    world_index_end(p->w->index, p->paths.list, err ? 0 : p->paths.count, err ? -1 : root->version);
    p->zxid = err ? 0 : root->mzxid;
    return err;
}

static int plan_and_commit(struct world_plan *p)
{
    for (int i = 0; i < WORLD_TRIES; i++) {
        TRY(plan_all(p));
        int err = commit(p);
        if (!world_is_stale(err))
            return err ? err_explain(p->e, err) : 0;
    }
    return world_gave_up(p->e);
}

int world_queue(struct world *w, struct keeper *k, struct arena *a, const struct world_task *task,
                const struct world_parent *parent, world_name_fn *name_fn, void *name_arg,
                struct world_paths *ret_paths, struct err_info *ret_error)
{
    struct world_plan p = {.w = w, .k = k, .a = a, .task = task, .e = ret_error};
    TRY(check_task(task, a, ret_error));
    TRY(add_children(&p, parent, name_fn, name_arg));
    TRY(plan_and_commit(&p));
    for (size_t i = 0; i < p.paths.count; i++) {
        bool has_failed = p.children[i].has_failed;
        struct str key = p.children[i].key;
        struct list_class c = {.flags = task->attempts || has_failed ? 0 : PENDING_PLAIN,
                               .order = p.zxid,
                               .group = task->type};
        if (p.children[i].is_new || has_failed)
            list_view_add(w->pending, key, &c, 0);
        world_tell(w, &(struct world_change){key, task->type, WORLD_IS_PENDING, {0}});
    }
    *ret_paths = p.paths;
    return 0;
}
