/*
 * status - the JSON of a status node: of a batch, a job or an access item. Pure.
 *
 *     a job:   {"status", "last_successful_status", "last_modification_date", "retry_count", "message"}
 *     others:  {"status", "last_modified", "message"}
 *
 * What a foreign client wrote beside these is kept. What it wrote is input: a status that is no
 * object, or of no state of the machine, is DAMAGED.
 */
#ifndef BATCH_STATUS_H
#define BATCH_STATUS_H

#include "base/json.h"
#include "batch/machine.h"

struct batch_status {
    int state;
    int last_successful;          /* or BATCH_NO_STATE; a job's */
    int64_t retry_count;          /* a job's */
    struct str modified, message; /* message: p NULL: none */
    const struct json *json;      /* all of it as it was read; NULL: it is new */
    bool is_job;
};

/* text and the arena must outlive ret_status. */
int batch_status_read(const struct batch_machine *m, bool is_job, struct arena *a, struct str text,
                      struct batch_status *ret_status, struct err_info *ret_error);

/* Whether there is nothing in it but what is described above. */
bool batch_status_is_plain(const struct batch_status *s);

/* As JSON, in the arena. */
struct str batch_status_write(const struct batch_machine *m, const struct batch_status *s,
                              struct arena *a);

#endif
