/*
 * fs - the file operations that durability depends on, as a table that tests can replace.
 *
 * Each returns what the system call of its name returns and sets errno. Tests replace the table to
 * fail the nth call, to write short, or to record the calls so that every prefix of them can be
 * replayed as a crash. Reading at the start uses plain system calls: everything that is read is
 * checked anyway.
 */
#ifndef BASE_FS_H
#define BASE_FS_H

#include <stdbool.h>
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
     * Switches a file to O_DIRECT: from now on writes are whole blocks of FS_BLOCK_LEN, from memory
     * with that alignment. -1: this file cannot, and stays as it is. NULL: no file can.
     */
    int (*direct)(const struct fs *fs, int fd);

    /* pwrite and fdatasync of what it wrote, cheaper than both. NULL: not available. */
    ssize_t (*pwrite_sync)(const struct fs *fs, int fd, const void *data, size_t len, off_t at);
};

extern const struct fs fs_system;

/*
 * Writes all of it: continues after short writes, repeats after EINTR. -1 with errno on failure.
 * sync: by pwrite_sync, which must be available.
 */
int fs_write_all(const struct fs *fs, int fd, const void *data, size_t len, off_t at, bool sync);

/* Makes the names in a directory durable. */
int fs_sync_dir(const struct fs *fs, const char *dir);

/* Creates the directories above a path. A failure shows when the path itself is created. */
void fs_make_parents(char *path);

#endif
