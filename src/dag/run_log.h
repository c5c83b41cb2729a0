/*
 * run_log - the files of --log-dir: the complete output of each run.
 *
 * The directory may be one that others can write to (/tmp), and the names of the files can be
 * guessed. A file is therefore only written if it is a regular file of this user with one name, and
 * links are not followed: nobody can have another file overwritten. A command does not fail because
 * its log cannot be written; the reason is logged.
 */
#ifndef DAG_RUN_LOG_H
#define DAG_RUN_LOG_H

#include <stddef.h>

#include "base/err.h"

/*
 * Creates the directory if it is missing (not its parents), and checks it: files can be created in
 * it, it belongs to this user or to root, and others cannot remove the files.
 */
int run_log_make_dir(const char *dir, struct err_info *ret_error);

/* Creates the file, or empties that of an earlier run. Returns a descriptor; -1: without a log. */
int run_log_open(const char *path);

/* Appends to it. On failure *fd is closed and becomes -1. */
void run_log_put(int *fd, const char *p, size_t len);

#endif
