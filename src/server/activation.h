/*
 * activation - sockets that a service manager has opened for the server: $LISTEN_FDS, as in
 * sd_listen_fds(3).
 *
 * The name of a socket ($LISTEN_FDNAMES, FileDescriptorName= in a unit) is that of the option in
 * whose place it is used: http, https, zk, zk-tls, socket. The server binds nothing for such an
 * option, whatever its value.
 *
 * activation_take() once, before any other file is opened and before there are threads. It removes
 * the variables and sets close-on-exec, so that commands inherit neither.
 */
#ifndef SERVER_ACTIVATION_H
#define SERVER_ACTIVATION_H

#include "server/serve.h"

/* 0 also if nothing was passed to this process. Fails if a socket is not what its name says. */
int activation_take(struct err_info *ret_error);

/* Uses what was taken in place of the options. Fails if the server has no such port. */
int activation_use(struct serve_options *o, struct err_info *ret_error);

#endif
