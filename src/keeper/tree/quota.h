/*
 * quota - counts and limits of subtrees, as in ZooKeeper 3.8.
 *
 * A quota on a path is a node with limits that a client creates, and one that shows the counts:
 *
 *     /zookeeper/quota/PATH/zookeeper_limits    count=5,bytes=1000=;byteHardLimit=2000
 *     /zookeeper/quota/PATH/zookeeper_stats     count=3,bytes=120
 *
 * The tree counts the nodes at and below PATH and the bytes of their data: completely when
 * zookeeper_stats is created and at a start, and by each change afterwards. A change counts for the
 * deepest path with limits only. The counts replace the data of zookeeper_stats and nothing else:
 * not its version, no watch fires, nothing is recorded.
 *
 * Limits are enforced if tree.enforces_quotas is set (ZooKeeper: zookeeper.enforceQuota), for
 * clients, not for this process. Exceeding a hard limit is refused; exceeding a soft one is
 * allowed. Either leaves a line in tree.quota_note. The operations of a transaction are compared
 * with the counts before it, each for itself.
 *
 * A tree without zookeeper_limits does none of this (tree.quotas is 0).
 */
#ifndef KEEPER_TREE_QUOTA_H
#define KEEPER_TREE_QUOTA_H

#include "keeper/tree/tree.h"

/* Whether the data of this node may change without a transaction of its own. */
static inline bool quota_may_change(const struct tree *t, struct str path)
{
    return t->quotas && str_starts(path, STR("/zookeeper/quota/"));
}

/* Counts a transaction that has succeeded. Deleted nodes are detached, not freed. */
void quota_count(struct tree *t, const struct tree_changes *c);

/* Counts everything anew: after restoring. */
void quota_count_all(struct tree *t);

/*
 * 0, or QUOTA_EXCEEDED. The numbers are those of the operation: new nodes, and bytes of data.
 * DAMAGED if the limits or the counts cannot be read.
 */
int quota_check(struct tree *t, struct str path, int64_t nodes, int64_t bytes);

#endif
