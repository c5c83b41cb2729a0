/*
 * format - the files of a data directory: their names and their common header.
 *
 *     lock                            the pid of the process that uses the directory (dirlock.h)
 *     mark                            how far the journal was on disk (mark.h)
 *     journal-0000000007              segment 7 of the journal: header, then records (record.h),
 *                                     then zeros
 *     snapshot-00000000000000200000   the tree as of transaction 200000 (snapshot.h)
 *     reserve-1 to reserve-4          room that is kept back (reserve.h)
 *     *.tmp                           being written; removed at the next start
 *
 * The header is 64 bytes, little-endian:
 *
 *     offset  bytes
 *          0      8  "DROVERJL" a journal segment, "DROVERSN" a snapshot
 *          8      4  version of the format: 1
 *         12      4  CRC32C of the header with these four bytes zero
 *         16      8  the store: a random number that all files of one directory share
 *         24      8  number: of the segment, or the transaction of the snapshot
 *         32      8  snapshot: the segment from which to replay; segment: 0
 *         40      8  segment: the length of the file as it was made; 0 before 0.2, and in snapshots
 *         48     16  zeros
 *
 * To change the format: raise FORMAT_VERSION; make the readers (recover.c, snapshot.c) accept both
 * versions; write only the new one. A reader refuses a higher version with NEWER_VERSION and
 * changes nothing. Version 1 files must stay readable until a release note has announced otherwise
 * for a year.
 */
#ifndef KEEPER_JOURNAL_FORMAT_H
#define KEEPER_JOURNAL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"

#define FORMAT_RESERVE "reserve-"

enum {
    FORMAT_VERSION = 1,
    FORMAT_HEADER_LEN = 64,
    FORMAT_NAME_MAX = 64,
    FORMAT_REMOVE_STEP = 16 * 1024 * 1024, /* bytes */
};

enum format_kind { FORMAT_SEGMENT, FORMAT_SNAPSHOT, FORMAT_KINDS };

struct format_header {
    enum format_kind kind;
    uint64_t store;
    uint64_t number;
    uint64_t replay_from;
    uint64_t made_len;
};

void format_header_put(char *out, const struct format_header *h);

/*
 * The sum of a record or of a block of a snapshot, which both begin with their length and the sum:
 * of everything from offset 8, then of the length. The length comes last because it may be wrong:
 * it is not trusted before the rest is checked.
 */
uint32_t format_checksum(uint32_t salt, const char *p, size_t len);

/* 0, DAMAGED or NEWER_VERSION. The kind is the one expected. */
int format_header_read(const char *in, enum format_kind kind, struct format_header *ret_header);

/* dir/journal-0000000007; the caller frees it. */
char *format_path(const char *dir, enum format_kind kind, uint64_t number);
char *format_path_of(const char *dir, const char *name);

/*
 * Removes a file. A large one is first renamed to removed.tmp and then truncated in steps: freeing
 * hundreds of megabytes at once keeps a disk busy for tens of milliseconds, and the journal could
 * not sync meanwhile. One that somebody has open, because it is being copied or sent as a backup,
 * is not truncated: the reader gets all of it. -1 with errno.
 */
int format_remove(const struct fs *fs, const char *dir, enum format_kind kind, uint64_t number);

/* Removes all of a kind with lower numbers, the lowest first. */
int format_remove_before(const struct fs *fs, const char *dir, enum format_kind kind,
                         uint64_t number, struct err_info *ret_error);
int format_remove_tmp(const struct fs *fs, const char *dir, struct err_info *ret_error);

/* Parses a file name. False: it is not one of Drover's. */
bool format_parse_name(const char *name, enum format_kind *ret_kind, uint64_t *ret_number);

/* The files of a data directory, each list in ascending order. */
struct format_list {
    uint64_t *numbers;
    size_t count, cap;
};

struct format_dir {
    struct format_list files[FORMAT_KINDS];
    size_t foreign; /* files that are not Drover's */
    char foreign_name[256];
};

int format_dir_read(const char *dir, struct format_dir *ret_dir, struct err_info *ret_error);
void format_dir_release(struct format_dir *d);

/*
 * Makes sure that there is a data directory: refuses one with other files and no data. Creates only
 * the last component: a typo must not create a tree of directories. Its name must be synced before
 * anything in it is durable.
 */
int format_dir_make(const char *dir, struct err_info *ret_error);

#endif
