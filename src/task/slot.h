/*
 * slot - where a task stands in the keeper's tree, and the bytes that stand there. Pure.
 *
 *   /drover/tasks                     the head: the last id and the tag of the last commit
 *   /drover/tasks/<bucket>            4,096 slots at most, so that a list of children stays readable
 *   /drover/tasks/<bucket>/<slot>     a task; slot is the first id it had, bucket is slot / 4096
 *   /drover/requests/<number>         a request that is remembered (remember.h)
 *
 * A slot's data, version 1, numbers little-endian:
 *
 *   u8 version, u64 id, i64 timespec, i64 ownerid, u16 group length, group, data up to the end
 *
 * Version 2 is the same for a managed task (store.h).
 *
 * The head's: u8 version, u64 last id, u64 tag. To change one of them, give it the next version and
 * go on reading the old one.
 */
#ifndef TASK_SLOT_H
#define TASK_SLOT_H

#include "base/buf.h"
#include "task/store.h"

#define SLOT_ROOT "/drover"
#define SLOT_HEAD "/drover/tasks"

enum {
    SLOT_BUCKET_LEN = 4096,
    SLOT_PATH_SIZE = 64, /* with its NUL */
    SLOT_OVERHEAD = 1 + 8 + 8 + 8 + 2,
    SLOT_HEAD_LEN = 1 + 8 + 8,
};

static inline int64_t slot_bucket(int64_t slot)
{
    return slot / SLOT_BUCKET_LEN;
}

/* Both write the path and a NUL, and return its length. */
size_t slot_path(char path[SLOT_PATH_SIZE], int64_t slot);
size_t slot_bucket_path(char path[SLOT_PATH_SIZE], int64_t bucket);

/* A name as a number: digits only, no sign, no leading zero; -1: it is none of ours. */
int64_t slot_number(const char *name);

static inline size_t slot_len(const struct task *t)
{
    return SLOT_OVERHEAD + t->group.len + t->data.len;
}

/* Writes slot_len() bytes. */
void slot_encode(const struct task *t, char *bytes);

/* Borrows from bytes. 0, DAMAGED or NEWER_VERSION. */
int slot_decode(struct str bytes, struct task *ret_task);

struct slot_head {
    int64_t last_id;
    uint64_t tag;
};

void slot_head_encode(const struct slot_head *h, char bytes[SLOT_HEAD_LEN]);
int slot_head_decode(struct str bytes, struct slot_head *ret_head);

#endif
