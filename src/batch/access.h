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

#include "batch/status.h"
#include "batch/store.h"

struct batch_access {
    enum batch_access_size size;
    char id[BATCH_ID_LEN + 1];
    struct batch_status status;
    int32_t version;
    struct str data; /* of its token node, JSON; p NULL: there is none */
    int64_t token;   /* of the lock on it, 0: none */
};

/* "small" or "large"; BAD_ARGUMENT for any other. */
int batch_access_find_size(struct batch_call *c, struct str name, enum batch_access_size *ret_size);

int batch_access_create(struct batch_call *c, enum batch_access_size size, const struct json *data,
                        char ret_id[BATCH_ID_LEN + 1]);
int batch_access_get(struct batch_call *c, enum batch_access_size size, struct str id,
                     struct batch_access *ret_access);

/* state BATCH_NO_STATE: all. */
int batch_access_list(struct batch_call *c, enum batch_access_size size, int state,
                      struct batch_access **ret_list, size_t *ret_count);

/* 1: ret_access with its token. 0: there is none, or the queue is locked. */
int batch_access_acquire(struct batch_call *c, enum batch_access_size size,
                         struct batch_access *ret_access);

/* As batch_move() and batch_job_move(). */
int batch_access_move(struct batch_call *c, enum batch_access_size size, struct str id,
                      struct str state, struct str message, int64_t token, int *ret_state);

/* Only at an end. */
int batch_access_delete(struct batch_call *c, enum batch_access_size size, struct str id);

#endif
