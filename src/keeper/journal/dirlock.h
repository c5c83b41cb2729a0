/*
 * dirlock - one process at a time in a data directory.
 *
 * The file `lock` is held with flock() for as long as the descriptor is open, so it goes with the
 * process however that ends; its content, the pid, is only for telling others who holds it.
 */
#ifndef KEEPER_JOURNAL_DIRLOCK_H
#define KEEPER_JOURNAL_DIRLOCK_H

#include "base/err.h"

/* Makes the file if it is missing. IN_USE names the process that holds it. */
int dirlock_take(const char *dir, int *ret_fd, struct err_info *ret_error);

/* For those who only look: changes nothing. *ret_fd is -1 when there is no lock file to hold. */
int dirlock_take_existing(const char *dir, int *ret_fd, struct err_info *ret_error);

#endif
