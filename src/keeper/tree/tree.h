/*
 * tree - the keeper's state and its transactions. Pure: no disk, no clock, no thread.
 *
 * A transaction is applied at a time that the caller gives, and gets the next zxid. It leaves a
 * list of changes for the journal and the watches. A change holds results, not requests (the path
 * that a sequential create got, the version after a set), so restoring a change twice, or one that
 * a snapshot already contains, has no further effect.
 *
 * In use: tree_init -> tree_apply, tree_session_... . At a start: tree_init -> tree_restore_... in
 * the order of the journal -> tree_seal -> in use.
 */
#ifndef KEEPER_TREE_TREE_H
#define KEEPER_TREE_TREE_H

#include "keeper/keeper.h"
#include "keeper/tree/node.h"

/*
 * Sessions. A session that this process holds open (pins > 0) never expires; any other expires when
 * it has not been touched for its timeout. first_ephemeral is the head of the list of its ephemeral
 * nodes, which the tree maintains.
 */
struct tree_session {
    int64_t id;
    int32_t timeout_ms;
    char password[KEEPER_PASSWORD_LEN];
    uint32_t first_ephemeral; /* ref of a node, 0: none */

    /* In memory only: */
    int64_t deadline_ms;
    int pins;
};

struct tree_sessions {
    struct tree_session **list; /* unordered; NULL where one was removed */
    uint32_t len, cap, count;
    struct map by_id;
};

void sessions_release(struct tree_sessions *s);
struct tree_session *sessions_find(const struct tree_sessions *s, int64_t id);

/* Adds a session, or changes timeout and password of an existing one. */
struct tree_session *sessions_put(struct tree_sessions *s, int64_t id, int32_t timeout_ms,
                                  const char *password);
void sessions_remove(struct tree_sessions *s, int64_t id);

void session_touch(struct tree_session *s, int64_t now_ms);

/* Gives every session a full timeout: after a start, or after this process was stopped. */
void sessions_touch_all(struct tree_sessions *s, int64_t now_ms);

/* An expired session, or NULL; and when the next one may expire, INT64_MAX: never. */
struct tree_session *sessions_expired(struct tree_sessions *s, int64_t now_ms);
int64_t sessions_next_deadline(const struct tree_sessions *s);

enum tree_change_kind {
    CHANGE_CREATE = 1,
    CHANGE_SET = 2,
    CHANGE_DELETE = 3,
    CHANGE_SESSION_OPEN = 4,
    CHANGE_SESSION_CLOSE = 5,
    CHANGE_SET_ACL = 6,
};

/* How tree_apply takes a change back when a later operation fails. */
struct tree_undo {
    uint32_t ref;
    uint32_t acl;                /* set ACL: the old one, which stays in use until the end */
    struct tree_node_text *text; /* set: the old one, NULL: replaced in place */
    int64_t mzxid, mtime_ms;     /* set: the old ones */
    int64_t parent_pzxid;        /* create, delete: the old one */
    int32_t number;   /* set, set ACL: the old version; create: the parent's creations before */
    int32_t data_len; /* set: of the old data */
};

struct tree_change {
    enum tree_change_kind kind;
    int32_t number;  /* create: creations under the parent; set: version; open: timeout in ms;
                        set ACL: aversion */
    int64_t session; /* create: the owner, as in a node; open, close: which */
    struct str path; /* create, set, delete, set ACL */
    struct str data; /* create, set; open: the password */
    struct str acl;  /* create, set ACL; empty: open. Delete: the old one, for the watches only */
    char *own_path;  /* owns what path and acl point to; NULL: borrowed */
    char *own_acl;
    struct tree_undo undo;
};

/* The changes of one transaction. Their text is borrowed from the request and its results. */
struct tree_changes {
    int64_t zxid, time_ms;
    struct tree_change *list;
    size_t count, cap;
};

void changes_release(struct tree_changes *c);
void changes_add(struct tree_changes *c, struct tree_change change);
void changes_begin(struct tree_changes *c, int64_t zxid, int64_t time_ms);

enum { TREE_RESERVED_MAX = 8 };

struct tree {
    struct tree_nodes nodes;
    struct tree_sessions sessions;
    int64_t zxid; /* of the last transaction */
    uint64_t ephemerals;
    uint32_t first_reapable; /* containers and TTL nodes, linked like the nodes of a session */
    uint32_t reap_at;        /* the next one that tree_reap_next() looks at, 0: none */
    uint64_t placeholders;   /* while restoring: nodes of which only descendants are there so far */
    struct str reserved[TREE_RESERVED_MAX]; /* clients change nothing there, nor below */
    uint32_t reserved_count;
    uint32_t quotas; /* nodes with limits: quota.h */
    bool enforces_quotas;
    struct buf quota_path; /* scratch space */
    struct buf quota_note; /* which limit was exceeded; whoever reads it empties it */
};

void tree_init(struct tree *t);
void tree_release(struct tree *t);

/* Reads. Results are borrowed until the next change. */
struct tree_view {
    struct str data, acl;
    struct keeper_stat stat;
};

int tree_look(const struct tree *t, struct str path, struct tree_view *ret_view);
int tree_children(const struct tree *t, struct str path, struct buf *ret_text, size_t *ret_count,
                  struct keeper_stat *ret_stat);

/* Who makes a transaction. */
struct tree_user {
    struct tree_session *session; /* NULL: none, so no ephemeral nodes */
    const struct acl_who *who;    /* NULL: this process, which may do everything */
};

/*
 * Applies all operations or none, as transaction t->zxid + 1. Returns 0 with the changes in c, or
 * the error of the operation that failed, with the tree as it was. results (zeroed) are filled in
 * either way.
 */
int tree_apply(struct tree *t, const struct tree_user *user, int64_t time_ms,
               const struct keeper_op *ops, size_t count, struct keeper_result *results,
               struct tree_changes *c);

/*
 * By how much a transaction lets the tree grow, about, if it succeeds. A create of a node that is
 * there counts nothing: it will be refused.
 */
struct tree_growth {
    int64_t nodes, bytes; /* bytes: as in a snapshot */
};

struct tree_growth tree_growth(const struct tree *t, const struct keeper_op *ops, size_t count);

/* Bytes of a snapshot of the tree, about. */
uint64_t tree_size(const struct tree *t);

/* A new session. Its id is the zxid of this transaction. */
struct tree_session *tree_session_open(struct tree *t, int64_t time_ms, int32_t timeout_ms,
                                       const char *password, struct tree_changes *c);

/*
 * Ends a session and deletes its ephemeral nodes, as one transaction. If their paths have more than
 * max_bytes, deletes that many and returns 1: call it again.
 */
int tree_session_close(struct tree *t, struct tree_session *s, int64_t time_ms, size_t max_bytes,
                       struct tree_changes *c);

/*
 * Searches for containers and TTL nodes that may be deleted: begin, then call next until it returns
 * REAP_END. It looks at up to `steps` of them and returns REAP_FOUND with the path of one in
 * ret_path, or REAP_MORE. Nodes may come and go in between.
 */
enum tree_reap { REAP_END, REAP_MORE, REAP_FOUND };

void tree_reap_begin(struct tree *t);
enum tree_reap tree_reap_next(struct tree *t, int64_t now_ms, uint32_t steps, struct buf *ret_path);

/* A node in a snapshot. */
struct tree_node_state {
    struct str path, data;
    int64_t czxid, mzxid, pzxid, ctime_ms, mtime_ms, owner;
    int32_t version, creations, aversion;
    struct str acl; /* empty: open */
};

/*
 * The state of the first node whose number is *cursor or higher; moves *cursor behind it. False: no
 * more nodes. The path is written to scratch; the data is borrowed until the next change.
 */
bool tree_walk(const struct tree *t, uint32_t *cursor, struct buf *scratch,
               struct tree_node_state *ret_state);

/*
 * Restoring. The input comes from the disk and is checked: 0, or DAMAGED with the reason in
 * ret_error. Sessions are restored by sessions_put. tree_seal ends it and checks the whole: every
 * node has a parent, every ephemeral node a session.
 */
int tree_restore_node(struct tree *t, const struct tree_node_state *s, struct err_info *ret_error);
int tree_restore_changes(struct tree *t, const struct tree_changes *c, struct err_info *ret_error);
int tree_seal(struct tree *t, struct err_info *ret_error);

/* For the other parts of the tree: makes a node one of its owner's, and a node's stat. */
void tree_link_owned(struct tree *t, uint32_t ref, int64_t owner);
void tree_unlink_owned(struct tree *t, uint32_t ref);
struct keeper_stat tree_stat(const struct tree_node *n);

#endif
