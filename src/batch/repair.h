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

#endif
