/*
 * show - batches, jobs, locks and access items as JSON for people and programs.
 *
 * What a node holds stands there as it is when it is JSON, else as text: foreign clients write what
 * they like.
 */
#ifndef BATCH_SHOW_H
#define BATCH_SHOW_H

#include "batch/access.h"
#include "batch/batch.h"
#include "batch/job.h"
#include "batch/lock.h"

void show_batch(struct buf *b, struct call *c, const struct batch *batch);
void show_job(struct buf *b, struct call *c, const struct job *job);
void show_access(struct buf *b, struct call *c, const struct access *access);
void show_lock(struct buf *b, const struct lock *lock);

#endif
