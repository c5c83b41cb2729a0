/* The report, the dump and the salvage of a data directory. */
#include "keeper/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/mem.h"
#include "keeper/journal/dirlock.h"
#include "keeper/journal/format.h"
#include "keeper/journal/recover.h"

enum { DUMP_DATA_MAX = 64 };

/* Prints text from a file, safe for a terminal. */
static void print_text(FILE *out, struct str text, size_t max)
{
    fputc('"', out);
    for (size_t i = 0; i < text.len && i < max; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\x%02x", c);
        else
            fputc(c, out);
    }
    fputs(text.len > max ? "\"..." : "\"", out);
}

static void print_change(FILE *out, const struct tree_change *c)
{
    static const char *const words[] = {
        [CHANGE_CREATE] = "create",
        [CHANGE_SET] = "set",
        [CHANGE_DELETE] = "delete",
        [CHANGE_SESSION_OPEN] = "session open",
        [CHANGE_SESSION_CLOSE] = "session close",
        [CHANGE_SET_ACL] = "set ACL",
    };

    fprintf(out, "    %s", words[c->kind]);
    if (c->path.len) {
        fputc(' ', out);
        print_text(out, c->path, c->path.len);
    }
    if (c->kind == CHANGE_CREATE || c->kind == CHANGE_SET) {
        fprintf(out, ", %zu bytes ", c->data.len);
        print_text(out, c->data, DUMP_DATA_MAX);
    }
    if (c->kind == CHANGE_SET)
        fprintf(out, ", version %" PRId32, c->number);
    if (c->kind == CHANGE_CREATE && c->session)
        fprintf(out, ", ephemeral of session %" PRId64, c->session);
    if (c->kind == CHANGE_SESSION_OPEN || c->kind == CHANGE_SESSION_CLOSE)
        fprintf(out, " %" PRId64, c->session);
    if (c->kind == CHANGE_SESSION_OPEN)
        fprintf(out, ", timeout %" PRId32 " ms", c->number);
    fputc('\n', out);
}

static void print_record(void *arg, uint64_t segment, size_t at, const struct tree_changes *c)
{
    const struct fsck_options *o = arg;
    char when[HUMAN_SIZE];
    if (!o->dump)
        return;
    fprintf(o->out, "transaction %" PRId64 ", %s.%03dZ, journal-%010" PRIu64 " offset %zu\n",
            c->zxid, human_utc(when, c->time_ms), (int)(c->time_ms % 1000), segment, at);
    for (size_t i = 0; i < c->count; i++)
        print_change(o->out, &c->list[i]);
}

static void print_note(void *arg, const char *line)
{
    const struct fsck_options *o = arg;
    fprintf(o->out, "note: %s\n", line);
}

/* Reads every snapshot, not only the one that a start would use. */
static int print_snapshots(const struct fsck_options *o, const struct format_list *list)
{
    int worst = 0;

    for (size_t i = 0; i < list->count; i++) {
        CLEANUP(mem_free) char *path = format_path(o->dir, FORMAT_SNAPSHOT, list->numbers[i]);
        struct snapshot_info info;
        struct err_info why;
        struct tree t;

        tree_init(&t);
        int err = snapshot_load(path, &t, &info, &why);
        tree_release(&t);
        if (err)
            fprintf(o->out, "snapshot-%020" PRIu64 "  %s\n", list->numbers[i], why.text);
        else
            fprintf(o->out,
                    "snapshot-%020" PRIu64 "  %" PRIu64 " nodes, %" PRIu64 " sessions, %" PRIu64
                    " bytes, replayed from journal-%010" PRIu64 "\n",
                    list->numbers[i], info.nodes, info.sessions, info.bytes,
                    info.header.replay_from);
        worst = err ? err : worst;
    }
    return worst;
}

static void print_segments(const struct fsck_options *o, const struct recovery *r)
{
    for (size_t i = 0; i < r->segment_count; i++) {
        const struct recover_segment *s = &r->segments[i];
        fprintf(o->out, "journal-%010" PRIu64 "  ", s->number);
        if (s->records)
            fprintf(o->out, "transactions %" PRId64 " to %" PRId64 ", %zu of %zu bytes used\n",
                    s->first_lsn, s->last_lsn, s->valid_len, s->file_len);
        else
            fprintf(o->out, "no transactions, %zu bytes\n", s->file_len);
    }
}

static void print_mark(const struct fsck_options *o, const struct recovery *r)
{
    if (r->has_mark)
        fprintf(o->out, "mark  transactions up to %" PRId64 " were on disk\n", r->mark.lsn);
}

static int look(const struct fsck_options *o, struct recovery *r, struct err_info *ret_error)
{
    struct recover_hooks hooks = {.note = print_note, .record = print_record, .arg = (void *)o};
    int err = recover_read(o->dir, &hooks, r, ret_error);
    print_segments(o, r);
    print_mark(o, r);
    if (err)
        return err;
    if (r->empty)
        fprintf(o->out, "empty: nothing has been kept here yet\n");
    else
        fprintf(o->out,
                "tree: %" PRIu32 " nodes, %" PRIu64 " ephemeral, %" PRIu32
                " sessions, last transaction %" PRId64 "\n",
                r->tree.nodes.count, r->tree.ephemerals, r->tree.sessions.count, r->tree.zxid);
    return 0;
}

static void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static int put_aside(const struct fsck_options *o, enum format_kind kind, uint64_t number,
                     struct err_info *ret_error)
{
    CLEANUP(mem_free) char *from = format_path(o->dir, kind, number);
    char name[FORMAT_NAME_MAX + 16];
    snprintf(name, sizeof name, "salvaged-%s", strrchr(from, '/') + 1);
    CLEANUP(mem_free) char *to = format_path_of(o->dir, name);
    if (rename(from, to) < 0)
        return err_set_errno(ret_error, errno, "cannot rename %s", from);
    fprintf(o->out, "put aside: %s\n", name);
    return 0;
}

/* Copies what will be cut off, if there is any; the copy is synced before the cut. */
static int copy_rest(const struct fsck_options *o, const char *path, uint64_t number, size_t at,
                     struct err_info *ret_error)
{
    char name[FORMAT_NAME_MAX + 64];
    CLEANUP(buf_release) struct buf bytes = {0};
    TRY(recover_read_file(path, &bytes, ret_error));
    if (at >= bytes.len)
        return 0;
    snprintf(name, sizeof name, "salvaged-journal-%010" PRIu64 "-from-%zu", number, at);
    CLEANUP(mem_free) char *to = format_path_of(o->dir, name);
    CLEANUP(fd_close) int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || fs_write_all(&fs_system, fd, bytes.p + at, bytes.len - at, 0, false) < 0 ||
        fsync(fd) < 0)
        return err_set_errno(ret_error, errno, "cannot write %s", to);
    fprintf(o->out, "put aside: %s\n", name);
    return 0;
}

/* Segments from `from` on and snapshots that show more than is left, the last ones first. */
static int put_later_aside(const struct fsck_options *o, const struct recovery *r, uint64_t from,
                           struct err_info *ret_error)
{
    CLEANUP(format_dir_release) struct format_dir files = {0};
    const struct format_list *segments = &files.files[FORMAT_SEGMENT];
    const struct format_list *snapshots = &files.files[FORMAT_SNAPSHOT];
    TRY(format_dir_read(o->dir, &files, ret_error));
    for (size_t i = segments->count; i-- > 0;)
        if (segments->numbers[i] >= from)
            TRY(put_aside(o, FORMAT_SEGMENT, segments->numbers[i], ret_error));
    for (size_t i = snapshots->count; i-- > 0;)
        if ((int64_t)snapshots->numbers[i] > r->tree.zxid ||
            (r->has_snapshot && snapshots->numbers[i] == r->snapshot.header.number &&
             r->snapshot.last_zxid > r->tree.zxid))
            TRY(put_aside(o, FORMAT_SNAPSHOT, snapshots->numbers[i], ret_error));
    return 0;
}

static int cut(const struct fsck_options *o, const char *path, size_t at,
               struct err_info *ret_error)
{
    CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)at) < 0 || fsync(fd) < 0)
        return err_set_errno(ret_error, errno, "cannot cut %s", path);
    fprintf(o->out, "cut: %s at offset %zu\n", path, at);
    return 0;
}

/* What it claims is given up; offer_salvage() makes a new one of what is left. */
static int remove_mark(const struct fsck_options *o, struct err_info *ret_error)
{
    CLEANUP(mem_free) char *path = format_path_of(o->dir, "mark");
    if (unlink(path) < 0 && errno != ENOENT)
        return err_set_errno(ret_error, errno, "cannot remove %s", path);
    if (fs_sync_dir(&fs_system, o->dir) < 0)
        return err_set_errno(ret_error, errno, "cannot sync %s", o->dir);
    return 0;
}

static int salvage(const struct fsck_options *o, const struct recovery *r,
                   struct err_info *ret_error)
{
    CLEANUP(mem_free) char *path = format_path(o->dir, FORMAT_SEGMENT, r->damaged_segment);
    bool cuts = r->damaged_at >= FORMAT_HEADER_LEN; /* otherwise the whole segment goes */
    if (cuts)
        TRY(copy_rest(o, path, r->damaged_segment, r->damaged_at, ret_error));
    TRY(put_later_aside(o, r, r->damaged_segment + cuts, ret_error));
    if (fs_sync_dir(&fs_system, o->dir) < 0)
        return err_set_errno(ret_error, errno, "cannot sync %s", o->dir);
    if (cuts)
        TRY(cut(o, path, r->damaged_at, ret_error));
    return remove_mark(o, ret_error);
}

/* After damage: asks, cuts, checks again. */
static int offer_salvage(const struct fsck_options *o, struct recovery *r,
                         struct err_info *ret_error)
{
    char question[256];
    if (!r->damaged_segment) {
        fprintf(o->out, "this cannot be salvaged: restore the directory from a copy\n");
        return DROVER_DAMAGED;
    }
    fprintf(o->out, "damaged: %s\n", ret_error->text);
    snprintf(question, sizeof question,
             "Keep everything up to transaction %" PRId64 " and give up what came after it?",
             r->tree.zxid);
    if (!o->confirm(o->arg, question))
        return err_set(ret_error, DROVER_DAMAGED, "nothing was changed");
    TRY(salvage(o, r, ret_error));
    recovery_release(r);
    TRY(look(o, r, ret_error));
    struct mark_claims claims = recovery_claims(r, r->next_segment - 1);
    return r->empty ? 0 : mark_replace(&fs_system, o->dir, &claims, ret_error);
}

int fsck_run(const struct fsck_options *o, struct err_info *ret_error)
{
    CLEANUP(recovery_release) struct recovery r = {0};
    CLEANUP(format_dir_release) struct format_dir files = {0};
    CLEANUP(dirlock_release) struct dirlock lock;
    dirlock_init(&lock);
    TRY(format_dir_read(o->dir, &files, ret_error));
    TRY(dirlock_take(&lock, o->dir, false, ret_error));
    int snapshots_err = print_snapshots(o, &files.files[FORMAT_SNAPSHOT]);
    int err = look(o, &r, ret_error);
    if (err == DROVER_DAMAGED && o->salvage)
        err = offer_salvage(o, &r, ret_error);
    if (!err && snapshots_err)
        err = err_set(ret_error, snapshots_err,
                      "a snapshot is damaged; another one and the journal hold everything");
    return err;
}
