/*
 * zookeeper - the keeper on a ZooKeeper ensemble, through libzookeeper_mt.
 *
 * A keeper is one session of the ensemble. The URL names the servers and, after them, the node
 * below which this keeper lives (the chroot): all of its paths are below that one, which is made,
 * with its parents, when it is missing.
 *
 *   zk://h1:2181,h2:2181,h3:2181/chroot     ports default to 2181, IPv6 goes in brackets
 *
 * What differs from the embedded keeper, within what keeper.h allows:
 *  - While no server can be reached, reads and transactions wait for one, as long as the session
 *    timeout; then they get UNKNOWN. A commit does not wait: its callback gets UNKNOWN. Whoever
 *    commits again after that calls keeper_sync() first, which waits.
 *  - A read is repeated on the next connection. A change that was sent is not: it gets UNKNOWN,
 * except that a transaction with a sequential create is looked for and then told, or done again
 * when it is certain that it did not happen (see zookeeper_tag.c).
 *  - The tags that make this possible live in the node /.drover-tags, which appears below the
 * chroot with the first sequential create.
 */
#ifndef KEEPER_ZOOKEEPER_ZOOKEEPER_H
#define KEEPER_ZOOKEEPER_ZOOKEEPER_H

#include "keeper/keeper.h"

enum {
    ZOOKEEPER_PORT = 2181,
    ZOOKEEPER_CONNECT_TIMEOUT_MS = 10 * 1000,
};

struct zookeeper_options {
    const char *auth;           /* "user:password" for the digest scheme; NULL: none. With it, nodes
                                   are made for their creator only; without it, for anybody */
    int32_t connect_timeout_ms; /* 0: ZOOKEEPER_CONNECT_TIMEOUT_MS */
};

/* Whether a URL can be understood: 0, or BAD_ARGUMENT and one line about it. */
int zookeeper_check_url(const char *url, struct err_info *ret_error);

/*
 * Returns when the session stands, or an error and one line about it: BAD_ARGUMENT for the URL, IO
 * when no server answers in time, SESSION_EXPIRED when the session to resume is over, NO_AUTH when
 * the chroot may not be made. zo may be NULL.
 */
int zookeeper_connect(const char *url, const struct zookeeper_options *zo,
                      const struct keeper_options *o, struct keeper **ret_keeper,
                      struct err_info *ret_error);

/*
 * Whether anybody at all may change the node that is this keeper's "/", which is worth a warning at
 * start. Only for keepers made by zookeeper_connect().
 */
int zookeeper_world_writable(struct keeper *k, bool *ret_writable);

#endif
