/*
 * dirlock - one process at a time in a data directory.
 *
 * The file `lock` is held with flock() while the descriptor is open, so the lock ends with the
 * process. Its content, the pid, only serves error messages.
 */
#ifndef KEEPER_JOURNAL_DIRLOCK_H
#define KEEPER_JOURNAL_DIRLOCK_H

#include "base/err.h"

/* Creates the file if it is missing. IN_USE: the error names the process that holds it. */
int dirlock_take(const char *dir, int *ret_fd, struct err_info *ret_error);

/* For readers: creates nothing. *ret_fd is -1 if there is no lock file. */
int dirlock_take_existing(const char *dir, int *ret_fd, struct err_info *ret_error);

#endif
