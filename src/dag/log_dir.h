/*
 * log_dir - the directory for the complete output of commands (--log-dir).
 */
#ifndef DAG_LOG_DIR_H
#define DAG_LOG_DIR_H

#include "base/err.h"

/*
 * Creates the directory if it is missing (not its parents), and checks that files can be created in
 * it: later, a log that cannot be written does not fail a command, so errors must show up here.
 */
int log_dir_make(const char *dir, struct err_info *ret_error);

#endif
