/*
 * tally - what happens to tasks, counted by group, for metrics. Pure.
 *
 * Labels are bounded. At most TALLY_GROUPS_MAX groups are counted by name; the groups of a module,
 * which have names that no person chose, together (a fold); all others together, too. A count is
 * never moved from one to another, so none goes backwards, as Prometheus demands:
 *
 *  - A group gets its name when it is first used while there is room, and keeps it as long as it
 *    has tasks.
 *  - When all names are given, those that had no task for TALLY_IDLE_MS are given up: their counts
 *    disappear, and begin at zero if the group comes back. The same happens when it turns out that
 *    a group belongs to a module.
 *
 * A new kind of event is a row of enum tally_kind and of the table in task_metrics.c, and
 * where store_tally() counts what a transaction did.
 *
 * Labels are names cut to TALLY_LABEL_MAX bytes, without control characters and broken UTF-8. Two
 * names with the same label do not share it: the second one is counted with the others.
 */
#ifndef TASK_TALLY_H
#define TASK_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/str.h"

enum {
    TALLY_GROUPS_MAX = 100, /* less than 256 */
    TALLY_BUCKETS = 256,
    TALLY_FOLDS_MAX = 4,
    TALLY_LABEL_MAX = 128,
    TALLY_IDLE_MS = 10 * 60 * 1000,
};

enum tally_kind {
    TALLY_ADDED,
    TALLY_CLAIMED,
    TALLY_FINISHED, /* or deleted by the owner */
    TALLY_DELETED,  /* deleted while nobody owned it */
    TALLY_FAILED,   /* and tried again */
    TALLY_DEAD,
    TALLY_KINDS,
};

struct task_tally {
    uint64_t counts[TALLY_KINDS];
    int64_t minute;                                   /* since the epoch, of the next two: */
    uint32_t in_it[TALLY_KINDS], before[TALLY_KINDS]; /* counted in it, and in the one before */

    /* Of a group that is counted by its name. */
    struct str name; /* p NULL: not in use */
    uint32_t hash;
    uint8_t next; /* in its bucket: index + 1; 0: none */
    char label[TALLY_LABEL_MAX + 1];
    uint64_t seen;    /* the sum of the counts when they were last looked at, */
    int64_t since_ms; /* and since when it is that; 0: never */
    int64_t oldest;   /* for store_depth() */
    uint32_t place;
};

struct task_tallies {
    struct task_tally others;
    struct tally_fold {
        const char *label;
        bool (*has)(void *arg, struct str group);
        void *arg;
        struct task_tally tally;
    } folds[TALLY_FOLDS_MAX];
    size_t fold_count;
    struct task_tally groups[TALLY_GROUPS_MAX];
    size_t used;
    uint8_t buckets[TALLY_BUCKETS]; /* by hash: mostly empty, so that a miss is cheap */
    struct task_tally *last;        /* that was found by its name; NULL: none */
    uint32_t walked;                /* for store_name_groups() */
};

struct task_tallies *tallies_new(void);
void tallies_free(struct task_tallies *t); /* NULL: does nothing */

/* Groups for which `has` is true are counted together from now on. */
void tallies_fold(struct task_tallies *t, const char *label,
                  bool (*has)(void *arg, struct str group), void *arg);

/* From now on no group belongs to that fold. */
void tallies_unfold(struct task_tallies *t, const void *arg);

/* The tally of a group: its own, that of a fold, or that of the others. */
struct task_tally *tallies_find(struct task_tallies *t, struct str group);

/* The same, quick if it is that of the last call. */
static inline struct task_tally *tallies_get(struct task_tallies *t, struct str group)
{
    struct task_tally *last = t->last;
    return last && str_eq(last->name, group) ? last : tallies_find(t, group);
}

/* Counts one. */
void tally_count(struct task_tally *one, enum tally_kind kind, int64_t now_ms);

/*
 * How many were counted in the last 60 s: those of the present minute, and of the one before as
 * much as belongs to them.
 */
int64_t tally_per_minute(const struct task_tally *one, enum tally_kind kind, int64_t now_ms);

static inline bool tallies_have_room(const struct task_tallies *t)
{
    return t->used < TALLY_GROUPS_MAX;
}

/*
 * in_use: the group has tasks. Gives its name up if that is due, or if the group turns out to be
 * one of a fold; false: it was given up.
 */
bool tally_keep(struct task_tallies *t, struct task_tally *one, bool in_use, int64_t now_ms);

/* The label of a group. ret_label has room for TALLY_LABEL_MAX + 1. */
void tally_label(struct str name, char *ret_label);

#endif
