/*
 * repair - what the files of batch_repair_run() share: repair.c checks the places of jobs,
 * repair_item.c batches, access items, and items that are not whole.
 */
#ifndef BATCH_REPAIR_H
#define BATCH_REPAIR_H

#include "batch/tools.h"

/* A list that has a job: that of a state, or one of a batch. */
struct batch_place {
    int64_t job, key; /* key: of the entry, or the number of the batch */
    bool of_batch;
    int where; /* a state, or an enum batch_list */
};

struct batch_repair {
    struct batch_call *c;
    struct batch_repair_options o;
    struct batch_repair_totals totals;
    struct batch_place *places; /* sorted by job */
    size_t count, cap;
    int waits; /* how often the run has waited for a job in the middle of a move */

    /* Batches that may have ended, and batch-processing as it was then. */
    struct batch_ended {
        int64_t batch, pzxid;
    } * ended;
    size_t ended_count, ended_cap;
};

void batch_repair_report(struct batch_repair *f, bool repaired, const char *id, const char *fmt,
                         ...) __attribute__((format(printf, 4, 5)));

/* Commits a repair, if repairs were asked for. A conflict is left to the next run. */
bool batch_repair_commit(struct batch_repair *f, struct batch_txn *t);

/* The places of a job as they were read; returns how many. */
size_t batch_repair_places(const struct batch_repair *f, int64_t job,
                           const struct batch_place **ret_first);

/* Adds that a job leaves a place. own: the number of its batch, whose count the caller changes. */
void batch_repair_leave(struct batch_repair *f, struct batch_txn *t, const struct batch_place *p,
                        int64_t own);

/*
 * An item that exists and lacks its status, or a job that lacks its batch or its priority. err and
 * call->why are those of reading it.
 */
int batch_repair_incomplete(struct batch_repair *f, struct batch_kind *kind, const char *id,
                            int err);

/* A batch or an access item. arg: its kind. */
int batch_repair_item(struct batch_repair *f, const char *id, int64_t number, void *arg);

/* The batches that seem to have ended, at the end of the run. */
void batch_repair_ended(struct batch_repair *f);

/* Waits, to tell what is half done from what is being done. */
void batch_repair_wait(int ms);

#endif
