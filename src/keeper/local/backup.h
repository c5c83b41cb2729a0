/*
 * backup - the state of a store as one archive (journal/archive.h), taken while it is in use; and
 * the way back.
 *
 * Taking one: backup_open -> backup_read until it gives nothing -> backup_close, on threads that
 * may block, one at a time for each backup.
 *
 * A backup is a snapshot and the journal from the segment that the snapshot names up to a
 * transaction that is on disk: exactly the state after that transaction, which is at least the last
 * one of the time of the call. The store's lock is held as long as for any other snapshot, a slice
 * at a time. If the disk has no room for a new snapshot, the newest one there is serves, with more
 * of the journal.
 *
 * What always holds: the files are opened at the beginning, and the store may remove their names
 * meanwhile; so a slow reader keeps the disk space of these files, and nothing that is written
 * later. Every record and every block is checked against its sum before it is passed on: a damaged
 * directory gives an error and not a damaged backup. The memory is that of one segment.
 *
 * Putting one back: backup_restore() makes a data directory from an archive (new_dir.h), and reads
 * everything back as a start would before the directory gets its name.
 */
#ifndef KEEPER_LOCAL_BACKUP_H
#define KEEPER_LOCAL_BACKUP_H

#include "base/buf.h"
#include "base/err.h"
#include "keeper/journal/archive.h"

struct local;
struct local_backup;

/* Takes a snapshot first, and waits for it. BAD_ARGUMENT: the store has no directory. */
int backup_open(struct local *l, struct local_backup **ret_backup, struct err_info *ret_error);

/* Appends the next bytes, at most max. *ret_more is false with the last ones. */
int backup_read(struct local_backup *b, size_t max, struct buf *to, bool *ret_more,
                struct err_info *ret_error);
void backup_close(struct local_backup *b);

/* Where an archive comes from: up to `size` bytes, 0 at the end; negative: an error. */
typedef ssize_t backup_source_fn(void *arg, char *to, size_t size, struct err_info *ret_error);

/* Checks an archive and writes nothing. ret_reader has what it found, also after an error. */
int backup_check(backup_source_fn *source, void *arg, struct archive_reader *ret_reader,
                 struct err_info *ret_error);

struct backup_restored {
    struct archive_info info;
    uint64_t nodes, sessions, bytes; /* bytes: of the archive */
};

struct backup_restore_options {
    const char *dir; /* empty or missing; the directory above it exists */
    backup_source_fn *source;
    void *source_arg;
    void (*node)(void *arg, struct str path); /* called for each node of the tree; NULL: not */
    void *node_arg;
    const struct fs *fs; /* NULL: the system's */
};

int backup_restore(const struct backup_restore_options *o, struct backup_restored *ret_restored,
                   struct err_info *ret_error);

#endif
