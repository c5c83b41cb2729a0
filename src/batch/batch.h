/*
 * batch - what only batches have: a submission, completion, and reports. The rest is in item.h.
 *
 * Completion. Every transaction that changes the members of batch-processing also sets that node
 * (to the same empty data) at the version that was read with its number of children. If two last
 * jobs end at the same time, one of them therefore fails, retries and sees that it is the last. The
 * transaction that removes the last job also moves the batch: Processing (or Pending, if nobody has
 * locked it) to Reporting, Failed to UpdateReporting. That status is the durable mark that a report
 * is due; /drover/batch/reporting and updatereporting list those batches. A reporter acquires the
 * batch, sends the report to the depositor, and moves the batch with its token: that transaction
 * commits the report and writes status-report. If a reporter dies, its lock ends and another
 * reporter acquires the batch; if it only seemed dead, its move is fenced.
 *
 * The number of a report is the czxid of the batch's entry in that list. It is the same for every
 * attempt to send the report, and no two reports share it.
 *
 * Moves. From Reporting and UpdateReporting, "next" is Completed if all jobs are, else Failed, and
 * status-report is written in the same transaction. The new state can differ from the one asked
 * for: a batch that is to be Processing and whose jobs have all ended becomes Reporting; one whose
 * jobs changed during its report and have ended again becomes UpdateReporting.
 */
#ifndef BATCH_BATCH_H
#define BATCH_BATCH_H

#include "batch/item.h"

/* submission is a JSON object; a batch with a batchID can be found by batch_find(). */
int batch_create(struct batch_call *c, const struct json *submission,
                 char ret_bid[BATCH_ID_LEN + 1]);

int batch_find(struct batch_call *c, struct str uuid, char ret_bid[BATCH_ID_LEN + 1]);

/* The number of the report that is due. */
int batch_report_number(struct batch_call *c, struct str bid, int state, int64_t *ret_number);

/*
 * Adds to a transaction that `leaving` jobs leave batch-processing and `coming` ones enter it, as
 * described above. ret_state is the state that the batch gets by this, or BATCH_NO_STATE.
 */
int batch_count_change(struct batch_call *c, struct batch_txn *t, const char *bid, int leaving,
                       int coming, int *ret_state);

/*
 * Moves a batch to Reporting if all its jobs have ended and it is Processing, or Pending and not
 * locked. Returns 1 if it did.
 */
int batch_settle(struct batch_call *c, const char *bid);

/* Names as a JSON list. */
struct str batch_json_ids(struct batch_call *c, const struct keeper_names *ids);

/* Adds the deletion of /batch-uuids/UUID, if it names this batch. */
int batch_add_uuid_deletion(struct batch_call *c, struct batch_txn *t, const struct batch_item *b);

#endif
