/*
 * mark - how far the journal was on disk, in a file of its own.
 *
 * A segment that was truncated or removed looks like one that was never written: only something
 * outside of it can tell. The file `mark` makes these claims, and a start refuses a directory that
 * does not meet them:
 *
 *     lsn      the transactions up to this one were on disk; `segment` and `at` say where the last
 *              of them ended
 *     begun    this segment was there
 *     sealed   later segments are as long as they were made (format.h): only starts cut them
 *
 * What always holds: a claim is written after what it is about was synced, so that the mark may be
 * lost or old and never claims too much. Without the file nothing is claimed, as before 0.2.
 *
 *     when                        claims                              synced
 *     before a start cuts tails   sealed: all segments                before the cut
 *     a start begins a segment    lsn: what it has read and synced    yes
 *     a segment is begun          lsn: all before it; begun: it       no: a pwrite per segment
 *     the journal is closed       lsn: everything; sealed: all        yes
 *
 * So nothing is written per change, and yet a truncated segment is noticed after a crash too, by
 * its length.
 *
 * The file has two slots of 512 bytes, so that a torn write leaves one of them: the second is
 * written first, and a synced claim is in both. The newest valid one counts; no valid one is
 * damage. A slot, little-endian:
 *
 *     offset  bytes
 *          0      8  "DROVERMK"
 *          8      4  version of the format: 1
 *         12      4  CRC32C of the slot with these four bytes zero
 *         16      8  the store (format.h)
 *         24      8  serial number: higher in what was written later
 *         32     40  lsn, segment, at, begun, sealed: 8 bytes each
 *         72    440  zeros
 */
#ifndef KEEPER_JOURNAL_MARK_H
#define KEEPER_JOURNAL_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"

enum { MARK_SLOT_LEN = 512, MARK_LEN = 2 * MARK_SLOT_LEN };

struct mark_claims {
    uint64_t store, serial;
    int64_t lsn;
    uint64_t segment, at; /* 0: in a snapshot, or no transaction yet */
    uint64_t begun, sealed;
};

/* 1: read. 0: there is no file. DAMAGED, NEWER_VERSION, IO. */
int mark_read(const char *dir, struct mark_claims *ret_mark, struct err_info *ret_error);

/* Parses the content of the file: 0, DAMAGED or NEWER_VERSION. */
int mark_parse(const char *bytes, size_t len, struct mark_claims *ret_mark);

/*
 * Writing. Zero-initialise it, set fs and dir, and fd to -1; the first mark_put() opens the file,
 * or makes it. One thread at a time.
 */
struct mark_file {
    const struct fs *fs;
    const char *dir;
    int fd;
    uint64_t serial; /* of the last */
};

/*
 * Writes claims. sync: to both slots, and returns when they are on disk. A new file is made whole
 * and synced in any case. After a failure the file claims what it did before.
 */
int mark_put(struct mark_file *m, const struct mark_claims *claims, bool sync,
             struct err_info *ret_error);
void mark_close(struct mark_file *m);

/* Opens, writes, syncs, closes. */
int mark_replace(const struct fs *fs, const char *dir, const struct mark_claims *claims,
                 struct err_info *ret_error);

#endif
