/*
 * held_fs - the system's files; a test can block syncs, or make them fail.
 */
#ifndef CRASH_HELD_FS_H
#define CRASH_HELD_FS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/fs.h"

/* First member, so that the functions get from the table to the struct. */
struct held_fs {
    struct fs fs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool held;
    int waiting;    /* syncs that are held */
    int fail_errno; /* of every sync, 0: they succeed */
};

/* Not held. */
void held_fs_init(struct held_fs *h);
void held_fs_hold(struct held_fs *h, bool held);

/* Releases it; from now on every sync fails. */
void held_fs_fail(struct held_fs *h, int errnum);

/* Whether a sync is held now. */
bool held_fs_waits(struct held_fs *h);

#endif
