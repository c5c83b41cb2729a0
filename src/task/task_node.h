/*
 * task_node - the node of a task in the keeper's tree: its path and its data. Pure.
 *
 *   /drover/tasks                     the head: the last id and the tag of the last commit
 *   /drover/tasks/<bucket>            at most 4,096 slots, to keep lists of children short
 *   /drover/tasks/<bucket>/<slot>     a task; slot is the first id it had, bucket is slot / 4096
 *   /drover/requests/<number>         an entry of the request log (request_log.h)
 *
 * A slot's data, version 1, numbers little-endian:
 *
 *   u8 version, u64 id, i64 timespec, i64 ownerid, u16 group length, group, data up to the end
 *
 * Version 2 is the same for a managed task (store.h).
 *
 * The head's: u8 version, u64 last id, u64 tag. To change a format, give it the next version and
 * keep reading the old one.
 */
#ifndef TASK_TASK_NODE_H
#define TASK_TASK_NODE_H

#include "base/buf.h"
#include "task/store.h"

#define TASK_NODE_ROOT "/drover"
#define TASK_NODE_HEAD "/drover/tasks"

enum {
    TASK_NODE_BUCKET_LEN = 4096,
    TASK_NODE_PATH_SIZE = 64, /* with its NUL */
    TASK_NODE_OVERHEAD = 1 + 8 + 8 + 8 + 2,
    TASK_NODE_HEAD_LEN = 1 + 8 + 8,
};

static inline int64_t task_node_bucket(int64_t slot)
{
    return slot / TASK_NODE_BUCKET_LEN;
}

/* Both write the path and a NUL, and return its length. */
size_t task_node_path(char path[TASK_NODE_PATH_SIZE], int64_t slot);
size_t task_node_bucket_path(char path[TASK_NODE_PATH_SIZE], int64_t bucket);

/* A name as a number: digits only, no sign, no leading zero; -1: not a number. */
int64_t task_node_number(const char *name);

static inline size_t task_node_len(const struct task *t)
{
    return TASK_NODE_OVERHEAD + t->group.len + t->data.len;
}

/* Writes task_node_len() bytes. */
void task_node_encode(const struct task *t, char *bytes);

/* Borrows from bytes. 0, DAMAGED or NEWER_VERSION. */
int task_node_decode(struct str bytes, struct task *ret_task);

struct task_node_head {
    int64_t last_id;
    uint64_t tag;
};

void task_node_head_encode(const struct task_node_head *h, char bytes[TASK_NODE_HEAD_LEN]);
int task_node_head_decode(struct str bytes, struct task_node_head *ret_head);

#endif
