/*
 * body - the bodies of POST /update and POST /claim read into a request, and answers written. Pure.
 *
 * What is wrong with a body is told with the place it is wrong at ("adds[2]: group is missing"). Members
 * that nobody knows are refused: a "delete" that was meant as "deletes" must not be lost in silence.
 */
#ifndef TASK_BODY_H
#define TASK_BODY_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "task/service.h"

/*
 * Both fill what the body says, with arrays in the arena and text borrowed from the JSON; v is NULL where
 * the body is none. 0, BAD_ARGUMENT or TOO_BIG.
 */
int body_update(const struct json *v, struct arena *a, struct task_request *r, struct err_info *e);
int body_claim(const struct json *v, struct arena *a, struct task_request *r, struct err_info *e);

/* {"id","group","data","timespec","ownerid"} */
void body_put_task(struct buf *b, const struct task *t);

/* {"tasks":[...]} or {"errors":[...]} */
void body_put_tasks(struct buf *b, const struct task *tasks, size_t count);
void body_put_errors(struct buf *b, const char *const *errors, size_t count);

/* Digits and nothing else. 0: no number. A number that no task can have is INT64_MAX. */
int64_t body_id(struct str text);

/* "12,7,9" in the arena. 0, BAD_ARGUMENT or TOO_BIG. */
int body_ids(struct str text, struct arena *a, int64_t **ret_ids, size_t *ret_count);

/* 0, 1, yes, no, true, false in any case. */
bool body_truth(struct str text, bool *ret_truth);

#endif
