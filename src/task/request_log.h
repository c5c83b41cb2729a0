/*
 * request_log - the last requests, by the id that the client gave them, so that a repeated request
 * is answered and not executed again. Pure.
 *
 * It holds the last REQUEST_LOG_MAX requests. Each is a node in the keeper's tree, written in the
 * same commit as the request's changes, so it survives a restart and a change of the leader. The
 * nodes form a ring: request n is /drover/requests/<n mod REQUEST_LOG_MAX>.
 *
 * An entry has the answer without the data of its tasks. The data of adds and updates is in the
 * repeated request; that of a claimed task is in the store. (A claimed task that has changed since
 * is no longer the client's, and is left out.)
 *
 * A node's data, version 1, numbers little-endian:
 *
 *   u8 version, u64 number, u64 clientid, u64 hash of the request, u8 length of the id, id,
 *   u32 tasks, then each: u64 id, i64 timespec, u16 group length, group
 */
#ifndef TASK_REQUEST_LOG_H
#define TASK_REQUEST_LOG_H

#include "base/arena.h"
#include "base/map.h"
#include "task/store.h"

#define REQUEST_LOG_ROOT "/drover/requests"

enum { REQUEST_LOG_MAX = 10000, REQUEST_LOG_ID_LEN_MAX = 64 };

/* In memory it is the node's data, too: it is parsed only when a request is repeated. */
struct request_log_entry {
    uint32_t hash;  /* of its key */
    uint32_t place; /* the number of its node; the map has it plus 1 */
    size_t len;
    char bytes[];
};

struct request_log {
    struct request_log_entry *places[REQUEST_LOG_MAX];
    struct map by_key;
    uint64_t next; /* number */
};

void request_log_release(struct request_log *m);

/* What identifies a request. */
struct request_key {
    int64_t clientid;
    struct str id;
    uint64_t hash;
};

/*
 * 1: it was executed, and the tasks of its answer are in the arena, without data. 0: unknown.
 * BAD_ARGUMENT: another request had this id.
 */
int request_log_find(const struct request_log *m, const struct request_key *key, struct arena *a,
                     struct task **ret_tasks, size_t *ret_count);

/*
 * Adds a request with the tasks of its answer, and returns its entry. *ret_before is the entry that
 * it replaces, whose node exists, or NULL. The caller frees that, or undoes the last put with it.
 */
const struct request_log_entry *request_log_put(struct request_log *m,
                                                const struct request_key *key,
                                                const struct task *tasks, size_t count,
                                                struct request_log_entry **ret_before);
void request_log_undo(struct request_log *m, struct request_log_entry *before);

/* Adds an entry read from a node. 0, DAMAGED or NEWER_VERSION. */
int request_log_restore(struct request_log *m, uint32_t place, struct str bytes);

#endif
