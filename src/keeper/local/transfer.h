/*
 * transfer - the nodes of a data directory one by one, and a data directory made of nodes. For
 * moves between an embedded keeper and an ensemble.
 *
 * Ephemeral nodes and sessions are left out, and the nodes that belong to a running keeper: those
 * of ZooKeeper itself, of the election of a leader, and of the keeper on an ensemble.
 */
#ifndef KEEPER_LOCAL_TRANSFER_H
#define KEEPER_LOCAL_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* A node with everything that can be known of it. */
struct transfer_node {
    struct str path, data;       /* data.p NULL: none */
    struct str acl;              /* as in acl.h; empty: open to all */
    int64_t czxid, mzxid, pzxid; /* as in struct keeper_stat */
    int64_t ctime_ms, mtime_ms;
    int64_t owner; /* KEEPER_CONTAINER or keeper_ttl(); 0: neither */
    int32_t version, aversion;
    int32_t creations; /* children that were ever created: the next sequence number */
};

/* Whether a node, or one above it, belongs to a running keeper. */
bool transfer_is_left_out(struct str path);

/*
 * Reads a directory that no server has open, and calls fn for each node, in the order of their
 * creation, parents before children. What fn returns other than 0 ends it.
 */
typedef int transfer_fn(void *arg, const struct transfer_node *n, struct err_info *ret_error);

struct transfer_dir;

int transfer_open(const char *dir, struct transfer_dir **ret_dir, struct err_info *ret_error);
int64_t transfer_zxid(const struct transfer_dir *d); /* the last transaction */
int transfer_each(struct transfer_dir *d, transfer_fn *fn, void *arg, struct err_info *ret_error);
void transfer_close(struct transfer_dir *d);

/*
 * Making one, which is there as a whole or not at all (new_dir.h): begin, put each node, finish.
 * The nodes keep their numbers and times. zxid: of the last transaction; further ones follow it.
 */
struct transfer_maker;

int transfer_begin(const char *dir, struct transfer_maker **ret_maker, struct err_info *ret_error);
int transfer_put(struct transfer_maker *m, const struct transfer_node *n,
                 struct err_info *ret_error);
int transfer_finish(struct transfer_maker *m, int64_t zxid, struct err_info *ret_error);
void transfer_end(struct transfer_maker *m); /* after all; removes what was not finished */

#endif
