/*
 * job - what only jobs have: a specification, a batch, a priority, fields, and being held or
 * requeued. The rest is in item.h.
 */
#ifndef BATCH_JOB_H
#define BATCH_JOB_H

#include "batch/item.h"

enum { BATCH_PRIORITY_DEFAULT = 50 };

/* A new job. JSON objects, or NULL; the configuration is required. */
struct batch_job_spec {
    const struct json *configuration, *identifiers, *metadata, *inventory;
    int64_t priority, space_needed;
};

/* Reads {"configuration", "priority", ...}. */
int batch_job_read_spec(struct batch_call *c, const struct json *v,
                        struct batch_job_spec *ret_spec);

/* What else happens in the transaction that creates a job. */
struct batch_job_extra {
    const char *mark;   /* created with the JID as its data; if it exists, EXISTS and no job */
    const char *remove; /* a node to delete; NULL: none */
};

/* Creates all of them or none, in one transaction. extra may be NULL. */
int batch_job_create(struct batch_call *c, struct str bid, const struct batch_job_spec *specs,
                     size_t count, const struct batch_job_extra *extra,
                     char (*ret_jids)[BATCH_ID_LEN + 1]);

/* Pending to Held, and back. */
int batch_job_hold(struct batch_call *c, struct str jid, struct str message);
int batch_job_release(struct batch_call *c, struct str jid);

/* Failed to a state (p NULL: the first one); retry_count goes up by one. */
int batch_job_requeue(struct batch_call *c, struct str jid, struct str state, struct str message);

/* Releases all held jobs of a profile. ret_count: how many. */
int batch_job_release_profile(struct batch_call *c, struct str profile, int64_t *ret_count);

int batch_job_set_priority(struct batch_call *c, struct str jid, int64_t priority, int64_t token);

/* Replaces "space_needed", "identifiers", "metadata" or "inventory". token 0: locked or not. */
int batch_job_set_field(struct batch_call *c, struct str jid, const char *field, struct str text,
                        int64_t token);

/*
 * The cache of jobs, as this process last read or wrote them. On an ensemble each read is a round
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
struct batch_job_cache *batch_job_cache_new(void);
void batch_job_cache_free(struct batch_job_cache *cache);

/* Stores a job; with a token, as locked by the session of the call. */
void batch_job_cache_put(struct batch_call *c, const struct batch_item *job);

/* ret_job is as from batch_item_read(), but without its message. */
bool batch_job_cache_get(struct batch_call *c, int64_t number, int64_t token,
                         struct batch_item *ret_job);

void batch_job_cache_drop(struct batch_call *c, int64_t number);

/*
 * The priority of the job's entry in the list of its state, which may differ from the job's
 * priority; -1: it is not in that list.
 */
int batch_job_locate(struct batch_call *c, const struct batch_item *job, int *ret_entry);

/* The same, but DAMAGED if it is not in the list. */
int batch_job_require_entry(struct batch_call *c, const struct batch_item *job, int *ret_entry);

#endif
