/*
 * pending_impl - the inside of struct pending.
 *
 * One slot for each name of the list. What is FREE stands in the heap of its type; TRIED is in the
 * hands of a claimer; TAKEN waits for its working node to go; BLOCKED hangs in the list of the
 * nearest ancestor that is pending and becomes free when that goes; FOREIGN is of another world and
 * RUBBISH of nobody: both are read again now and then, because a name can be deleted and made anew
 * between two looks.
 */
#ifndef WORLD_PENDING_IMPL_H
#define WORLD_PENDING_IMPL_H

#include <pthread.h>

#include "base/heap.h"
#include "base/map.h"
#include "world/pending.h"

enum slot_state { EMPTY, FREE, TRIED, TAKEN, BLOCKED, FOREIGN, RUBBISH };

struct pending_slot {
    char *key;
    int64_t czxid;
    enum slot_state state;
    uint32_t type; /* of ours: which heap, plus one */
    uint32_t heap_at;
    uint32_t seen; /* the look that saw it last */
    int32_t version;
    int64_t session; /* that claimed it in this process, 0: none is known */
    bool plain, noted;
    uint32_t blocker, waiting, wait_prev, wait_next;
};

struct pending_type {
    char *name;
    struct heap free;
};

struct pending {
    struct pending_options o;
    char *root;
    struct keeper *k;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t looked, told;
    struct keeper_watch *watches[2]; /* on the two lists; NULL: not armed */
    int telling;                     /* events being told */
    struct pending_slot *slots;      /* refs start at 1 */
    uint32_t len, cap, free_slot;
    struct map by_key;
    struct pending_type *types;
    uint32_t type_count;
    struct map by_type;
    uint32_t *taken; /* refs that were TAKEN when they were put here */
    size_t taken_len, taken_cap;

    bool pending_changed, working_changed;
    bool looking;
    uint32_t begun;                   /* looks */
    uint32_t musts_begun, musts_done; /* those that somebody insisted on */
    int64_t looked_us, look_us, reread_us, reread_took_us;
};

/* Slots (pending_slot.c). Under the lock. */

uint32_t pending_slot_find(struct pending *p, struct str key); /* 0: none */
uint32_t pending_slot_add(struct pending *p, struct str key);
void pending_slot_remove(struct pending *p, uint32_t ref);
void pending_slot_set(struct pending *p, uint32_t ref, enum slot_state state);
void pending_slot_block(struct pending *p, uint32_t ref, uint32_t blocker);

/* What is known of it may have changed meanwhile: it is read before it is claimed. */
void pending_slot_free_again(struct pending *p, uint32_t ref);

/* What its data says decides where it belongs. */
void pending_slot_sort(struct pending *p, uint32_t ref, struct str data,
                       const struct keeper_stat *stat);

/* The number of a type, 0: nothing of it was ever pending. */
uint32_t pending_type_ref(struct pending *p, struct str name, bool make);

/* Says once why a node is passed over. */
void pending_note(struct pending *p, struct pending_slot *s, const char *why);

/* Takes the watches back (pending_look.c). */
void pending_disarm(struct pending *p);

#endif
