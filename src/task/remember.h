/*
 * remember - the requests that were carried out lately, by the id that their client gave them, so that
 * one that is sent again is answered and not carried out again. Pure.
 *
 * The last REMEMBER_MAX are known. Each is a node in the keeper's tree, written by the same commit as
 * what it asked for, so a restart or another leader knows them too. Their places go round: the node of
 * the request n is /drover/requests/<n mod REMEMBER_MAX>.
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
#ifndef TASK_REMEMBER_H
#define TASK_REMEMBER_H

#include "base/arena.h"
#include "base/map.h"
#include "task/store.h"

#define REMEMBER_ROOT "/drover/requests"

enum { REMEMBER_MAX = 10000, REMEMBER_ID_LEN_MAX = 64 };

struct memory; /* one that is remembered: its node's data */

struct remember {
    struct memory *places[REMEMBER_MAX];
    struct map by_key;
    uint64_t next; /* number */
};

void remember_release(struct remember *m);

/* What a request is known by. */
struct remember_key {
    int64_t clientid;
    struct str id;
    uint64_t hash;
};

/*
 * 1: it was carried out, and the tasks of its answer are in the arena, without data. 0: not known.
 * BAD_ARGUMENT: another request had this id.
 */
int remember_find(const struct remember *m, const struct remember_key *key, struct arena *a,
                  struct task **ret_tasks, size_t *ret_count);

/* The bytes for the node of the next request, in the arena. */
struct str remember_encode(const struct remember *m, const struct remember_key *key,
                           const struct task *tasks, size_t count, struct arena *a);

/* The number of its node, and whether that is there already. */
uint32_t remember_place(const struct remember *m, bool *ret_taken);

/* Keeps what was encoded as the next one. The one it takes the place of is given back for undoing. */
struct memory *remember_put(struct remember *m, struct str bytes);
void remember_undo(struct remember *m, struct memory *before);

/* Keeps one that was read from a node. 0, DAMAGED or NEWER_VERSION. */
int remember_restore(struct remember *m, uint32_t place, struct str bytes);

void memory_free(struct memory *m);

#endif
