/*
 * task - a task, what it may carry beyond the five fields of the document, and its states.
 *
 * A plain task has the five fields and nothing else: in a request, in memory and in the keeper's
 * tree. A task that carries more has a struct task_extra, of which each member is zero or empty
 * where it has its default. In the tree that is the task's tail (tail.h).
 */
#ifndef TASK_TASK_H
#define TASK_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum {
    TASK_GROUP_LEN_MAX = 1024,
    TASK_KEY_LEN_MAX = 512,
    TASK_SHARE_LEN_MAX = 255,
    TASK_ERROR_LEN_MAX = 4096, /* a longer one is cut */
    TASK_RESULT_LEN_MAX = 256 * 1024,
    TASK_PRIORITY_MAX = 1000000, /* and the same below 0 */
};

enum task_state {
    TASK_AVAILABLE,
    TASK_DELAYED,  /* its time has not come yet */
    TASK_RETRYING, /* it failed, and waits for its next attempt */
    TASK_CLAIMED,
    TASK_DEAD, /* it is not tried again */
    TASK_DONE, /* it was finished, and its result is kept */
    TASK_STATES,
};

/* "available" */
const char *task_state_name(enum task_state state);

struct task_extra {
    int32_t priority;            /* smaller goes first */
    uint32_t attempts;           /* how often it failed */
    uint32_t claims, unanswered; /* how often it was claimed: ever, and since the last answer */
    int64_t created, expires;    /* 0: not known, never */
    int64_t ended;               /* when it died or was finished */
    struct str key, share;       /* unique in its group; the tenant */
    struct str error;            /* what the last failure said */
    struct str origin;           /* of a dead task: the group where it died */
    struct str result;           /* of a task that is done */
    bool binary;                 /* the data need not be UTF-8 */
};

struct task {
    int64_t id;
    struct str group, data;
    int64_t timespec; /* ms since the epoch: when it becomes available */
    int64_t ownerid;
    int64_t first; /* the first id it had, which names its slot */
    bool managed : 1;
    bool claimed : 1;  /* by a claim, and not just added with a time to come */
    bool retrying : 1; /* failed at least once since it was added or retried */
    bool dead : 1;
    bool done : 1;
    unsigned on_key : 2;            /* of an add: enum task_on_key */
    const struct task_extra *extra; /* NULL: a plain task */
};

/* What an add does if another task has its key. */
enum task_on_key { ON_KEY_REFUSE, ON_KEY_KEEP, ON_KEY_REPLACE };

/* By the flags and the time. */
static inline enum task_state task_state(const struct task *t, int64_t now_ms)
{
    if (t->done)
        return TASK_DONE;
    if (t->timespec > now_ms)
        return t->claimed ? TASK_CLAIMED : t->retrying ? TASK_RETRYING : TASK_DELAYED;
    return t->dead ? TASK_DEAD : TASK_AVAILABLE;
}

#endif
