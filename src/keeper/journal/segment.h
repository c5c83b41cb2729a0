/*
 * segment - one file of the journal. It is created empty, filled once, and removed as a whole.
 */
#ifndef KEEPER_JOURNAL_SEGMENT_H
#define KEEPER_JOURNAL_SEGMENT_H

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "keeper/journal/record.h"

/*
 * Makes an empty segment: the header and zeros up to len, synced with its name. Overwriting
 * existing zeros changes no metadata, so each later fdatasync is cheaper, and a full disk shows
 * here, never in the middle of a record.
 */
int segment_make(const struct fs *fs, const char *dir, uint64_t store, uint64_t number, size_t len,
                 int *ret_fd, struct err_info *ret_error);

/*
 * Reads a segment record by record. Give it the LSN before the first record expected (-1: whatever
 * comes first), then call segment_next until it returns something other than SEGMENT_RECORD.
 */
struct segment_reader {
    struct str bytes;
    size_t at; /* of the next record; at the end: where the valid part ends */
    int64_t lsn;
    uint32_t salt; /* of the store */
};

enum segment_state {
    SEGMENT_RECORD,  /* the next transaction was read */
    SEGMENT_END,     /* the rest is zeros, or empty */
    SEGMENT_TORN,    /* the rest is not zeros, but was never acknowledged */
    SEGMENT_DAMAGED, /* something that was on disk cannot be read; `at` says where */
};

enum segment_state segment_next(struct segment_reader *r, struct record *ret_record);

#endif
