/*
 * access - the access queue: requests for content, small and large.
 *
 *     /access/small/ID/token     what was asked for, JSON
 *     /access/small/ID/status    {"status", "last_modified", "message"}
 *     /access/small/ID/lock      ephemeral, of who works on it
 *
 * Items are acquired in order of their ids: those that are Pending, and those that are Processing and
 * whose worker is gone. The lock stays while an item is Processing, and goes with the move to an end
 * or to Failed. A queue that is locked (/locks/queue/accessSmall, accessLarge) gives out nothing.
 */
#ifndef BATCH_ACCESS_H
#define BATCH_ACCESS_H

#include "batch/depot.h"
#include "batch/status.h"

struct access {
    enum access_size size;
    char id[NAME_ID_LEN + 1];
    struct status status;
    int32_t version;
    struct str data; /* of its token node, JSON; p NULL: there is none */
    int64_t token;   /* of the lock on it, 0: none */
};

/* "small" or "large"; BAD_ARGUMENT for any other. */
int access_find_size(struct call *c, struct str name, enum access_size *ret_size);

int access_create(struct call *c, enum access_size size, const struct json *data,
                  char ret_id[NAME_ID_LEN + 1]);
int access_get(struct call *c, enum access_size size, struct str id, struct access *ret_access);

/* state MACHINE_NONE: all. */
int access_list(struct call *c, enum access_size size, int state, struct access **ret_list,
                size_t *ret_count);

/* 1: ret_access with its token. 0: there is none, or the queue is locked. */
int access_acquire(struct call *c, enum access_size size, struct access *ret_access);

/* As batch_move() and job_move(). */
int access_move(struct call *c, enum access_size size, struct str id, struct str state,
                struct str message, int64_t token, int *ret_state);

/* Only at an end. */
int access_delete(struct call *c, enum access_size size, struct str id);

#endif
