/*
 * memory - a snapshot written to memory and read back from there, for fuzz targets and unit tests.
 */
#ifndef FUZZ_MEMORY_H
#define FUZZ_MEMORY_H

#include "keeper/journal/snapshot.h"

/* Appends the file that snapshot_... would write, with about slice_len (over 16) bytes a block. */
void memory_snapshot_write(const struct tree *t, const struct format_header *header,
                           int64_t last_zxid, size_t slice_len, struct buf *ret_bytes);

/* snapshot_read from bytes. t is a fresh tree; release it whatever the result. */
int memory_snapshot_read(struct str bytes, struct tree *t, struct snapshot_info *ret_info,
                         struct err_info *ret_error);

#endif
