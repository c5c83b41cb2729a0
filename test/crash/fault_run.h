/*
 * fault_run - one run of a store with a fault: a start on a directory with a torn tail, changes
 * that fill more than a segment, three snapshots, the close. Changes that a full disk refuses are
 * retried. Afterwards it checks the outcome, and that everything acknowledged is there, for a
 * normal start and after a power failure.
 */
#ifndef CRASH_FAULT_RUN_H
#define CRASH_FAULT_RUN_H

#include "disk.h"
#include "fs_faulty.h"
#include "store.h"

struct fault_run {
    char *dir;
    struct fs_faulty *f;
    struct store *s;
    const struct image *before;
    struct history past;
    int64_t acknowledged; /* the last transaction */
    int open_err;         /* what opening gave */
    int err;              /* the error that ended the work, 0: it was completed */
    int refused;          /* changes and snapshots that got DISK_FULL */
    struct fs_hit hit;    /* before the store was closed */
    struct fs_hit end_hit;
    int fatals;      /* before it was closed */
    bool not_silent; /* after the end some call did not get IO */
};

/* The start of every run: a store whose process was killed. */
void fault_run_before(struct image *ret_image);

/* Does the run and closes the store. */
void fault_run(struct fault_run *r, const struct image *before, const struct fs_fault *fault);
void fault_run_release(struct fault_run *r);

/* A normal start finds everything; after a final failure also if the power fails then. */
void fault_run_check(struct fault_run *r);

#endif
