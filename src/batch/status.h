/*
 * status - the JSON of the status node of a batch, a job or an access item. Pure.
 *
 *     job:     {"status", "last_successful_status", "last_modification_date", "retry_count",
 *               "message"}
 *     others:  {"status", "last_modified", "message"}
 *
 * Members that a foreign client added are kept. The text is input: a status that is not an object,
 * or that names no state of the machine, is DAMAGED.
 */
#ifndef BATCH_STATUS_H
#define BATCH_STATUS_H

#include "base/json.h"
#include "batch/machine.h"

struct batch_status {
    int state;
    int last_successful;          /* job: or BATCH_NO_STATE */
    int64_t retry_count;          /* job */
    struct str modified, message; /* message.p NULL: none */
    const struct json *json;      /* the status as it was read; NULL: it is new */
};

/* text and the arena must outlive ret_status. */
int batch_status_read(const struct batch_machine *m, struct arena *a, struct str text,
                      struct batch_status *ret_status, struct err_info *ret_error);

/* Whether it has no members besides those above. */
bool batch_status_is_plain(const struct batch_status *s);

/* As JSON, in the arena. */
struct str batch_status_write(const struct batch_machine *m, const struct batch_status *s,
                              struct arena *a);

/* What was written into b, copied to the arena; releases b. */
struct str batch_text(struct arena *a, struct buf *b);

#endif
