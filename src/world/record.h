/*
 * record - the names of a world's tasks and nodes, how they convert, and the data of the nodes in
 * its lists, as JSON. Pure.
 *
 *   task   name "downloadFile", type "alpha"
 *   node   "downloadFile_alpha"                            name and type form one key
 *   path   "/zoott_myworld/requestFile_alpha/downloadFile_alpha"
 *   key    "requestFile_alpha|downloadFile_alpha"          below /zoott_p, /zoott_w and /zoott_c
 *
 * Names and types are not empty and hold no space, '/', '\', '|', no control character and nothing
 * that ZooKeeper refuses in a path. Both may hold '_', so a node's name alone does not always tell
 * where the type begins.
 *
 *   /zoott_p/<key>   {"name":"b","type":"t","path":"/zoott_w1/a_t/b_t","parent":"/zoott_w1/a_t"}
 *                    and, after failures, "failures":2,"error":"the last error"
 *                    and, with a limit, "attempts":3,"tries":2: how many it may have and has had
 *                    and, when they are used up, "failed":true
 *   /zoott_c/<key>   the same, without the failures
 *   /zoott_w/<key>   {"session":"0123456789abcdef","claim":"16 hex digits","czxid":7,"version":0}
 *                    or, of a task that has failed, {"failed":true}
 *
 * parent is null at the top. session is the session that claimed (inside a server on an ensemble it
 * is not the ephemeral owner), claim is random, czxid and version are those of the pending node
 * after the claim: if they differ at the end, the task was queued again.
 *
 * The pending node decides whether a task has failed. It stays pending, so the tasks below it wait,
 * whoever handles them. Its working node is not ephemeral: other handlers, which know only the
 * document, find it locked.
 *
 * Other clients write here too: data that does not parse is DAMAGED.
 */
#ifndef WORLD_RECORD_H
#define WORLD_RECORD_H

#include "base/arena.h"
#include "base/err.h"

enum {
    WORLD_NAME_LEN_MAX = 255,
    WORLD_KEY_LEN_MAX = 4096,
};

#define WORLD_PENDING "/zoott_p"
#define WORLD_WORKING "/zoott_w"
#define WORLD_COMPLETED "/zoott_c"
#define WORLD_ROOT_PREFIX "/zoott_"

#define WORLD_FAILED_MARK "{\"failed\":true}"

/* 0, or BAD_ARGUMENT and why. what: "name" or "type", for the message. */
int world_check_name(struct str name, const char *what, struct err_info *ret_error);

/* The same for a world, whose name must not be p, w or c either. */
int world_check_world(struct str world, struct err_info *ret_error);

/* Whether text may be a key: parts with a name and a type. */
int world_check_key(struct str key, struct err_info *ret_error);

/* "/zoott_<world>". */
char *world_root_path(struct arena *a, struct str world);

/* Converts a key to its path and back; the path is below the root, or without it. */
char *world_path(struct arena *a, const char *root, struct str key);
char *world_key(struct arena *a, const char *root, struct str path);

/* The key without its last part; empty for a task at the top. */
struct str world_parent_key(struct str key);

/* The last part of a key. */
struct str world_key_last(struct str key);

/* "<dir>/<key>". */
char *world_list_path(struct arena *a, const char *dir, struct str key);

/*
 * The next way to split a node's name into name and type, left to right. *at starts with 0. False:
 * no more.
 */
bool world_split_name(struct str node, size_t *at, struct str *ret_name, struct str *ret_type);

enum { CLAIM_LEN = 16, FAILURE_LEN_MAX = 4096, WORLD_ATTEMPTS_MAX = 1000000 };

struct world_record {
    struct str name, type;
    struct str path;
    struct str parent; /* p NULL: none */
    int64_t failures;
    struct str error; /* the last one */
    int64_t attempts; /* so many tries; 0: no limit */
    int64_t tries;    /* claims that were not released; counted if there is a limit */
    bool failed;      /* for good: nobody may claim it */
};

/* As an object; and its members only. */
struct str world_record_write(struct arena *a, const struct world_record *r);
void world_record_put(struct buf *b, const struct world_record *r);

/*
 * Parses the record of a key. DAMAGED if it is invalid or of another key: its path must be the
 * key's below the root of some world, and name and type its last part.
 */
int world_record_read(struct arena *a, struct str json, struct str key,
                      struct world_record *ret_record);

/* The record of a task that has not failed follows from its key and its type. */
void world_record_make(struct arena *a, const char *root, struct str key, struct str type,
                       struct world_record *ret_record);

/* Whether the record belongs to the world with this root. */
bool world_record_is_of(const struct world_record *r, const char *root);

struct world_holder {
    int64_t session;
    char claim[CLAIM_LEN + 1];
    int64_t czxid;
    int64_t version;
};

struct str world_holder_write(struct arena *a, const struct world_holder *h);
int world_holder_read(struct arena *a, struct str json, struct world_holder *ret_holder);

#endif
