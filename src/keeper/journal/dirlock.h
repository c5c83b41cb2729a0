/*
 * dirlock - one process at a time uses a data directory.
 *
 * The process locks the directory itself with flock() for as long as the descriptor is open, so the
 * lock ends with the process, and no file that somebody removes or replaces can take it away. It
 * also locks the file `lock`, as versions before 0.2 do: a server of theirs is noticed, and notices
 * this one. The content of that file, a pid, only serves error messages.
 *
 * A file system that cannot lock a directory (NFS) has the file alone.
 */
#ifndef KEEPER_JOURNAL_DIRLOCK_H
#define KEEPER_JOURNAL_DIRLOCK_H

#include <stdbool.h>

#include "base/err.h"

struct dirlock {
    int dir_fd, file_fd; /* -1: not open */
};

/* Before anything else. */
void dirlock_init(struct dirlock *lock);

/*
 * Creates the file if it is missing and writes the pid; readers (create false) create and write
 * nothing. IN_USE: the error names the process that holds the directory.
 */
int dirlock_take(struct dirlock *lock, const char *dir, bool create, struct err_info *ret_error);

/* Does nothing if it is not taken. */
void dirlock_release(struct dirlock *lock);

#endif
