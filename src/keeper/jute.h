/*
 * jute - ZooKeeper's encoding: big-endian numbers, text and bytes after a 32-bit length.
 *
 * Reading uses struct reader (base/buf.h): reading past the end makes it bad and returns zeros.
 * The length -1, which ZooKeeper uses for "none", reads as empty; any other below 0 is bad.
 */
#ifndef KEEPER_JUTE_H
#define KEEPER_JUTE_H

#include "base/buf.h"
#include "keeper/keeper.h"

void jute_put_bool(struct buf *b, bool v);
void jute_put_i32(struct buf *b, int32_t v);
void jute_put_i64(struct buf *b, int64_t v);
void jute_put_bytes(struct buf *b, struct str s); /* text is the same; p NULL: null */
void jute_put_stat(struct buf *b, const struct keeper_stat *s);

bool jute_bool(struct reader *r);
int32_t jute_i32(struct reader *r);
int64_t jute_i64(struct reader *r);
struct str jute_bytes(struct reader *r); /* null is the same as empty */
struct str jute_data(struct reader *r);  /* of null, p is NULL */

/* Fills in a length that was written as a placeholder. */
void jute_store_i32(char *at, int32_t v);

#endif
