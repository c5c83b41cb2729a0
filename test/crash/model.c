/* Deliberately simple: only clarity counts here. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

static struct model_node *add(struct model *m, const char *path)
{
    m->nodes = mem_realloc(m->nodes, (m->count + 1) * sizeof *m->nodes);
    m->nodes[m->count] = (struct model_node){.data = STR("")};
    snprintf(m->nodes[m->count].path, MODEL_PATH_MAX, "%s", path);
    return &m->nodes[m->count++];
}

/*
 * The predefined nodes were never created, so their parents count no change for them, except for
 * one, as in ZooKeeper.
 */
void model_init(struct model *m)
{
    *m = (struct model){0};
    add(m, "/")->stat.cversion = -1;
    add(m, "/zookeeper")->stat.cversion = -2;
    add(m, "/zookeeper/quota");
    add(m, "/zookeeper/config")->stat.aversion = -1;
}

void model_release(struct model *m)
{
    free(m->nodes);
    *m = (struct model){0};
}

struct model_node *model_find(const struct model *m, const char *path)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->nodes[i].path, path) == 0)
            return &m->nodes[i];
    return NULL;
}

static void parent_of(const char *path, char *ret_parent)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash > path ? (size_t)(slash - path) : 1;

    memcpy(ret_parent, path, len);
    ret_parent[len] = '\0';
}

static bool is_child(const char *child, const char *path)
{
    char parent[MODEL_PATH_MAX];

    parent_of(child, parent);
    return strcmp(child, "/") != 0 && strcmp(parent, path) == 0;
}

struct keeper_stat model_stat(const struct model *m, const struct model_node *n)
{
    struct keeper_stat stat = n->stat;

    stat.data_len = (int32_t)n->data.len;
    for (size_t i = 0; i < m->count; i++)
        stat.child_count += is_child(m->nodes[i].path, n->path);
    return stat;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char *model_children(const struct model *m, const char *path)
{
    const char **names = mem_alloc((m->count + 1) * sizeof *names);
    struct buf text = {0};
    size_t count = 0;

    for (size_t i = 0; i < m->count; i++)
        if (is_child(m->nodes[i].path, path))
            names[count++] = strrchr(m->nodes[i].path, '/') + 1;
    qsort(names, count, sizeof *names, by_text);
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%s ", names[i]);
    free(names);
    buf_text(&text);
    return text.p;
}

/* Errors that do not depend on the tree. */
static bool is_malformed(const struct keeper_op *op)
{
    const char *p = op->path.p;

    return p[0] != '/' || strstr(p, "//") ||
           (op->kind == KEEPER_DELETE &&
            (strcmp(p, "/") == 0 || strcmp(p, "/zookeeper") == 0 ||
             strcmp(p, "/zookeeper/quota") == 0 || strcmp(p, "/zookeeper/config") == 0));
}

/* One that creates, sets, deletes or checks, at one time, for one session. */
struct request {
    int64_t session, now_ms, zxid;
};

static int create(struct model *m, const struct request *r, const struct keeper_op *op,
                  struct keeper_result *result)
{
    char parent_path[MODEL_PATH_MAX], path[MODEL_PATH_MAX];
    struct model_node *parent, *n;

    parent_of(op->path.p, parent_path);
    parent = model_find(m, parent_path);
    if (!parent)
        return DROVER_NO_NODE;
    if (op->flags & KEEPER_SEQUENTIAL)
        snprintf(path, sizeof path, "%s%010d", op->path.p, parent->creations);
    else
        snprintf(path, sizeof path, "%s", op->path.p);
    if (model_find(m, path))
        return DROVER_EXISTS;
    if (parent->stat.ephemeral_owner)
        return DROVER_NO_CHILDREN_FOR_EPHEMERALS;
    parent->creations++;
    parent->stat.cversion++;
    parent->stat.pzxid = r->zxid;
    n = add(m, path);
    n->data = op->data;
    n->stat.czxid = n->stat.mzxid = n->stat.pzxid = r->zxid;
    n->stat.ctime_ms = n->stat.mtime_ms = r->now_ms;
    if (op->flags & KEEPER_EPHEMERAL)
        n->stat.ephemeral_owner = r->session;
    result->path = mem_dup(path, strlen(path));
    result->stat = model_stat(m, n);
    return 0;
}

static void take_out(struct model *m, struct model_node *n, int64_t zxid)
{
    char parent_path[MODEL_PATH_MAX];
    struct model_node *parent;

    parent_of(n->path, parent_path);
    parent = model_find(m, parent_path);
    parent->stat.cversion++;
    parent->stat.pzxid = zxid;
    *n = m->nodes[--m->count];
}

static int apply_one(struct model *m, const struct request *r, const struct keeper_op *op,
                     struct keeper_result *result)
{
    struct model_node *n = model_find(m, op->path.p);

    if (op->kind == KEEPER_CREATE)
        return create(m, r, op, result);
    if (!n)
        return DROVER_NO_NODE;
    if (op->version != KEEPER_ANY_VERSION && op->version != n->stat.version)
        return DROVER_BAD_VERSION;
    if (op->kind == KEEPER_DELETE && model_stat(m, n).child_count)
        return DROVER_NOT_EMPTY;
    if (op->kind == KEEPER_DELETE)
        take_out(m, n, r->zxid);
    if (op->kind == KEEPER_SET) {
        n->data = op->data;
        n->stat.version++;
        n->stat.mzxid = r->zxid;
        n->stat.mtime_ms = r->now_ms;
        result->stat = model_stat(m, n);
    }
    return 0;
}

static int fail_at(struct keeper_result *results, size_t count, size_t at, int err)
{
    keeper_results_release(results, count);
    for (size_t i = 0; i < count; i++)
        results[i] = (struct keeper_result){.err = i < at ? 0 : i == at ? err : DROVER_NOT_TRIED};
    return err;
}

int model_apply(struct model *m, int64_t session, int64_t now_ms, const struct keeper_op *ops,
                size_t count, struct keeper_result *results)
{
    struct request r = {session, now_ms, m->zxid + 1};
    struct model before = *m;
    bool changes = false;
    int err = 0;

    memset(results, 0, count * sizeof *results);
    for (size_t i = 0; i < count; i++)
        if (is_malformed(&ops[i]))
            return fail_at(results, count, i, DROVER_BAD_ARGUMENT);
    before.nodes = mem_alloc(m->count * sizeof *m->nodes);
    memcpy(before.nodes, m->nodes, m->count * sizeof *m->nodes);
    for (size_t i = 0; i < count && !err; i++) {
        err = apply_one(m, &r, &ops[i], &results[i]);
        changes = changes || ops[i].kind != KEEPER_CHECK;
        if (err)
            fail_at(results, count, i, err);
    }
    free(err ? m->nodes : before.nodes);
    if (err)
        *m = before;
    else if (changes)
        m->zxid++;
    return err;
}

int64_t model_session_open(struct model *m)
{
    return ++m->zxid;
}

void model_session_close(struct model *m, int64_t session)
{
    m->zxid++;
    for (size_t i = m->count; i-- > 0;)
        if (m->nodes[i].stat.ephemeral_owner == session)
            take_out(m, &m->nodes[i], m->zxid);
}
