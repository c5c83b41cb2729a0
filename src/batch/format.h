/*
 * show - batches, jobs, locks and access items as JSON for people and programs.
 *
 * What a node holds stands there as it is when it is JSON, else as text: foreign clients write what
 * they like.
 */
#ifndef BATCH_FORMAT_H
#define BATCH_FORMAT_H

#include "batch/access.h"
#include "batch/batch.h"
#include "batch/job.h"
#include "batch/lock.h"

void batch_format(struct buf *b, struct batch_call *c, const struct batch *batch);
void batch_format_job(struct buf *b, struct batch_call *c, const struct batch_job *job);
void batch_format_access(struct buf *b, struct batch_call *c, const struct batch_access *access);
void batch_format_lock(struct buf *b, const struct batch_lock *lock);

#endif
