/*
 * record - the data of the nodes in a world's lists, as JSON. Pure.
 *
 *   /zoott_p/<key>   {"name":"b","type":"t","path":"/zoott_w1/a_t/b_t","parent":"/zoott_w1/a_t"}
 *                    and, after failures, "failures":2,"error":"the last error"
 *   /zoott_c/<key>   the same, without the failures
 *   /zoott_w/<key>   {"session":"0123456789abcdef","claim":"16 hex digits","czxid":7,"version":0}
 *
 * parent is null at the top. session is the session that claimed (inside a server on an ensemble it
 * is not the ephemeral owner), claim is random, czxid and version are those of the pending node
 * after the claim: if they differ at the end, the task was queued again.
 *
 * Other clients write here too: data that does not parse is DAMAGED.
 */
#ifndef WORLD_RECORD_H
#define WORLD_RECORD_H

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

enum { CLAIM_LEN = 16, FAILURE_LEN_MAX = 4096 };

struct world_record {
    struct str name, type;
    struct str path;
    struct str parent; /* p NULL: none */
    int64_t failures;
    struct str error; /* the last one */
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
