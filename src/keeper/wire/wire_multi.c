/*
 * Changes, single or in a transaction, and multi-reads.
 *
 * An operation that is invalid by itself (its path, its access list, a kind that is not served)
 * keeps its error until its turn comes, because ZooKeeper reports the first operation that fails.
 */
#include "base/mem.h"
#include "keeper/path.h"
#include "keeper/wire/wire_impl.h"

enum { OP_ERROR = -1 }; /* in a multi: the failed operation, and the end */

static const struct {
    int type;
    enum keeper_op_kind kind;
} KINDS[] = {
    {WIRE_CREATE, KEEPER_CREATE},           {WIRE_CREATE2, KEEPER_CREATE},
    {WIRE_CREATE_CONTAINER, KEEPER_CREATE}, {WIRE_CREATE_TTL, KEEPER_CREATE},
    {WIRE_DELETE, KEEPER_DELETE},           {WIRE_SET_DATA, KEEPER_SET},
    {WIRE_SET_ACL, KEEPER_SET_ACL},         {WIRE_CHECK, KEEPER_CHECK},
};

static bool find_kind(int type, enum keeper_op_kind *ret_kind)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (KINDS[i].type == type) {
            *ret_kind = KINDS[i].kind;
            return true;
        }
    return false;
}

/* 0, or why the list is invalid. An open list, the usual case, is stored as none. */
static int read_acl(struct wire_conn *c, struct reader *r, struct arena *a, struct str *ret_list)
{
    CLEANUP(buf_release) struct buf list = {0};
    const char *start = r->p;
    int32_t count = jute_i32(r);
    for (int32_t i = 0; i < count && !r->bad; i++) {
        jute_i32(r);
        jute_bytes(r);
        jute_bytes(r);
    }
    if (r->bad)
        return DROVER_BAD_ACL;
    TRY(acl_resolve((struct str){start, (size_t)(r->p - start)}, &c->who, &list));
    if (!str_eq(buf_str(&list), ACL_OPEN_LIST))
        *ret_list = arena_take(a, &list);
    return 0;
}

enum { MODE_CONTAINER = 4, CHANGERS = ROLE_WORK | ROLE_SUBMIT };

/* The modes of a create, by their numbers. */
static const struct {
    int flags;
    bool ttl;
} MODES[] = {
    {0},
    {KEEPER_EPHEMERAL},
    {KEEPER_SEQUENTIAL},
    {KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL},
    [MODE_CONTAINER] = {0},
    {0, true},
    {KEEPER_SEQUENTIAL, true},
};

/*
 * Reads the mode and, if the request has one, the time to live. A request of its own makes a
 * container by its type; in a multi the mode counts, whatever the type, and a TTL without a time
 * fails the request when it is this operation's turn.
 */
static void read_mode(const struct wire *w, int type, bool in_multi, struct reader *r,
                      struct keeper_op *op)
{
    int32_t mode = jute_i32(r);
    int64_t ttl_ms = type == WIRE_CREATE_TTL ? jute_i64(r) : -1;
    if (mode < 0 || mode >= (int32_t)(sizeof MODES / sizeof *MODES)) {
        op->refused = DROVER_BAD_ARGUMENT;
        return;
    }
    bool ttl = MODES[mode].ttl;
    op->flags = MODES[mode].flags;
    if (in_multi ? mode == MODE_CONTAINER : type == WIRE_CREATE_CONTAINER)
        op->owner = KEEPER_CONTAINER;
    else if (ttl)
        op->owner = keeper_ttl(ttl_ms);
    if (ttl ? ttl_ms <= 0 || ttl_ms > KEEPER_TTL_MAX_MS : ttl_ms >= 0 && !in_multi)
        op->refused = DROVER_BAD_ARGUMENT;
    if (in_multi && ttl && type != WIRE_CREATE_TTL)
        op->refused = DROVER_DAMAGED;
    else if (ttl && w->o.no_ttl)
        op->refused = DROVER_UNIMPLEMENTED;
}

/* Whether the parent in the path can exist. */
static bool has_parent(struct str path)
{
    return path.len && memchr(path.p, '/', path.len) && !memchr(path.p, '\0', path.len);
}

/*
 * ZooKeeper looks up the node to delete, or the parent of a new one, and checks the permission
 * there, before it validates the rest of a path. So does the tree, which has no node with an
 * invalid path.
 */
static int check_path(struct keeper_op *op)
{
    bool sequential = op->flags & KEEPER_SEQUENTIAL, names = has_parent(op->path);
    if (op->kind == KEEPER_DELETE && path_is_special(op->path))
        return DROVER_BAD_ARGUMENT;
    if (path_is_valid(op->path, sequential))
        return 0;
    if (!op->path.p && (op->kind == KEEPER_CREATE || op->kind == KEEPER_DELETE))
        return DROVER_DAMAGED;
    if (!names || (op->kind != KEEPER_CREATE && op->kind != KEEPER_DELETE))
        return DROVER_BAD_ARGUMENT;
    if (op->kind == KEEPER_CREATE)
        op->bad_name = DROVER_BAD_ARGUMENT;
    return *op->path.p == '/' ? 0 : DROVER_NO_NODE;
}

/* All requests have their fields in this order. The arena holds the resolved access list. */
bool wire_read_op(struct wire_conn *c, int type, bool in_multi, struct reader *r, struct arena *a,
                  struct keeper_op *ret_op)
{
    struct keeper_op op = {.version = KEEPER_ANY_VERSION};
    int acl_err = 0;

    if (!find_kind(type, &op.kind))
        return false;
    op.path = jute_data(r);
    bool create = op.kind == KEEPER_CREATE;
    if (create || op.kind == KEEPER_SET)
        op.data = jute_data(r);
    if (create || op.kind == KEEPER_SET_ACL)
        acl_err = read_acl(c, r, a, &op.acl);
    if (create)
        read_mode(c->w, type, in_multi, r, &op);
    else
        op.version = jute_i32(r);
    if (op.path.p && !wire_may(c, op.path, op.kind == KEEPER_CHECK ? ROLE_READ : CHANGERS))
        op.refused = DROVER_NO_AUTH;
    if (!op.refused && create && has_parent(op.path))
        op.refused = acl_err;
    if (!op.refused)
        op.refused = check_path(&op);
    if (!op.refused)
        op.refused = acl_err;
    if (op.path.p && !r->bad && wire_audit(c, &op))
        op.refused = DROVER_NO_AUTH;
    *ret_op = op;
    return !r->bad;
}

/* The header of an operation in a multi. False: the end, or the request is truncated. */
static bool next_op(struct reader *r, int *ret_type)
{
    *ret_type = jute_i32(r);
    bool done = jute_bool(r);
    jute_i32(r);
    return !r->bad && !done;
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

/*
 * A create2 is answered as a create, with the path only; containers and TTL nodes as a create2.
 */
static void put_result(struct buf *out, const struct keeper_op *op,
                       const struct keeper_result *result)
{
    size_t i = 0;
    while (KINDS[i].kind != op->kind)
        i++;
    put_header(out, op->owner ? WIRE_CREATE2 : KINDS[i].type, false, 0);
    if (result->path)
        jute_put_bytes(out, str_of(result->path));
    if (op->kind == KEEPER_SET || op->owner)
        jute_put_stat(out, &result->stat);
}

void wire_multi(struct wire_conn *c, struct wire_request *q)
{
    CLEANUP(arena_release) struct arena arena = {0};
    CLEANUP(mem_free) struct keeper_op *ops = NULL;
    size_t count = 0, cap = 0, acl_bytes = 0;
    bool null_path = false;
    int type;

    while (!q->error && next_op(&q->r, &type)) {
        mem_grow(ops, count, cap);
        if (type == WIRE_SET_ACL || !wire_read_op(c, type, true, &q->r, &arena, &ops[count]))
            q->error = WIRE_MARSHALLING_ERROR;
        else if ((acl_bytes += ops[count++].acl.len) > (size_t)c->w->o.packet_max)
            q->error = WIRE_SYSTEM_ERROR; /* resolving can make a list much longer */
        else
            null_path |= !ops[count - 1].path.p;
    }
    if (null_path && !q->error) { /* as in ZooKeeper, an error and an empty list of results */
        q->error = WIRE_MARSHALLING_ERROR;
        q->keeps_body = true;
    }
    if (!q->r.bad && !q->error && count) {
        struct keeper_result *results = arena_zalloc(&arena, count * sizeof *results);
        int err = engine_apply(c->w->l, c->session, &c->who, ops, count, results, JOURNAL_WRITER);
        if (err == DROVER_DAMAGED)
            q->error = wire_error(err);
        for (size_t i = 0; i < count; i++)
            if (err)
                put_error(&c->w->body, wire_error(results[i].err));
            else
                put_result(&c->w->body, &ops[i], &results[i]);
        keeper_results_release(results, count);
    }
    put_header(&c->w->body, OP_ERROR, true, -1);
    q->lsn = q->zxid = c->w->l->tree.zxid;
}

static void read_one(struct wire_conn *c, int type, struct str path)
{
    struct wire_request one = {0};
    struct tree_view v;
    if (!wire_look(c, path, ACL_READ, &one, &v)) {
        put_error(&c->w->body, one.error);
        return;
    }
    put_header(&c->w->body, type, false, 0);
    wire_put_node(c, type, path, &v);
}

/*
 * Each has its own result: a failed read does not stop the others. A null path does, and as in
 * ZooKeeper the answer then has both an error and the results before it. A small request can name
 * a large node many times, so the results have a limit.
 */
void wire_multi_read(struct wire_conn *c, struct wire_request *q)
{
    int type;
    while (next_op(&q->r, &type)) {
        if (type != WIRE_GET_DATA && type != WIRE_GET_CHILDREN) {
            q->error = WIRE_MARSHALLING_ERROR;
            break;
        }
        struct str path = jute_data(&q->r);
        jute_bool(&q->r); /* this request sets no watches */
        if (!path.p) {
            q->error = WIRE_MARSHALLING_ERROR;
            q->keeps_body = true;
            break;
        }
        if (!q->r.bad)
            read_one(c, type, path);
        if (c->w->body.len > WIRE_READS_MAX) {
            q->error = WIRE_SYSTEM_ERROR;
            break;
        }
    }
    put_header(&c->w->body, OP_ERROR, true, -1);
    q->lsn = c->w->l->tree.zxid;
}
