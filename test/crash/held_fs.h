/*
 * held_fs - the system's files, with a hand on fdatasync.
 */
#ifndef CRASH_HELD_FS_H
#define CRASH_HELD_FS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/fs.h"

/* The table comes first: it is what the functions get. */
struct held_fs {
    struct fs fs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool held;
    int waiting; /* syncs that are held */
};

/* Not held. */
void held_fs_init(struct held_fs *h);
void held_fs_hold(struct held_fs *h, bool held);

/* Whether a sync is held now. */
bool held_fs_waits(struct held_fs *h);

#endif
