/*
 * unix_socket - the Unix socket that a server listens on.
 *
 * A lock beside it (PATH.lock), held as long as the process lives, says that a server has it: the
 * socket of one that was killed is replaced, that of a running one is not.
 */
#ifndef SERVER_UNIX_SOCKET_H
#define SERVER_UNIX_SOCKET_H

#include <sys/types.h>

#include "base/err.h"

struct unix_socket_options {
    const char *path;
    mode_t mode;
    const char *group; /* the group that the socket belongs to; NULL: the process's */
};

struct unix_socket {
    char *path;
    int fd;      /* bound, not yet listening; whoever listens takes it */
    int lock_fd; /* -1: none */
    dev_t device;
    ino_t inode;
};

/* Fails with IN_USE if another server has it. */
int unix_socket_open(const struct unix_socket_options *o, struct unix_socket *ret_socket,
                     struct err_info *ret_error);

/* Removes it, unless somebody has replaced it. Safe on a zeroed one. */
void unix_socket_close(struct unix_socket *s);

#endif
