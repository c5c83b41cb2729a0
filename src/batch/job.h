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

#include "batch/depot.h"
#include "batch/status.h"

enum { JOB_PRIORITY_DEFAULT = 50 };

struct job {
    char id[NAME_ID_LEN + 1], bid[NAME_ID_LEN + 1];
    struct status status;
    int32_t version; /* of the status node */
    int priority;
    int32_t priority_version;
    int64_t token; /* of the lock on it, 0: none */
    int32_t
        batch_version; /* of the status of its batch when that was last seen not to be held; -1: never */

    /* Only from job_get(). JSON, or a number as text; p NULL: there is none. */
    struct str configuration, identifiers, metadata, inventory, space_needed;
};

/* What a new job is made of. JSON objects, or NULL where there is none; configuration is needed. */
struct job_spec {
    const struct json *configuration, *identifiers, *metadata, *inventory;
    int64_t priority, space_needed;
};

/* All of them or none, in one transaction. ret_jids has room for count. */
int job_create(struct call *c, struct str bid, const struct job_spec *specs, size_t count,
               char (*ret_jids)[NAME_ID_LEN + 1]);

/* What else must happen in the transaction that makes a job: a mark, and the end of another node. */
struct job_extra {
    const char *mark;   /* created, with the JID as its data: EXISTS, and no job is made */
    const char *remove; /* deleted; NULL: nothing */
};

int job_create_extra(struct call *c, struct str bid, const struct job_spec *spec,
                     const struct job_extra *extra, char ret_jid[NAME_ID_LEN + 1]);

/* Reads a spec, {"configuration", "priority", ...}, and says what is wrong with it. */
int job_read_spec(struct call *c, const struct json *v, struct job_spec *ret_spec);

int job_get(struct call *c, struct str jid, struct job *ret_job);

/* Status, priority and batch only. */
int job_brief(struct call *c, struct str jid, struct job *ret_job);

struct job_filter {
    int state;               /* MACHINE_NONE: any */
    struct str bid, profile; /* p NULL: any */
    size_t start, limit;     /* of those that fit */
};

/* By state, and in it by priority. ret_jobs are as from job_get(). */
int job_list(struct call *c, const struct job_filter *f, struct job **ret_jobs, size_t *ret_count);

/*
 * Takes the first job of a state that nobody holds: a lock and a token. 1: ret_job, with its token.
 * 0: there is none, or the queue is locked.
 */
int job_acquire(struct call *c, int state, struct job *ret_job);

struct job_move {
    struct str state;   /* a name, "next" or "fail" */
    struct str message; /* p NULL: none */
    int64_t priority;   /* -1: as it is */
    int64_t token;      /* 0: nobody may hold a lock on it */
    bool keep;          /* the lock, for the next move */
};

int job_move(struct call *c, struct str jid, const struct job_move *m, int *ret_state);

/* Pending to Held, back, and Failed to a state (p NULL: the first) with retry_count one higher. */
int job_hold(struct call *c, struct str jid, struct str message);
int job_release(struct call *c, struct str jid);
int job_requeue(struct call *c, struct str jid, struct str state, struct str message);

/* All that are held, of a profile. ret_count: how many. */
int job_release_profile(struct call *c, struct str profile, int64_t *ret_count);

int job_set_priority(struct call *c, struct str jid, int64_t priority, int64_t token);

/* Replaces "space_needed", "identifiers", "metadata" or "inventory". token 0: whoever holds it. */
int job_set_field(struct call *c, struct str jid, const char *field, struct str text,
                  int64_t token);

/* Only at an end. */
int job_delete(struct call *c, struct str jid);

/* Adds to a change the end of a job that stands in that list of that batch. */
int job_delete_ops(struct call *c, struct change *t, const char *jid, const char *bid,
                   enum machine_list list);

/*
 * The priority under which it stands in the list of a state, which may not be its priority any more;
 * -1: it does not stand there.
 */
int job_locate(struct call *c, const char *jid, int state, int expected, int *ret_entry);

/*
 * Remembers a job as it is now: one that the session of the call holds, or that nobody does (token 0). And
 * gives it back, without its message. See claims.h.
 */
void job_remember(struct call *c, const struct job *job);
bool job_recall(struct call *c, int64_t number, int64_t token, struct job *ret_job);

/* Whether a configuration is of a collection that is locked. names: of /locks/collections. */
bool job_is_held(struct call *c, struct str configuration, const struct keeper_names *names);

#endif
