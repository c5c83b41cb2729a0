/*
 * zookeeper_link - one connection of the relay: bytes from a socket of libzookeeper go to a server
 * with TLS, and back.
 *
 * In order: zk_link_begin; then, until it is closed, zk_link_poll before and zk_link_step after
 * each poll(). All on one thread. Nothing waits, except that zk_link_begin resolves the name.
 *
 * Buffers are bounded: a side is read only when what it sent before has been passed on.
 */
#ifndef KEEPER_ZOOKEEPER_ZOOKEEPER_LINK_H
#define KEEPER_ZOOKEEPER_ZOOKEEPER_LINK_H

#include <netdb.h>
#include <poll.h>

#include "base/tls.h"

enum { ZK_LINK_LINGER_MS = 1000 }; /* the server may take this long to see the end */

enum zk_link_state {
    ZK_LINK_CLOSED,
    ZK_LINK_CONNECTING,
    ZK_LINK_OPEN,   /* the handshake is under way or done */
    ZK_LINK_ENDING, /* libzookeeper has closed its socket; the rest is sent */
};

struct zk_link {
    enum zk_link_state state;
    int local, remote; /* -1: none, or closed */
    const char *host;
    struct tls_context *context;
    struct addrinfo *addresses, *next; /* next: to try if this one fails */
    int64_t connect_ms;                /* for each address, with the handshake */
    int64_t deadline_ms;               /* INT64_MAX: none */
    struct tls *tls;
    struct buf down; /* decrypted, for libzookeeper */
    size_t down_sent, up_sent;
    bool shut;               /* the server was told the end */
    bool answered;           /* the server has sent something: it has accepted this client */
    bool refused;            /* by TLS, on either side: the next attempt will hardly differ */
    struct err_info problem; /* why it ended without an answer; empty: it is none */
    char chunk[TLS_READ_SIZE];
};

/* Takes the socket. It may be closed when this returns, with a problem. */
void zk_link_begin(struct zk_link *l, int local_take, struct tls_context *context, const char *host,
                   const char *port, int64_t connect_ms);

/* Sets what to wait for; fds are those of the two sides. */
void zk_link_poll(const struct zk_link *l, struct pollfd fds[2]);
void zk_link_step(struct zk_link *l, const struct pollfd fds[2]);

/* Safe if it is closed. The problem stays. */
void zk_link_close(struct zk_link *l);

#endif
