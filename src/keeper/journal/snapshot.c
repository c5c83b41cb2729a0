/*
 * Writing and reading snapshots; the format is in the header.
 *
 * The writer syncs every SYNC_EVERY bytes, so that the last sync is short and the journal's syncs
 * on the same disk never wait for hundreds of megabytes.
 */
#include "keeper/journal/snapshot.h"

#include <errno.h>
#include <fcntl.h>

#include "base/crc32c.h"
#include "base/mem.h"

enum { BLOCK_HEADER_LEN = 16, SYNC_EVERY = 1024 * 1024, READ_AHEAD = 1024 * 1024 };

static const uint64_t ZXID_MAX = INT64_MAX / 2; /* leaves numbers for later transactions */

enum block_kind { BLOCK_SESSIONS = 1, BLOCK_NODES = 2, BLOCK_END = 3 };

/* Starts a block; its header is still empty, except for the kind. */
static void block_begin(struct snapshot_writer *w, enum block_kind kind)
{
    buf_put_u64(&w->out, 0);
    buf_put_u32(&w->out, kind);
    buf_put_u32(&w->out, w->block++);
}

int snapshot_begin(struct snapshot_writer *w, const struct fs *fs, const char *dir,
                   const struct format_header *header, struct err_info *ret_error)
{
    CLEANUP(mem_free) char *tmp = format_path_of(dir, "snapshot.tmp");
    char head[FORMAT_HEADER_LEN];
    *w = (struct snapshot_writer){.fs = fs, .dir = dir, .header = *header, .at = sizeof head};
    format_header_put(head, header);
    w->fd = fs->open(fs, tmp, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (w->fd < 0 || fs_write_all(fs, w->fd, head, sizeof head, 0, false) < 0)
        return err_set_errno(ret_error, errno, "cannot write %s", tmp);
    return 0;
}

static bool put_sessions(struct snapshot_writer *w, const struct tree_sessions *s, size_t max_bytes)
{
    block_begin(w, BLOCK_SESSIONS);
    for (; w->next_session < s->len && w->out.len < max_bytes; w->next_session++) {
        const struct tree_session *session = s->list[w->next_session];
        if (!session)
            continue;
        buf_put_u64(&w->out, (uint64_t)session->id);
        buf_put_u32(&w->out, (uint32_t)session->timeout_ms);
        buf_put(&w->out, session->password, KEEPER_PASSWORD_LEN);
        w->sessions++;
    }
    return w->next_session < s->len;
}

static void put_node(struct buf *b, const struct tree_node_state *s)
{
    buf_put_u32(b, (uint32_t)s->path.len);
    buf_put_u32(b, buf_len_or_none(s->data));
    buf_put_u32(b, (uint32_t)s->acl.len);
    buf_put_u64(b, (uint64_t)s->czxid);
    buf_put_u64(b, (uint64_t)s->mzxid);
    buf_put_u64(b, (uint64_t)s->pzxid);
    buf_put_u64(b, (uint64_t)s->ctime_ms);
    buf_put_u64(b, (uint64_t)s->mtime_ms);
    buf_put_u64(b, (uint64_t)s->owner);
    buf_put_u32(b, (uint32_t)s->version);
    buf_put_u32(b, (uint32_t)s->creations);
    buf_put_u32(b, (uint32_t)s->aversion);
    buf_put_str(b, s->path);
    buf_put_str(b, s->data);
    buf_put_str(b, s->acl);
}

static bool put_nodes(struct snapshot_writer *w, const struct tree *t, size_t max_bytes)
{
    CLEANUP(buf_release) struct buf path = {0};
    struct tree_node_state state;
    bool more = true;
    block_begin(w, BLOCK_NODES);
    while (w->out.len < max_bytes && (more = tree_walk(t, &w->next_node, &path, &state))) {
        put_node(&w->out, &state);
        w->nodes++;
    }
    return more;
}

bool snapshot_put(struct snapshot_writer *w, const struct tree *t, size_t max_bytes)
{
    if (w->has_sessions)
        return put_nodes(w, t, max_bytes);
    w->has_sessions = !put_sessions(w, &t->sessions, max_bytes);
    return true;
}

int snapshot_flush(struct snapshot_writer *w, struct err_info *ret_error)
{
    le_store32(w->out.p, (uint32_t)(w->out.len - BLOCK_HEADER_LEN));
    le_store32(w->out.p + 4, format_checksum(0, w->out.p, w->out.len));
    if (fs_write_all(w->fs, w->fd, w->out.p, w->out.len, w->at, false) < 0)
        return err_set_errno(ret_error, errno, "cannot write %s/snapshot.tmp", w->dir);
    if ((w->at + (off_t)w->out.len) / SYNC_EVERY != w->at / SYNC_EVERY &&
        w->fs->fdatasync(w->fs, w->fd) < 0)
        return err_set_errno(ret_error, errno, "cannot sync %s/snapshot.tmp", w->dir);
    w->at += (off_t)w->out.len;
    w->out.len = 0;
    return 0;
}

int snapshot_end(struct snapshot_writer *w, int64_t last_zxid, struct err_info *ret_error)
{
    CLEANUP(mem_free) char *tmp = format_path_of(w->dir, "snapshot.tmp");
    CLEANUP(mem_free) char *path = format_path(w->dir, FORMAT_SNAPSHOT, w->header.number);
    block_begin(w, BLOCK_END);
    buf_put_u64(&w->out, w->nodes);
    buf_put_u64(&w->out, w->sessions);
    buf_put_u64(&w->out, (uint64_t)last_zxid);
    TRY(snapshot_flush(w, ret_error));
    if (w->fs->fsync(w->fs, w->fd) < 0 || w->fs->rename(w->fs, tmp, path) < 0 ||
        fs_sync_dir(w->fs, w->dir) < 0)
        return err_set_errno(ret_error, errno, "cannot finish the snapshot %s", path);
    w->fs->close(w->fs, w->fd);
    buf_release(&w->out);
    return 0;
}

void snapshot_abandon(struct snapshot_writer *w)
{
    CLEANUP(mem_free) char *tmp = format_path_of(w->dir, "snapshot.tmp");
    if (w->fd >= 0)
        w->fs->close(w->fs, w->fd);
    w->fs->unlink(w->fs, tmp);
    buf_release(&w->out);
}

/* The state of reading. */
struct loader {
    struct tree *t;
    struct snapshot_info info;
    int64_t shown_zxid; /* the highest of a node */
    bool ended;
};

static int64_t higher(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int load_sessions(struct loader *l, struct reader *r, struct err_info *e)
{
    while (r->left && !r->bad) {
        int64_t id = (int64_t)reader_u64(r);
        int32_t timeout_ms = (int32_t)reader_u32(r);
        struct str password = reader_bytes(r, KEEPER_PASSWORD_LEN);
        if (r->bad || !id || timeout_ms <= 0)
            return err_set(e, DROVER_DAMAGED, "a session that makes no sense");
        sessions_put(&l->t->sessions, id, timeout_ms, password.p);
        l->info.sessions++;
    }
    return 0;
}

static int load_nodes(struct loader *l, struct reader *r, struct err_info *e)
{
    while (r->left && !r->bad) {
        uint32_t path_len = reader_u32(r), data_len = reader_u32(r), acl_len = reader_u32(r);
        struct tree_node_state s;

        s.czxid = (int64_t)reader_u64(r);
        s.mzxid = (int64_t)reader_u64(r);
        s.pzxid = (int64_t)reader_u64(r);
        s.ctime_ms = (int64_t)reader_u64(r);
        s.mtime_ms = (int64_t)reader_u64(r);
        s.owner = (int64_t)reader_u64(r);
        s.version = (int32_t)reader_u32(r);
        s.creations = (int32_t)reader_u32(r);
        s.aversion = (int32_t)reader_u32(r);
        s.path = reader_bytes(r, path_len);
        s.data = reader_bytes_or_none(r, data_len);
        s.acl = reader_bytes(r, acl_len);
        if (r->bad)
            return err_set(e, DROVER_DAMAGED, "a node that is cut off");
        TRY(tree_restore_node(l->t, &s, e));
        l->shown_zxid = higher(l->shown_zxid, higher(s.czxid, higher(s.mzxid, s.pzxid)));
        l->info.nodes++;
    }
    return 0;
}

static int load_end(struct loader *l, struct reader *r, struct err_info *e)
{
    uint64_t nodes = reader_u64(r), sessions = reader_u64(r);
    l->info.last_zxid = (int64_t)reader_u64(r);
    l->ended = true;
    if (r->bad || r->left || nodes != l->info.nodes || sessions != l->info.sessions ||
        l->info.last_zxid < l->shown_zxid || l->info.last_zxid < (int64_t)l->info.header.number)
        return err_set(e, DROVER_DAMAGED, "the end does not fit what came before");
    return 0;
}

/* Reads exactly len bytes. */
static int read_exactly(FILE *in, void *to, size_t len, struct err_info *e)
{
    if (fread(to, 1, len, in) == len)
        return 0;
    if (ferror(in))
        return err_set_errno(e, errno, "cannot be read");
    return err_set(e, DROVER_DAMAGED, "it is cut off");
}

/* Reads one block: the header, which has the length, and the payload. */
static int load_block(struct loader *l, FILE *in, uint32_t number, struct buf *block,
                      struct err_info *e)
{
    static int (*const LOAD[])(struct loader *, struct reader *, struct err_info *) = {
        [BLOCK_SESSIONS] = load_sessions,
        [BLOCK_NODES] = load_nodes,
        [BLOCK_END] = load_end,
    };

    block->len = 0;
    buf_reserve(block, BLOCK_HEADER_LEN);
    TRY(read_exactly(in, block->p, BLOCK_HEADER_LEN, e));
    size_t len = le_load32(block->p);
    if (len > SNAPSHOT_BLOCK_MAX)
        return err_set(e, DROVER_DAMAGED, "a block of impossible length");
    block->len = BLOCK_HEADER_LEN;
    buf_reserve(block, len);
    TRY(read_exactly(in, block->p + BLOCK_HEADER_LEN, len, e));
    if (le_load32(block->p + 4) != format_checksum(0, block->p, BLOCK_HEADER_LEN + len) ||
        le_load32(block->p + 12) != number)
        return err_set(e, DROVER_DAMAGED, "a block does not match its sum");
    l->info.bytes += BLOCK_HEADER_LEN + len;
    uint32_t kind = le_load32(block->p + 8);
    if (kind < BLOCK_SESSIONS || kind > BLOCK_END)
        return err_set(e, DROVER_DAMAGED, "a block of unknown kind");
    return LOAD[kind](l, &(struct reader){.p = block->p + BLOCK_HEADER_LEN, .left = len}, e);
}

static int load_header(struct loader *l, FILE *in, struct err_info *e)
{
    char head[FORMAT_HEADER_LEN];
    TRY(read_exactly(in, head, sizeof head, e));
    int err = format_header_read(head, FORMAT_SNAPSHOT, &l->info.header);
    if (err)
        return err_set(e, err, "the header does not match its sum");
    if (l->info.header.number > ZXID_MAX)
        return err_set(e, DROVER_DAMAGED, "the header names an impossible transaction");
    return 0;
}

int snapshot_read(FILE *in, const char *name, struct tree *t, struct snapshot_info *ret_info,
                  struct err_info *ret_error)
{
    struct loader l = {.t = t};
    struct err_info why;
    CLEANUP(buf_release) struct buf block = {0};
    int err = load_header(&l, in, &why);
    if (err == DROVER_NEWER_VERSION)
        return err_set(ret_error, err, "%s was written by a newer version of drover", name);
    if (!err)
        l.info.bytes = FORMAT_HEADER_LEN;
    for (uint32_t number = 0; !err && !l.ended; number++)
        err = load_block(&l, in, number, &block, &why);
    if (!err && fgetc(in) != EOF)
        err = err_set(&why, DROVER_DAMAGED, "something stands behind the end");
    if (err)
        return err_set(ret_error, err, "%s is damaged at offset %llu: %.200s", name,
                       (unsigned long long)l.info.bytes, why.text);
    t->zxid = (int64_t)l.info.header.number;
    *ret_info = l.info;
    return 0;
}

/* Checking in pieces. */

static bool check_file_header(struct snapshot_checker *c)
{
    struct format_header unused;
    c->has_header = true;
    return format_header_read(c->head, FORMAT_SNAPSHOT, &unused) == 0;
}

static bool check_block_header(struct snapshot_checker *c)
{
    c->left = le_load32(c->head);
    c->sum = crc32c(0, c->head + 8, BLOCK_HEADER_LEN - 8);
    c->in_block = true;
    return c->left <= SNAPSHOT_BLOCK_MAX && le_load32(c->head + 12) == c->block++;
}

static bool check_block_end(struct snapshot_checker *c)
{
    c->in_block = false;
    c->ended = le_load32(c->head + 8) == BLOCK_END;
    return le_load32(c->head + 4) == crc32c(c->sum, c->head, 4);
}

bool snapshot_check(struct snapshot_checker *c, struct str bytes)
{
    while (bytes.len) {
        size_t whole = c->has_header ? BLOCK_HEADER_LEN : FORMAT_HEADER_LEN;
        size_t want = c->in_block ? c->left : whole - c->head_len;
        size_t len = want < bytes.len ? want : bytes.len;
        if (c->ended)
            return false;
        if (c->in_block) {
            c->sum = crc32c(c->sum, bytes.p, len);
            c->left -= len;
        } else {
            memcpy(c->head + c->head_len, bytes.p, len);
            c->head_len += len;
        }
        bytes = (struct str){bytes.p + len, bytes.len - len};
        if (!c->in_block && len == want) {
            c->head_len = 0;
            if (!(c->has_header ? check_block_header(c) : check_file_header(c)))
                return false;
        }
        if (c->in_block && !c->left && !check_block_end(c))
            return false;
    }
    return true;
}

int snapshot_load(const char *path, struct tree *t, struct snapshot_info *ret_info,
                  struct err_info *ret_error)
{
    FILE *in = fopen(path, "rbe");
    if (!in)
        return err_set_errno(ret_error, errno, "cannot read %s", path);
    setvbuf(in, NULL, _IOFBF, READ_AHEAD);
    int err = snapshot_read(in, path, t, ret_info, ret_error);
    fclose(in);
    return err;
}
