/*
 * log_dir - the directory in which the whole of what commands print is kept (--log-dir).
 */
#ifndef DAG_LOG_DIR_H
#define DAG_LOG_DIR_H

#include "base/err.h"

/*
 * Makes the directory if it is missing, below one that is there, and sees that files can be made in
 * it: a log that cannot be kept does not fail a command later, so it has to show before the first.
 */
int log_dir_make(const char *dir, struct err_info *ret_error);

#endif
