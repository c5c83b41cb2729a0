/*
 * remember - the requests that were carried out lately, by the id that their client gave them, so that
 * one that is sent again is answered and not carried out again. Pure.
 *
 * The last REQUEST_LOG_MAX are known. Each is a node in the keeper's tree, written by the same commit as
 * what it asked for, so a restart or another leader knows them too. Their places go round: the node of
 * the request n is /drover/requests/<n mod REQUEST_LOG_MAX>.
 *
 * What is remembered is the answer without the data of its tasks. The data of adds and updates stands
 * in the request that is sent again; that of a claimed task in the store. (A task that was claimed and
 * has changed since is no longer the client's, and is left out.)
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

struct request_log_entry; /* one that is remembered: its node's data */

struct request_log {
    struct request_log_entry *places[REQUEST_LOG_MAX];
    struct map by_key;
    uint64_t next; /* number */
};

void request_log_release(struct request_log *m);

/* What a request is known by. */
struct request_key {
    int64_t clientid;
    struct str id;
    uint64_t hash;
};

/*
 * 1: it was carried out, and the tasks of its answer are in the arena, without data. 0: not known.
 * BAD_ARGUMENT: another request had this id.
 */
int request_log_find(const struct request_log *m, const struct request_key *key, struct arena *a,
                     struct task **ret_tasks, size_t *ret_count);

/* The bytes for the node of the next request, in the arena. */
struct str request_log_encode(const struct request_log *m, const struct request_key *key,
                              const struct task *tasks, size_t count, struct arena *a);

/* The number of its node, and whether that is there already. */
uint32_t request_log_place(const struct request_log *m, bool *ret_taken);

/* Keeps what was encoded as the next one. The one it takes the place of is given back for undoing. */
struct request_log_entry *request_log_put(struct request_log *m, struct str bytes);
void request_log_undo(struct request_log *m, struct request_log_entry *before);

/* Keeps one that was read from a node. 0, DAMAGED or NEWER_VERSION. */
int request_log_restore(struct request_log *m, uint32_t place, struct str bytes);

void request_log_entry_free(struct request_log_entry *m);

#endif
