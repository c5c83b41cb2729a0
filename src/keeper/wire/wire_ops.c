/*
 * The requests: a table from ZooKeeper's operation numbers to functions. Each runs under the
 * store's lock, reads its arguments, writes the body of its answer to w->body, and sets which LSN
 * the answer saw. A request of an unknown kind is answered, and then the connection is closed. A
 * truncated one is an error and has no effect; if it is an auth or a sasl, it closes the
 * connection.
 */
#include "keeper/path.h"
#include "keeper/tree/quota.h"
#include "keeper/wire/wire_impl.h"

static const struct {
    int err, zookeeper;
} ERRORS[] = {
    {DROVER_BAD_ARGUMENT, WIRE_BAD_ARGUMENTS},
    {DROVER_NO_NODE, WIRE_NO_NODE},
    {DROVER_NO_AUTH, -102},
    {DROVER_BAD_VERSION, -103},
    {DROVER_NO_CHILDREN_FOR_EPHEMERALS, -108},
    {DROVER_EXISTS, -110},
    {DROVER_NOT_EMPTY, -111},
    {DROVER_SESSION_EXPIRED, -112},
    {DROVER_BAD_ACL, -114},
    {DROVER_QUOTA_EXCEEDED, -125},
    {DROVER_DAMAGED, WIRE_MARSHALLING_ERROR}, /* a null path; a quota that cannot be read */
    {DROVER_NOT_TRIED, -2},
    {DROVER_UNIMPLEMENTED, WIRE_UNIMPLEMENTED},
};

int wire_error(int err)
{
    if (!err)
        return 0;
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].err == err)
            return ERRORS[i].zookeeper;
    return WIRE_SYSTEM_ERROR;
}

enum { XID_PING = -2 }; /* of the answer, whatever the request had */

static struct tree *tree_of(struct wire_conn *c)
{
    return &c->w->l->tree;
}

/* As in ZooKeeper, the empty path is that of the root. */
static struct str node_path(struct str path)
{
    return path.p && !path.len ? STR("/") : path;
}

static int look(const struct tree *t, struct str path, struct tree_view *ret_view)
{
    if (!path.p)
        return DROVER_DAMAGED;
    path = node_path(path);
    return path_is_valid(path, false) ? tree_look(t, path, ret_view) : DROVER_NO_NODE;
}

bool wire_look(struct wire_conn *c, struct str path, int permission, struct wire_request *q,
               struct tree_view *ret_view)
{
    if (!wire_may_read(c, node_path(path))) {
        q->error = wire_error(DROVER_NO_AUTH);
        return false;
    }
    int err = look(tree_of(c), path, ret_view);
    q->lsn = tree_of(c)->zxid;
    if (!err) {
        const struct keeper_stat *stat = &ret_view->stat;
        if (!quota_may_change(tree_of(c), path))
            q->lsn = stat->mzxid > stat->pzxid ? stat->mzxid : stat->pzxid;
        if (q->lsn < c->w->acl_lsn)
            q->lsn = c->w->acl_lsn;
        if (permission && !acl_allows(ret_view->acl, permission, &c->who))
            err = DROVER_NO_AUTH;
    }
    q->error = wire_error(err);
    return !err;
}

/*
 * create: the path; create2 and its kin: that and the stat; setData, setACL: the stat; the others:
 * nothing.
 */
static void op_change(struct wire_conn *c, struct wire_request *q)
{
    CLEANUP(arena_release) struct arena arena = {0};
    struct keeper_result result = {0};
    struct keeper_op op;
    if (wire_read_op(c, q->type, false, &q->r, &arena, &op))
        q->error =
            wire_error(engine_apply(c->w->l, c->session, &c->who, &op, 1, &result, JOURNAL_WRITER));
    q->lsn = q->zxid = tree_of(c)->zxid;
    if (result.path)
        jute_put_bytes(&c->w->body, str_of(result.path));
    if (q->type != WIRE_CREATE && q->type != WIRE_DELETE && q->type != WIRE_CHECK)
        jute_put_stat(&c->w->body, &result.stat);
    if (!q->error && q->type == WIRE_SET_ACL)
        c->w->acl_lsn = q->zxid;
    keeper_results_release(&result, 1);
}

/*
 * One watch too many is an error: the client must know that it was not set. A truncated request
 * sets none. No node has a null path, one with a NUL, or a longer one.
 */
static void watch(struct wire_conn *c, struct str path, int mode, struct wire_request *q)
{
    if (q->r.bad || !path.p || path.len > PATH_MAX_LEN ||
        (path.len && memchr(path.p, '\0', path.len)))
        return;
    if (!wire_may_read(c, path))
        q->error = wire_error(DROVER_NO_AUTH);
    else if (c->watch_len < WIRE_WATCHES_MAX || wire_watch_has(c, path, WIRE_WATCH_ANY))
        wire_watch_add(c, path, mode);
    else
        q->error = WIRE_SYSTEM_ERROR;
}

static void op_exists(struct wire_conn *c, struct wire_request *q)
{
    struct str path = jute_data(&q->r);
    bool watched = jute_bool(&q->r);
    struct tree_view v;
    bool found = wire_look(c, path, 0, q, &v);
    if (path.len && memchr(path.p, '\0', path.len))
        q->error = wire_error(DROVER_BAD_ARGUMENT);
    if (watched && path.p)
        watch(c, path, WIRE_WATCH_DATA, q);
    if (found)
        jute_put_stat(&c->w->body, &v.stat);
}

static void put_children(struct wire_conn *c, struct str path)
{
    CLEANUP(buf_release) struct buf names = {0};
    struct keeper_stat stat;
    size_t count = 0;
    tree_children(tree_of(c), node_path(path), &names, &count, &stat);
    jute_put_i32(&c->w->body, (int32_t)count);
    const char *name = names.p;
    for (size_t i = 0; i < count; i++, name += strlen(name) + 1)
        jute_put_bytes(&c->w->body, str_of(name));
}

void wire_put_node(struct wire_conn *c, int type, struct str path, const struct tree_view *v)
{
    if (type == WIRE_GET_DATA)
        jute_put_bytes(&c->w->body, v->data);
    else
        put_children(c, path);
    if (type != WIRE_GET_CHILDREN)
        jute_put_stat(&c->w->body, &v->stat);
}

static void op_read(struct wire_conn *c, struct wire_request *q)
{
    struct str path = jute_data(&q->r);
    bool watched = jute_bool(&q->r);
    struct tree_view v;
    if (!wire_look(c, path, ACL_READ, q, &v))
        return;
    if (watched)
        watch(c, path, q->type == WIRE_GET_DATA ? WIRE_WATCH_DATA : WIRE_WATCH_CHILDREN, q);
    wire_put_node(c, q->type, path, &v);
}

static void op_get_acl(struct wire_conn *c, struct wire_request *q)
{
    struct str path = jute_data(&q->r);
    struct tree_view v;
    if (!wire_look(c, path, ACL_READ | ACL_ADMIN, q, &v))
        return;
    if (acl_allows(v.acl, ACL_ADMIN, &c->who))
        buf_put_str(&c->w->body, v.acl);
    else
        acl_put_masked(&c->w->body, v.acl);
    jute_put_stat(&c->w->body, &v.stat);
}

static void op_sync(struct wire_conn *c, struct wire_request *q)
{
    struct str path = jute_data(&q->r);
    q->lsn = tree_of(c)->zxid;
    jute_put_bytes(&c->w->body, path);
}

/*
 * A watch from an earlier connection of the client: fires at once if the client has missed a
 * change.
 */
static void bring_watch(struct wire_conn *c, struct str path, int mode, bool exists, int64_t since,
                        struct wire_request *q)
{
    struct tree_view v;
    bool there = look(tree_of(c), path, &v) == 0;
    int64_t now = tree_of(c)->zxid;
    if (!wire_may_read(c, path))
        return;
    if (mode & (WIRE_WATCH_PERSISTENT | WIRE_WATCH_RECURSIVE))
        watch(c, path, mode, q);
    else if (exists && there)
        wire_watch_tell(c, KEEPER_EVENT_CREATED, path, now);
    else if (!exists && !there)
        wire_watch_tell(c, KEEPER_EVENT_DELETED, path, now);
    else if (!exists && mode == WIRE_WATCH_DATA && v.stat.mzxid > since)
        wire_watch_tell(c, KEEPER_EVENT_CHANGED, path, now);
    else if (mode == WIRE_WATCH_CHILDREN && v.stat.pzxid > since)
        wire_watch_tell(c, KEEPER_EVENT_CHILDREN, path, now);
    else
        watch(c, path, mode, q);
}

static void op_set_watches(struct wire_conn *c, struct wire_request *q)
{
    enum { EXISTS = 1, LISTS = 3, LISTS2 = 5 };
    static const int MODES[LISTS2] = {WIRE_WATCH_DATA, [EXISTS] = WIRE_WATCH_DATA,
                                      WIRE_WATCH_CHILDREN, WIRE_WATCH_PERSISTENT,
                                      WIRE_WATCH_RECURSIVE};
    int64_t since = jute_i64(&q->r);
    int lists = q->type == WIRE_SET_WATCHES2 ? LISTS2 : LISTS;
    struct reader ahead = q->r;
    for (int list = 0; list < lists; list++)
        for (int32_t left = jute_i32(&ahead); left > 0 && !ahead.bad; left--)
            jute_bytes(&ahead);
    q->r.bad = ahead.bad; /* then it has no effect at all */
    for (int list = 0; list < lists; list++) {
        int32_t count = jute_i32(&q->r);
        for (int32_t i = 0; i < count && !q->r.bad; i++) {
            struct str path = jute_data(&q->r);
            if (!path.p)
                q->error = WIRE_MARSHALLING_ERROR;
            else if (!q->r.bad && !q->error)
                bring_watch(c, path, MODES[list], list == EXISTS, since, q);
        }
    }
    q->lsn = c->events_lsn;
}

static void op_add_watch(struct wire_conn *c, struct wire_request *q)
{
    struct str path = jute_data(&q->r);
    int32_t mode = jute_i32(&q->r);
    if (mode < 0 || mode > 1)
        q->error = WIRE_MARSHALLING_ERROR;
    else
        watch(c, path, mode ? WIRE_WATCH_RECURSIVE : WIRE_WATCH_PERSISTENT, q);
    jute_put_i32(&c->w->body, 0);
}

/* Checks whether there is such a watch, or removes it. */
static void op_remove_watches(struct wire_conn *c, struct wire_request *q)
{
    static const int MODES[] = {
        [1] = WIRE_WATCH_ON_CHILDREN, [2] = WIRE_WATCH_ON_DATA, [3] = WIRE_WATCH_ANY};
    struct str path = jute_data(&q->r);
    int32_t kind = jute_i32(&q->r);
    bool absent = !path.p || (path.len && !memchr(path.p, '/', path.len));
    if (kind < 1 || kind > 3 || (absent && q->type == WIRE_CHECK_WATCHES)) {
        q->error = WIRE_MARSHALLING_ERROR;
        return;
    }
    bool found = q->type == WIRE_CHECK_WATCHES ? wire_watch_has(c, path, MODES[kind])
                                               : wire_watch_remove(c, path, MODES[kind]);
    if (!found)
        q->error = WIRE_NO_WATCHER;
}

static void op_get_ephemerals(struct wire_conn *c, struct wire_request *q)
{
    struct str prefix = jute_bytes(&q->r);
    const struct tree_session *s = sessions_find(&tree_of(c)->sessions, c->session);
    const struct tree_nodes *ns = &tree_of(c)->nodes;
    CLEANUP(buf_release) struct buf path = {0};
    int32_t count = 0;
    jute_put_i32(&c->w->body, 0);
    for (uint32_t ref = s->first_ephemeral; ref; ref = node_at(ns, ref)->more->next_owned) {
        path.len = 0;
        nodes_put_path(ns, ref, &path);
        if (!str_starts(buf_str(&path), prefix))
            continue;
        jute_put_bytes(&c->w->body, buf_str(&path));
        count++;
    }
    jute_store_i32(c->w->body.p, count);
    q->lsn = tree_of(c)->zxid;
}

static void op_count_descendants(struct wire_conn *c, struct wire_request *q)
{
    struct str path = jute_data(&q->r);
    const struct tree_nodes *ns = &tree_of(c)->nodes;
    struct tree_view v;
    int32_t count = !path.len; /* for the empty path, ZooKeeper counts the root */

    if (!wire_look(c, path, ACL_READ, q, &v))
        return;
    uint32_t top = nodes_find(ns, node_path(path));
    for (uint32_t ref = top; (ref = nodes_next(ns, top, ref));)
        count++;
    jute_put_i32(&c->w->body, count);
    q->lsn = tree_of(c)->zxid;
}

static void op_reconfig(struct wire_conn *c, struct wire_request *q)
{
    (void)c;
    for (int text = 0; text < 3; text++)
        jute_bytes(&q->r);
    jute_i64(&q->r);
    q->error = WIRE_RECONFIG_DISABLED;
}

static void op_close(struct wire_conn *c, struct wire_request *q)
{
    q->error = wire_error(engine_session_end(c->w->l, c->session));
    q->lsn = q->zxid = tree_of(c)->zxid;
    wire_conn_finish(c);
}

/* The name, in `lop` of the word cons, is NULL for what ZooKeeper does not count. */
static const struct op {
    int type;
    const char *name;
    void (*run)(struct wire_conn *c, struct wire_request *q);
    int error; /* without a function */
} OPS[] = {
    {WIRE_GET_DATA, "GETD", op_read},
    {WIRE_SET_DATA, "SETD", op_change},
    {WIRE_EXISTS, "EXIS", op_exists},
    {WIRE_CREATE, "CREA", op_change},
    {WIRE_CREATE2, "CREA", op_change},
    {WIRE_DELETE, "DELE", op_change},
    {WIRE_GET_CHILDREN, "GETC", op_read},
    {WIRE_GET_CHILDREN2, "GETC", op_read},
    {WIRE_PING, "PING", NULL, 0},
    {WIRE_MULTI, "MULT", wire_multi},
    {WIRE_MULTI_READ, "MLTR", wire_multi_read},
    {WIRE_CHECK, "CHEC", op_change},
    {WIRE_GET_ACL, "GETA", op_get_acl},
    {WIRE_SET_ACL, "SETA", op_change},
    {WIRE_SYNC, "SYNC", op_sync},
    {WIRE_RECONFIG, "RECO", op_reconfig},
    {WIRE_CHECK_WATCHES, "CHKW", op_remove_watches},
    {WIRE_REMOVE_WATCHES, "REMW", op_remove_watches},
    {WIRE_CREATE_CONTAINER, "CREA", op_change},
    {WIRE_CREATE_TTL, "CREA", op_change},
    {WIRE_DELETE_CONTAINER, NULL, NULL, WIRE_BAD_ARGUMENTS},
    {WIRE_AUTH, NULL, wire_auth},
    {WIRE_SET_WATCHES, "SETW", op_set_watches},
    {WIRE_SET_WATCHES2, "STW2", op_set_watches},
    {WIRE_SASL, NULL, wire_sasl},
    {WIRE_GET_EPHEMERALS, "GETE", op_get_ephemerals},
    {WIRE_COUNT_DESCENDANTS, "GETACN", op_count_descendants},
    {WIRE_ADD_WATCH, "ADDW", op_add_watch},
    {WIRE_WHO_AM_I, "HOMI", wire_who_am_i},
    {WIRE_CLOSE, "CLOS", op_close},
};

static void run_op(struct wire_conn *c, struct wire_request *q)
{
    const struct op *op = OPS, *end = OPS + sizeof OPS / sizeof *OPS;
    while (op < end && op->type != q->type)
        op++;
    if (c->w->o.require_auth && !wire_may_ask(c, q->type)) {
        wire_note_refusal(c, "request", STR(""));
        q->error = WIRE_AUTH_REQUIRED;
        q->no_zxid = true;
        wire_conn_finish(c);
    } else if (op == end) {
        q->error = WIRE_UNIMPLEMENTED;
        q->no_zxid = true;
        q->zxid = -1;
        wire_conn_finish(c);
    } else {
        q->name = op->name;
        q->error = op->error;
        if (op->run)
            op->run(c, q);
    }
}

/* The packet of an answer: its length, the header, the body unless there is an error. */
static void put_answer(struct wire_conn *c, int32_t xid, const struct wire_request *q,
                       enum wire_latency_kind kind)
{
    struct wire *w = c->w;
    size_t body_len = q->error && !q->keeps_body ? 0 : w->body.len;
    if (c->told_zxid < q->zxid)
        c->told_zxid = q->zxid;
    w->head.len = 0;
    jute_put_i32(&w->head, (int32_t)(16 + body_len));
    jute_put_i32(&w->head, xid);
    jute_put_i64(&w->head, q->no_zxid ? q->zxid : c->told_zxid);
    jute_put_i32(&w->head, q->error);
    wire_conn_put_events(c); /* before the first answer that may show the change */
    wire_conn_put(c, buf_str(&w->head), q->lsn);
    wire_conn_put(c, (struct str){w->body.p, body_len}, q->lsn);
    wire_count_sent(c, 1);
    if (q->name)
        wire_conn_answered(c, q->name, xid, c->told_zxid, kind);
}

/* The last transaction, for the answer's header: it must be one that cannot get lost. */
static int64_t known_zxid(const struct local *l, int64_t lsn)
{
    int64_t durable = l->gate.strict ? atomic_load(&l->gate.durable) : l->tree.zxid;
    return durable > lsn ? durable : lsn;
}

bool wire_request(struct wire_conn *c, struct str packet)
{
    struct wire_request q = {.r = {packet.p, packet.len, false}};
    struct local *l = c->w->l;
    int32_t xid = jute_i32(&q.r);
    q.type = jute_i32(&q.r);
    if (q.r.bad)
        return false;
    LOCKED(&l->lock);
    struct tree_session *s = sessions_find(&l->tree.sessions, c->session);
    if (!s)
        return false;
    session_touch(s, c->w->now_ms);
    c->w->body.len = 0;
    wire_refresh_rights(c);
    c->refusal_noted = false;
    run_op(c, &q);
    enum wire_latency_kind kind = q.zxid ? WIRE_UPDATE : WIRE_READ;
    if (!q.zxid && !q.no_zxid)
        q.zxid = known_zxid(l, q.lsn);
    if (q.type == WIRE_PING)
        xid = XID_PING;
    if (q.r.bad)
        q.error = WIRE_MARSHALLING_ERROR;
    bool good = !q.r.bad || (q.type != WIRE_AUTH && q.type != WIRE_SASL);
    if (good)
        put_answer(c, xid, &q, kind);
    return good;
}
