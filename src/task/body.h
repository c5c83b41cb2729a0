/*
 * body - the bodies of POST /update and POST /claim as fields, and answers written. Pure.
 */
#ifndef TASK_BODY_H
#define TASK_BODY_H

#include "http/route.h"
#include "task/service.h"

/* An add as it is read. */
struct task_add_in {
    struct str group, data, data64, key, share;
    int64_t timespec, priority, expires;
    int on_key;
};

/* An update, a fail, a finish. */
struct task_change_in {
    int64_t id, timespec;
    struct str data, data64;
};

struct task_fail_in {
    int64_t id, retry_ms, attempts;
    struct str error;
    bool dead;
};

struct task_finish_in {
    int64_t id;
    struct str result;
};

/* What both bodies are read into. */
struct task_in {
    struct task_request request;
    struct str group; /* claim: in place of groups */
    const struct task_add_in *adds;
    const struct task_change_in *updates;
    const struct task_fail_in *fails;
    const struct task_finish_in *finishes;
    const int64_t *releases;
    size_t add_count, update_count, fail_count, finish_count, release_count;
};

extern const struct route_field TASK_UPDATE_FIELDS[], TASK_CLAIM_FIELDS[];

/*
 * After the fields were read: fills in->request and checks several fields at once. NULL, or what is
 * wrong; *ret_field then names it.
 */
const char *body_finish(struct task_in *in, enum task_kind kind, const struct json *v,
                        struct arena *a, const char **ret_field);

/* {"id","group","data","timespec","ownerid"}, and what the task carries beyond these. */
void body_put_task(struct buf *b, const struct task *t);

/* The same with state and first. */
void body_put_state(struct buf *b, const struct task *t, int64_t now_ms);

/* {"tasks":[...]} */
void body_put_tasks(struct buf *b, const struct task *tasks, size_t count);

/* The shape of a task in the documentation. */
#define BODY_TASK_SHAPE                                                                            \
    "(id:int group:text data?:text timespec:int ownerid:int data64?:text first?:int "              \
    "priority?:int key?:text share?:text attempts?:int claims?:int created?:int expires?:int "     \
    "error?:text origin?:text ended?:int result?:text "                                            \
    "state?:=available|delayed|retrying|claimed|dead|done)"

#endif
