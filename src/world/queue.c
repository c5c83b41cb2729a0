/*
 * Queueing: one transaction. For every child it creates or sets the node in the tree, creates or
 * sets the pending node (its version tells a claimant), deletes the completed node; and it sets the
 * world's root, whose version counts changes for the tree index.
 *
 * The transaction is planned from what is read. If it fails because a node came or went meanwhile,
 * everything is read and planned again.
 */
#include "world/world.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "world/impl.h"

enum { OPS_PER_CHILD = 3, ROOT = 1 };

struct world_child {
    const char *parent; /* path; NULL: at the top */
    struct str name;
    const char *key;
    char *path;
    bool is_new; /* it was not pending */
};

struct world_plan {
    struct world *w;
    struct keeper *k;
    struct arena *a;
    const struct world_task *task;
    struct world_child *children;
    size_t child_count;
    struct txn t;
    int64_t zxid; /* of the transaction */
    struct err_info *e;
};

static int check_task(const struct world_task *t, struct arena *a, struct err_info *e)
{
    struct err_info why;
    int err = world_check_name(t->name, "name", e);

    if (!err)
        err = world_check_name(t->type, "type", e);
    if (!err && !json_parse(a, t->data, &why))
        err = err_set(e, DROVER_BAD_ARGUMENT, "the data is %.400s", why.text);
    return err;
}

/* Expressions and matches. */

static int find(struct world *w, struct keeper *k, struct arena *a,
                const struct world_parent *which, struct world_matches *ret_matches,
                struct err_info *e)
{
    struct expression *name = NULL, *type = NULL;
    int err = expression_new(which->name, "parent's name", &name, e);

    if (!err)
        err = expression_new(which->type, "parent's type", &type, e);
    if (!err) {
        err = world_index_find(w->index, k, a, name, type, ret_matches, e);
        if (err == DROVER_NO_NODE)
            err_set(e, err, "there is no world '%s'", w->name);
        else if (err && err != DROVER_BAD_ARGUMENT)
            err_explain(e, err);
    }
    expression_free(name);
    expression_free(type);
    return err;
}

int world_find(struct world *w, struct keeper *k, struct arena *a, const struct world_parent *which,
               struct world_paths *ret_paths, struct err_info *ret_error)
{
    struct world_matches matches;
    TRY(find(w, k, a, which, &matches, ret_error));
    ret_paths->list = arena_alloc(a, (matches.count + 1) * sizeof *ret_paths->list);
    ret_paths->count = matches.count;
    for (size_t i = 0; i < matches.count; i++)
        ret_paths->list[i] = arena_text(a, str_of(matches.list[i].path));
    return 0;
}

/* Children. */

static int child_init(struct world_plan *p, struct world_child *c, const char *parent,
                      struct str name)
{
    const char *root = p->w->root;
    struct str type = p->task->type;
    struct str parent_key = STR("");
    TRY(world_check_name(name, "name of the child", p->e));
    c->parent = parent;
    c->name = name;
    if (parent)
        parent_key = str_of(world_key(p->a, root, str_of(parent)));
    c->key = arena_printf(p->a, "%.*s%s%.*s_%.*s", STR_ARGS(parent_key), parent ? "|" : "",
                          STR_ARGS(name), STR_ARGS(type));
    if (strlen(c->key) > WORLD_KEY_LEN_MAX)
        return err_set(p->e, DROVER_BAD_ARGUMENT, "the task's path would be longer than %d bytes",
                       WORLD_KEY_LEN_MAX);
    c->path = world_path(p->a, root, str_of(c->key));
    return 0;
}

static int children_of(struct world_plan *p, const struct world_parent *parent,
                       world_name_fn *name_fn, void *name_arg)
{
    struct str name = p->task->name;
    struct world_matches matches = {0};

    if (!parent) {
        p->children = arena_alloc(p->a, sizeof *p->children);
        p->child_count = 1;
        return child_init(p, p->children, NULL, name);
    }
    int err = find(p->w, p->k, p->a, parent, &matches, p->e);
    if (err)
        return err;
    if (!matches.count)
        return err_set(p->e, DROVER_NO_NODE, "no task matches the parent '%.*s' of type '%.*s'",
                       STR_ARGS(parent->name), STR_ARGS(parent->type));
    if (matches.count * OPS_PER_CHILD >= KEEPER_MULTI_MAX)
        return err_set(p->e, DROVER_TOO_BIG, "%zu tasks match the parent: too many at once",
                       matches.count);
    p->children = arena_alloc(p->a, matches.count * sizeof *p->children);
    p->child_count = matches.count;
    for (size_t i = 0; i < matches.count && !err; i++) {
        struct str child =
            name_fn ? name_fn(name_arg, p->a, matches.list[i].name, p->task->name) : name;

        err = child_init(p, &p->children[i], matches.list[i].path, child);
    }
    return err;
}

/* The plan. */

/* Checks that the node with the child's key in a list belongs to the child. */
static int check_same(struct world_plan *p, const struct world_child *c, struct str data,
                      const char *list)
{
    struct world_record r;

    if (world_record_read(p->a, data, str_of(c->key), &r))
        return err_set(p->e, DROVER_EXISTS, "%s/%.200s is there already and holds something else",
                       list, c->key);
    if (!world_record_is_of(&r, p->w->root))
        return err_set(p->e, DROVER_EXISTS,
                       "another world has a task of this name: %s/%.150s is of %.*s", list, c->key,
                       (int)(r.path.len < 200 ? r.path.len : 200), r.path.p);
    if (!str_eq(r.name, c->name) || !str_eq(r.type, p->task->type))
        return err_set(
            p->e, DROVER_EXISTS,
            "%.200s is already the task '%.*s' of type '%.*s': the two cannot be told apart",
            c->key, STR_ARGS(r.name), STR_ARGS(r.type));
    return 0;
}

static struct str record_of(struct world_plan *p, const struct world_child *c)
{
    struct world_record r = {.name = c->name, .type = p->task->type, .path = str_of(c->path)};

    if (c->parent)
        r.parent = str_of(c->parent);
    return world_record_write(p->a, &r);
}

static int plan_child(struct world_plan *p, struct world_child *c)
{
    const char *pending = world_list_path(p->a, WORLD_PENDING, str_of(c->key));
    const char *completed = world_list_path(p->a, WORLD_COMPLETED, str_of(c->key));
    struct str data;
    int err = keeper_exists(p->k, c->path, NULL);

    if (err && err != DROVER_NO_NODE)
        return err;
    txn_add(&p->t, 0,
            err ? keeper_op_create(c->path, p->task->data, KEEPER_NO_STAT)
                : keeper_op_set(c->path, p->task->data, KEEPER_ANY_VERSION));
    err = world_read(p->k, p->a, pending, &data, NULL);
    if (!err)
        err = check_same(p, c, data, WORLD_PENDING);
    if (err && err != DROVER_NO_NODE)
        return err;
    c->is_new = err;
    txn_add(&p->t, 0,
            err ? keeper_op_create(pending, record_of(p, c), KEEPER_NO_STAT)
                : keeper_op_set(pending, record_of(p, c), KEEPER_ANY_VERSION));
    /* After the pending list: a task that was completed in between is in this one. */
    err = world_read(p->k, p->a, completed, &data, NULL);
    if (!err)
        err = check_same(p, c, data, WORLD_COMPLETED);
    if (!err)
        txn_add(&p->t, 0, keeper_op_delete(completed, KEEPER_ANY_VERSION));
    return err == DROVER_NO_NODE ? 0 : err;
}

static int plan_all(struct world_plan *p)
{
    struct str root_data;
    int err = world_read(p->k, p->a, p->w->root, &root_data, NULL);

    if (err == DROVER_NO_NODE)
        return err_set(p->e, DROVER_NO_NODE, "there is no world '%s'", p->w->name);
    p->t = (struct txn){.a = p->a};
    for (size_t i = 0; i < p->child_count && !err; i++)
        err = plan_child(p, &p->children[i]);
    if (!err)
        txn_add(&p->t, ROOT, keeper_op_set(p->w->root, root_data, KEEPER_ANY_VERSION));
    return err;
}

static int commit(struct world_plan *p)
{
    char **paths = arena_alloc(p->a, p->child_count * sizeof *paths);

    for (size_t i = 0; i < p->child_count; i++)
        paths[i] = p->children[i].path;
    world_index_begin(p->w->index);
    int err = world_commit(p->w, p->k, &p->t);
    const struct keeper_stat *root = err ? NULL : txn_stat(&p->t, ROOT);
    world_index_end(p->w->index, paths, err ? 0 : p->child_count, err ? -1 : root->version);
    p->zxid = err ? 0 : root->mzxid;
    return err;
}

static int plan_and_commit(struct world_plan *p)
{
    int err = 0;

    for (int i = 0; i < WORLD_TRIES; i++) {
        p->e->text[0] = '\0';
        err = plan_all(p);
        if (err)
            return p->e->text[0] ? err : err_explain(p->e, err);
        err = commit(p);
        if (!world_is_stale(err))
            return err ? err_explain(p->e, err) : 0;
    }
    return world_gave_up(p->e);
}

int world_queue(struct world *w, struct keeper *k, struct arena *a, const struct world_task *task,
                const struct world_parent *parent, world_name_fn *name_fn, void *name_arg,
                struct world_paths *ret_paths, struct err_info *ret_error)
{
    struct err_info unused;
    struct world_plan p = {
        .w = w, .k = k, .a = a, .task = task, .e = ret_error ? ret_error : &unused};
    struct list_class c;
    TRY(check_task(task, a, p.e));
    TRY(children_of(&p, parent, name_fn, name_arg));
    TRY(plan_and_commit(&p));
    c = (struct list_class){.flags = PENDING_PLAIN, .order = p.zxid, .group = task->type};
    ret_paths->list = arena_alloc(a, p.child_count * sizeof *ret_paths->list);
    ret_paths->count = p.child_count;
    for (size_t i = 0; i < p.child_count; i++) {
        ret_paths->list[i] = p.children[i].path;
        if (p.children[i].is_new)
            list_view_add(w->pending, str_of(p.children[i].key), &c, 0);
        world_tell(w, &(struct world_change){
                          str_of(p.children[i].key), task->type, WORLD_IS_PENDING, {0}});
    }
    return 0;
}
