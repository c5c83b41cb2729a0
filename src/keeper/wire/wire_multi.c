/*
 * Changes, single or in a transaction, and multi-reads.
 *
 * An operation that is invalid by itself (its path, its access list, a kind that is not served)
 * keeps its error until its turn comes, because ZooKeeper reports the first operation that fails.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/path.h"
#include "keeper/wire/wire_impl.h"

enum { OP_ERROR = -1 }; /* in a multi: the failed operation, and the end */

enum { FLAGS_COUNT = 7 }; /* the last three are containers and TTL nodes */

/* 0, or why the list is invalid. An open list, the usual case, is stored as none. */
static int read_acl(struct wire_conn *c, struct reader *r, struct buf *acl, struct str *ret_list)
{
    struct acl_who who = wire_who(c);
    struct reader start = *r;
    int32_t count = jute_i32(r);

    for (int32_t i = 0; i < count && !r->bad; i++) {
        jute_i32(r);
        jute_bytes(r);
        jute_bytes(r);
    }
    if (r->bad)
        return DROVER_BAD_ACL;
    int err = acl_resolve((struct str){start.p, (size_t)(r->p - start.p)}, &who, acl);
    if (!err && !str_eq(buf_str(acl), ACL_OPEN_LIST))
        *ret_list = buf_str(acl);
    return err;
}

static int check_flags(int type, int32_t flags)
{
    if (flags < 0 || flags >= FLAGS_COUNT)
        return DROVER_BAD_ARGUMENT;
    if (flags & ~(KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL))
        return DROVER_UNIMPLEMENTED;
    return type == WIRE_CREATE || type == WIRE_CREATE2 ? 0 : DROVER_UNIMPLEMENTED;
}

/* Whether the parent in the path can exist. */
static bool has_parent(struct str path)
{
    return path.len && memchr(path.p, '/', path.len) && !memchr(path.p, '\0', path.len);
}

/*
 * ZooKeeper looks up the node, or the parent of a new one, before it validates the rest of a path:
 * an invalid path then gives NO_NODE.
 */
static int check_path(const struct keeper_op *op)
{
    bool sequential = op->flags & KEEPER_SEQUENTIAL, names = has_parent(op->path);

    if (op->kind == KEEPER_DELETE && path_is_special(op->path))
        return DROVER_BAD_ARGUMENT;
    if (path_is_valid(op->path, sequential))
        return 0;
    if (names && op->kind == KEEPER_DELETE)
        return DROVER_NO_NODE;
    if (names && op->kind == KEEPER_CREATE && !path_is_valid(path_parent(op->path), false))
        return DROVER_NO_NODE;
    return DROVER_BAD_ARGUMENT;
}

/* acl holds the resolved access list, and must live as long as the operation. */
bool wire_read_op(struct wire_conn *c, int type, struct reader *r, struct buf *acl,
                  struct keeper_op *ret_op)
{
    struct keeper_op op = {.version = KEEPER_ANY_VERSION};
    int acl_err = 0;

    op.path = jute_bytes(r);
    switch (type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL:
        op.kind = KEEPER_CREATE;
        op.data = jute_data(r);
        acl_err = read_acl(c, r, acl, &op.acl);
        op.flags = jute_i32(r);
        if (type == WIRE_CREATE_TTL)
            jute_i64(r);
        op.refused = check_flags(type, op.flags);
        break;
    case WIRE_DELETE:
        op.kind = KEEPER_DELETE;
        op.version = jute_i32(r);
        break;
    case WIRE_SET_DATA:
        op.kind = KEEPER_SET;
        op.data = jute_data(r);
        op.version = jute_i32(r);
        break;
    case WIRE_SET_ACL:
        op.kind = KEEPER_SET_ACL;
        acl_err = read_acl(c, r, acl, &op.acl);
        op.version = jute_i32(r);
        break;
    case WIRE_CHECK:
        op.kind = KEEPER_CHECK;
        op.version = jute_i32(r);
        break;
    default:
        return false;
    }
    if (!op.refused && op.kind == KEEPER_CREATE && has_parent(op.path))
        op.refused = acl_err;
    if (!op.refused)
        op.refused = check_path(&op);
    if (!op.refused)
        op.refused = acl_err;
    *ret_op = op;
    return !r->bad;
}

/* A transaction while it is read. */
struct bundle {
    struct keeper_op *ops;
    struct buf *acls;
    int *types;
    size_t count, cap;
    size_t acl_bytes; /* resolving can make a list much longer */
};

static void bundle_release(struct bundle *b)
{
    for (size_t i = 0; i < b->count; i++)
        buf_release(&b->acls[i]);
    free(b->ops);
    free(b->acls);
    free(b->types);
}

static bool may_be_bundled(int type)
{
    static const int TYPES[] = {WIRE_CREATE, WIRE_CREATE2,          WIRE_DELETE,    WIRE_SET_DATA,
                                WIRE_CHECK,  WIRE_CREATE_CONTAINER, WIRE_CREATE_TTL};

    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (TYPES[i] == type)
            return true;
    return false;
}

/* 0, or why the whole transaction is refused. */
static int bundle_add(struct wire_conn *c, struct bundle *b, int type, struct reader *r)
{
    if (!may_be_bundled(type))
        return WIRE_MARSHALLING_ERROR;
    if (b->count == b->cap) {
        b->cap = b->cap ? b->cap * 2 : 16;
        b->ops = mem_realloc(b->ops, b->cap * sizeof *b->ops);
        b->acls = mem_realloc(b->acls, b->cap * sizeof *b->acls);
        b->types = mem_realloc(b->types, b->cap * sizeof *b->types);
    }
    b->acls[b->count] = (struct buf){0};
    b->types[b->count] = type;
    b->count++;
    if (!wire_read_op(c, type, r, &b->acls[b->count - 1], &b->ops[b->count - 1]))
        return WIRE_MARSHALLING_ERROR;
    b->acl_bytes += b->acls[b->count - 1].len;
    return b->acl_bytes > KEEPER_REQUEST_MAX ? WIRE_SYSTEM_ERROR : 0;
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
    put_header(out, type == WIRE_CREATE2 ? WIRE_CREATE : type, false, 0); /* the empty stat */
    if (type == WIRE_CREATE || type == WIRE_CREATE2)
        jute_put_bytes(out, str_of(result->path));
    if (type == WIRE_SET_DATA)
        jute_put_stat(out, &result->stat);
}

void wire_multi(struct wire_conn *c, struct reader *r, struct wire_answer *a)
{
    struct acl_who who = wire_who(c);
    struct keeper_result *results = NULL;
    struct bundle b = {0};
    int err = 0;

    while (!a->error) {
        int type = jute_i32(r);
        bool done = jute_bool(r);

        jute_i32(r);
        if (r->bad || done)
            break;
        a->error = bundle_add(c, &b, type, r);
    }
    if (!r->bad && !a->error && b.count) {
        results = mem_zalloc(b.count * sizeof *results);
        err = engine_apply(c->w->l, c->session, &who, b.ops, b.count, results, JOURNAL_WRITER);
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
    int err = path_is_valid(path, false) ? tree_look(&c->w->l->tree, path, &v) : DROVER_NO_NODE;

    if (!err && !acl_allows(v.acl, ACL_READ, &who))
        err = DROVER_NO_AUTH;
    if (err) {
        put_error(out, wire_error(err));
        return;
    }
    put_header(out, type, false, 0);
    if (type == WIRE_GET_CHILDREN) {
        wire_put_children(c, path);
        return;
    }
    jute_put_bytes(out, v.data);
    jute_put_stat(out, &v.stat);
}

/* Each has its own result: a failed read does not stop the others. */
void wire_multi_read(struct wire_conn *c, struct reader *r, struct wire_answer *a)
{
    while (!a->error) {
        int type = jute_i32(r);
        bool done = jute_bool(r);

        jute_i32(r);
        if (r->bad || done)
            break;
        if (type != WIRE_GET_DATA && type != WIRE_GET_CHILDREN) {
            a->error = WIRE_MARSHALLING_ERROR;
            break;
        }
        struct str path = jute_bytes(r);
        jute_bool(r); /* this request sets no watches */
        if (!r->bad)
            read_one(c, type, path);
    }
    put_header(&c->w->body, OP_ERROR, true, -1);
    a->lsn = c->w->l->tree.zxid;
}
