/*
 * The nodes of an ensemble, as of one transaction.
 *
 * A tree cannot be read at once. So a node is created first (ephemeral, deleted at the end); its
 * czxid is the transaction Z. Then every node is listed and read. If no node that was read shows a
 * transaction after Z (czxid, mzxid, pzxid), then all of them are as they were at Z, and none is
 * missing: a deletion after Z shows in its parent's pzxid, or as a node that was listed and cannot
 * be read. Otherwise somebody changes the tree, and the export fails.
 *
 * Reads are round trips, so several threads make them, a batch of nodes at a time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include "cli/export.h"
#include "keeper/election.h"
#include "keeper/jute.h"
#include "keeper/keeper.h"
#include "keeper/zookeeper/zookeeper.h"

enum { BATCH = 512 };

/* A node that was listed. */
struct listed_node {
    char *path;
    int64_t czxid;
    size_t number; /* parents come before children */
};

struct ensemble_export {
    struct keeper *k;
    int64_t zxid; /* Z */
    struct listed_node *nodes;
    size_t count, cap;
};

/* What a thread reads of a node. */
struct node_reading {
    struct ensemble_export *x;
    const char *path;
    size_t at;         /* among the nodes */
    bool is_ephemeral; /* not to be read */
    struct keeper_names names;
    struct keeper_stat stat;
    struct buf data, acl;
    int err;
};

static int changed(const char *path, struct err_info *e)
{
    return err_set(e, DROVER_REFUSED,
                   "%s was changed during the export: stop the servers, and try again", path);
}

static int check(const struct node_reading *r, struct err_info *e)
{
    const char *path = r->path;
    int64_t zxid = r->x->zxid;
    if (r->err == DROVER_NO_NODE)
        return changed(path, e);
    if (r->err)
        return err_set(e, r->err, "cannot read %s: %s", path, drover_err_message(r->err));
    if (r->stat.czxid > zxid || r->stat.mzxid > zxid || r->stat.pzxid > zxid)
        return changed(path, e);
    return 0;
}

static void reading_release(struct node_reading *r)
{
    keeper_names_release(&r->names);
    buf_release(&r->data);
    buf_release(&r->acl);
}

/* Runs fn for each of the nodes, on several threads, and then `after` for each, in order. */
static int read_batch(struct ensemble_export *x, size_t from, size_t to,
                      void (*fn)(void *arg, size_t i),
                      int (*after)(void *arg, struct node_reading *r, struct err_info *e),
                      void *arg, struct err_info *e)
{
    struct node_reading *readings = mem_zalloc((to - from) * sizeof *readings);
    int err = 0;
    for (size_t i = from; i < to; i++) {
        struct node_reading *r = &readings[i - from];
        r->x = x;
        r->path = x->nodes[i].path;
        r->at = i;
        r->is_ephemeral = x->nodes[i].czxid < 0;
    }
    parallel_run(to - from, fn, readings);
    for (size_t i = 0; i < to - from; i++) {
        if (!err)
            err = check(&readings[i], e);
        if (!err)
            err = after(arg, &readings[i], e);
        reading_release(&readings[i]);
    }
    free(readings);
    return err;
}

/* Listing: breadth first, so that parents come before children. */

static void list_one(void *arg, size_t i)
{
    struct node_reading *r = (struct node_reading *)arg + i;
    r->err = keeper_children(r->x->k, r->path, &r->names, &r->stat);
}

static void add(struct ensemble_export *x, const char *parent, const char *name)
{
    CLEANUP(buf_release) struct buf path = {0};
    buf_printf(&path, "%s/%s", strcmp(parent, "/") != 0 ? parent : "", name);
    if (transfer_is_left_out(buf_str(&path)))
        return;
    mem_grow(x->nodes, x->count, x->cap);
    x->nodes[x->count] = (struct listed_node){mem_dup(path.p, path.len), 0, x->count};
    x->count++;
}

static int listed(void *arg, struct node_reading *r, struct err_info *e)
{
    struct ensemble_export *x = arg;
    if (!strcmp(r->path, LEADER_IMPORT))
        return err_set(e, DROVER_IN_USE, "an import into this tree is not complete");
    x->nodes[r->at].czxid = r->stat.ephemeral_owner ? -1 : r->stat.czxid;
    for (size_t i = 0; i < r->names.count; i++)
        add(x, r->path, r->names.names[i]);
    return 0;
}

static int list_all(struct ensemble_export *x, struct err_info *e)
{
    mem_grow(x->nodes, x->count, x->cap);
    x->nodes[x->count++] = (struct listed_node){.path = mem_dup("/", 1)};
    for (size_t from = 0; from < x->count;) {
        size_t to = x->count - from > BATCH ? from + BATCH : x->count;
        TRY(read_batch(x, from, to, list_one, listed, x, e));
        from = to;
    }
    return 0;
}

/* Reading: in the order of creation. */

static int compare(const void *a, const void *b)
{
    const struct listed_node *m = a, *n = b;
    if (m->czxid != n->czxid)
        return m->czxid < n->czxid ? -1 : 1;
    return m->number < n->number ? -1 : m->number > n->number;
}

static void read_one(void *arg, size_t i)
{
    struct node_reading *r = (struct node_reading *)arg + i;
    if (r->is_ephemeral)
        return;
    r->err = keeper_get(r->x->k, r->path, &r->data, &r->stat);
    if (!r->err)
        r->err = zookeeper_get_acl(r->x->k, r->path, &r->acl);
}

/* ZooKeeper shows "user:x" instead of a digest to those who may not change the list. */
static bool is_hidden(struct str acl)
{
    struct reader r = {acl.p, acl.len, false};
    bool hidden = false;
    for (int32_t left = acl.len ? jute_i32(&r) : 0; left > 0 && !r.bad; left--) {
        jute_i32(&r);
        struct str scheme = jute_bytes(&r), id = jute_bytes(&r);
        hidden |=
            str_eq(scheme, STR("digest")) && id.len > 2 && !memcmp(id.p + id.len - 2, ":x", 2);
    }
    return hidden;
}

static int pass(void *arg, struct node_reading *r, struct err_info *e)
{
    const struct keeper_stat *s = &r->stat;
    bool is_root = !strcmp(r->path, "/"); /* of which our own node is a child */
    struct transfer_node n = {
        .path = str_of(r->path),
        .data = buf_str(&r->data),
        .acl = buf_str(&r->acl),
        .czxid = s->czxid,
        .mzxid = s->mzxid,
        .pzxid = s->pzxid,
        .ctime_ms = s->ctime_ms,
        .mtime_ms = s->mtime_ms,
        .version = s->version,
        .aversion = s->aversion,
        .creations = (int32_t)(((int64_t)s->cversion + s->child_count) / 2 - is_root),
    };
    if (is_hidden(n.acl))
        return err_set(e, DROVER_NO_AUTH,
                       "the access list of %s is hidden: log in as one who may change it "
                       "(--zk-auth)",
                       r->path);
    return r->is_ephemeral ? 0 : export_node(arg, &n, e);
}

static int read_all(struct ensemble_export *x, struct export_output *o, struct err_info *e)
{
    struct export_head h = {.from_ensemble = true, .zxid = x->zxid, .time_ms = clock_wall_ms()};
    qsort(x->nodes, x->count, sizeof *x->nodes, compare);
    TRY(export_begin(o, &h, e));
    for (size_t from = 0; from < x->count;) {
        size_t to = x->count - from > BATCH ? from + BATCH : x->count;
        TRY(read_batch(x, from, to, read_one, pass, o, e));
        from = to;
    }
    return 0;
}

/* The node whose czxid is Z. It is gone with the session. */
static int set_zxid(struct ensemble_export *x, struct err_info *e)
{
    uint64_t number;
    char path[64];
    struct keeper_result made = {0};
    random_fill(&number, sizeof number);
    snprintf(path, sizeof path, "/.drover-export-%016" PRIx64, number);
    struct keeper_op op = keeper_op_create(path, STR(""), KEEPER_EPHEMERAL);
    int err = keeper_multi(x->k, &op, 1, &made);
    x->zxid = made.stat.czxid;
    keeper_results_release(&made, 1);
    return err ? err_set(e, err, "cannot create %s: %s", path, drover_err_message(err)) : 0;
}

int export_ensemble(const char *url, const char *auth, const struct zookeeper_tls *tls,
                    struct export_output *o, struct err_info *ret_error)
{
    struct ensemble_export x = {0};
    struct zookeeper_options zo = {.auth = auth, .tls = *tls};
    struct keeper_options ko = {0};
    TRY(zookeeper_connect(url, &zo, &ko, &x.k, ret_error));
    int err = set_zxid(&x, ret_error);
    if (!err)
        err = list_all(&x, ret_error);
    if (!err)
        err = read_all(&x, o, ret_error);
    keeper_close(x.k);
    for (size_t i = 0; i < x.count; i++)
        free(x.nodes[i].path);
    free(x.nodes);
    return err;
}
