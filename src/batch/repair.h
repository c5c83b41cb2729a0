/*
 * repair - finds and repairs what a client that works in steps, without transactions, left half
 * done: jobs in no list, in two, or in another than their status says; entries of jobs that do not
 * exist; batches whose jobs have all ended; batches and access items that are not in the index.
 *
 * The status of a job is taken as true, because the specification changes it first. An item that is
 * locked is in use: what is wrong there is reported and not repaired. Each repair is one
 * transaction that insists on the version of the status it was decided by. What only a person can
 * decide (a job without a status, a status that is not valid, names that are not ids) is reported
 * and not repaired.
 */
#ifndef BATCH_REPAIR_H
#define BATCH_REPAIR_H

#include "batch/item.h"

struct batch_finding {
    const char *id;      /* of the job or batch, or the path of the node */
    const char *problem; /* a sentence */
    bool repaired;
};

typedef void batch_finding_fn(void *arg, const struct batch_finding *f);

struct batch_repair_totals {
    int64_t jobs, batches, findings, repaired;
};

/* Calls fn for each finding. Returns 0 or an error of the keeper. */
int batch_repair_run(struct batch_call *c, bool repair, batch_finding_fn *fn, void *arg,
                     struct batch_repair_totals *ret_totals);

/*
 * For repair.c, which reads and checks the lists, and repair_job.c, which checks one job.
 */

/* A list that has a job: that of a state, or one of a batch. */
struct batch_place {
    int64_t job, key; /* key: of the entry, or the number of the batch */
    int where;        /* a state, or an enum batch_list */
};

struct batch_places {
    struct batch_place *list;
    size_t count, cap;
};

struct batch_repair {
    struct batch_call *c;
    bool repair;
    batch_finding_fn *fn;
    void *arg;
    struct batch_repair_totals totals;
    struct batch_places states, lists; /* sorted by job */
};

void batch_repair_report(struct batch_repair *f, bool repaired, const char *id, const char *fmt,
                         ...) __attribute__((format(printf, 4, 5)));

/* Commits a repair, if repairs were asked for. A conflict is left to the next run. */
bool batch_repair_commit(struct batch_repair *f, struct batch_txn *t);

/* The number of places of a job; *ret_first is the first of them, the others follow it. */
size_t batch_repair_places(const struct batch_places *p, int64_t job,
                           const struct batch_place **ret_first);

/* Adds that a job leaves a list of a batch. */
void batch_repair_leave_list(struct batch_repair *f, struct batch_txn *t,
                             const struct batch_place *p, const char *jid);

int batch_repair_job(struct batch_repair *f, const char *jid);

#endif
