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

/* What the reads take. */
struct task_read {
    int64_t id, limit;
    const int64_t *ids;
    size_t id_count;
    struct str group;
    bool owned;
};

/* The routes of tasks. Their handlers are in http.c. */
struct route_table task_routes(void *module);
route_fn task_get_groups, task_get_task, task_get_tasks, task_get_group;
route_fn task_post_update, task_post_claim;

extern const struct route_field TASK_UPDATE_FIELDS[], TASK_CLAIM_FIELDS[];

/*
 * After the fields of v were read: what takes more than one of them. NULL, or what is wrong with
 * the field "group".
 */
const char *body_finish(struct task_in *in, enum task_kind kind, const struct json *v);

/* {"id","group","data","timespec","ownerid"} */
void body_put_task(struct buf *b, const struct task *t);

/* {"tasks":[...]} */
void body_put_tasks(struct buf *b, const struct task *tasks, size_t count);

#endif
