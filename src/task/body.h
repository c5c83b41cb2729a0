/*
 * body - the bodies of POST /update and POST /claim as fields, and answers written. Pure.
 */
#ifndef TASK_BODY_H
#define TASK_BODY_H

#include "http/route.h"
#include "task/service.h"

/* What both bodies are read into. */
struct task_in {
    struct task_request request;
    struct str group; /* claim: in place of groups */
};

extern const struct route_field TASK_UPDATE_FIELDS[], TASK_CLAIM_FIELDS[];

/* After the fields were read: checks several at once. NULL, or what is wrong with "group". */
const char *body_finish(struct task_in *in, enum task_kind kind, const struct json *v);

/* {"id","group","data","timespec","ownerid"} */
void body_put_task(struct buf *b, const struct task *t);

/* {"tasks":[...]} */
void body_put_tasks(struct buf *b, const struct task *tasks, size_t count);

#endif
