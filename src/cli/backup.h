/* backup - what drover export needs of drover backup and drover restore. Exit statuses. */
#ifndef CLI_BACKUP_H
#define CLI_BACKUP_H

#include <sys/types.h>

#include "base/err.h"
#include "cli/cmd.h"

/* Saves the state of a running server in a new file, or on standard output ("-"). */
struct archive_reader;
int backup_save(const struct client_options *o, const char *name,
                struct archive_reader *ret_reader);

/* For backup_check() and backup_restore(). A signal ends it. */
struct backup_input {
    const char *name;
    int fd;
};

ssize_t backup_input_read(void *arg, char *to, size_t size, struct err_info *ret_error);

#endif
