/*
 * tree - the keeper's state and what changes it. Pure: no disk, no clock, no thread.
 *
 * A transaction is applied with a number (zxid) and a time that the caller gives. It leaves a list of
 * changes: what to write to the journal and what to tell the watches. A change holds results, not
 * requests (the path that a sequential create got, the version after a set), so that restoring one
 * twice, or restoring one that a snapshot already contains, changes nothing in the end.
 *
 * Live: tree_init -> tree_apply, tree_session_... . At a start: tree_init -> tree_restore_... in the
 * order in which things happened -> tree_seal -> live.
 */
#ifndef KEEPER_TREE_TREE_H
#define KEEPER_TREE_TREE_H

#include "keeper/keeper.h"
#include "keeper/tree/node.h"
#include "keeper/tree/session.h"

enum tree_change_kind {
    CHANGE_CREATE = 1,
    CHANGE_SET = 2,
    CHANGE_DELETE = 3,
    CHANGE_SESSION_OPEN = 4,
    CHANGE_SESSION_CLOSE = 5,
    CHANGE_SET_ACL = 6,
};

struct tree_change {
    enum tree_change_kind kind;
    int32_t number;  /* create: creations under the parent; set: version; open: timeout in ms;
                        set ACL: aversion */
    int64_t session; /* create: the owner or 0; open, close: which */
    struct str path; /* create, set, delete, set ACL */
    struct str data; /* create, set; open: the password */
    struct str
        acl; /* create, set ACL; empty: open. Delete: the one it had, for its watches alone */
    char *own_path; /* what path and acl point to, where nobody else keeps it */
    char *own_acl;
};

/* The changes of one transaction. Their text lives as long as the request and its results do. */
struct tree_changes {
    int64_t zxid, time_ms;
    struct tree_change *list;
    size_t count, cap;
};

void changes_release(struct tree_changes *c);
struct tree_change *changes_add(struct tree_changes *c, struct tree_change change);
void changes_begin(struct tree_changes *c, int64_t zxid, int64_t time_ms);

struct tree_undo;

struct tree {
    struct tree_nodes nodes;
    struct tree_sessions sessions;
    int64_t zxid; /* of the last transaction */
    uint64_t ephemerals;

    struct tree_undo *undo; /* of the transaction under way */
    size_t undo_count, undo_cap;
    uint64_t placeholders; /* while restoring: nodes of which only descendants are known so far */
};

void tree_init(struct tree *t);
void tree_release(struct tree *t);

/* Reads. What they give is borrowed until the next change. */
int tree_get(const struct tree *t, struct str path, struct str *ret_data,
             struct keeper_stat *ret_stat);

struct tree_view {
    struct str data, acl;
    struct keeper_stat stat;
};

int tree_look(const struct tree *t, struct str path, struct tree_view *ret_view);
int tree_children(const struct tree *t, struct str path, struct buf *ret_text, size_t *ret_count,
                  struct keeper_stat *ret_stat);

/* On whose behalf something is done. */
struct tree_user {
    struct tree_session *session; /* NULL: none, and then nothing ephemeral can be made */
    const struct acl_who *who;    /* NULL: this process, to which no access list applies */
};

/*
 * Applies the operations, all or none, as transaction t->zxid + 1. Returns 0 with c holding the changes, or the error of the
 * operation that failed, with the tree as it was. results (zeroed) are filled in either way.
 */
int tree_apply(struct tree *t, const struct tree_user *user, int64_t time_ms,
               const struct keeper_op *ops, size_t count, struct keeper_result *results,
               struct tree_changes *c);

/* A new session, whose id is the number of its transaction. */
struct tree_session *tree_session_open(struct tree *t, int64_t time_ms, int32_t timeout_ms,
                                       const char *password, struct tree_changes *c);

/*
 * Ends a session and deletes what it holds, as one transaction; when that is more than max_bytes of
 * paths, deletes that much and returns 1: call again.
 */
int tree_session_close(struct tree *t, struct tree_session *s, int64_t time_ms, size_t max_bytes,
                       struct tree_changes *c);

/* One node as a snapshot holds it. */
struct tree_node_state {
    struct str path, data;
    int64_t czxid, mzxid, pzxid, ctime_ms, mtime_ms, owner;
    int32_t version, creations, aversion;
    struct str acl; /* empty: open */
};

/*
 * The state of the first node whose number is *cursor or higher; moves *cursor behind it. False: no
 * more. The path is written to `scratch`, the data borrowed until the next change.
 */
bool tree_walk(const struct tree *t, uint32_t *cursor, struct buf *scratch,
               struct tree_node_state *ret_state);

/*
 * Restoring. What is given comes from the disk and is checked: 0 or DAMAGED, with ret_error saying
 * what is wrong. tree_seal ends it and checks that the whole is a tree: everything that was restored
 * hangs on a parent, every ephemeral node on a session.
 */
int tree_restore_node(struct tree *t, const struct tree_node_state *s, struct err_info *ret_error);
int tree_restore_session(struct tree *t, int64_t id, int32_t timeout_ms, const char *password);
int tree_restore_changes(struct tree *t, const struct tree_changes *c, struct err_info *ret_error);
int tree_seal(struct tree *t, struct err_info *ret_error);

/* For the parts of tree: links an ephemeral node to its session and back. */
void tree_link_ephemeral(struct tree *t, uint32_t ref, struct tree_session *s);
void tree_unlink_ephemeral(struct tree *t, uint32_t ref);

#endif
