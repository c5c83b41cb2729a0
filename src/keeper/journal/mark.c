/* Reading and writing the mark; the format and the rules are in the header. */
#include "keeper/journal/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "keeper/journal/format.h"

static const char MAGIC[] = "DROVERMK";

enum { VERSION = 1 };

static uint32_t slot_checksum(const char *slot)
{
    char copy[MARK_SLOT_LEN];
    memcpy(copy, slot, sizeof copy);
    memset(copy + 12, 0, 4);
    return crc32c(0, copy, sizeof copy);
}

static void slot_put(char *out, const struct mark_claims *claims, uint64_t serial)
{
    memset(out, 0, MARK_SLOT_LEN);
    memcpy(out, MAGIC, 8);
    le_store32(out + 8, VERSION);
    le_store64(out + 16, claims->store);
    le_store64(out + 24, serial);
    le_store64(out + 32, (uint64_t)claims->lsn);
    le_store64(out + 40, claims->segment);
    le_store64(out + 48, claims->at);
    le_store64(out + 56, claims->begun);
    le_store64(out + 64, claims->sealed);
    le_store32(out + 12, slot_checksum(out));
}

static int slot_read(const char *in, struct mark_claims *ret_mark)
{
    if (memcmp(in, MAGIC, 8) != 0 || le_load32(in + 12) != slot_checksum(in))
        return DROVER_DAMAGED;
    if (le_load32(in + 8) > VERSION)
        return DROVER_NEWER_VERSION;
    *ret_mark = (struct mark_claims){
        .store = le_load64(in + 16),
        .serial = le_load64(in + 24),
        .lsn = (int64_t)le_load64(in + 32),
        .segment = le_load64(in + 40),
        .at = le_load64(in + 48),
        .begun = le_load64(in + 56),
        .sealed = le_load64(in + 64),
    };
    return 0;
}

int mark_parse(const char *bytes, size_t len, struct mark_claims *ret_mark)
{
    struct mark_claims newest = {0}, slot;
    int found = DROVER_DAMAGED;
    for (size_t at = 0; at < MARK_LEN && at + MARK_SLOT_LEN <= len; at += MARK_SLOT_LEN) {
        int err = slot_read(bytes + at, &slot);
        if (err == DROVER_NEWER_VERSION)
            return err;
        if (err || (!found && slot.serial < newest.serial))
            continue;
        newest = slot;
        found = 0;
    }
    if (!found)
        *ret_mark = newest;
    return found;
}

int mark_read(const char *dir, struct mark_claims *ret_mark, struct err_info *ret_error)
{
    CLEANUP(mem_free) char *path = format_path_of(dir, "mark");
    char bytes[MARK_LEN];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    ssize_t len = fd < 0 ? -1 : pread(fd, bytes, sizeof bytes, 0);
    int errnum = errno;
    if (fd >= 0)
        close(fd);
    if (len < 0)
        return err_set_errno(ret_error, errnum, "cannot read %s", path);
    int err = mark_parse(bytes, (size_t)len, ret_mark);
    if (err == DROVER_NEWER_VERSION)
        return err_set(ret_error, err, "%s was written by a newer version of drover", path);
    if (err)
        return err_set(ret_error, err, "%s is damaged; drover fsck --salvage makes it anew", path);
    return 1;
}

/* The whole file under another name first, so that it is never there in part. */
static int make(struct mark_file *m, const char *path, const struct mark_claims *claims)
{
    CLEANUP(mem_free) char *tmp = format_path_of(m->dir, "mark.tmp");
    char bytes[MARK_LEN];
    slot_put(bytes, claims, m->serial);
    slot_put(bytes + MARK_SLOT_LEN, claims, m->serial);
    int fd = m->fs->open(m->fs, tmp, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd >= 0 && fs_write_all(m->fs, fd, bytes, sizeof bytes, 0, false) == 0 &&
        m->fs->fsync(m->fs, fd) == 0 && m->fs->rename(m->fs, tmp, path) == 0 &&
        fs_sync_dir(m->fs, m->dir) == 0) {
        m->fd = fd;
        return 0;
    }
    int errnum = errno;
    if (fd >= 0) {
        m->fs->close(m->fs, fd);
        m->fs->unlink(m->fs, tmp);
    }
    errno = errnum;
    return -1;
}

static int write_slot(struct mark_file *m, int slot, const struct mark_claims *claims)
{
    char bytes[MARK_SLOT_LEN];
    slot_put(bytes, claims, ++m->serial);
    return fs_write_all(m->fs, m->fd, bytes, sizeof bytes, (off_t)slot * MARK_SLOT_LEN, false);
}

/* The second slot is on disk before the first one is written, so one of them is always whole. */
static int write_claims(struct mark_file *m, const struct mark_claims *claims, bool sync)
{
    TRY(write_slot(m, 1, claims));
    if (!sync)
        return 0;
    TRY(m->fs->fdatasync(m->fs, m->fd));
    TRY(write_slot(m, 0, claims));
    return m->fs->fdatasync(m->fs, m->fd);
}

/* Opens the file if there is one. */
static int open_file(struct mark_file *m, const char *path)
{
    struct mark_claims before;
    if (m->fd >= 0)
        return 0;
    m->fd = m->fs->open(m->fs, path, O_RDWR, 0);
    if (m->fd < 0)
        return errno == ENOENT ? 0 : -1;
    if (mark_read(m->dir, &before, NULL) == 1)
        m->serial = before.serial;
    return 0;
}

int mark_put(struct mark_file *m, const struct mark_claims *claims, bool sync,
             struct err_info *ret_error)
{
    CLEANUP(mem_free) char *path = format_path_of(m->dir, "mark");
    if (open_file(m, path) < 0)
        return err_set_errno(ret_error, errno, "cannot open %s", path);
    if (m->fd < 0 ? make(m, path, claims) : write_claims(m, claims, sync))
        return err_set_errno(ret_error, errno, "cannot write %s", path);
    return 0;
}

void mark_close(struct mark_file *m)
{
    if (m->fd >= 0)
        m->fs->close(m->fs, m->fd);
    m->fd = -1;
}

int mark_replace(const struct fs *fs, const char *dir, const struct mark_claims *claims,
                 struct err_info *ret_error)
{
    CLEANUP(mark_close) struct mark_file m = {.fs = fs, .dir = dir, .fd = -1};
    return mark_put(&m, claims, true, ret_error);
}
