/*
 * archive - a backup as one stream of bytes: the files of a data directory from which its state can
 * be made again, each with a checksum.
 *
 * All numbers are little-endian. First comes a header of 64 bytes:
 *
 *     offset  bytes
 *          0      8  "DROVERBK"
 *          8      4  version of the format: 1
 *         12      4  CRC32C of the header with these four bytes zero
 *         16      8  the store, as in every file of its directory (format.h)
 *         24      8  the last transaction: the archive holds all up to it, and none after it
 *         32      8  when it was made, in ms since the epoch
 *         40     24  zeros
 *
 * Then come parts, each with a header of 32 bytes:
 *
 *     offset  bytes
 *          0      4  kind: 1 a snapshot, 2 a segment of the journal, 3 the end
 *          4      4  CRC32C of this header with these four bytes zero
 *          8      8  number of the snapshot or the segment, as in its name (format.h); of the end:
 *                    how many parts came before it
 *         16      8  length of the content; of the end: 0
 *         24      8  the end: the length of the whole archive; else zeros
 *         32         the content of the file, then
 *                 4  CRC32C of the content; the end has neither
 *
 * A snapshot, if there is one, is the first part. The segments follow in the order of their
 * numbers, without a gap; the last one is cut after the last transaction. The archive is complete
 * if it ends with the end. A server that fails while it sends one breaks off before that.
 *
 * To change the format: raise ARCHIVE_VERSION, and let the reader accept both. It refuses a higher
 * one with NEWER_VERSION.
 *
 * Pure: the writer appends to a buffer; the reader is fed pieces of any length and passes the
 * content on. It allocates nothing, so an archive of any length is checked in constant memory.
 */
#ifndef KEEPER_JOURNAL_ARCHIVE_H
#define KEEPER_JOURNAL_ARCHIVE_H

#include "base/buf.h"
#include "base/err.h"
#include "keeper/journal/format.h"

enum {
    ARCHIVE_VERSION = 1,
    ARCHIVE_HEADER_LEN = 64,
    ARCHIVE_PART_LEN = 32,
    ARCHIVE_SUM_LEN = 4,
};

struct archive_info {
    uint64_t store;
    int64_t last_zxid;
    int64_t time_ms;
};

/* Writing: the header; for each file its part, the content, its sum; the end. */
void archive_put_header(struct buf *b, const struct archive_info *info);
void archive_put_part(struct buf *b, enum format_kind kind, uint64_t number, uint64_t len);
void archive_put_sum(struct buf *b, uint32_t sum);

/* len: of everything before. */
void archive_put_end(struct buf *b, uint64_t parts, uint64_t len);

/*
 * Who gets the content. Each may be NULL. What they return other than 0 ends the reading. What
 * `data` gets is not checked yet: only `part_end` says so for its part, and only archive_finish()
 * for the whole.
 */
struct archive_sink {
    int (*part)(void *arg, enum format_kind kind, uint64_t number, uint64_t len,
                struct err_info *ret_error);
    int (*data)(void *arg, struct str bytes, struct err_info *ret_error);
    int (*part_end)(void *arg, struct err_info *ret_error);
    void *arg;
};

enum archive_state { ARCHIVE_HEADER, ARCHIVE_PART, ARCHIVE_DATA, ARCHIVE_SUM, ARCHIVE_ENDED };

/* Zero-initialise it, set the sink. */
struct archive_reader {
    struct archive_sink sink;
    struct archive_info info; /* once the header was read */
    enum archive_state state;
    char piece[ARCHIVE_HEADER_LEN]; /* a header or a sum, as far as it has come */
    size_t piece_len;
    uint64_t left; /* of the content */
    uint32_t sum;
    uint64_t parts, len; /* so far */
    bool has_snapshot, has_segment;
    uint64_t segment; /* the last one */
};

/* 0; DAMAGED or NEWER_VERSION with the offset; or the error of the sink. Not again after that. */
int archive_feed(struct archive_reader *r, struct str bytes, struct err_info *ret_error);

/* There is no more to feed. DAMAGED: the archive is cut off. */
int archive_finish(struct archive_reader *r, struct err_info *ret_error);

#endif
