/*
 * A directory is read as a start would, into a tree in memory, and made by writing such a tree as a
 * snapshot, with an empty segment of the journal after it.
 */
#include "keeper/local/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"
#include "keeper/election.h"
#include "keeper/journal/dirlock.h"
#include "keeper/journal/recover.h"
#include "keeper/local/new_dir.h"

enum { SLICE_BYTES = 64 * 1024 };

bool transfer_is_left_out(struct str path)
{
    static const struct str OWN[] = {STR("/zookeeper"), STR("/.drover-tags"), STR(LEADER_ROOT),
                                     STR(LEADER_EPOCH)};
    for (size_t i = 0; i < sizeof OWN / sizeof *OWN; i++)
        if (str_starts(path, OWN[i]) && (path.len == OWN[i].len || path.p[OWN[i].len] == '/'))
            return true;
    return false;
}

/* Reading. */

struct transfer_dir {
    struct dirlock lock;
    struct recovery found;
};

int transfer_open(const char *dir, struct transfer_dir **ret_dir, struct err_info *ret_error)
{
    struct transfer_dir *d = mem_zalloc(sizeof *d);
    struct recover_hooks hooks = {0};
    dirlock_init(&d->lock);
    int err = dirlock_take(&d->lock, dir, false, ret_error);
    if (!err)
        err = recover_read(dir, &hooks, &d->found, ret_error);
    if (!err && d->found.empty)
        err = err_set(ret_error, DROVER_BAD_ARGUMENT, "%s holds no data of drover", dir);
    if (err)
        transfer_close(d);
    else
        *ret_dir = d;
    return err;
}

void transfer_close(struct transfer_dir *d)
{
    recovery_release(&d->found);
    dirlock_release(&d->lock);
    free(d);
}

int64_t transfer_zxid(const struct transfer_dir *d)
{
    return d->found.tree.zxid;
}

/* A node and its place in the order. */
struct transfer_place {
    int64_t czxid;
    size_t depth; /* parents come first in their own transaction */
    uint32_t ref;
};

static int compare(const void *a, const void *b)
{
    const struct transfer_place *x = a, *y = b;
    if (x->czxid != y->czxid)
        return x->czxid < y->czxid ? -1 : 1;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return x->ref < y->ref ? -1 : x->ref > y->ref;
}

static size_t depth_of(struct str path)
{
    size_t depth = path.len > 1;
    for (size_t i = 1; i < path.len; i++)
        depth += path.p[i] == '/';
    return depth;
}

static int pass(const struct tree_node_state *s, transfer_fn *fn, void *arg,
                struct err_info *ret_error)
{
    struct transfer_node n = {
        .path = s->path,
        .data = s->data,
        .acl = s->acl,
        .czxid = s->czxid,
        .mzxid = s->mzxid,
        .pzxid = s->pzxid,
        .ctime_ms = s->ctime_ms,
        .mtime_ms = s->mtime_ms,
        .owner = s->owner,
        .version = s->version,
        .aversion = s->aversion,
        .creations = s->creations,
    };
    return fn(arg, &n, ret_error);
}

int transfer_each(struct transfer_dir *d, transfer_fn *fn, void *arg, struct err_info *ret_error)
{
    const struct tree *t = &d->found.tree;
    CLEANUP(mem_free) struct transfer_place *places = NULL;
    CLEANUP(buf_release) struct buf path = {0};
    struct tree_node_state s;
    size_t count = 0, cap = 0;
    uint32_t cursor = 0;
    while (tree_walk(t, &cursor, &path, &s)) {
        if (s.owner > 0 || transfer_is_left_out(s.path))
            continue;
        mem_grow(places, count, cap);
        places[count++] = (struct transfer_place){s.czxid, depth_of(s.path), cursor - 1};
    }
    qsort(places, count, sizeof *places, compare);
    for (size_t i = 0; i < count; i++) {
        cursor = places[i].ref;
        tree_walk(t, &cursor, &path, &s);
        TRY(pass(&s, fn, arg, ret_error));
    }
    return 0;
}

/* Making. */

struct transfer_maker {
    struct new_dir made;
    struct tree tree;
};

int transfer_begin(const char *dir, struct transfer_maker **ret_maker, struct err_info *ret_error)
{
    struct transfer_maker *m = mem_zalloc(sizeof *m);
    tree_init(&m->tree);
    int err = new_dir_begin(&m->made, dir, NULL, ret_error);
    if (err)
        transfer_end(m);
    else
        *ret_maker = m;
    return err;
}

void transfer_end(struct transfer_maker *m)
{
    new_dir_end(&m->made);
    tree_release(&m->tree);
    free(m);
}

int transfer_put(struct transfer_maker *m, const struct transfer_node *n,
                 struct err_info *ret_error)
{
    struct tree_node_state s = {
        .path = n->path,
        .data = n->data,
        .acl = n->acl,
        .czxid = n->czxid,
        .mzxid = n->mzxid,
        .pzxid = n->pzxid,
        .ctime_ms = n->ctime_ms,
        .mtime_ms = n->mtime_ms,
        .owner = n->owner,
        .version = n->version,
        .aversion = n->aversion,
        .creations = n->creations,
    };
    if (n->path.len > 1 && nodes_find(&m->tree.nodes, n->path))
        return err_set(ret_error, DROVER_EXISTS, "node %.*s is there twice", STR_ARGS(n->path));
    return tree_restore_node(&m->tree, &s, ret_error);
}

static int write_content(struct transfer_maker *m, struct snapshot_writer *w, int64_t zxid,
                         struct err_info *ret_error)
{
    for (bool more = true; more;) {
        more = snapshot_put(w, &m->tree, SLICE_BYTES);
        TRY(snapshot_flush(w, ret_error));
    }
    return snapshot_end(w, zxid, ret_error);
}

static int write_snapshot(struct transfer_maker *m, const struct format_header *h,
                          struct err_info *ret_error)
{
    struct snapshot_writer w;
    int err = snapshot_begin(&w, m->made.fs, m->made.tmp, h, ret_error);
    if (!err)
        err = write_content(m, &w, (int64_t)h->number, ret_error);
    if (err)
        snapshot_abandon(&w);
    return err;
}

/* The journal goes on in the next segment. */
static int write_segment(struct transfer_maker *m, const struct format_header *h,
                         struct err_info *ret_error)
{
    int fd;
    TRY(segment_make(m->made.fs, m->made.tmp, h->store, h->replay_from, FORMAT_HEADER_LEN, &fd,
                     ret_error));
    if (m->made.fs->close(m->made.fs, fd) < 0)
        return err_set_errno(ret_error, errno, "cannot write a segment of the journal");
    return 0;
}

static int own_files(struct transfer_maker *m, const struct format_header *h,
                     struct err_info *ret_error)
{
    CLEANUP(mem_free) char *snapshot = format_path(m->made.tmp, FORMAT_SNAPSHOT, h->number);
    CLEANUP(mem_free) char *segment = format_path(m->made.tmp, FORMAT_SEGMENT, h->replay_from);
    const char *const paths[] = {snapshot, segment};
    for (size_t i = 0; i < 2; i++) {
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        int err = fd < 0 ? -1 : new_dir_own(&m->made, fd);
        if (err)
            err = err_set_errno(ret_error, errno, "cannot give %s its owner", paths[i]);
        if (fd >= 0)
            close(fd);
        TRY(err);
    }
    return 0;
}

int transfer_finish(struct transfer_maker *m, int64_t zxid, struct err_info *ret_error)
{
    CLEANUP(recovery_release) struct recovery found = {0};
    struct recover_hooks hooks = {0};
    struct format_header h = {
        .kind = FORMAT_SNAPSHOT, .number = (uint64_t)(zxid > 0 ? zxid : 1), .replay_from = 1};
    random_fill(&h.store, sizeof h.store);
    TRY(tree_seal(&m->tree, ret_error));
    TRY(write_segment(m, &h, ret_error));
    TRY(write_snapshot(m, &h, ret_error));
    TRY(own_files(m, &h, ret_error));
    TRY(recover_read(m->made.tmp, &hooks, &found, ret_error)); /* as a start would */
    return new_dir_finish(&m->made, ret_error);
}
