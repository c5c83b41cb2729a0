/*
 * scene - a store with recorded file operations, and changes with known outcomes: the text of the
 * tree after each transaction, and a note among the recorded events after each acknowledgement.
 * Tests then check what a start finds after a crash at each event.
 */
#ifndef CRASH_SCENE_H
#define CRASH_SCENE_H

#include "disk.h"
#include "fs_faulty.h"
#include "store.h"

struct scene {
    char *dir;
    struct store *s;
    struct fs_faulty *f;
    struct history past;
    struct image before; /* what the directory held when the recording began */
    int steps;
    char *node[32]; /* paths of existing nodes */
    int node_count;
    /*
     * While set, a step is taken before each operation of a snapshot, on the thread that writes it.
     */
    _Atomic bool eager;
    _Atomic int failed; /* what a step got that should not have: steps may run on any thread */
    bool met_full_disk; /* so there may be one snapshot only */
};

/* Opens a store in dir, which may hold something already, and connects. */
struct scene *scene_open(const char *dir, enum local_mode mode);

/* The same with a fault from the beginning. NULL: none. */
struct scene *scene_open_with(const char *dir, enum local_mode mode, const struct fs_fault *fault);

/* Leaves the session, closes the store. The events stay. */
void scene_close(struct scene *sc);
void scene_free(struct scene *sc);

/*
 * One transaction, different from the ones before: creates, sets, deletes, ephemeral and sequential
 * nodes, several at once, with up to 12 KiB of data.
 */
void scene_step(struct scene *sc);

/* The highest transaction among the notes in the first `count` events. */
int64_t scene_acknowledged(const struct scene *sc, size_t count);

/* What a start must find. */
struct expectation {
    const struct history *past;
    int64_t at_least;  /* transactions that must be there */
    bool work_on;      /* go on from there: slower */
    const char *label; /* for messages */
};

/*
 * Writes the image to `dir`, recovers it and checks that it is in one of the states of the past and
 * not too old; what a start changes in the files must not change that. With work_on a store is
 * opened there and changed, and a second start must find that too.
 */
void scene_check(const char *dir, const struct image *im, const struct expectation *e);

#endif
