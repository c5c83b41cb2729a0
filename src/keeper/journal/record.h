/*
 * record - one transaction as bytes, and the segments, which are files of records.
 *
 * A record starts at a multiple of 8 bytes in a journal segment. All numbers are little-endian.
 *
 *     offset  bytes
 *          0      4  length of the payload
 *          4      4  CRC32C of the store's number (format.h), of everything from offset 8 to the
 *                    end of the payload, then of the length
 *          8      8  LSN: the number of the transaction (zxid); the previous record has one less
 *         16      4  behind: how many transactions, this one included, were not yet known to be on
 *                    disk when this one was appended. So LSN - behind was on disk.
 *         20      4  type: 0 a transaction, 1 a mark
 *         24         payload, then zeros up to a multiple of 8
 *
 * A mark has no payload and the LSN of the record before it: it is written when the journal is idle
 * or is closed, and states that everything up to its LSN is on disk.
 *
 * The payload of a transaction:
 *
 *          0      8  time in ms since the epoch
 *          8         changes, one after the other, to the end:
 *
 *     create         u8 1, u32 path length, u32 data length, u32 ACL length, i64 owner,
 *                    i32 creations, path, data, ACL
 *     set            u8 2, u32 path length, u32 data length, i32 version, path, data
 *     delete         u8 3, u32 path length, path
 *     session open   u8 4, i64 session, i32 timeout in ms, 16 bytes of password
 *     session close  u8 5, i64 session
 *     set ACL        u8 6, u32 path length, u32 ACL length, i32 aversion, path, ACL
 *
 * A data length of 2^32 - 1 means no data, which ZooKeeper clients distinguish from empty data.
 *
 * `behind` tells a torn tail from damage. Records that were being written when the power failed may
 * be there in part, later pieces without earlier ones; none of them was acknowledged. But a valid
 * record that says that an earlier one was on disk, while the earlier one cannot be read, proves
 * that an acknowledged transaction is lost.
 *
 * The store's number is in the sum because node data can hold anything: a copy of a record in it,
 * found after a torn tail, would look like such a proof. It cannot be forged without the number.
 */
#ifndef KEEPER_JOURNAL_RECORD_H
#define KEEPER_JOURNAL_RECORD_H

#include "base/buf.h"
#include "base/fs.h"
#include "keeper/journal/format.h"
#include "keeper/tree/tree.h"

enum {
    RECORD_HEADER_LEN = 24,
    RECORD_ALIGN = 8,
    RECORD_MAX = 4 * 1024 * 1024, /* payload */
};

enum record_type { RECORD_TRANSACTION = 0, RECORD_MARK = 1 };

struct record {
    enum record_type type;
    int64_t lsn, behind;
    struct str payload;
    size_t whole_len; /* header, payload and padding */
};

/* An upper bound for the bytes that a transaction of this request size becomes. */
static inline size_t record_bound(size_t request_size)
{
    return RECORD_HEADER_LEN + request_size + RECORD_ALIGN;
}

/* The initial value of the sums of a store's records. */
uint32_t record_salt(uint64_t store);

void record_put_changes(struct buf *b, uint32_t salt, const struct tree_changes *c, int64_t behind);
void record_put_mark(struct buf *b, uint32_t salt, int64_t lsn);

/* Reads the record at p. False: no valid record of this store. */
bool record_read(const char *p, size_t left, uint32_t salt, struct record *ret_record);

/* Parses a payload, and borrows from it. 0 or DAMAGED. */
int record_changes(const struct record *r, struct tree_changes *c);

/*
 * A segment is created empty, filled once, and removed as a whole. This makes one: the header and
 * zeros up to len, synced with its name. Overwriting existing zeros changes no metadata, so each
 * later fdatasync is cheaper, and a full disk shows here, never in the middle of a record.
 */
int segment_make(const struct fs *fs, const char *dir, uint64_t store, uint64_t number, size_t len,
                 int *ret_fd, struct err_info *ret_error);

/* The same under any name in the directory; the header has the length. */
int segment_make_file(const struct fs *fs, const char *dir, const char *path,
                      const struct format_header *h, int *ret_fd, struct err_info *ret_error);

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
