/* Images are read and written whole; runs of zeros are left to the file system as holes. */
#include "files.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/mem.h"

enum { BLOCK_LEN = 4096, ROOM_WANTED = 256 * 1024 * 1024 };

static void must_succeed(bool done, const char *what)
{
    if (done)
        return;
    perror(what);
    abort();
}

/* The existing ones, so that a failed test leaves none behind either. */
static char **dirs;
static size_t dir_count;

static char *make_in(const char *base)
{
    struct buf path = {0};

    buf_printf(&path, "%s/drover-crash-XXXXXX", base);
    buf_text(&path);
    must_succeed(mkdtemp(path.p) != NULL, "mkdtemp");
    dirs = mem_realloc(dirs, (dir_count + 1) * sizeof *dirs);
    return dirs[dir_count++] = path.p;
}

char *dir_make_on_disk(void)
{
    const char *base = getenv("TMPDIR");

    return make_in(base && *base ? base : "/tmp");
}

char *dir_make(void)
{
    struct statvfs fs;

    if (statvfs("/dev/shm", &fs) == 0 && fs.f_bavail * fs.f_frsize >= ROOM_WANTED &&
        access("/dev/shm", W_OK | X_OK) == 0)
        return make_in("/dev/shm");
    return dir_make_on_disk();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void dir_remove(char *dir)
{
    size_t at = 0;

    must_succeed(nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, dir);
    while (dirs[at] != dir)
        at++;
    dirs[at] = dirs[--dir_count];
    if (!dir_count) {
        free(dirs);
        dirs = NULL;
    }
    free(dir);
}

void dirs_remove(void)
{
    while (dir_count)
        dir_remove(dirs[dir_count - 1]);
}

static int dir_open(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    must_succeed(fd >= 0, dir);
    return fd;
}

static int is_content(const struct dirent *entry)
{
    const char *name = entry->d_name;

    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, "lock") != 0;
}

/* A file may go while it is being looked for, as a temporary one does when it gets its name. */
static void read_file(int dir_fd, const char *name, struct image *im)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    struct buf *bytes;
    struct stat st;

    if (fd < 0)
        return;
    must_succeed(fstat(fd, &st) == 0, name);
    bytes = image_add(im, name);
    buf_reserve(bytes, (size_t)st.st_size + 1);
    bytes->len = (size_t)st.st_size;
    must_succeed(pread(fd, bytes->p, bytes->len, 0) == st.st_size, name);
    close(fd);
}

void image_read(struct image *im, const char *dir)
{
    struct dirent **entries;
    int dir_fd = dir_open(dir), count = scandir(dir, &entries, is_content, alphasort);

    must_succeed(count >= 0, dir);
    *im = (struct image){0};
    for (int i = 0; i < count; i++) {
        read_file(dir_fd, entries[i]->d_name, im);
        free(entries[i]);
    }
    free(entries);
    close(dir_fd);
}

void image_release(struct image *im)
{
    for (size_t i = 0; i < im->count; i++) {
        free(im->files[i].name);
        buf_release(&im->files[i].bytes);
    }
    free(im->files);
    *im = (struct image){0};
}

static bool is_zero(const char *p, size_t len)
{
    return p[0] == 0 && memcmp(p, p + 1, len - 1) == 0;
}

static void write_file(int dir_fd, const struct image_file *f)
{
    int fd = openat(dir_fd, f->name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    must_succeed(fd >= 0 && ftruncate(fd, (off_t)f->bytes.len) == 0, f->name);
    for (size_t at = 0; at < f->bytes.len; at += BLOCK_LEN) {
        size_t len = f->bytes.len - at < BLOCK_LEN ? f->bytes.len - at : BLOCK_LEN;

        if (!is_zero(f->bytes.p + at, len))
            must_succeed(pwrite(fd, f->bytes.p + at, len, (off_t)at) == (ssize_t)len, f->name);
    }
    close(fd);
}

void image_write(const struct image *im, const char *dir)
{
    struct dirent **entries;
    int dir_fd = dir_open(dir), count = scandir(dir, &entries, is_content, NULL);

    must_succeed(count >= 0, dir);
    for (int i = 0; i < count; i++) {
        if (!image_find(im, entries[i]->d_name))
            unlinkat(dir_fd, entries[i]->d_name, 0);
        free(entries[i]);
    }
    free(entries);
    for (size_t i = 0; i < im->count; i++)
        write_file(dir_fd, &im->files[i]);
    close(dir_fd);
}

static struct image_file *find(const struct image *im, const char *name)
{
    for (size_t i = 0; i < im->count; i++)
        if (strcmp(im->files[i].name, name) == 0)
            return &im->files[i];
    return NULL;
}

struct buf *image_find(const struct image *im, const char *name)
{
    struct image_file *f = find(im, name);

    return f ? &f->bytes : NULL;
}

struct buf *image_add(struct image *im, const char *name)
{
    im->files = mem_realloc(im->files, (im->count + 1) * sizeof *im->files);
    im->files[im->count] = (struct image_file){.name = mem_dup(name, strlen(name))};
    return &im->files[im->count++].bytes;
}

void image_remove(struct image *im, const char *name)
{
    struct image_file *f = find(im, name);

    must_succeed(f != NULL, name);
    free(f->name);
    buf_release(&f->bytes);
    memmove(f, f + 1, (size_t)(im->files + --im->count - f) * sizeof *f);
}

const char *image_name(const struct image *im, const char *prefix, int nth)
{
    int step = nth < 0 ? -1 : 1, left = nth < 0 ? -nth - 1 : nth;

    for (int i = nth < 0 ? (int)im->count - 1 : 0; i >= 0 && i < (int)im->count; i += step)
        if (strncmp(im->files[i].name, prefix, strlen(prefix)) == 0 && left-- == 0)
            return im->files[i].name;
    return NULL;
}

void file_write(const char *dir, const char *name, const struct buf *bytes)
{
    int dir_fd = dir_open(dir);

    write_file(dir_fd, &(struct image_file){(char *)name, *bytes});
    close(dir_fd);
}

void file_remove(const char *dir, const char *name)
{
    int dir_fd = dir_open(dir);

    must_succeed(unlinkat(dir_fd, name, 0) == 0, name);
    close(dir_fd);
}

void file_patch(const char *dir, const char *name, size_t at, const void *bytes, size_t len)
{
    int dir_fd = dir_open(dir), fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC);

    must_succeed(fd >= 0 && pwrite(fd, bytes, len, (off_t)at) == (ssize_t)len, name);
    close(fd);
    close(dir_fd);
}

void file_flip(const char *dir, const char *name, size_t bit)
{
    int dir_fd = dir_open(dir), fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC);
    char byte = 0;

    must_succeed(fd >= 0 && pread(fd, &byte, 1, (off_t)(bit / 8)) == 1, name);
    byte ^= (char)(1 << bit % 8);
    must_succeed(pwrite(fd, &byte, 1, (off_t)(bit / 8)) == 1, name);
    close(fd);
    close(dir_fd);
}

static void list_file(int dir_fd, const char *name, struct buf *out)
{
    static char block[64 * 1024];
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    uint32_t sum = 0;
    size_t len = 0;
    ssize_t n;

    must_succeed(fd >= 0, name);
    while ((n = read(fd, block, sizeof block)) > 0) {
        sum = crc32c(sum, block, (size_t)n);
        len += (size_t)n;
    }
    must_succeed(n == 0, name);
    close(fd);
    buf_printf(out, "%s %zu %08x\n", name, len, sum);
}

char *dir_listing(const char *dir)
{
    struct dirent **entries;
    int dir_fd = dir_open(dir), count = scandir(dir, &entries, is_content, alphasort);
    struct buf out = {0};

    must_succeed(count >= 0, dir);
    for (int i = 0; i < count; i++) {
        list_file(dir_fd, entries[i]->d_name, &out);
        free(entries[i]);
    }
    free(entries);
    close(dir_fd);
    buf_text(&out);
    return out.p;
}
