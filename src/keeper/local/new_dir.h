/*
 * new_dir - makes a data directory that is there as a whole or not at all.
 *
 * The files are made in DIR.restoring, beside DIR; new_dir_finish() gives that the name DIR. It is
 * locked meanwhile (flock on the directory itself, which ends with the process), so that two
 * processes do not mix their files and what a dead one left is known to be nobody's.
 *
 *   dies before the renaming      DIR is as it was; DIR.restoring is left, which the next
 *                                 new_dir_begin() of DIR empties
 *   dies after it                 DIR is whole. Only a power failure can undo the renaming, until
 *                                 the directory above is synced, which is before the return
 *
 * In order: new_dir_begin -> make files below `tmp`, and sync them -> new_dir_finish; new_dir_end
 * in any case, which removes what was not finished.
 */
#ifndef KEEPER_LOCAL_NEW_DIR_H
#define KEEPER_LOCAL_NEW_DIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/fs.h"

struct new_dir {
    const struct fs *fs;
    char *dir, *tmp;
    int tmp_fd; /* -1: none; holds the lock */
    bool finished;

    /* Of an existing, empty DIR; its files get the same. */
    bool has_owner;
    uid_t uid;
    gid_t gid;
};

/* DIR is missing, or an empty directory; the one above it exists. fs NULL: the system's. */
int new_dir_begin(struct new_dir *n, const char *dir, const struct fs *fs,
                  struct err_info *ret_error);

/* Gives a file its owner. -1 with errno. */
int new_dir_own(const struct new_dir *n, int fd);

/* The files are synced. */
int new_dir_finish(struct new_dir *n, struct err_info *ret_error);
void new_dir_end(struct new_dir *n);

#endif
