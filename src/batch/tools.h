/* tools - what admins do with the whole tree: repair it, purge it, import legacy records. */
#ifndef BATCH_TOOLS_H
#define BATCH_TOOLS_H

#include "batch/item.h"

/*
 * Repair: finds and repairs what a client that works in steps, without transactions, left half
 * done. drover-batch(1) has the table of what is found, and of the state before and after.
 *
 * The status of a job is taken as true, because the specification changes it first. An item that is
 * locked is in use: what is wrong there is reported and not repaired. Each repair is one
 * transaction that insists on the version of the status it was decided by, or, if there is none, on
 * what the item consists of. What only a person can decide (a status that is not valid, names that
 * are not ids) is reported and not repaired.
 *
 * An item without a status is one whose creation or whose deletion stopped in the middle: the
 * status is the last node that is created, and nodes are deleted in any order. Which of the two it
 * was is told by what must have come before (repair_item.c). While it is younger than age_ms, a
 * client may still be creating it, and it is not reported.
 */

/* id: of the job or batch, or the path of the node. problem: a sentence. */
typedef void batch_finding_fn(void *arg, const char *id, const char *problem, bool repaired);

struct batch_repair_totals {
    int64_t jobs, batches, findings, repaired;
};

enum { BATCH_REPAIR_AGE_MS = 60 * 1000, BATCH_REPAIR_WAIT_MS = 300 }; /* by default */

struct batch_repair_options {
    bool repair;
    int64_t age_ms;       /* of what is unfinished: younger, and somebody may be at work on it */
    int wait_ms;          /* how long a client may take between two steps of a move */
    batch_finding_fn *fn; /* called for each finding */
    void *arg;
};

/* Returns 0 or an error of the keeper. */
int batch_repair_run(struct batch_call *c, const struct batch_repair_options *o,
                     struct batch_repair_totals *ret_totals);

/*
 * Purge: removes batches with their jobs, jobs, or access items that have been in a final state for
 * some time. Jobs stay while the report of their batch is due or the batch is open. Items that are
 * locked stay. Safe to repeat, and to stop at any point.
 */
struct batch_purge {
    int state;               /* a final one; BATCH_NO_STATE: all of them */
    int64_t before_ms;       /* only what changed last at this time or before */
    int64_t limit;           /* how many items */
    bool (*stop)(void *arg); /* asked before each item; may be NULL */
    void *arg;
};

struct batch_purged {
    int64_t removed, jobs; /* jobs: that were removed with their batches */
    int64_t locked;        /* stayed because they are locked */
    bool more;             /* the limit was reached */
};

int batch_purge(struct batch_call *c, enum batch_kind_id kind, const struct batch_purge *o,
                struct batch_purged *ret_purged);

/*
 * Legacy: records of Merritt's older queues: read, listed, imported as jobs.
 *
 * A record is a node whose name is "mrtQ-", the priority in digits, and a number of ten digits:
 * /ingest/mrtQ-02100000000003 has the priority 0210 and the number 3. Its data is
 *
 *     1 byte     status: 0 pending, 1 consumed, 2 deleted, 3 failed, 4 completed, 5 held
 *     8 bytes    time, big-endian: seconds since 1970, or milliseconds if too large for seconds
 *     the rest   payload: Java properties, JSON or XML
 *
 * The first two digits of the priority become the priority of the job, which keeps the order of the
 * records; the payload becomes its configuration, with its profile also as profile_name. The
 * transaction that creates the job also creates a mark below /drover/legacy, so that a record is
 * imported once however often an import runs.
 */

enum batch_legacy_payload { LEGACY_PROPERTIES, LEGACY_JSON, LEGACY_XML };
extern const char *const BATCH_LEGACY_PAYLOADS[]; /* "properties", ... */

struct batch_legacy {
    struct str name; /* of the node */
    int64_t number, time_ms;
    int priority; /* of the job: 0 to 99 */
    int status;
    enum batch_legacy_payload kind;
    struct str payload;
};

/* Pure. BAD_ARGUMENT: the name is not that of a record. DAMAGED: the data is not valid. */
int batch_legacy_read(struct str name, struct str data, struct batch_legacy *ret_record);

/* "pending", ...; an unknown status is "status 9", in the arena. */
const char *batch_legacy_status(struct arena *a, int status);

/* The payload as a JSON object, in the arena. */
struct str batch_legacy_configuration(struct arena *a, const struct batch_legacy *r);

typedef int batch_legacy_fn(void *arg, const struct batch_legacy *r, struct str imported, int err);

/*
 * Calls fn for each node below path, until it fails. err: of batch_legacy_read(). imported: the
 * JID; p NULL: not imported.
 */
int batch_legacy_list(struct batch_call *c, struct str path, batch_legacy_fn *fn, void *arg);

struct batch_legacy_import {
    struct str path, batch; /* batch p NULL: a new one */
    bool all;               /* also records that are not pending */
    bool remove;            /* delete the records */
};

/* Calls fn with each JID. */
int batch_legacy_import(struct batch_call *c, const struct batch_legacy_import *i,
                        void (*fn)(void *arg, const char *jid), void *arg);

#endif
