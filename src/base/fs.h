/*
 * fs - the file operations that durability hangs on, as a table that tests can replace.
 *
 * Each returns what the system call of its name returns and sets errno. Tests put a table in front
 * that fails the nth call, writes short, or records the calls so that every prefix of them can be
 * replayed as a crash. Reading at start goes through plain calls: what is read is checked anyway.
 */
#ifndef BASE_FS_H
#define BASE_FS_H

#include <stddef.h>
#include <sys/types.h>

enum { FS_BLOCK_LEN = 4096 };

struct fs {
    int (*open)(const struct fs *fs, const char *path, int flags, int mode);
    ssize_t (*pwrite)(const struct fs *fs, int fd, const void *data, size_t len, off_t at);
    int (*fdatasync)(const struct fs *fs, int fd);
    int (*fsync)(const struct fs *fs, int fd);
    int (*ftruncate)(const struct fs *fs, int fd, off_t len);
    int (*rename)(const struct fs *fs, const char *from, const char *to);
    int (*unlink)(const struct fs *fs, const char *path);
    int (*close)(const struct fs *fs, int fd);

    /*
     * From now on writes go past the cache: whole blocks of FS_BLOCK_LEN, from memory that is aligned
     * like that. -1: not with this file, it stays as it is. NULL: never.
     */
    int (*direct)(const struct fs *fs, int fd);

    /* pwrite, and fdatasync for what it wrote, for less than the two of them. NULL: not there. */
    ssize_t (*pwrite_sync)(const struct fs *fs, int fd, const void *data, size_t len, off_t at);
};

extern const struct fs fs_system;

/* Writes all of it; -1 with errno otherwise. A short write is carried on, EINTR repeated. */
int fs_write_all(const struct fs *fs, int fd, const void *data, size_t len, off_t at);

/* The same by pwrite_sync, which must be there. */
int fs_write_all_sync(const struct fs *fs, int fd, const void *data, size_t len, off_t at);

/* Makes the names in a directory durable. */
int fs_sync_dir(const struct fs *fs, const char *dir);

#endif
