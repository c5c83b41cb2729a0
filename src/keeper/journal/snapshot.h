/*
 * snapshot - the whole tree in one file.
 *
 * After the header (format.h) come blocks:
 *
 *     offset  bytes
 *          0      4  length of the payload, at most SNAPSHOT_BLOCK_MAX
 *          4      4  CRC32C of all from offset 8 to the end of the payload, then of the length
 *          8      4  what the block holds: 1 sessions, 2 nodes, 3 the end
 *         12      4  number of the block, from 0
 *         16         payload
 *
 *     a session: i64 id, i32 timeout in ms, 16 bytes of password
 *     a node:    u32 path length, u32 data length (as in record.h), u32 ACL length, i64 czxid,
 *                mzxid, pzxid, ctime, mtime, owner, i32 version, i32 creations, i32 aversion,
 *                path, data, ACL
 *     the end:   u64 nodes, u64 sessions, i64 last transaction that the nodes may show
 *
 * A snapshot is complete when its last block is the end and the file ends there. It is fuzzy: its
 * header names transaction T and a segment, and each node in it is as it was at some moment between
 * T and the last transaction, which the end block names. Replaying the journal from that segment
 * makes it exact, so the journal is on disk up to the last transaction before the snapshot gets its
 * name.
 *
 * After a power failure before the renaming there is a .tmp file, removed at the next start, and
 * everything older is untouched. After the renaming both the new and the old snapshot are valid.
 * Old files are removed only after the new name is on disk: snapshots first, then segments, oldest
 * first, so that there is always a snapshot and all segments from the one it names.
 */
#ifndef KEEPER_JOURNAL_SNAPSHOT_H
#define KEEPER_JOURNAL_SNAPSHOT_H

#include <stdio.h>

#include "base/fs.h"
#include "keeper/journal/format.h"
#include "keeper/tree/tree.h"

enum { SNAPSHOT_BLOCK_MAX = 8 * 1024 * 1024 };

/*
 * Writing: begin; put and flush until all is put; end. After an error only abandon is allowed.
 */
struct snapshot_writer {
    const struct fs *fs;
    const char *dir;
    struct format_header header;
    int fd;
    off_t at;
    uint32_t block;
    struct buf out; /* the block being filled */
    uint64_t nodes, sessions;
    uint32_t next_session, next_node;
    bool has_sessions; /* all of them */
};

int snapshot_begin(struct snapshot_writer *w, const struct fs *fs, const char *dir,
                   const struct format_header *header, struct err_info *ret_error);

/*
 * Fills a block with about max_bytes of sessions or, after all of them, nodes. False: that was all.
 * A flush must follow, which writes the block.
 */
bool snapshot_put(struct snapshot_writer *w, const struct tree *t, size_t max_bytes);
int snapshot_flush(struct snapshot_writer *w, struct err_info *ret_error);

/* Writes the end, syncs, gives the file its name. */
int snapshot_end(struct snapshot_writer *w, int64_t last_zxid, struct err_info *ret_error);
void snapshot_abandon(struct snapshot_writer *w);

/* The result of reading one. */
struct snapshot_info {
    struct format_header header;
    int64_t last_zxid;
    uint64_t nodes, sessions, bytes;
};

/*
 * Restores it into a fresh tree, unsealed. DAMAGED and NEWER_VERSION name the file and the offset.
 */
int snapshot_load(const char *path, struct tree *t, struct snapshot_info *ret_info,
                  struct err_info *ret_error);

/*
 * Checks the sums of a snapshot that comes in pieces, without restoring it: zero-initialise, feed,
 * and it is whole when `ended` is true and nothing more comes. False: it is damaged.
 */
struct snapshot_checker {
    char head[FORMAT_HEADER_LEN]; /* of the file or of a block, as far as it has come */
    size_t head_len;
    uint32_t sum, block; /* so far */
    size_t left;         /* of the payload */
    bool has_header, in_block, ended;
};

bool snapshot_check(struct snapshot_checker *c, struct str bytes);

int snapshot_read(FILE *in, const char *name, struct tree *t, struct snapshot_info *ret_info,
                  struct err_info *ret_error);

#endif
