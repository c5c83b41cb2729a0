/*
 * The requests: a table from ZooKeeper's operation numbers to functions. Each runs under the
 * store's lock, reads its arguments, writes the body of its answer to w->body, and sets in a struct
 * wire_answer which LSN the answer saw. A request of an unknown kind is answered, and then the
 * connection is closed; a truncated one closes it at once.
 */
#include "keeper/path.h"
#include "keeper/wire/wire_impl.h"

static const struct {
    int err, zookeeper;
} ERRORS[] = {
    {DROVER_BAD_ARGUMENT, -8},
    {DROVER_NO_NODE, WIRE_NO_NODE},
    {DROVER_NO_AUTH, -102},
    {DROVER_BAD_VERSION, -103},
    {DROVER_NO_CHILDREN_FOR_EPHEMERALS, -108},
    {DROVER_EXISTS, -110},
    {DROVER_NOT_EMPTY, -111},
    {DROVER_SESSION_EXPIRED, -112},
    {DROVER_BAD_ACL, -114},
    {DROVER_NOT_TRIED, -2},
    {DROVER_UNIMPLEMENTED, -6},
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

struct acl_who wire_who(struct wire_conn *c)
{
    return (struct acl_who){c->ids, c->id_count};
}

static struct tree *tree_of(struct wire_conn *c)
{
    return &c->w->l->tree;
}

/*
 * Finds a node that the client may read. The answer saw the transactions that made the node what it
 * is, or, if there is none, the last one. An invalid path names no node.
 */
static bool look(struct wire_conn *c, struct str path, int permission, struct wire_answer *a,
                 struct tree_view *v)
{
    struct acl_who who = wire_who(c);
    int err = path_is_valid(path, false) ? tree_look(tree_of(c), path, v) : DROVER_NO_NODE;

    a->lsn = tree_of(c)->zxid;
    if (!err) {
        a->lsn = v->stat.mzxid > v->stat.pzxid ? v->stat.mzxid : v->stat.pzxid;
        if (a->lsn < c->w->acl_lsn)
            a->lsn = c->w->acl_lsn;
        if (permission && !acl_allows(v->acl, permission, &who))
            err = DROVER_NO_AUTH;
    }
    a->error = wire_error(err);
    return !err;
}

static void change(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a,
                   struct keeper_result *result)
{
    struct acl_who who = wire_who(c);
    CLEANUP(buf_release) struct buf acl = {0};
    struct keeper_op op;

    if (wire_read_op(c, type, r, &acl, &op))
        a->error =
            wire_error(engine_apply(c->w->l, c->session, &who, &op, 1, result, JOURNAL_WRITER));
    a->lsn = a->zxid = tree_of(c)->zxid;
}

static void op_create(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    struct keeper_result result = {0};

    change(c, type, r, a, &result);
    if (!a->error && !r->bad) {
        jute_put_bytes(&c->w->body, str_of(result.path));
        if (type == WIRE_CREATE2)
            jute_put_stat(&c->w->body, &result.stat);
    }
    keeper_results_release(&result, 1);
}

/* delete, check: an empty body; setData, setACL: the stat. */
static void op_change(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    struct keeper_result result = {0};

    change(c, type, r, a, &result);
    if (!a->error && (type == WIRE_SET_DATA || type == WIRE_SET_ACL))
        jute_put_stat(&c->w->body, &result.stat);
    if (!a->error && type == WIRE_SET_ACL)
        c->w->acl_lsn = a->zxid;
}

/* One watch too many is an error: the client must know that it was not set. */
static void watch(struct wire_conn *c, struct str path, int mode, struct wire_answer *a)
{
    if (c->watch_len < WIRE_WATCHES_MAX || wire_watch_has(c, path, WIRE_WATCH_ANY))
        wire_watch_add(c, path, mode);
    else
        a->error = WIRE_SYSTEM_ERROR;
}

static void op_exists(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    struct str path = jute_bytes(r);
    bool watched = jute_bool(r);
    struct tree_view v;

    (void)type;
    bool found = look(c, path, 0, a, &v);
    if (path.len && memchr(path.p, '\0', path.len))
        a->error = wire_error(DROVER_BAD_ARGUMENT);
    if (watched && path_is_valid(path, false))
        watch(c, path, WIRE_WATCH_DATA, a);
    if (found)
        jute_put_stat(&c->w->body, &v.stat);
}

static void op_get_data(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    struct str path = jute_bytes(r);
    bool watched = jute_bool(r);
    struct tree_view v;

    (void)type;
    if (!look(c, path, ACL_READ, a, &v))
        return;
    if (watched)
        watch(c, path, WIRE_WATCH_DATA, a);
    jute_put_bytes(&c->w->body, v.data);
    jute_put_stat(&c->w->body, &v.stat);
}

void wire_put_children(struct wire_conn *c, struct str path)
{
    CLEANUP(buf_release) struct buf names = {0};
    struct keeper_stat stat;
    size_t count = 0;
    const char *name;

    tree_children(tree_of(c), path, &names, &count, &stat);
    jute_put_i32(&c->w->body, (int32_t)count);
    name = names.p;
    for (size_t i = 0; i < count; i++, name += strlen(name) + 1)
        jute_put_bytes(&c->w->body, str_of(name));
}

static void op_get_children(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    struct str path = jute_bytes(r);
    bool watched = jute_bool(r);
    struct tree_view v;

    if (!look(c, path, ACL_READ, a, &v))
        return;
    if (watched)
        watch(c, path, WIRE_WATCH_CHILDREN, a);
    wire_put_children(c, path);
    if (type == WIRE_GET_CHILDREN2)
        jute_put_stat(&c->w->body, &v.stat);
}

static void op_get_acl(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    struct str path = jute_bytes(r);
    struct acl_who who = wire_who(c);
    struct tree_view v;

    (void)type;
    if (!look(c, path, ACL_READ | ACL_ADMIN, a, &v))
        return;
    if (acl_allows(v.acl, ACL_ADMIN, &who))
        buf_put_str(&c->w->body, v.acl);
    else
        acl_put_masked(&c->w->body, v.acl);
    jute_put_stat(&c->w->body, &v.stat);
}

static void op_sync(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    struct str path = jute_bytes(r);

    (void)type;
    a->lsn = tree_of(c)->zxid;
    jute_put_bytes(&c->w->body, path);
}

static void op_ping(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    (void)c, (void)type, (void)r, (void)a;
}

static void op_multi(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    if (type == WIRE_MULTI)
        wire_multi(c, r, a);
    else
        wire_multi_read(c, r, a);
}

/*
 * A watch from an earlier connection of the client: fires at once if the client has missed a
 * change.
 */
static void bring_watch(struct wire_conn *c, struct str path, int mode, bool exists, int64_t since,
                        struct wire_answer *a)
{
    struct tree_view v;
    bool there = tree_look(tree_of(c), path, &v) == 0;
    int64_t now = tree_of(c)->zxid;

    if (mode & (WIRE_WATCH_PERSISTENT | WIRE_WATCH_RECURSIVE))
        watch(c, path, mode, a);
    else if (exists && there)
        wire_watch_tell(c, KEEPER_EVENT_CREATED, path, now);
    else if (!exists && !there)
        wire_watch_tell(c, KEEPER_EVENT_DELETED, path, now);
    else if (!exists && mode == WIRE_WATCH_DATA && v.stat.mzxid > since)
        wire_watch_tell(c, KEEPER_EVENT_CHANGED, path, now);
    else if (mode == WIRE_WATCH_CHILDREN && v.stat.pzxid > since)
        wire_watch_tell(c, KEEPER_EVENT_CHILDREN, path, now);
    else
        watch(c, path, mode, a);
}

static void op_set_watches(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    static const struct {
        int mode;
        bool exists;
    } LISTS[] = {{WIRE_WATCH_DATA, false},
                 {WIRE_WATCH_DATA, true},
                 {WIRE_WATCH_CHILDREN, false},
                 {WIRE_WATCH_PERSISTENT, false},
                 {WIRE_WATCH_RECURSIVE, false}};
    int64_t since = jute_i64(r);
    int lists = type == WIRE_SET_WATCHES2 ? 5 : 3;

    for (int list = 0; list < lists; list++) {
        int32_t count = jute_i32(r);

        for (int32_t i = 0; i < count && !r->bad; i++) {
            struct str path = jute_bytes(r);

            if (!r->bad && path_is_valid(path, false))
                bring_watch(c, path, LISTS[list].mode, LISTS[list].exists, since, a);
        }
    }
    a->lsn = c->events_lsn;
}

static void op_add_watch(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    struct str path = jute_bytes(r);
    int32_t mode = jute_i32(r);

    (void)type;
    if (mode < 0 || mode > 1)
        a->error = WIRE_MARSHALLING_ERROR;
    else if (!path_is_valid(path, false))
        a->error = wire_error(DROVER_BAD_ARGUMENT);
    else
        watch(c, path, mode ? WIRE_WATCH_RECURSIVE : WIRE_WATCH_PERSISTENT, a);
    jute_put_i32(&c->w->body, 0);
}

/* Checks whether there is such a watch, or removes it. */
static void op_remove_watches(struct wire_conn *c, int type, struct reader *r,
                              struct wire_answer *a)
{
    static const int MODES[] = {[1] = WIRE_WATCH_CHILDREN,
                                [2] = WIRE_WATCH_DATA,
                                [3] = WIRE_WATCH_ANY,
                                [4] = WIRE_WATCH_PERSISTENT,
                                [5] = WIRE_WATCH_RECURSIVE};
    struct str path = jute_bytes(r);
    int32_t kind = jute_i32(r);
    bool found;

    if (kind < 1 || kind > 5) {
        a->error = WIRE_MARSHALLING_ERROR;
        return;
    }
    found = type == WIRE_CHECK_WATCHES ? wire_watch_has(c, path, MODES[kind])
                                       : wire_watch_remove(c, path, MODES[kind]);
    if (!found)
        a->error = WIRE_NO_WATCHER;
}

static void op_get_ephemerals(struct wire_conn *c, int type, struct reader *r,
                              struct wire_answer *a)
{
    struct str prefix = jute_bytes(r);
    const struct tree_session *s = sessions_find(&tree_of(c)->sessions, c->session);
    const struct tree_nodes *ns = &tree_of(c)->nodes;
    CLEANUP(buf_release) struct buf path = {0};
    int32_t count = 0;

    (void)type;
    jute_put_i32(&c->w->body, 0);
    for (uint32_t ref = s->first_ephemeral; ref; ref = node_at(ns, ref)->more->next_ephemeral) {
        path.len = 0;
        nodes_put_path(ns, ref, &path);
        if (!str_starts(buf_str(&path), prefix))
            continue;
        jute_put_bytes(&c->w->body, buf_str(&path));
        count++;
    }
    jute_store_i32(c->w->body.p, count);
    a->lsn = tree_of(c)->zxid;
}

static void op_count_descendants(struct wire_conn *c, int type, struct reader *r,
                                 struct wire_answer *a)
{
    struct str path = jute_bytes(r);
    const struct tree_nodes *ns = &tree_of(c)->nodes;
    uint32_t top, ref;
    struct tree_view v;
    int32_t count = 0;

    (void)type;
    if (!look(c, path, ACL_READ, a, &v))
        return;
    top = ref = nodes_find(ns, path);
    for (;;) { /* down to a child, else to the next sibling, of an ancestor if need be */
        const struct tree_node *n = node_at(ns, ref);

        if (n->more && n->more->first_child) {
            ref = n->more->first_child;
            count++;
            continue;
        }
        while (ref != top && !node_at(ns, ref)->next)
            ref = node_at(ns, ref)->parent;
        if (ref == top)
            break;
        ref = node_at(ns, ref)->next;
        count++;
    }
    jute_put_i32(&c->w->body, count);
    a->lsn = tree_of(c)->zxid;
}

static void op_close(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    (void)type, (void)r;
    a->error = wire_error(engine_session_end(c->w->l, c->session));
    a->lsn = a->zxid = tree_of(c)->zxid;
    wire_conn_finish(c);
}

static void op_unimplemented(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    (void)c, (void)type, (void)r;
    a->error = wire_error(DROVER_UNIMPLEMENTED);
}

static void op_reconfig(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    (void)c, (void)type, (void)r;
    a->error = WIRE_RECONFIG_DISABLED;
}

static void op_unknown(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a)
{
    op_unimplemented(c, type, r, a);
    wire_conn_finish(c);
}

typedef void op_fn(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a);

static const struct {
    int type;
    op_fn *run;
} OPS[] = {
    {WIRE_GET_DATA, op_get_data},
    {WIRE_SET_DATA, op_change},
    {WIRE_EXISTS, op_exists},
    {WIRE_CREATE, op_create},
    {WIRE_CREATE2, op_create},
    {WIRE_DELETE, op_change},
    {WIRE_GET_CHILDREN, op_get_children},
    {WIRE_GET_CHILDREN2, op_get_children},
    {WIRE_PING, op_ping},
    {WIRE_MULTI, op_multi},
    {WIRE_MULTI_READ, op_multi},
    {WIRE_CHECK, op_change},
    {WIRE_GET_ACL, op_get_acl},
    {WIRE_SET_ACL, op_change},
    {WIRE_SYNC, op_sync},
    {WIRE_RECONFIG, op_reconfig},
    {WIRE_CHECK_WATCHES, op_remove_watches},
    {WIRE_REMOVE_WATCHES, op_remove_watches},
    {WIRE_CREATE_CONTAINER, op_unimplemented},
    {WIRE_CREATE_TTL, op_unimplemented},
    {WIRE_AUTH, wire_auth},
    {WIRE_SET_WATCHES, op_set_watches},
    {WIRE_SET_WATCHES2, op_set_watches},
    {WIRE_SASL, op_unimplemented},
    {WIRE_GET_EPHEMERALS, op_get_ephemerals},
    {WIRE_COUNT_DESCENDANTS, op_count_descendants},
    {WIRE_ADD_WATCH, op_add_watch},
    {WIRE_WHO_AM_I, wire_who_am_i},
    {WIRE_CLOSE, op_close},
};

static op_fn *find_op(int type)
{
    for (size_t i = 0; i < sizeof OPS / sizeof *OPS; i++)
        if (OPS[i].type == type)
            return OPS[i].run;
    return op_unknown;
}

/* The packet of an answer: its length, the header, the body unless there is an error. */
static void put_answer(struct wire_conn *c, int32_t xid, const struct wire_answer *a)
{
    struct wire *w = c->w;
    size_t body_len = a->error ? 0 : w->body.len;

    if (c->told_zxid < a->zxid)
        c->told_zxid = a->zxid;
    w->head.len = 0;
    jute_put_i32(&w->head, (int32_t)(16 + body_len));
    jute_put_i32(&w->head, xid);
    jute_put_i64(&w->head, c->told_zxid);
    jute_put_i32(&w->head, a->error);
    wire_conn_put_events(c); /* before the first answer that may show the change */
    wire_conn_put(c, buf_str(&w->head), a->lsn);
    wire_conn_put(c, (struct str){w->body.p, body_len}, a->lsn);
    c->sent++;
    w->sent++;
}

/* The last transaction, for the answer's header: it must be one that cannot get lost. */
static int64_t known_zxid(struct wire_conn *c, const struct wire_answer *a)
{
    struct local *l = c->w->l;
    int64_t durable = l->gate.strict ? atomic_load(&l->gate.durable) : l->tree.zxid;

    return durable > a->lsn ? durable : a->lsn;
}

bool wire_request(struct wire_conn *c, struct str packet)
{
    struct reader r = {packet.p, packet.len, false};
    int32_t xid = jute_i32(&r), type = jute_i32(&r);
    struct local *l = c->w->l;
    struct wire_answer a = {0};

    if (r.bad)
        return false;
    pthread_mutex_lock(&l->lock);
    struct tree_session *s = sessions_find(&l->tree.sessions, c->session);
    if (s) {
        session_touch(s, c->w->now_ms);
        c->w->body.len = 0;
        find_op(type)(c, type, &r, &a);
        if (!a.zxid)
            a.zxid = known_zxid(c, &a);
        if (!r.bad)
            put_answer(c, xid, &a);
    }
    pthread_mutex_unlock(&l->lock);
    return s && !r.bad;
}
