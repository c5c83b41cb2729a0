/* mend_impl - what the two halves of mend share: mend.c reads and checks the lists, mend_job.c a job. */
#ifndef BATCH_MEND_IMPL_H
#define BATCH_MEND_IMPL_H

#include "batch/mend.h"

/* A place where a job stands: in the list of a state, or in a list of a batch. */
struct place {
    int64_t job, key; /* key: of the entry, or the number of the batch */
    int where;        /* a state, or an enum machine_list */
};

struct places {
    struct place *list;
    size_t count, cap;
};

struct mend {
    struct call *c;
    bool repair;
    mend_fn *fn;
    void *arg;
    struct mend_totals totals;
    struct places states, lists;
};

/* Tells of a finding. */
void mend_found(struct mend *f, bool repaired, const char *id, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Commits a repair, where that was asked for. What changed meanwhile is left to the next run. */
bool mend_commit(struct mend *f, struct change *t);

/* How many places a job has, and the first of them; the others follow it. */
size_t mend_places(const struct places *p, int64_t job, const struct place **ret_first);

/* Checks a job, and puts it right. */
int mend_job(struct mend *f, const char *jid);

#endif
