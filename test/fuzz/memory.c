/* A table of file operations that knows one file, which is a struct buf. */
#include "memory.h"

#include <assert.h>

struct memory_fs {
    struct fs fs;
    struct buf *bytes;
    size_t begin; /* of the file within bytes */
};

static int memory_open(const struct fs *fs, const char *path, int flags, int mode)
{
    (void)fs;
    (void)path;
    (void)flags;
    (void)mode;
    return 0;
}

/* The writer goes from front to back: a write anywhere else would be a mistake. */
static ssize_t memory_pwrite(const struct fs *fs, int fd, const void *data, size_t len, off_t at)
{
    const struct memory_fs *m = (const struct memory_fs *)fs;

    (void)fd;
    assert(m->begin + (size_t)at == m->bytes->len);
    buf_put(m->bytes, data, len);
    return (ssize_t)len;
}

static int memory_fd(const struct fs *fs, int fd)
{
    (void)fs;
    (void)fd;
    return 0;
}

static int memory_rename(const struct fs *fs, const char *from, const char *to)
{
    (void)fs;
    (void)from;
    (void)to;
    return 0;
}

void memory_snapshot_write(const struct tree *t, const struct format_header *header,
                           int64_t last_zxid, size_t slice_len, struct buf *ret_bytes)
{
    struct memory_fs m = {
        .fs = {.open = memory_open,
               .pwrite = memory_pwrite,
               .fdatasync = memory_fd,
               .fsync = memory_fd,
               .rename = memory_rename,
               .close = memory_fd},
        .bytes = ret_bytes,
        .begin = ret_bytes->len,
    };
    struct snapshot_writer w;
    struct err_info why;
    bool more = true;
    int err = snapshot_begin(&w, &m.fs, ".", header, &why);

    while (!err && more) {
        more = snapshot_put(&w, t, slice_len);
        err = snapshot_flush(&w, &why);
    }
    if (!err)
        err = snapshot_end(&w, last_zxid, &why);
    assert(!err);
}

int memory_snapshot_read(struct str bytes, struct tree *t, struct snapshot_info *ret_info,
                         struct err_info *ret_error)
{
    FILE *in = fmemopen((void *)(uintptr_t)bytes.p, bytes.len, "rb");
    int err;

    assert(in);
    err = snapshot_read(in, "snapshot", t, ret_info, ret_error);
    fclose(in);
    return err;
}
