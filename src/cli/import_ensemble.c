/*
 * Filling an ensemble.
 *
 * An ensemble numbers transactions itself, so zxids cannot be kept, but their order can, and
 * modules depend on it (the order of a list is that of its czxids; whether a list changed after a
 * status was set is a comparison of pzxid and mzxid). So a node becomes up to three steps, and all
 * steps are made in the order of the zxids they had:
 *
 *   create    at its czxid
 *   count     at its pzxid: children are created and deleted until as many were created as ever
 *             had been, so that no sequence number is given twice. Not below /drover, where nothing
 *             has a sequence number
 *   set       at its mzxid, if it was ever set; its version is 1 then
 *
 * Of one transaction they are made in this order: a list that changed together with a status must
 * not look as if it had changed later.
 *
 * What had different zxids has different ones again, except below /drover, where nobody compares
 * them: there many steps are one transaction. Each transaction also sets the node LEADER_IMPORT,
 * whose data says which file it is and how many steps are done. So an import that died goes on
 * exactly where it was, and an answer that was lost is found out. Counting is not part of a step's
 * transaction: it looks how many are missing, so it can be repeated. Access lists are set at the
 * end, children first, since they may exclude the one who imports.
 *
 * Servers refuse a tree with LEADER_IMPORT. It is deleted last.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/child.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/http_client.h"
#include "cli/import.h"
#include "keeper/election.h"
#include "keeper/keeper.h"
#include "keeper/zookeeper/zookeeper.h"
#include "task/task_tree.h"

enum {
    OPS_MAX = 500, /* in a transaction */
    BYTES_MAX = 512 * 1024,
    OP_OVERHEAD = 64,
    RETRIES_MAX = 30, /* of a transaction whose answer was lost */
    RETRY_MS = 1000,
    CREATIONS_MAX = 100 * 1000 * 1000,
};

#define COUNTED "drover-import-counts" /* the child that is created and deleted */

enum import_step_kind { STEP_CREATE, STEP_COUNT, STEP_SET };

struct import_step {
    int64_t zxid;
    uint32_t node; /* in the file */
    uint8_t kind;
};

struct ensemble_import {
    const struct import_file *f;
    struct keeper *k;
    char id[40]; /* of the file */
    struct import_step *steps;
    size_t count, cap, done;
    int32_t version; /* of LEADER_IMPORT */

    /* The open transaction. */
    struct keeper_op *ops;
    size_t op_count, op_cap, bytes;
    size_t reached;  /* steps that are done with it */
    int64_t zxid;    /* of its first step */
    bool is_ordered; /* it may not have steps of another zxid */
    struct arena arena;
};

/* The steps. */

static int compare(const void *a, const void *b)
{
    const struct import_step *x = a, *y = b;
    if (x->zxid != y->zxid)
        return x->zxid < y->zxid ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static void add_step(struct ensemble_import *m, int64_t zxid, size_t node,
                     enum import_step_kind kind)
{
    mem_grow(m->steps, m->count, m->cap);
    m->steps[m->count++] = (struct import_step){zxid, (uint32_t)node, (uint8_t)kind};
}

/* "/" and "/drover" are there. */
static bool is_there(struct str path)
{
    return str_eq(path, STR("/")) || str_eq(path, STR(TASK_NODE_ROOT));
}

/* Others than the server use it: sequence numbers and the order of zxids may matter. */
static bool is_ordered(struct str path)
{
    return !str_eq(path, STR(TASK_NODE_ROOT)) && !str_starts(path, STR(TASK_NODE_ROOT "/"));
}

static int make_steps(struct ensemble_import *m, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    for (size_t i = 0; i < m->f->count; i++) {
        struct transfer_node n;
        import_node(m->f, i, &a, &n);
        bool there = is_there(n.path);
        if (n.creations > CREATIONS_MAX && is_ordered(n.path))
            return err_set(e, DROVER_TOO_BIG,
                           "%.*s has had %" PRId32 " children, which is too many to count again",
                           STR_ARGS(n.path), n.creations);
        if (!there)
            add_step(m, n.czxid, i, STEP_CREATE);
        if (n.version > 0 || (there && n.data.len))
            add_step(m, n.mzxid, i, STEP_SET);
        if (n.creations && is_ordered(n.path))
            add_step(m, n.pzxid, i, STEP_COUNT);
        arena_reset(&a);
    }
    if (m->count)
        qsort(m->steps, m->count, sizeof *m->steps, compare);
    return 0;
}

/* The state of the import, in LEADER_IMPORT. */

static struct str state_text(struct ensemble_import *m, size_t done)
{
    struct buf b = {0};
    json_open(&b, '{');
    json_member_text(&b, "file", str_of(m->id));
    json_member_int(&b, "done", (int64_t)done);
    json_member_int(&b, "of", (int64_t)m->count);
    json_close(&b, '}');
    return arena_take(&m->arena, &b);
}

static int failed(int err, const char *what, struct err_info *e)
{
    return err_set(e, err, "cannot %s: %s", what, drover_err_message(err));
}

/* 0; NO_NODE: no import was begun; REFUSED: that of another file. */
static int read_state(struct ensemble_import *m, struct err_info *e)
{
    CLEANUP(buf_release) struct buf data = {0};
    CLEANUP(arena_release) struct arena a = {0};
    struct keeper_stat stat;
    int err = keeper_get(m->k, LEADER_IMPORT, &data, &stat);
    if (err)
        return err == DROVER_NO_NODE ? err : failed(err, "read " LEADER_IMPORT, e);
    const struct json *v = json_parse(&a, buf_str(&data), e);
    int64_t done = json_int_of(v, "done");
    if (!str_eq(json_text_of(v, "file"), str_of(m->id)) || done < 0 || (uint64_t)done > m->count)
        return err_set(e, DROVER_REFUSED,
                       "an import of another file is not complete: repeat that one, or delete "
                       "everything below the chroot");
    m->done = (size_t)done;
    m->version = stat.version;
    return 0;
}

/* Transactions. */

static void open_txn(struct ensemble_import *m)
{
    m->op_count = m->bytes = 0;
    m->reached = m->done;
    m->is_ordered = false;
    arena_reset(&m->arena);
}

static void put_op(struct ensemble_import *m, struct keeper_op op)
{
    mem_grow(m->ops, m->op_count, m->op_cap);
    m->ops[m->op_count++] = op;
    m->bytes += op.path.len + op.data.len + OP_OVERHEAD;
}

static int send_txn(struct ensemble_import *m)
{
    int err = keeper_multi(m->k, m->ops, m->op_count, NULL);
    if (!err) {
        m->done = m->reached;
        m->version++;
    }
    return err;
}

/* After a lost answer the state tells whether it happened. */
static int settle(struct ensemble_import *m, struct err_info *e)
{
    int err = DROVER_UNKNOWN;
    for (int i = 0; err == DROVER_UNKNOWN && i < RETRIES_MAX && !child_signal(); i++) {
        child_pause(RETRY_MS);
        keeper_sync(m->k, "/");
        err = read_state(m, e);
        if (!err && m->done != m->reached)
            err = send_txn(m);
    }
    return err;
}

static int commit(struct ensemble_import *m, struct err_info *e)
{
    if (!m->op_count)
        return 0;
    put_op(m, keeper_op_set(LEADER_IMPORT, state_text(m, m->reached), m->version));
    int err = send_txn(m);
    if (err == DROVER_UNKNOWN)
        err = settle(m, e);
    if (err)
        return failed(err, "create nodes", e);
    open_txn(m);
    return child_signal() ? err_set(e, DROVER_CLOSED, "stopped by a signal") : 0;
}

/* One step. */

/*
 * The head of the tasks: on an ensemble it has no ceiling (task_tree.h), and ids go on after the
 * last one that may have been given.
 */
static struct str data_of(struct ensemble_import *m, const struct transfer_node *n)
{
    struct task_node_head h;
    if (!str_eq(n->path, STR(TASK_NODE_HEAD)) || !n->data.p || task_node_head_decode(n->data, &h) ||
        h.ceiling == TASK_NODE_NO_CEILING)
        return n->data;
    if (h.last_id < h.ceiling)
        h.last_id = h.ceiling;
    h.ceiling = TASK_NODE_NO_CEILING;
    char *bytes = arena_alloc(&m->arena, TASK_NODE_HEAD_LEN_MAX);
    return (struct str){bytes, task_node_head_encode(&h, bytes)};
}

/*
 * What does not fit into a transaction with others: a large node, a container, one with a time to
 * live. After a crash it is made again, and may be there.
 */
static int make_alone(struct ensemble_import *m, const struct transfer_node *n, const char *path,
                      bool sets, struct err_info *e)
{
    TRY(commit(m, e));
    int err = sets       ? keeper_set(m->k, path, n->data, KEEPER_ANY_VERSION, NULL)
              : n->owner ? zookeeper_create_lasting(m->k, path, n->data, n->owner)
                         : keeper_create(m->k, path, n->data, 0, NULL);
    if (err == DROVER_UNIMPLEMENTED)
        return err_set(e, err,
                       "%s is a container or has a time to live, which this ensemble does not "
                       "support (extendedTypesEnabled)",
                       path);
    return err && err != DROVER_EXISTS ? failed(err, "create a node", e) : 0;
}

/* Creates and deletes a child until as many were created as had been. */
static int count_children(struct ensemble_import *m, const struct transfer_node *n,
                          const char *path, struct err_info *e)
{
    struct keeper_stat stat;
    TRY(commit(m, e));
    int err = keeper_exists(m->k, path, &stat);
    while (!err && !child_signal()) {
        int64_t missing = n->creations - ((int64_t)stat.cversion + stat.child_count) / 2;
        if (missing <= 0)
            return 0;
        const char *child =
            arena_printf(&m->arena, "%s/" COUNTED, strcmp(path, "/") != 0 ? path : "");
        struct keeper_op ops[OPS_MAX];
        size_t count = 0;
        for (; count < OPS_MAX && (int64_t)count / 2 < missing; count += 2) {
            ops[count] = keeper_op_create(child, STR(""), KEEPER_NO_STAT);
            ops[count + 1] = keeper_op_delete(child, KEEPER_ANY_VERSION);
        }
        err = keeper_multi(m->k, ops, count, NULL);
        if (!err || err == DROVER_UNKNOWN)
            err = keeper_exists(m->k, path, &stat);
        arena_reset(&m->arena);
    }
    return err ? failed(err, "count children", e)
               : err_set(e, DROVER_CLOSED, "stopped by a signal");
}

/* Whether a step may be part of the open transaction. */
static bool fits(const struct ensemble_import *m, const struct transfer_node *n, int64_t zxid)
{
    if (m->op_count && zxid != m->zxid && (m->is_ordered || is_ordered(n->path)))
        return false;
    return m->op_count + 1 < OPS_MAX && m->bytes + n->path.len + n->data.len <= BYTES_MAX;
}

static int put_step(struct ensemble_import *m, const struct transfer_node *n, int64_t zxid,
                    bool sets, struct err_info *e)
{
    if (!fits(m, n, zxid))
        TRY(commit(m, e));
    if (!m->op_count)
        m->zxid = zxid;
    m->is_ordered |= is_ordered(n->path);
    const char *path = arena_text(&m->arena, n->path);
    struct str data = data_of(m, n);
    if (!sets && n->version > 0)
        data = STR(""); /* it is set later */
    if (data.p)
        data = (struct str){arena_text(&m->arena, data), data.len};
    put_op(m, sets ? keeper_op_set(path, data, KEEPER_ANY_VERSION)
                   : keeper_op_create(path, data, KEEPER_NO_STAT));
    return 0;
}

static int make_step(struct ensemble_import *m, const struct import_step *s, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct transfer_node n;
    bool sets = s->kind == STEP_SET;
    int err;
    import_node(m->f, s->node, &a, &n);
    if (s->kind == STEP_COUNT)
        err = count_children(m, &n, arena_text(&a, n.path), e);
    else if ((n.owner && !sets) || n.data.len > BYTES_MAX)
        err = make_alone(m, &n, arena_text(&a, n.path), sets, e);
    else
        err = put_step(m, &n, s->zxid, sets, e);
    m->reached += !err;
    return err;
}

/* Children first. */
static int set_acls(struct ensemble_import *m, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    for (size_t i = m->f->count; i-- > 0;) {
        struct transfer_node n;
        import_node(m->f, i, &a, &n);
        if (n.acl.len) {
            const char *path = arena_text(&a, n.path);
            int err = zookeeper_set_acl(m->k, path, n.acl);
            if (err)
                return err_set(e, err, "cannot set the access list of %s: %s", path,
                               drover_err_message(err));
        }
        arena_reset(&a);
    }
    return 0;
}

/* The beginning. */

static int check_free_path(struct ensemble_import *m, const char *path, struct err_info *e)
{
    int err = keeper_exists(m->k, path, NULL);
    if (!err)
        return err_set(e, DROVER_EXISTS, "%s is there already: import into an empty chroot", path);
    return err == DROVER_NO_NODE ? 0 : failed(err, "look at the tree", e);
}

/* None of the nodes at the top of the file may be there. */
static int check_free(struct ensemble_import *m, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    TRY(check_free_path(m, TASK_NODE_ROOT, e));
    for (size_t i = 0; i < m->f->count; i++) {
        struct transfer_node n;
        import_node(m->f, i, &a, &n);
        if (n.path.len > 1 && !memchr(n.path.p + 1, '/', n.path.len - 1))
            TRY(check_free_path(m, arena_text(&a, n.path), e));
        arena_reset(&a);
    }
    return 0;
}

static int begin(struct ensemble_import *m, struct err_info *e)
{
    struct keeper_result results[2] = {0};
    struct keeper_op ops[] = {
        keeper_op_create(TASK_NODE_ROOT, STR(""), 0),
        keeper_op_create(LEADER_IMPORT, state_text(m, 0), 0),
    };
    TRY(check_free(m, e));
    int err = keeper_multi(m->k, ops, 2, results);
    int64_t zxid = results[1].stat.czxid;
    keeper_results_release(results, 2);
    if (err)
        return failed(err, "create " LEADER_IMPORT, e);
    if (zxid <= m->f->head.zxid)
        client_error("warning: transactions of the ensemble have lower numbers (%" PRId64
                     ") than those of the export (%" PRId64
                     "): fencing tokens of locks and queues go back",
                     zxid, m->f->head.zxid);
    return 0;
}

static int fill(struct ensemble_import *m, struct err_info *e)
{
    TRY(make_steps(m, e));
    int err = read_state(m, e);
    if (err == DROVER_NO_NODE)
        err = begin(m, e);
    TRY(err);
    open_txn(m);
    for (size_t i = m->done; i < m->count; i++)
        TRY(make_step(m, &m->steps[i], e));
    TRY(commit(m, e));
    TRY(set_acls(m, e));
    err = keeper_delete(m->k, LEADER_IMPORT, KEEPER_ANY_VERSION);
    return err && err != DROVER_NO_NODE ? failed(err, "delete " LEADER_IMPORT, e) : 0;
}

int import_ensemble(const char *url, const char *auth, const struct zookeeper_tls *tls,
                    const struct import_file *f, struct err_info *ret_error)
{
    struct ensemble_import m = {.f = f};
    struct zookeeper_options zo = {.auth = auth, .tls = *tls};
    struct keeper_options ko = {0};
    snprintf(m.id, sizeof m.id, "%08" PRIx32 "-%zu", f->sum, f->text.len);
    TRY(zookeeper_connect(url, &zo, &ko, &m.k, ret_error));
    int err = fill(&m, ret_error);
    keeper_close(m.k);
    free(m.steps);
    free(m.ops);
    arena_release(&m.arena);
    return err;
}
