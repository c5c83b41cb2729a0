/*
 * core - what all parts of the public interface share: the version, the errors, the keeper.
 */
#ifndef DROVER_CORE_H
#define DROVER_CORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library hides every other symbol. */
#pragma GCC visibility push(default)

#define DROVER_VERSION "0.1.0"

/*
 * One row for each error: name, number, HTTP status, exit status of the CLI, message. The numbers
 * are part of the interface: rows may be added, never renumbered. -19 was NO_MEMORY.
 *
 * UNKNOWN is neither success nor failure: the request may have been executed or not. Read the state
 * before you retry.
 */
#define DROVER_ERRORS(X)                                                                           \
    X(BAD_ARGUMENT, -1, 400, 2, "bad argument")                                                    \
    X(NO_NODE, -2, 404, 1, "no such node")                                                         \
    X(EXISTS, -3, 409, 1, "the node exists already")                                               \
    X(BAD_VERSION, -4, 409, 1, "the version is not the one expected")                              \
    X(NOT_EMPTY, -5, 409, 1, "the node has children")                                              \
    X(NO_CHILDREN_FOR_EPHEMERALS, -6, 409, 1, "an ephemeral node cannot have children")            \
    X(SESSION_EXPIRED, -7, 410, 1, "the session has ended")                                        \
    X(FENCED, -8, 409, 1, "another has taken over")                                                \
    X(TOO_BIG, -9, 413, 1, "too big")                                                              \
    X(DISK_FULL, -10, 507, 1, "the disk is full")                                                  \
    X(IO, -11, 500, 1, "input or output failed")                                                   \
    X(UNKNOWN, -12, 503, 1, "the outcome is not known")                                            \
    X(NOT_TRIED, -13, 409, 1, "not tried: another operation of the transaction failed")            \
    X(NO_AUTH, -14, 403, 1, "not allowed")                                                         \
    X(CLOSED, -15, 503, 1, "closed")                                                               \
    X(IN_USE, -16, 409, 1, "in use by another process")                                            \
    X(DAMAGED, -17, 500, 1, "damaged")                                                             \
    X(NEWER_VERSION, -18, 500, 1, "written by a newer version of drover")                          \
    X(BAD_ACL, -20, 400, 1, "the access list is not valid")                                        \
    X(UNIMPLEMENTED, -21, 501, 1, "this is not implemented")                                       \
    X(UNREACHABLE, -22, 503, 1, "the server cannot be reached")                                    \
    X(TOO_MANY, -23, 503, 1, "too many")                                                           \
    X(REFUSED, -24, 409, 1, "the transaction was refused")                                         \
    X(NO_TASK, -25, 404, 1, "no such task")                                                        \
    X(NOT_LEADER, -26, 503, 1, "another server leads")                                             \
    X(NOT_ALLOWED, -27, 409, 1, "its state does not allow that")                                   \
    X(LOCKED, -28, 409, 1, "locked by another")                                                    \
    X(QUOTA_EXCEEDED, -29, 507, 1, "a quota is exceeded")                                          \
    X(GROUP_FULL, -30, 429, 1, "the group has as many tasks as it may have")

enum drover_err {
#define X(name, number, http, cli, message) DROVER_##name = (number),
    DROVER_ERRORS(X)
#undef X
};

/* The name of an error ("NO_NODE") and its message, as static strings. 0 is "OK". */
const char *drover_err_name(int err);
const char *drover_err_message(int err);

/* The HTTP status and the exit status of an error. 0 gives 200 and 0. */
int drover_err_http_status(int err);
int drover_err_exit_status(int err);

/*
 * keeper - the durable tree that stores everything, opened by name:
 *
 *   zk://h1:2181,h2:2181/chroot    a ZooKeeper ensemble, or the ZooKeeper port of a drover server
 *   zks://h1:2281,h2:2281/chroot   the same with TLS
 *   /some/dir, ./dir               a data directory of the embedded keeper, used by one process
 *   memory:                        an embedded keeper in memory, lost when it is closed
 *
 * A drover_keeper is one session: closing it removes its ephemeral nodes. It must outlive the
 * worlds and batches that are opened on it.
 */
struct drover_keeper;

/* Describes a failure in words. */
struct drover_error {
    char text[512];
};

struct drover_keeper_options {
    const char *auth; /* "user:password" for an ensemble (digest); NULL: none */
    int timeout_ms;   /* session timeout; 0: 10 s */

    /* Files in PEM, for zks://. The key has no password. */
    const char *ca;   /* authorities of the servers' certificates; NULL: those of the system */
    const char *cert; /* to show to the servers; NULL: none */
    const char *key;  /* NULL: it is in the file of cert */
};

/* `o` may be NULL. */
int drover_keeper_open(const char *name, const struct drover_keeper_options *o,
                       struct drover_keeper **ret_keeper, struct drover_error *ret_error);
void drover_keeper_close(struct drover_keeper *k);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
