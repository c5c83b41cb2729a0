/*
 * batch - batches: made from a submission, filled with jobs, reported once.
 *
 * Completion. Every change of who stands in batch-processing sets that node (to nothing, as it is) at
 * the version that was read with its count of children. So of two last jobs that end at the same time
 * one starts anew and sees that it is the last, and the transaction that takes the last job out also
 * moves the batch: Processing (or Pending, when nobody has it in hand) to Reporting, Failed to
 * UpdateReporting. That status is the durable mark that a report is due; /drover/batch/reporting and
 * updatereporting list them. Whoever reports acquires the batch, tells the depositor, and moves it on
 * with its token: that transaction commits the report, with status-report in it. A reporter who dies
 * loses the lock, and another acquires the batch; one who merely seemed dead is fenced.
 *
 * The number of a report is the czxid of its entry in that list: it stays the same however often the
 * telling is tried again, and no two reports share it.
 */
#ifndef BATCH_BATCH_H
#define BATCH_BATCH_H

#include "batch/status.h"
#include "batch/store.h"

struct batch {
    char id[BATCH_ID_LEN + 1];
    struct batch_status status;
    int32_t version;                  /* of the status node */
    struct str submission, report;    /* JSON; p NULL: there is none */
    int64_t counts[BATCH_LIST_COUNT]; /* of jobs, by list */
    int64_t token;                    /* of the lock on it, 0: none */
};

/* submission is JSON, an object; its batchID, where it has one, can be found by batch_find(). */
int batch_create(struct batch_call *c, const struct json *submission,
                 char ret_bid[BATCH_ID_LEN + 1]);

int batch_find(struct batch_call *c, struct str uuid, char ret_bid[BATCH_ID_LEN + 1]);
int batch_get(struct batch_call *c, struct str bid, struct batch *ret_batch);

/* In order of their ids; state BATCH_NO_STATE: all. at most limit from number `after` + 1 on. */
int batch_list(struct batch_call *c, int state, int64_t after, size_t limit,
               struct batch **ret_batches, size_t *ret_count);

/*
 * Takes the oldest batch in a state that waits for somebody: Pending, Reporting or UpdateReporting.
 * 1: ret_bid and ret_token. 0: there is none.
 */
int batch_acquire(struct batch_call *c, int state, char ret_bid[BATCH_ID_LEN + 1],
                  int64_t *ret_token);

struct batch_move {
    struct str state;   /* a name, "next" or "fail" */
    struct str message; /* p NULL: none */
    int64_t token;      /* 0: nobody may hold a lock on it */
    bool keep;          /* the lock, for the next move */
    struct str failed;  /* JSON: the failed jobs that were reported; p NULL: those that are now */
};

/*
 * Moves it on. From Reporting and UpdateReporting "next" is Completed when all jobs are, else Failed,
 * and status-report is written in the same transaction. ret_state is what it became, which is
 * Reporting for one that was to be Processing and whose jobs have all ended already; and
 * UpdateReporting for one whose jobs changed while it was being reported and have ended again.
 */
int batch_move(struct batch_call *c, struct str bid, const struct batch_move *m, int *ret_state);

/* Only at an end. Its jobs are deleted too, unless one of them is locked. */
int batch_delete(struct batch_call *c, struct str bid);

/* The number of the report that is due, as above. */
int batch_report_number(struct batch_call *c, struct str bid, int state, int64_t *ret_number);

/* For jobs: the id checked, and where it is not one, NO_NODE. */
int batch_check_id(struct batch_call *c, struct str bid, char ret_bid[BATCH_ID_LEN + 1]);

int batch_read_status(struct batch_call *c, const char *bid, struct batch_status *ret_status,
                      int32_t *ret_version);

/*
 * Adds to a change that `leaving` jobs leave batch-processing and `coming` ones come, as described
 * above. ret_state is the state that the batch gets by this, or BATCH_NO_STATE.
 */
int batch_count_change(struct batch_call *c, struct batch_change *t, const char *bid, int leaving,
                       int coming, int *ret_state);

/* Sets a status in a change: the node, and the list of those in that state. */
int batch_set_state(struct batch_call *c, struct batch_change *t, const char *bid,
                    const struct batch_status *old, int32_t version, int state, struct str message);

/*
 * Moves on a batch that is Processing, or Pending and in nobody's hand, and whose jobs have all ended. 1: it
 * was one.
 */
int batch_settle(struct batch_call *c, const char *bid);

#endif
