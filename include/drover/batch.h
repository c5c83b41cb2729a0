/*
 * batch - batches of jobs that move from state to state by priority.
 *
 *     #include <drover.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         struct drover_job_move move = {.state = "next", .priority = -1};
 *         char bid[DROVER_BATCH_ID_SIZE], jid[DROVER_BATCH_ID_SIZE];
 *         struct drover_keeper *keeper;
 *         struct drover_batches *batches;
 *         struct drover_job job;
 *         struct drover_error error;
 *
 *         if (drover_keeper_open("memory:", NULL, &keeper, &error) ||
 *             drover_batches_open(keeper, NULL, &batches, &error) ||
 *             drover_batch_create(batches, "{\"batchID\": \"u-1\"}", bid, &error) ||
 *             drover_job_create(batches, bid, "{\"configuration\": {}}", jid, &error))
 *             return fprintf(stderr, "%s\n", error.text), 1;
 *         while (drover_job_acquire(batches, "Pending", &job, &error) == 1) {
 *             move.token = job.token;
 *             if (drover_job_move(batches, job.id, &move, &error))
 *                 return fprintf(stderr, "%s\n", error.text), 1;
 *             printf("moved %s\n", job.id);
 *         }
 *         drover_batches_close(batches);
 *         drover_keeper_close(keeper);
 *         return 0;
 *     }
 *
 * The nodes are at the paths of the Merritt document (/batches, /jobs, ...), shared with servers
 * and other clients on the same keeper. Each change is one transaction. A lock belongs to the
 * keeper's session; once the lock is lost, its token is refused with FENCED. Submissions and jobs
 * are JSON. Text ends with NUL.
 */
#ifndef DROVER_BATCH_H
#define DROVER_BATCH_H

#include <drover/core.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct drover_batches;

enum { DROVER_BATCH_ID_SIZE = 14 }; /* "bid0000000000" or "jid0000000000", with the NUL */

/*
 * pipeline: state machines as JSON, or "storing" for the built-in ones with jobs that are Storing
 * between Processing and Recording; NULL: the built-in ones. The keeper must outlive it.
 */
int drover_batches_open(struct drover_keeper *k, const char *pipeline,
                        struct drover_batches **ret_batches, struct drover_error *ret_error);
void drover_batches_close(struct drover_batches *b);

int drover_batch_create(struct drover_batches *b, const char *submission,
                        char ret_bid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error);

/* Finds a batch by the batchID of its submission. NO_NODE: there is none. */
int drover_batch_find(struct drover_batches *b, const char *uuid,
                      char ret_bid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error);

/* Locks the oldest batch in "Pending", "Reporting" or "UpdateReporting". 1, or 0: there is none. */
int drover_batch_acquire(struct drover_batches *b, const char *state,
                         char ret_bid[DROVER_BATCH_ID_SIZE], int64_t *ret_token,
                         struct drover_error *ret_error);

/*
 * Changes its state; leaving Reporting commits the report. token 0: the batch must not be locked.
 */
int drover_batch_move(struct drover_batches *b, const char *bid, const char *state, int64_t token,
                      struct drover_error *ret_error);

/*
 * The name of its state, which lives as long as b. It can be one that the pipeline does not have:
 * another client has a larger one, and only such a client can move the batch.
 */
int drover_batch_state(struct drover_batches *b, const char *bid, const char **ret_state,
                       struct drover_error *ret_error);

/*
 * Removes batches that have been Completed or Deleted for this long, with their jobs. Returns how
 * many, or an error; those that were removed before it stay removed. Locked ones are left.
 */
int64_t drover_batch_purge(struct drover_batches *b, int64_t age_ms,
                           struct drover_error *ret_error);

/* A job without a "priority" has 5; 0 is first. */
int drover_job_create(struct drover_batches *b, const char *bid, const char *job,
                      char ret_jid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error);

struct drover_job {
    char id[DROVER_BATCH_ID_SIZE], batch[DROVER_BATCH_ID_SIZE];
    int priority;
    int64_t token;
};

/* Locks the first job in a state, by priority. 1, or 0: there is none. */
int drover_job_acquire(struct drover_batches *b, const char *state, struct drover_job *ret_job,
                       struct drover_error *ret_error);

struct drover_job_move {
    const char *state;   /* a state, "next" or "fail" */
    const char *message; /* NULL: as it is */
    int priority;        /* new priority; -1: unchanged */
    int64_t token;       /* 0: the job must not be locked */
    int keep;            /* keep the lock */
};

/* NOT_ALLOWED: the state machine has no such transition; ret_error lists the allowed states. */
int drover_job_move(struct drover_batches *b, const char *jid, const struct drover_job_move *m,
                    struct drover_error *ret_error);

int drover_job_state(struct drover_batches *b, const char *jid, const char **ret_state,
                     struct drover_error *ret_error);

/* How many jobs are in a state, also one that the pipeline does not have; NULL: in any. */
int64_t drover_job_count(struct drover_batches *b, const char *state,
                         struct drover_error *ret_error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
