/* Names, headers and the listing of a data directory. */
#include "keeper/journal/format.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/place.h"

static const struct {
    const char *magic, *prefix;
    int digits;
} KINDS[FORMAT_KINDS] = {
    [FORMAT_SEGMENT] = {"DROVERJL", "journal-", 10},
    [FORMAT_SNAPSHOT] = {"DROVERSN", "snapshot-", 20},
};

static uint32_t header_checksum(const char *header)
{
    char copy[FORMAT_HEADER_LEN];
    memcpy(copy, header, sizeof copy);
    memset(copy + 12, 0, 4);
    return crc32c(0, copy, sizeof copy);
}

uint32_t format_checksum(uint32_t salt, const char *p, size_t len)
{
    return crc32c(crc32c(salt, p + 8, len - 8), p, 4);
}

void format_header_put(char *out, const struct format_header *h)
{
    memset(out, 0, FORMAT_HEADER_LEN);
    memcpy(out, KINDS[h->kind].magic, 8);
    le_store32(out + 8, FORMAT_VERSION);
    le_store64(out + 16, h->store);
    le_store64(out + 24, h->number);
    le_store64(out + 32, h->replay_from);
    le_store64(out + 40, h->made_len);
    le_store32(out + 12, header_checksum(out));
}

int format_header_read(const char *in, enum format_kind kind, struct format_header *ret_header)
{
    if (memcmp(in, KINDS[kind].magic, 8) != 0 || le_load32(in + 12) != header_checksum(in))
        return DROVER_DAMAGED;
    if (le_load32(in + 8) > FORMAT_VERSION)
        return DROVER_NEWER_VERSION;
    *ret_header = (struct format_header){
        .kind = kind,
        .store = le_load64(in + 16),
        .number = le_load64(in + 24),
        .replay_from = le_load64(in + 32),
        .made_len = le_load64(in + 40),
    };
    return 0;
}

char *format_path_of(const char *dir, const char *name)
{
    struct buf b = {0};
    buf_printf(&b, "%s/%s", dir, name);
    buf_text(&b);
    return b.p;
}

char *format_path(const char *dir, enum format_kind kind, uint64_t number)
{
    char name[FORMAT_NAME_MAX];
    snprintf(name, sizeof name, "%s%0*llu", KINDS[kind].prefix, KINDS[kind].digits,
             (unsigned long long)number);
    return format_path_of(dir, name);
}

/*
 * Whether nobody else has the file open: a lease for writing is granted only then. It is given back
 * at once. Whoever opens the file in between waits for that, and the signal that tells us so must
 * be one that does nothing. A file system without leases tells nothing: then somebody may have it.
 */
static bool is_ours_alone(int fd)
{
    return fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0 &&
           fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
}

/* A file that somebody reads, such as a backup, stays as it is until its last reader closes it. */
static int shrink(const struct fs *fs, const char *path, off_t len)
{
    int fd = fs->open(fs, path, O_RDWR, 0), err = fd < 0 ? -1 : 0;
    while (!err && len > FORMAT_REMOVE_STEP && is_ours_alone(fd)) {
        len -= FORMAT_REMOVE_STEP;
        err = fs->ftruncate(fs, fd, len);
        if (!err)
            err = fs->fsync(fs, fd);
    }
    int saved = errno;
    if (fd >= 0)
        fs->close(fs, fd);
    errno = saved;
    return err;
}

int format_remove(const struct fs *fs, const char *dir, enum format_kind kind, uint64_t number)
{
    CLEANUP(mem_free) char *path = format_path(dir, kind, number);
    CLEANUP(mem_free) char *aside = format_path_of(dir, "removed.tmp");
    struct stat st;
    TRY(stat(path, &st));
    if (st.st_size <= FORMAT_REMOVE_STEP)
        return fs->unlink(fs, path);
    TRY(fs->rename(fs, path, aside));
    TRY(shrink(fs, aside, st.st_size));
    return fs->unlink(fs, aside);
}

static const char *const TMP[] = {"journal.tmp", "snapshot.tmp", "mark.tmp", "removed.tmp"};

enum { TMP_COUNT = sizeof TMP / sizeof *TMP };

int format_remove_tmp(const struct fs *fs, const char *dir, struct err_info *ret_error)
{
    for (size_t i = 0; i < TMP_COUNT; i++) {
        CLEANUP(mem_free) char *path = format_path_of(dir, TMP[i]);
        if (access(path, F_OK) == 0 && fs->unlink(fs, path) < 0)
            return err_set_errno(ret_error, errno, "cannot remove %s", path);
    }
    return 0;
}

bool format_parse_name(const char *name, enum format_kind *ret_kind, uint64_t *ret_number)
{
    for (int kind = 0; kind < FORMAT_KINDS; kind++) {
        size_t len = strlen(KINDS[kind].prefix), count = (size_t)KINDS[kind].digits;
        const char *digits = name + len;
        if (strncmp(name, KINDS[kind].prefix, len) != 0 || strlen(digits) != count ||
            strspn(digits, "0123456789") != count)
            continue;
        *ret_kind = (enum format_kind)kind;
        *ret_number = strtoull(digits, NULL, 10);
        return true;
    }
    return false;
}

static int rising(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool is_foreign(const char *name)
{
    static const char *const KNOWN[] = {"lock", "mark", "lost+found", PLACE_ADMIN_TOKEN};
    for (size_t i = 0; i < TMP_COUNT; i++)
        if (strcmp(name, TMP[i]) == 0)
            return false;
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (strcmp(name, KNOWN[i]) == 0)
            return false;
    return name[0] != '.' && strncmp(name, "salvaged-", 9) != 0 &&
           strncmp(name, FORMAT_RESERVE, sizeof FORMAT_RESERVE - 1) != 0;
}

static void dir_add(struct format_dir *d, const char *name)
{
    enum format_kind kind;
    uint64_t number;
    if (format_parse_name(name, &kind, &number)) {
        struct format_list *l = &d->files[kind];
        mem_grow(l->numbers, l->count, l->cap);
        l->numbers[l->count++] = number;
    } else if (is_foreign(name)) {
        d->foreign++;
        snprintf(d->foreign_name, sizeof d->foreign_name, "%s", name);
    }
}

int format_dir_read(const char *dir, struct format_dir *ret_dir, struct err_info *ret_error)
{
    struct format_dir d = {0};
    struct dirent *entry;
    DIR *stream = opendir(dir);
    if (!stream)
        return err_set_errno(ret_error, errno, "cannot read the data directory %s", dir);
    while (errno = 0, entry = readdir(stream))
        dir_add(&d, entry->d_name);
    int errnum = errno;
    closedir(stream);
    if (errnum) {
        format_dir_release(&d);
        return err_set_errno(ret_error, errnum, "cannot read the data directory %s", dir);
    }
    for (int kind = 0; kind < FORMAT_KINDS; kind++)
        if (d.files[kind].count)
            qsort(d.files[kind].numbers, d.files[kind].count, sizeof(uint64_t), rising);
    *ret_dir = d;
    return 0;
}

void format_dir_release(struct format_dir *d)
{
    for (int kind = 0; kind < FORMAT_KINDS; kind++)
        free(d->files[kind].numbers);
    *d = (struct format_dir){0};
}

int format_remove_before(const struct fs *fs, const char *dir, enum format_kind kind,
                         uint64_t number, struct err_info *ret_error)
{
    CLEANUP(format_dir_release) struct format_dir d = {0};
    const struct format_list *l = &d.files[kind];
    TRY(format_dir_read(dir, &d, ret_error));
    for (size_t i = 0; i < l->count && l->numbers[i] < number; i++) {
        CLEANUP(mem_free) char *path = format_path(dir, kind, l->numbers[i]);
        if (format_remove(fs, dir, kind, l->numbers[i]) < 0)
            return err_set_errno(ret_error, errno, "cannot remove %s", path);
    }
    return 0;
}

/* Before anything is created in the directory. */
static int refuse_foreign(const char *dir, struct err_info *ret_error)
{
    CLEANUP(format_dir_release) struct format_dir d = {0};
    TRY(format_dir_read(dir, &d, ret_error));
    if (d.foreign && !d.files[FORMAT_SEGMENT].count && !d.files[FORMAT_SNAPSHOT].count)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "%s holds other files (%s) and no data of drover: use an empty directory",
                       dir, d.foreign_name);
    return 0;
}

int format_dir_make(const char *dir, struct err_info *ret_error)
{
    struct stat st;
    if (mkdir(dir, 0700) == 0) {
        CLEANUP(mem_free) char *above = format_path_of(dir, "..");
        if (fs_sync_dir(&fs_system, above) < 0)
            return err_set_errno(ret_error, errno, "cannot sync the directory above %s", dir);
    } else if (errno != EEXIST) {
        return err_set_errno(ret_error, errno, "cannot make the data directory %s", dir);
    }
    if (stat(dir, &st) < 0)
        return err_set_errno(ret_error, errno, "cannot use the data directory %s", dir);
    if (!S_ISDIR(st.st_mode))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s is not a directory", dir);
    return refuse_foreign(dir, ret_error);
}
