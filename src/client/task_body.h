/*
 * task_body - updates, claims and their answers as the JSON of the task service.
 */
#ifndef CLIENT_TASK_BODY_H
#define CLIENT_TASK_BODY_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "drover.h"

/*
 * Append the body of a request. clientid and requestid are put in when the request has none. Text that
 * is not UTF-8 is BAD_ARGUMENT, because it would not come back as it is.
 */
int task_body_update(struct buf *b, const struct drover_update *u, int64_t clientid,
                     const char *requestid, struct err_info *ret_error);
int task_body_claim(struct buf *b, const struct drover_claim *c, int64_t clientid, int64_t wait_ms,
                    const char *requestid, struct err_info *ret_error);

/*
 * Reads an answer: {"tasks": [...]}, a bare list of tasks (null where there is none), one task, or
 * {"errors": [...]}. What else it may be is IO. The caller releases the result.
 */
int task_body_read(struct str json, struct drover_result *ret_result, struct err_info *ret_error);

/* Reads a list of names. */
int task_body_read_groups(struct str json, struct drover_groups *ret_groups,
                          struct err_info *ret_error);

#endif
