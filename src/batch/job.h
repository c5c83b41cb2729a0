/*
 * job - jobs: made in a batch, acquired by state in order of priority, moved from state to state.
 *
 * A move is one transaction: the status, the entry in the list of the old state, the entry in the list
 * of the new one (with the new priority), and, where the new state belongs to another list of the
 * batch, the entries there, and the batch itself when that was its last job (batch.h). It insists on
 * the version of the status that it read, and on the lock that the token names; it gives the lock back
 * unless it is kept or the new state keeps it.
 */
#ifndef BATCH_JOB_H
#define BATCH_JOB_H

#include "batch/status.h"
#include "batch/store.h"

enum { JOB_PRIORITY_DEFAULT = 50 };

struct batch_job {
    char id[BATCH_ID_LEN + 1], bid[BATCH_ID_LEN + 1];
    struct batch_status status;
    int32_t version; /* of the status node */
    int priority;
    int32_t priority_version;
    int64_t token; /* of the lock on it, 0: none */
    int32_t
        batch_version; /* of the status of its batch when that was last seen not to be held; -1: never */

    /* Only from batch_job_get(). JSON, or a number as text; p NULL: there is none. */
    struct str configuration, identifiers, metadata, inventory, space_needed;
};

/* What a new job is made of. JSON objects, or NULL where there is none; configuration is needed. */
struct batch_job_spec {
    const struct json *configuration, *identifiers, *metadata, *inventory;
    int64_t priority, space_needed;
};

/* All of them or none, in one transaction. ret_jids has room for count. */
int batch_job_create(struct batch_call *c, struct str bid, const struct batch_job_spec *specs,
                     size_t count, char (*ret_jids)[BATCH_ID_LEN + 1]);

/* What else must happen in the transaction that makes a job: a mark, and the end of another node. */
struct batch_job_extra {
    const char *mark;   /* created, with the JID as its data: EXISTS, and no job is made */
    const char *remove; /* deleted; NULL: nothing */
};

int batch_job_create_extra(struct batch_call *c, struct str bid, const struct batch_job_spec *spec,
                           const struct batch_job_extra *extra, char ret_jid[BATCH_ID_LEN + 1]);

/* Reads a spec, {"configuration", "priority", ...}, and says what is wrong with it. */
int batch_job_read_spec(struct batch_call *c, const struct json *v,
                        struct batch_job_spec *ret_spec);

int batch_job_get(struct batch_call *c, struct str jid, struct batch_job *ret_job);

/* Status, priority and batch only. */
int batch_job_brief(struct batch_call *c, struct str jid, struct batch_job *ret_job);

struct batch_job_filter {
    int state;               /* BATCH_NO_STATE: any */
    struct str bid, profile; /* p NULL: any */
    size_t start, limit;     /* of those that fit */
};

/* By state, and in it by priority. ret_jobs are as from batch_job_get(). */
int batch_job_list(struct batch_call *c, const struct batch_job_filter *f,
                   struct batch_job **ret_jobs, size_t *ret_count);

/*
 * Takes the first job of a state that nobody holds: a lock and a token. 1: ret_job, with its token.
 * 0: there is none, or the queue is locked.
 */
int batch_job_acquire(struct batch_call *c, int state, struct batch_job *ret_job);

struct batch_job_move {
    struct str state;   /* a name, "next" or "fail" */
    struct str message; /* p NULL: none */
    int64_t priority;   /* -1: as it is */
    int64_t token;      /* 0: nobody may hold a lock on it */
    bool keep;          /* the lock, for the next move */
};

int batch_job_move(struct batch_call *c, struct str jid, const struct batch_job_move *m,
                   int *ret_state);

/* Pending to Held, back, and Failed to a state (p NULL: the first) with retry_count one higher. */
int batch_job_hold(struct batch_call *c, struct str jid, struct str message);
int batch_job_release(struct batch_call *c, struct str jid);
int batch_job_requeue(struct batch_call *c, struct str jid, struct str state, struct str message);

/* All that are held, of a profile. ret_count: how many. */
int batch_job_release_profile(struct batch_call *c, struct str profile, int64_t *ret_count);

int batch_job_set_priority(struct batch_call *c, struct str jid, int64_t priority, int64_t token);

/* Replaces "space_needed", "identifiers", "metadata" or "inventory". token 0: whoever holds it. */
int batch_job_set_field(struct batch_call *c, struct str jid, const char *field, struct str text,
                        int64_t token);

/* Only at an end. */
int batch_job_delete(struct batch_call *c, struct str jid);

/* Adds to a change the end of a job that stands in that list of that batch. */
int batch_job_delete_ops(struct batch_call *c, struct batch_change *t, const char *jid,
                         const char *bid, enum batch_list list);

/*
 * The priority under which it stands in the list of a state, which may not be its priority any more;
 * -1: it does not stand there.
 */
int batch_job_locate(struct batch_call *c, const char *jid, int state, int expected,
                     int *ret_entry);

/*
 * Remembers a job as it is now: one that the session of the call holds, or that nobody does (token 0). And
 * gives it back, without its message. See claims.h.
 */
void batch_job_remember(struct batch_call *c, const struct batch_job *job);
bool batch_job_recall(struct batch_call *c, int64_t number, int64_t token,
                      struct batch_job *ret_job);

/* Whether a configuration is of a collection that is locked. names: of /locks/collections. */
bool batch_job_is_held(struct batch_call *c, struct str configuration,
                       const struct keeper_names *names);

#endif
