/*
 * zookeeper - the keeper on a ZooKeeper ensemble, through libzookeeper_mt.
 *
 * A keeper is one session of the ensemble. The URL names the servers and the chroot: all paths of
 * this keeper are below that node. It is created, with its parents, if it is missing.
 *
 *   zk://h1:2181,h2:2181,h3:2181/chroot     ports default to 2181, IPv6 goes in brackets
 *   zks://h1:2281,h2:2281,h3:2281/chroot    with TLS; ports default to 2281
 *
 * With TLS, each server's certificate must be made for the host as the URL names it. The files are
 * read again with the next connection when they have changed.
 *
 * What differs from the embedded keeper, within what keeper.h allows:
 *  - While no server can be reached, reads and transactions wait for one, up to the session
 *    timeout; then they get UNKNOWN. A commit does not wait: its callback gets UNKNOWN. Before you
 *    commit again, call keeper_sync(), which waits.
 *  - A read is repeated on the next connection. A change that was sent is not: it gets UNKNOWN. For
 *    a transaction with a sequential create the outcome is found out, and it is sent again if it
 *    did not happen (see zookeeper_tag.c).
 *  - The tags that make this possible are in the node /.drover-tags, which is created below the
 *    chroot with the first sequential create.
 */
#ifndef KEEPER_ZOOKEEPER_ZOOKEEPER_H
#define KEEPER_ZOOKEEPER_ZOOKEEPER_H

#include "keeper/keeper.h"

enum {
    ZOOKEEPER_PORT = 2181,
    ZOOKEEPER_TLS_PORT = 2281,
    ZOOKEEPER_CONNECT_TIMEOUT_MS = 10 * 1000,
};

/* For zks://, in PEM. */
struct zookeeper_tls {
    const char *ca;   /* the authorities of the servers' certificates; NULL: the system's */
    const char *cert; /* to show to the servers, with its chain; NULL: none */
    const char *key;  /* without a password; NULL: it is in the file of cert */
};

struct zookeeper_options {
    const char *auth;           /* "user:password" for the digest scheme; NULL: none. With it, only
                                   their creator may use new nodes; without it, anybody */
    const char *login;          /* instead of auth: the same, and anybody may use new nodes */
    int32_t connect_timeout_ms; /* 0: ZOOKEEPER_CONNECT_TIMEOUT_MS */
    struct zookeeper_tls tls;

    /*
     * With TLS, once there was a connection: why a later one failed, once for each server until it
     * answers again. From a thread of the keeper; calls no keeper. NULL: nobody wants to know.
     */
    void (*note)(void *arg, const char *line);
    void *note_arg;
};

/*
 * Checks a URL, and whether the files go with it: 0, or BAD_ARGUMENT with one line in ret_error.
 * Reads no file. tls may be NULL.
 */
int zookeeper_check_url(const char *url, const struct zookeeper_tls *tls,
                        struct err_info *ret_error);

/* Opens the context of a TLS client with these files, for others who speak to the ensemble. */
struct tls_context;
int zookeeper_tls_open(const struct zookeeper_tls *tls, struct tls_context **ret_context,
                       struct err_info *ret_error);

/*
 * Returns when the session is open, or an error with one line in ret_error: BAD_ARGUMENT for the
 * URL, IO if no server answers in time, SESSION_EXPIRED if the session to resume has expired,
 * NO_AUTH if the chroot may not be created. zo may be NULL.
 */
int zookeeper_connect(const char *url, const struct zookeeper_options *zo,
                      const struct keeper_options *o, struct keeper **ret_keeper,
                      struct err_info *ret_error);

/*
 * Whether anybody may change the node that is this keeper's "/", which deserves a warning at the
 * start. Only for keepers of zookeeper_connect().
 */
int zookeeper_world_writable(struct keeper *k, bool *ret_writable);

/*
 * For moves (drover export and import). The access list of a node, as in acl.h: empty if it is the
 * one that this keeper gives to new nodes. Setting one is safe to repeat.
 */
int zookeeper_get_acl(struct keeper *k, const char *path, struct buf *ret_acl);
int zookeeper_set_acl(struct keeper *k, const char *path, struct str acl);

/*
 * Creates a container or a node with a time to live, by its owner (keeper.h), unless the node is
 * there. UNIMPLEMENTED: the ensemble does not have these (extendedTypesEnabled).
 */
int zookeeper_create_lasting(struct keeper *k, const char *path, struct str data, int64_t owner);

#endif
