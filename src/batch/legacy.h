/*
 * legacy - records of Merritt's older queues: read, listed, imported as jobs.
 *
 * A record is a node whose name is "mrtQ-", the priority in digits, and a number of ten digits:
 * /ingest/mrtQ-02100000000003 has the priority 0210 and the number 3. Its data is
 *
 *     1 byte     status: 0 pending, 1 consumed, 2 deleted, 3 failed, 4 completed, 5 held
 *     8 bytes    time, big-endian: seconds since 1970, or milliseconds if too large for seconds
 *     the rest   payload: Java properties, JSON or XML
 *
 * The first two digits of the priority become the priority of the job, which keeps the order of the
 * records; the payload becomes its configuration. The transaction that creates the job also creates
 * a mark below /drover/legacy, so that a record is imported once however often an import runs.
 */
#ifndef BATCH_LEGACY_H
#define BATCH_LEGACY_H

#include "batch/store.h"

enum batch_legacy_payload { LEGACY_PROPERTIES, LEGACY_JSON, LEGACY_XML };

struct batch_legacy {
    struct str name;     /* of the node */
    struct str priority; /* its digits */
    int64_t number;
    int status;
    int64_t time_ms;
    enum batch_legacy_payload kind;
    struct str payload;
};

/* Pure. BAD_ARGUMENT: the name is not that of a record. DAMAGED: the data is not valid. */
int batch_legacy_read(struct str name, struct str data, struct batch_legacy *ret_record);

/* "pending", ...; an unknown status is "status 9", in the arena. */
const char *batch_legacy_status(struct arena *a, int status);
const char *batch_legacy_payload(enum batch_legacy_payload kind);

/* 0 to 99. */
int batch_legacy_priority(const struct batch_legacy *r);

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
