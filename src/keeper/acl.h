/*
 * acl - access lists of nodes, as in ZooKeeper.
 *
 * A list is stored as the bytes that ZooKeeper's clients send and expect back (big-endian): i32
 * count, then for each entry i32 permissions, the scheme and the id, both text after an i32 length.
 * Few different lists are used by many nodes, so a node holds the number of its list in a table;
 * number 0 is the open list, which allows everything to everybody and is what most nodes have.
 *
 * Schemes: world (id "anyone"), ip (an address or address/bits), digest ("user:" + base64 of a sum,
 * by default SHA-1, of "user:password"), and auth, which a create or setACL replaces by the digests
 * of its client.
 */
#ifndef KEEPER_ACL_H
#define KEEPER_ACL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"

enum acl_permission {
    ACL_READ = 1,
    ACL_WRITE = 2,
    ACL_CREATE = 4,
    ACL_DELETE = 8,
    ACL_ADMIN = 16,
    ACL_ALL = 31,
};

enum { ACL_LIST_MAX = 64 * 1024, ACL_OPEN = 0 };

/* world:anyone, all permissions. */
extern const struct str ACL_OPEN_LIST;

/* One identity of a client. */
struct acl_id {
    struct str scheme, id;
};

/* The identities of a client. A NULL pointer to it: this process, which may do everything. */
struct acl_who {
    struct acl_id *ids; /* besides world:anyone, which every client has */
    size_t count;
    bool all;       /* every list allows it everything: a superuser, or lists do not count */
    bool no_digest; /* the scheme digest is switched off */
    bool inside;    /* this process: lists bind it, what is reserved for it and quotas do not */
};

bool acl_list_is_valid(struct str list);
bool acl_allows(struct str list, int permission, const struct acl_who *who);

/*
 * The list to store for a list that a client sends: auth replaced by the client's digests, unknown
 * schemes and malformed ids refused, duplicates in what was sent dropped. 0, BAD_ACL, or DAMAGED
 * for a null id.
 */
int acl_resolve(struct str list, const struct acl_who *who, struct buf *ret_list);

/* The list as shown to clients that may not change it: "user:x" instead of a digest. */
void acl_put_masked(struct buf *b, struct str list);

/* The lists in use, by number. */
struct acl_table {
    struct acl_entry *entries;
    uint32_t len, cap, free;
    struct map index;
};

void acl_table_release(struct acl_table *t);

/* Count one more user of a list and give its number; one less. An empty list is the open one. */
uint32_t acl_use(struct acl_table *t, struct str list);
void acl_drop(struct acl_table *t, uint32_t number);
struct str acl_list(const struct acl_table *t, uint32_t number);

#endif
