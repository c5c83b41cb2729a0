/*
 * door - who is let in at a port: so many connections in all and from one address, and none that
 * takes a descriptor that is kept back (file_limit.h).
 *
 * Set the first members, the rest is zero; door_enter() for each accepted socket; door_leave() when
 * it has closed, also one that was refused. On one thread.
 *
 * Addresses are counted in a balanced tree, so that many connections from many addresses stay
 * cheap. Of IPv6 the network of 64 bits counts, because one machine has all of its addresses. What
 * has no address, such as a Unix socket, counts for the total only.
 */
#ifndef BASE_DOOR_H
#define BASE_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/refusals.h"

/* DOOR_FILES: the descriptor has to be closed at once. */
enum door_answer { DOOR_LET_IN, DOOR_TOO_MANY, DOOR_TOO_MANY_OF_ADDRESS, DOOR_FILES, DOOR_ANSWERS };

struct door_host;

struct door {
    const char *what; /* "HTTP connections" */
    size_t max;
    size_t max_of_address; /* 0: a quarter of max; an address of loopback has no limit */
    size_t files_spare;    /* the last of the clients' descriptors: TOO_MANY instead of FILES */
    size_t more_without_address; /* of those that have none, beyond max and with the spare files */

    size_t count;                   /* let in, and not left */
    size_t refused;                 /* and not left */
    void *hosts;                    /* a tree of struct door_host, by address */
    uint64_t answers[DOOR_ANSWERS]; /* ever */
    struct refusals refusals;
    char line[160]; /* what was refused, to be logged */
};

/* A connection, as the door knows it. Zero: it has not entered. */
struct door_guest {
    struct door_host *host; /* NULL: it has no address, or was refused */
    bool let_in, refused;
};

/* The reason of a refusal, as a label: "total", "address", "files". */
const char *door_reason(enum door_answer a);

/*
 * After a refusal *ret_line is a line for the log, valid until the next call, or NULL: there was
 * one a moment ago, and the next one counts this refusal.
 */
enum door_answer door_enter(struct door *d, int fd, struct door_guest *g, const char **ret_line);

/* The same for a known address. */
enum door_answer door_enter_from(struct door *d, int fd, const struct sockaddr_storage *from,
                                 struct door_guest *g, const char **ret_line);

/* Safe to repeat. */
void door_leave(struct door *d, struct door_guest *g);

/* The system had no descriptor for a connection. Returns a line for the log, or NULL. */
const char *door_missed(struct door *d);

#endif
