/*
 * disk - what may be on a disk after a power failure.
 *
 * It gets the events of fs_faulty one by one and holds, for every file and for the directory, the
 * current and the last synced content. From that it makes the images that a crash at this moment
 * may leave: everything (the process was killed, or the disk was quick), only what was synced, or
 * what was synced and any part of the rest: sectors of 512 bytes, lengths, names, each
 * independently. Real file systems keep more order than that, but do not promise it.
 *
 * A disk may be used in several runs: disk_restart forgets the open files.
 */
#ifndef CRASH_DISK_H
#define CRASH_DISK_H

#include "files.h"
#include "fs_faulty.h"
#include "support.h"

struct disk_file {
    struct buf now, synced;
};

struct disk_names {
    char **names;
    size_t *files; /* the file of each */
    size_t count;
};

/* A change of the directory that is not synced. */
struct disk_move {
    char *from, *to; /* from NULL: made; to NULL: removed */
    size_t file;
};

struct disk {
    struct disk_file *files;
    size_t file_count;
    struct disk_names now, synced;
    struct disk_move *moves;
    size_t move_count;
    size_t *handles; /* file of each handle */
    size_t handle_count;
};

enum disk_left {
    DISK_ALL,    /* everything that was done */
    DISK_SYNCED, /* only what was made durable */
    DISK_MIXED,  /* that, and some of the rest */
    DISK_LEFTS,
};

const char *disk_left_name(enum disk_left left);

/* A disk that holds this, all of it durable. */
void disk_init(struct disk *d, const struct image *im);
void disk_release(struct disk *d);
void disk_copy(struct disk *to, const struct disk *from);
void disk_restart(struct disk *d);

/* False: the event changes nothing that a crash could show. */
bool disk_apply(struct disk *d, const struct fs_event *e);

/* Whether all of it is durable, so that every crash leaves the same. */
bool disk_is_synced(const struct disk *d);

void disk_image(const struct disk *d, enum disk_left left, struct rng *rng,
                struct image *ret_image);

#endif
