/*
 * recover - reads a data directory at the start.
 *
 * recover_read changes nothing. It loads the newest complete snapshot, then replays the journal
 * from the segment that the snapshot names to the end or a torn tail. Damage in the middle is an
 * error that names the file and the offset; so is a journal that ends before its mark (mark.h).
 * recover_trim then prepares the directory for writing: it removes unfinished files, cuts off torn
 * tails and unused room, and syncs what it found, because a process that was killed may have left
 * records in the page cache only. The last segment is only synced: it is cut when the next one is
 * made, or, if the disk is too full for that, it takes the next records. All of this happens before
 * anything new is written and is safe to repeat after a crash.
 */
#ifndef KEEPER_JOURNAL_RECOVER_H
#define KEEPER_JOURNAL_RECOVER_H

#include "base/fs.h"
#include "keeper/journal/mark.h"
#include "keeper/journal/record.h"
#include "keeper/journal/snapshot.h"

/* The result of reading one segment. */
struct recover_segment {
    uint64_t number;
    size_t file_len, valid_len;  /* valid_len: the offset of the next record */
    uint64_t made_len;           /* 0: unknown */
    int64_t first_lsn, last_lsn; /* 0: no records */
    uint64_t records;
    bool torn;     /* here, or in a segment before it */
    bool has_rest; /* bytes after valid_len that are not zero */
};

struct recovery {
    struct tree tree; /* sealed */
    uint64_t store;
    bool empty; /* a new directory */
    bool has_snapshot;
    struct snapshot_info snapshot; /* the one used */
    struct recover_segment *segments;
    size_t segment_count;
    uint64_t next_segment;
    uint64_t records;
    struct mark_claims mark; /* if there is one */
    bool has_mark;

    /* After DAMAGED in the journal: where. */
    uint64_t damaged_segment; /* 0: the damage is elsewhere */
    size_t damaged_at;
};

/* Each may be NULL. */
struct recover_hooks {
    void (*note)(void *arg, const char *line);     /* reports an unusable snapshot, a torn tail */
    void (*progress)(void *arg, const char *what); /* "reading FILE", before each */
    void (*record)(void *arg, uint64_t segment, size_t at, const struct tree_changes *c);
    void *arg;
};

/* The recovery must be released, also after an error. */
int recover_read(const char *dir, const struct recover_hooks *hooks, struct recovery *ret_recovery,
                 struct err_info *ret_error);
void recovery_release(struct recovery *r);

/* What a mark may claim once everything that was read is synced, if this is the last segment. */
struct mark_claims recovery_claims(const struct recovery *r, uint64_t last_segment);

int recover_trim(const struct fs *fs, const char *dir, const struct recovery *r,
                 struct err_info *ret_error);

/* The last segment, after recover_trim(). NULL: there is none. */
const struct recover_segment *recovery_last(const struct recovery *r);

/* Cuts it after its last record, and syncs it. */
int recover_cut(const struct fs *fs, const char *dir, const struct recover_segment *s,
                struct err_info *ret_error);

/* Or opens it for more records: a torn tail is overwritten with zeros, and synced. */
int recover_reuse(const struct fs *fs, const char *dir, const struct recover_segment *s,
                  int *ret_fd, struct err_info *ret_error);

/* Reads a whole file. */
int recover_read_file(const char *path, struct buf *ret_bytes, struct err_info *ret_error);

/* Replays one segment that is in memory into r->tree; for the fuzzer. name is for errors. */
int recover_segment_bytes(struct recovery *r, const char *name, uint64_t number, struct str bytes,
                          const struct recover_hooks *hooks, struct err_info *ret_error);

#endif
