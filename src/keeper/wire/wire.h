/*
 * wire - ZooKeeper's client protocol, served from the embedded keeper.
 *
 * Any client of ZooKeeper 3.4 to 3.8 can use the tree: sessions with their passwords, ephemeral and
 * sequential nodes, transactions, access lists, watches of every kind, and the four-letter words. What
 * the clients need not know: there is one server, it is always the leader, and it syncs many clients'
 * changes at once.
 *
 * Everything runs on one loop. A request is carried out when it has arrived whole; its answer waits in
 * the connection's queue until the journal is durable up to what it saw. Answers leave in the order of
 * the requests, and what a watch has to tell leaves before the first answer that could show the change.
 *
 * Not here: containers, TTL nodes, SASL and reconfiguration, which are refused. What else a client can
 * see that is not as in ZooKeeper 3.8:
 *
 *   - Data that was given as none comes back as empty.
 *   - Quotas are nodes like any others: nothing is counted, nothing enforced.
 *   - A path that goes beyond the basic plane of Unicode is as it was sent.
 *   - Watches of different kinds on one path stand beside each other, as in 3.9.
 *   - A wrong password for a session does not disturb whoever has it.
 *   - A request that is cut off ends its connection; there it gets an error.
 *   - With the journal opportunistic or off, a client that has seen what was lost may come back.
 */
#ifndef KEEPER_WIRE_WIRE_H
#define KEEPER_WIRE_WIRE_H

#include <uv.h>

#include "keeper/local/local.h"

enum {
    WIRE_PACKET_MAX = 1024 * 1024 - 1,
    WIRE_CONNECTIONS_MAX = 10000,
    WIRE_BACKLOG = 4096,               /* after a restart all clients come at once */
    WIRE_UNSENT_MAX = 4 * 1024 * 1024, /* answers that a client does not read stop its requests */
    WIRE_OUTSTANDING_MAX = 4096,       /* so do answers that wait for the disk */
    WIRE_EVENTS_MAX = 4 * 1024 * 1024, /* what watches tell a client that does not read ends it */
    WIRE_WATCHES_MAX = 100000,         /* of one connection */
    WIRE_IDS_MAX = 16,                 /* ways in which a connection is known */
    WIRE_CREDENTIAL_MAX = 4096,        /* bytes of user:password */
    WIRE_PATIENCE_MS = 10 * 1000,      /* for a client to say hello, and to take its last answer */
};

struct wire;

/* Binds and listens. The local store is given with wire_serve, before the loop runs. */
int wire_listen(uv_loop_t *loop, const struct sockaddr_storage *address, struct wire **ret_wire,
                struct err_info *ret_error);
void wire_serve(struct wire *w, struct local *l);

/* "127.0.0.1:8049" */
const char *wire_address(const struct wire *w);

/* Closes everything; sessions are left to their timeouts. Frees itself: run the loop until then. */
void wire_close(struct wire *w);

#endif
