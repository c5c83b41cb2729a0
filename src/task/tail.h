/*
 * tail - what a task carries beyond its five fields, as bytes. Pure.
 *
 * The payload of a task is its data, with its tail in front if it has one:
 *
 *   u32 length of the tail, the tail, the data up to the end
 *
 * A tail is members in ascending order of their tags, each at most once: u8 tag, then the value.
 * Numbers are little-endian; text is u32 length and bytes. A member that is zero or empty is left
 * out, and a task without any has no tail. To add a member, give it the next tag; a version that
 * does not know a tag refuses the task as written by a newer version.
 *
 *   1 priority i32, 2 attempts u32, 3 claims u32, 4 unanswered u32, 5 created i64, 6 expires i64,
 *   7 ended i64, 8 key, 9 share, 10 error, 11 origin, 12 result, 13 binary (no value)
 */
#ifndef TASK_TAIL_H
#define TASK_TAIL_H

#include "base/arena.h"
#include "base/buf.h"
#include "task/task.h"

/* Whether every member has its default, so that the task is a plain one. */
bool task_extra_is_plain(const struct task_extra *x);

/* The length of the payload, and its bytes. extra NULL: the data alone. */
size_t task_payload_len(const struct task_extra *extra, struct str data);
void task_payload_encode(const struct task_extra *extra, struct str data, char *bytes);

/* Borrows from bytes. 0, DAMAGED or NEWER_VERSION. */
int task_payload_decode(struct str bytes, bool has_tail, struct task_extra *ret_extra,
                        struct str *ret_data);

#endif
