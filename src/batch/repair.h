/*
 * mend - finds what a client that works step by step, without transactions, left half done, and
 * repairs it: jobs in no list, in two, or in another than their status says; entries of jobs that are
 * not there; batches that ended without a word; batches and access items that our lists do not know.
 *
 * What a job's status says is taken for true, since the document changes it first. An item that is
 * locked is being worked on, so what is found there is told and left alone. Each repair is one
 * transaction that insists on the status it was decided by. What nobody but a person can decide (a job
 * without a status, rubbish in a status, names that are no ids) is told and left alone too.
 */
#ifndef BATCH_REPAIR_H
#define BATCH_REPAIR_H

#include "batch/store.h"

struct batch_finding {
    const char *id;      /* of the job or batch, or the path of the node */
    const char *problem; /* a sentence */
    bool repaired;
};

typedef void batch_finding_fn(void *arg, const struct batch_finding *f);

struct batch_repair_totals {
    int64_t jobs, batches, findings, repaired;
};

/* fn is called for each. Returns 0 or an error of the keeper. */
int batch_repair_run(struct batch_call *c, bool repair, batch_finding_fn *fn, void *arg,
                     struct batch_repair_totals *ret_totals);

#endif
