/*
 * legacy - records of the queues that Merritt had before: read, listed, imported as jobs.
 *
 * A record is a node whose name is "mrtQ-", the priority in digits, and a number of ten digits:
 * /ingest/mrtQ-02100000000003 has the priority 0210 and the number 3. Its data is
 *
 *     1 byte     status: 0 pending, 1 consumed, 2 deleted, 3 failed, 4 completed, 5 held
 *     8 bytes    time, big-endian: seconds since 1970, or milliseconds when too large for seconds
 *     the rest   payload: Java properties, JSON or XML
 *
 * Imported, the first two digits of the priority are that of the job, which keeps their order; what the
 * payload says becomes its configuration. That a record was imported is kept at /drover/legacy, made in
 * the same transaction as the job, so that it is imported once however often that is tried.
 */
#ifndef BATCH_LEGACY_H
#define BATCH_LEGACY_H

#include "batch/store.h"

enum batch_legacy_payload { LEGACY_PROPERTIES, LEGACY_JSON, LEGACY_XML, LEGACY_BYTES };

struct batch_legacy {
    struct str name;     /* of the node */
    struct str priority; /* its digits */
    int64_t number;
    int status;
    int64_t time_ms;
    enum batch_legacy_payload kind;
    struct str payload;
};

/* Pure. BAD_ARGUMENT: the name is none of a record. DAMAGED: the data is too short for one. */
int batch_legacy_read(struct str name, struct str data, struct batch_legacy *ret_record);

/* "pending", ...; "status 9" lives in the arena. */
const char *batch_legacy_status(struct arena *a, int status);
const char *batch_legacy_payload(enum batch_legacy_payload kind);

/* 0 to 99. */
int batch_legacy_priority(const struct batch_legacy *r);

/* The payload as a JSON object, in the arena. */
struct str batch_legacy_configuration(struct arena *a, const struct batch_legacy *r);

typedef void batch_legacy_fn(void *arg, const struct batch_legacy *r, struct str imported, int err);

/* Calls fn for each node below path; err: what batch_legacy_read() said. imported: the JID, p NULL: not. */
int batch_legacy_list(struct batch_call *c, struct str path, batch_legacy_fn *fn, void *arg);

struct batch_legacy_import {
    struct str path, batch; /* batch p NULL: a new one */
    bool all;               /* not only those that are pending */
    bool remove;            /* the records */
};

/* fn is called for each JID. */
int batch_legacy_import(struct batch_call *c, const struct batch_legacy_import *i,
                        void (*fn)(void *arg, const char *jid), void *arg);

#endif
