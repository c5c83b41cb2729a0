/*
 * depot - what all of batch shares: the machines, the views, and where things stand in the tree.
 *
 * One struct batch_store a process, for any number of keepers and threads. In order: batch_store_open(); batch_store_init()
 * once a keeper is there, which makes the nodes that everything else stands under; calls; batch_store_close().
 *
 * Every operation takes a struct batch_call: the store, the keeper of the session that asks, an arena that
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
#ifndef BATCH_STORE_H
#define BATCH_STORE_H

#include "base/arena.h"
#include "base/json.h"
#include "batch/change.h"
#include "batch/index.h"
#include "batch/job_cache.h"
#include "batch/list_view.h"
#include "batch/machine.h"
#include "batch/name.h"

enum { BATCH_TRIES = 50 }; /* how often a change that others got in the way of is made anew */

enum batch_access_size { ACCESS_SMALL, ACCESS_LARGE, ACCESS_SIZES };

extern const char *const ACCESS_DIRS[ACCESS_SIZES]; /* "small", "large" */

/* A change of state that has happened. */
struct batch_event {
    const char *what;         /* "batch", "job" or "access" */
    const char *id, *batch;   /* batch: of a job; else NULL */
    const char *from, *state; /* from: NULL when it is new */
};

struct batch_store_options {
    const struct batch_machines *machines; /* NULL: the built-in ones; must outlive the depot */
    int64_t (*wall_ms)(void *arg);         /* NULL: the system's */
    /* Called after each change, from the thread that made it; may be NULL. */
    void (*changed)(void *arg, const struct batch_event *e);
    void *arg;
};

struct batch_store {
    struct batch_machines machines;
    struct batch_store_options options;
    struct {
        int pending, held, processing, reporting, failed, update_reporting, completed, deleted;
    } batch; /* its states, by name */

    struct batch_view jobs[BATCH_STATES_MAX];    /* by state */
    struct batch_view batches[BATCH_STATES_MAX]; /* by state; ends have none */
    struct batch_view access[ACCESS_SIZES][BATCH_STATES_MAX];
    struct batch_job_cache job_cache;
    pthread_mutex_t making; /* one new id at a time */

    pthread_mutex_t lock; /* of what follows */
    struct batch_index_state index[BATCH_SOURCES];
    char *held_collections; /* the names when they were last read, to see that they changed */
    uint32_t collections_generation; /* how often they have */
};

struct batch_call {
    struct batch_store *store;
    struct keeper *k;
    struct arena *a;
    struct err_info *why;
};

int batch_store_open(const struct batch_store_options *o, struct batch_store **ret_store);
void batch_store_close(struct batch_store *r);

/* Makes the nodes that are missing. */
int batch_store_init(struct batch_call *c);

/* Now, as the documents of the tree write it: "2026-01-31T23:59:59.123Z", in the arena. */
struct str batch_now(struct batch_call *c);

void batch_publish(struct batch_call *c, const struct batch_event *e);

/* Reads a node into the arena. NO_NODE and others as the keeper has them; why stays as it is. */
int batch_node_get(struct batch_call *c, struct str *ret_data, struct keeper_stat *ret_stat,
                   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int batch_node_exists(struct batch_call *c, struct keeper_stat *ret_stat, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The names of a node's children, in the arena. */
int batch_node_children(struct batch_call *c, struct keeper_names *ret_names,
                        struct keeper_stat *ret_stat, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Fails with the error's own sentence, or with one of ours. */
int batch_fail(struct batch_call *c, int err);
#define BATCH_FAIL(c, err, ...) err_set((c)->why, err, __VA_ARGS__)

/* The number that the next child with a number gets, and the version to insist on. */
int batch_next_number(struct batch_call *c, const char *parent, int64_t *ret_number,
                      int32_t *ret_version);

/*
 * Adds to a change that an item goes from the list of one state, views[from], to that of another. An
 * end has no list. Where it does not stand in the one, or stands in the other, nothing is added: what
 * foreign clients made may stand in none. from BATCH_NO_STATE: it stands in none that matters. From a
 * state to the same its entry is made anew.
 */
int batch_index_move(struct batch_call *c, struct batch_change *t, const struct batch_machine *m,
                     struct batch_view *views, int from, int to, const char *id);

/* Whether an error of a change means: somebody was there in between, read again and try again. */
static inline bool batch_is_conflict(int err)
{
    return err == DROVER_BAD_VERSION || err == DROVER_NO_NODE || err == DROVER_EXISTS;
}

#endif
