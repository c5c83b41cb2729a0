/*
 * job_cache - jobs as this process last read or wrote them. On an ensemble each read is a round
 * trip.
 *
 * It holds jobs that sessions of this process have locked, so that moving a job does not read again
 * what acquiring it has read; and jobs that they unlocked with a move, so that acquiring one for
 * its next step does not read what was just written.
 *
 * An entry is a hint. A transaction built from one insists on the versions in it, and the operation
 * starts again from the tree if they have changed. An entry of a locked job is used only for the
 * session that holds the lock: while that session lives, so does its lock, unless somebody breaks
 * it, and breaking a lock also sets the status.
 *
 * Direct-mapped with a fixed size: a new entry evicts the old one in its slot. Safe from any
 * thread.
 */
#ifndef BATCH_JOB_CACHE_H
#define BATCH_JOB_CACHE_H

#include <stdbool.h>
#include <stdint.h>

struct batch_call;
struct batch_item;
struct batch_job_cache;

struct batch_job_cache *batch_job_cache_new(void);
void batch_job_cache_free(struct batch_job_cache *cache);

/* Stores a job; with a token, as locked by the session of the call. */
void batch_job_cache_put(struct batch_call *c, const struct batch_item *job);

/* ret_job is as from batch_item_read(), but without its message. */
bool batch_job_cache_get(struct batch_call *c, int64_t number, int64_t token,
                         struct batch_item *ret_job);

void batch_job_cache_drop(struct batch_call *c, int64_t number);

#endif
