/* The files of the reserve; the rules are in the header. */
#include "keeper/journal/reserve.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "keeper/journal/record.h"

static char *path_of(const struct reserve *r, unsigned piece)
{
    char name[FORMAT_NAME_MAX];
    snprintf(name, sizeof name, FORMAT_RESERVE "%u", piece + 1);
    return format_path_of(r->dir, name);
}

static void set(struct reserve *r, unsigned piece, bool has)
{
    r->count += (unsigned)has - (unsigned)r->has[piece];
    r->has[piece] = has;
}

/* The first piece that is there, or is not. RESERVE_PIECES: none. */
static unsigned first(const struct reserve *r, bool has)
{
    unsigned i = 0;
    while (i < RESERVE_PIECES && r->has[i] != has)
        i++;
    return i;
}

void reserve_open(struct reserve *r, const struct fs *fs, const char *dir, uint64_t store,
                  size_t segment_len)
{
    size_t len = segment_len / RESERVE_PIECES;
    *r = (struct reserve){
        .fs = fs, .dir = dir, .store = store, .piece_len = len - len % RECORD_ALIGN};
    for (unsigned i = 0; i < RESERVE_PIECES; i++) {
        CLEANUP(mem_free) char *path = path_of(r, i);
        struct stat st;
        set(r, i, !lstat(path, &st) && S_ISREG(st.st_mode) && (size_t)st.st_size == r->piece_len);
    }
}

bool reserve_allows(enum reserve_use use, unsigned count)
{
    static const unsigned KEPT_BACK[] = {
        [RESERVE_GROWS] = RESERVE_PIECES, [RESERVE_KEEPS] = 2, [RESERVE_FREES] = 1};
    return count > KEPT_BACK[use];
}

int reserve_make(struct reserve *r, struct err_info *ret_error)
{
    unsigned i = first(r, false);
    struct format_header h = {.kind = FORMAT_SEGMENT, .store = r->store, .made_len = r->piece_len};
    int fd;
    assert(i < RESERVE_PIECES);
    CLEANUP(mem_free) char *path = path_of(r, i);
    TRY(segment_make_file(r->fs, r->dir, path, &h, &fd, ret_error));
    r->fs->close(r->fs, fd);
    set(r, i, true);
    return 0;
}

static int put_header(const struct reserve *r, int fd, uint64_t segment)
{
    char header[FORMAT_HEADER_LEN];
    format_header_put(header, &(struct format_header){.kind = FORMAT_SEGMENT,
                                                      .store = r->store,
                                                      .number = segment,
                                                      .made_len = r->piece_len});
    TRY(fs_write_all(r->fs, fd, header, sizeof header, 0, false));
    return r->fs->fsync(r->fs, fd);
}

int reserve_take(struct reserve *r, uint64_t segment, int *ret_fd, struct err_info *ret_error)
{
    unsigned i = first(r, true);
    if (i == RESERVE_PIECES)
        return err_set(ret_error, DROVER_DISK_FULL, "the disk is full, and the reserve is used up");
    CLEANUP(mem_free) char *from = path_of(r, i);
    CLEANUP(mem_free) char *to = format_path(r->dir, FORMAT_SEGMENT, segment);
    int fd = r->fs->open(r->fs, from, O_RDWR, 0);
    set(r, i, false);
    if (fd >= 0 && put_header(r, fd, segment) == 0 && r->fs->rename(r->fs, from, to) == 0 &&
        fs_sync_dir(r->fs, r->dir) == 0) {
        *ret_fd = fd;
        return 0;
    }
    int err = err_set_errno(ret_error, errno, "cannot make a journal segment of %s", from);
    if (fd >= 0)
        r->fs->close(r->fs, fd);
    return err;
}

void reserve_put_back(struct reserve *r, uint64_t segment)
{
    unsigned i = first(r, false);
    CLEANUP(mem_free) char *from = format_path(r->dir, FORMAT_SEGMENT, segment);
    CLEANUP(mem_free) char *to = path_of(r, i);
    if (r->fs->rename(r->fs, from, to) == 0)
        set(r, i, true);
}

void reserve_release(struct reserve *r)
{
    for (unsigned i = RESERVE_PIECES; i-- > 0 && r->count > 1;) {
        CLEANUP(mem_free) char *path = path_of(r, i);
        if (r->has[i] && r->fs->unlink(r->fs, path) == 0)
            set(r, i, false);
    }
}
