/*
 * depot - what all of batch shares: the machines, the views, and where things stand in the tree.
 *
 * One struct depot a process, for any number of keepers and threads. In order: depot_open(); depot_init()
 * once a keeper is there, which makes the nodes that everything else stands under; calls; depot_close().
 *
 * Every operation takes a struct call: the depot, the keeper of the session that asks, an arena that
 * lives as long as the answer, and where to say what is wrong. Operations return 0 or a negative enum
 * drover_err, and then call->why holds a sentence for people.
 *
 * The tree is the document's:
 *
 *     /batches/BID/submission, status, status-report, lock, states/batch-processing/JID, ...
 *     /batch-uuids/UUID
 *     /jobs/JID/bid, configuration, status, priority, space_needed, identifiers, metadata, inventory, lock
 *     /jobs/states/STATE/PP-JID
 *     /locks/queue/..., storage/..., inventory/..., collections/...
 *     /access/small/ID/token, status, lock and /access/large/ID/...
 *
 * and what Drover adds, so that nobody has to read every batch to find the one that waits:
 *
 *     /drover/batch/STATE/BID                    for each state of a batch that is no end
 *     /drover/access/small/STATE/ID, large/...   for each state of an access item that is no end
 *
 * What always holds after any operation, wherever it was interrupted, because each is one
 * transaction: a job stands in exactly one state list, the one that its status names; in exactly one
 * list of its batch, the one that goes with its state; and a batch whose batch-processing became empty
 * is Reporting (or UpdateReporting) or was reported since.
 */
#ifndef BATCH_DEPOT_H
#define BATCH_DEPOT_H

#include "base/arena.h"
#include "base/json.h"
#include "batch/adopt.h"
#include "batch/change.h"
#include "batch/claims.h"
#include "batch/machine.h"
#include "batch/name.h"
#include "batch/view.h"

enum { DEPOT_TRIES = 50 }; /* how often a change that others got in the way of is made anew */

enum access_size { ACCESS_SMALL, ACCESS_LARGE, ACCESS_SIZES };

extern const char *const ACCESS_DIRS[ACCESS_SIZES]; /* "small", "large" */

/* A change of state that has happened. */
struct depot_event {
    const char *what;         /* "batch", "job" or "access" */
    const char *id, *batch;   /* batch: of a job; else NULL */
    const char *from, *state; /* from: NULL when it is new */
};

struct depot_options {
    const struct machines *machines; /* NULL: the built-in ones; must outlive the depot */
    int64_t (*wall_ms)(void *arg);   /* NULL: the system's */
    /* Called after each change, from the thread that made it; may be NULL. */
    void (*changed)(void *arg, const struct depot_event *e);
    void *arg;
};

struct depot {
    struct machines machines;
    struct depot_options options;
    struct {
        int pending, held, processing, reporting, failed, update_reporting, completed, deleted;
    } batch; /* its states, by name */

    struct view jobs[MACHINE_STATES_MAX];    /* by state */
    struct view batches[MACHINE_STATES_MAX]; /* by state; ends have none */
    struct view access[ACCESS_SIZES][MACHINE_STATES_MAX];
    struct claims claims;
    pthread_mutex_t making; /* one new id at a time */

    pthread_mutex_t lock; /* of what follows */
    struct adopted adopted[ADOPT_SOURCES];
    char *held_collections; /* the names when they were last read, to see that they changed */
    uint32_t collections_generation; /* how often they have */
};

struct call {
    struct depot *depot;
    struct keeper *k;
    struct arena *a;
    struct err_info *why;
};

int depot_open(const struct depot_options *o, struct depot **ret_depot);
void depot_close(struct depot *r);

/* Makes the nodes that are missing. */
int depot_init(struct call *c);

/* Now, as the documents of the tree write it: "2026-01-31T23:59:59.123Z", in the arena. */
struct str depot_now(struct call *c);

void depot_tell(struct call *c, const struct depot_event *e);

/* Reads a node into the arena. NO_NODE and others as the keeper has them; why stays as it is. */
int depot_get(struct call *c, struct str *ret_data, struct keeper_stat *ret_stat, const char *fmt,
              ...) __attribute__((format(printf, 4, 5)));
int depot_exists(struct call *c, struct keeper_stat *ret_stat, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The names of a node's children, in the arena. */
int depot_children(struct call *c, struct keeper_names *ret_names, struct keeper_stat *ret_stat,
                   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Fails with the error's own sentence, or with one of ours. */
int depot_fail(struct call *c, int err);
#define DEPOT_FAIL(c, err, ...) err_set((c)->why, err, __VA_ARGS__)

/* The number that the next child with a number gets, and the version to insist on. */
int depot_next_number(struct call *c, const char *parent, int64_t *ret_number,
                      int32_t *ret_version);

/*
 * Adds to a change that an item goes from the list of one state, views[from], to that of another. An
 * end has no list. Where it does not stand in the one, or stands in the other, nothing is added: what
 * foreign clients made may stand in none. from MACHINE_NONE: it stands in none that matters. From a
 * state to the same its entry is made anew.
 */
int depot_relist(struct call *c, struct change *t, const struct machine *m, struct view *views,
                 int from, int to, const char *id);

/* Whether an error of a change means: somebody was there in between, read again and try again. */
static inline bool depot_again(int err)
{
    return err == DROVER_BAD_VERSION || err == DROVER_NO_NODE || err == DROVER_EXISTS;
}

#endif
