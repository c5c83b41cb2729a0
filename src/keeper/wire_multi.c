/*
 * Operations that change something, alone or in a transaction, and reads in a bundle.
 *
 * What is wrong with an operation by itself (its path, its access list, a kind that is not served) is
 * noted in it and told when its turn comes, because ZooKeeper names the first operation that fails.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/path.h"
#include "keeper/wire_impl.h"

enum {
    OP_CREATE = 1,
    OP_DELETE = 2,
    OP_GET_DATA = 4,
    OP_SET_DATA = 5,
    OP_SET_ACL = 7,
    OP_GET_CHILDREN = 8,
    OP_CHECK = 13,
    OP_CREATE2 = 15,
    OP_ERROR = -1,
};

static struct str read_acl(struct wire_conn *c, struct reader *r, struct buf *acl, int *refused)
{
    struct acl_who who = wire_who(c);
    struct reader start = *r;
    int32_t count = jute_i32(r);

    for (int32_t i = 0; i < count && !r->bad; i++) {
        jute_i32(r);
        jute_bytes(r);
        jute_bytes(r);
    }
    if (!r->bad && !*refused)
        *refused = acl_resolve((struct str){start.p, (size_t)(r->p - start.p)}, &who, acl);
    return *refused || r->bad ? STR("") : (struct str){acl->p, acl->len};
}

/* acl holds what the operation's list was resolved to, and must live as long as it. */
bool wire_read_op(struct wire_conn *c, int type, struct reader *r, struct buf *acl,
                  struct keeper_op *ret_op)
{
    struct keeper_op op = {.version = KEEPER_ANY_VERSION};
    bool sequential = false;

    op.path = jute_bytes(r);
    switch (type) {
    case OP_CREATE:
    case OP_CREATE2:
        op.kind = KEEPER_CREATE;
        op.data = jute_bytes(r);
        op.acl = read_acl(c, r, acl, &op.refused);
        op.flags = jute_i32(r);
        if (op.flags & ~(KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL))
            op.refused = DROVER_UNIMPLEMENTED; /* containers and nodes with a time to live */
        sequential = op.flags & KEEPER_SEQUENTIAL;
        break;
    case OP_DELETE:
        op.kind = KEEPER_DELETE;
        op.version = jute_i32(r);
        break;
    case OP_SET_DATA:
        op.kind = KEEPER_SET;
        op.data = jute_bytes(r);
        op.version = jute_i32(r);
        break;
    case OP_SET_ACL:
        op.kind = KEEPER_SET_ACL;
        op.acl = read_acl(c, r, acl, &op.refused);
        op.version = jute_i32(r);
        break;
    case OP_CHECK:
        op.kind = KEEPER_CHECK;
        op.version = jute_i32(r);
        break;
    default:
        return false;
    }
    if (!path_is_valid(op.path, sequential) ||
        (op.kind == KEEPER_DELETE && path_is_special(op.path)))
        op.refused = DROVER_BAD_ARGUMENT;
    *ret_op = op;
    return !r->bad;
}

/* A transaction as it is read. */
struct bundle {
    struct keeper_op *ops;
    struct buf *acls;
    int *types;
    size_t count, cap;
};

static void bundle_release(struct bundle *b)
{
    for (size_t i = 0; i < b->count; i++)
        buf_release(&b->acls[i]);
    free(b->ops);
    free(b->acls);
    free(b->types);
}

static bool bundle_add(struct wire_conn *c, struct bundle *b, int type, struct reader *r)
{
    if (b->count == b->cap) {
        b->cap = b->cap ? b->cap * 2 : 16;
        b->ops = mem_realloc(b->ops, b->cap * sizeof *b->ops);
        b->acls = mem_realloc(b->acls, b->cap * sizeof *b->acls);
        b->types = mem_realloc(b->types, b->cap * sizeof *b->types);
    }
    b->acls[b->count] = (struct buf){0};
    b->types[b->count] = type;
    b->count++;
    return wire_read_op(c, type, r, &b->acls[b->count - 1], &b->ops[b->count - 1]);
}

static void put_header(struct buf *out, int type, bool done, int err)
{
    jute_put_i32(out, type);
    jute_put_bool(out, done);
    jute_put_i32(out, err);
}

static void put_error(struct buf *out, int err)
{
    put_header(out, OP_ERROR, false, err);
    jute_put_i32(out, err);
}

static void put_result(struct buf *out, int type, const struct keeper_result *result)
{
    put_header(out, type, false, 0);
    if (type == OP_CREATE || type == OP_CREATE2)
        jute_put_bytes(out, str_of(result->path));
    if (type == OP_CREATE2 || type == OP_SET_DATA)
        jute_put_stat(out, &result->stat);
}

void wire_multi(struct wire_conn *c, struct reader *r, struct wire_answer *a)
{
    struct acl_who who = wire_who(c);
    struct keeper_result *results = NULL;
    struct bundle b = {0};
    int err = 0;

    for (;;) {
        int type = jute_i32(r);
        bool done = jute_bool(r);

        jute_i32(r);
        if (r->bad || done)
            break;
        if (!bundle_add(c, &b, type, r))
            r->bad = true;
    }
    if (!r->bad && b.count) {
        results = mem_zalloc(b.count * sizeof *results);
        err = engine_apply(c->w->l, c->session, &who, b.ops, b.count, results);
    }
    for (size_t i = 0; results && i < b.count; i++)
        if (err)
            put_error(&c->w->body, wire_error(results[i].err));
        else
            put_result(&c->w->body, b.types[i], &results[i]);
    put_header(&c->w->body, OP_ERROR, true, -1);
    a->lsn = a->zxid = c->w->l->tree.zxid;
    if (results)
        keeper_results_release(results, b.count);
    free(results);
    bundle_release(&b);
}

static void read_one(struct wire_conn *c, int type, struct str path)
{
    struct acl_who who = wire_who(c);
    struct buf *out = &c->w->body;
    struct tree_view v;
    int err =
        path_is_valid(path, false) ? tree_look(&c->w->l->tree, path, &v) : DROVER_BAD_ARGUMENT;

    if (!err && !acl_allows(v.acl, ACL_READ, &who))
        err = DROVER_NO_AUTH;
    if (err) {
        put_error(out, wire_error(err));
        return;
    }
    put_header(out, type, false, 0);
    if (type == OP_GET_CHILDREN) {
        wire_put_children(c, path);
        return;
    }
    jute_put_bytes(out, v.data);
    jute_put_stat(out, &v.stat);
}

/* Each answers for itself: one that fails does not stop the others. */
void wire_multi_read(struct wire_conn *c, struct reader *r, struct wire_answer *a)
{
    for (;;) {
        int type = jute_i32(r);
        bool done = jute_bool(r);
        struct str path;

        jute_i32(r);
        if (r->bad || done)
            break;
        path = jute_bytes(r);
        jute_bool(r); /* watches are not set by this request */
        if (type != OP_GET_DATA && type != OP_GET_CHILDREN)
            r->bad = true;
        else if (!r->bad)
            read_one(c, type, path);
    }
    put_header(&c->w->body, OP_ERROR, true, -1);
    a->lsn = c->w->l->tree.zxid;
}
