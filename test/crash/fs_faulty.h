/*
 * fs_faulty - file operations that fail on demand and record what they did.
 *
 * It wraps the system's. A fault is armed for the nth operation of a kind; afterwards a test can
 * ask what it hit. With recording on, every operation that took effect is stored as an event, in
 * order, so that disk.h can tell what would be on the disk after a crash between any two of them.
 * Files are known by their last name: a store has only one directory, which is ".".
 *
 * Safe from any thread: operations are serialised, so the order of the events is exact.
 */
#ifndef CRASH_FS_FAULTY_H
#define CRASH_FS_FAULTY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/fs.h"

enum fs_op {
    FS_OPEN,
    FS_PWRITE,
    FS_FDATASYNC,
    FS_FSYNC,
    FS_FTRUNCATE,
    FS_RENAME,
    FS_UNLINK,
    FS_CLOSE,
    FS_NOTE, /* not an operation: a note of the test */
    FS_OPS,
};

const char *fs_op_name(enum fs_op op);

enum fs_fault_kind {
    FAULT_FAIL,  /* nothing happens; returns errnum */
    FAULT_SHORT, /* a write: writes the first half and returns its length */
    FAULT_TORN,  /* a write: writes the first half and returns errnum */
};

struct fs_fault {
    enum fs_op op;
    int nth; /* from 1; 0: no fault */
    enum fs_fault_kind kind;
    int errnum;
    bool stays;       /* every later one too */
    const char *name; /* only files whose name begins like this, NULL: any */
};

struct fs_event {
    enum fs_op op;
    int handle;      /* what was opened: numbers are not used again, as descriptors are */
    char *name, *to; /* open, rename, unlink: as they were at the time; else the file's name */
    int flags;       /* open */
    int64_t at;      /* pwrite; ftruncate: the length; note: the number; fdatasync: see len */
    size_t len;      /* fdatasync: the bytes from `at` on that it is about, 0: all */
    struct buf data; /* pwrite */
    bool failed;     /* fsync, fdatasync: it made nothing durable */
};

struct fs_handle {
    int handle; /* 0: not open */
    char *name;
};

struct fs_hit {
    int count; /* operations that the fault has struck */
    enum fs_op op;
    char name[64];
    size_t event; /* how many events there were before the first */
};

enum { FS_HANDLES_MAX = 1024 };

struct fs_faulty {
    struct fs fs;   /* first member: a store gets this */
    bool syncs;     /* carry syncs out; false: they are only counted and recorded */
    bool recording; /* set before use */

    /* Called before each operation, on the thread that does it, when nothing is locked. */
    void (*before)(void *arg, enum fs_op op, const char *name);
    void *before_arg;

    pthread_mutex_t lock; /* guards the rest */
    struct fs_fault fault;
    int seen; /* operations that the fault has counted */
    struct fs_hit hit;
    struct fs_handle handles[FS_HANDLES_MAX]; /* by descriptor */
    int last_handle, open_count;
    struct fs_event *events;
    size_t event_count, event_cap;
    int64_t calls[FS_OPS];
};

struct fs_faulty *fs_faulty_new(void);
void fs_faulty_free(struct fs_faulty *f);

/* NULL takes it back. What was counted and hit starts from nothing. */
void fs_faulty_arm(struct fs_faulty *f, const struct fs_fault *fault);
struct fs_hit fs_faulty_hit(struct fs_faulty *f);

/* Files that were opened and not closed. */
int fs_faulty_open_count(struct fs_faulty *f);

/* Puts an event of the test's own among the others; the number of events with it. */
size_t fs_faulty_note(struct fs_faulty *f, int64_t number);

/* "pwrite journal-0000000001 at 64, 80 bytes" */
void fs_event_text(const struct fs_event *e, struct buf *ret_text);

#endif
