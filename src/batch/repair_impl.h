/* mend_impl - what the two halves of mend share: mend.c reads and checks the lists, batch_repair_job.c a job. */
#ifndef BATCH_REPAIR_IMPL_H
#define BATCH_REPAIR_IMPL_H

#include "batch/repair.h"

/* A place where a job stands: in the list of a state, or in a list of a batch. */
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
    struct batch_places states, lists;
};

/* Tells of a finding. */
void batch_repair_report(struct batch_repair *f, bool repaired, const char *id, const char *fmt,
                         ...) __attribute__((format(printf, 4, 5)));

/* Commits a repair, where that was asked for. What changed meanwhile is left to the next run. */
bool batch_repair_commit(struct batch_repair *f, struct batch_change *t);

/* How many places a job has, and the first of them; the others follow it. */
size_t batch_repair_places(const struct batch_places *p, int64_t job,
                           const struct batch_place **ret_first);

/* Checks a job, and puts it right. */
int batch_repair_job(struct batch_repair *f, const char *jid);

#endif
