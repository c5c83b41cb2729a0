/*
 * group - groups of tasks: how many they have, and their settings.
 *
 * Settings belong to a pattern: the name of a group, or a prefix followed by "*". A group has those
 * of its own name, else those of the longest prefix that it begins with, else the defaults, with
 * which the task store does what it did before there were settings. Times are milliseconds.
 *
 *     struct drover_settings s = {
 *         .set = DROVER_SET_LIMIT | DROVER_SET_RATE, .limit = 5, .rate = 10, .rate_ms = 1000};
 *
 * The calls are in drover/task.h and drover/client.h: drover_client_set_group(c, "mail*", &s, &e).
 */
#ifndef DROVER_GROUP_H
#define DROVER_GROUP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct drover_task;

/* Which settings a change has; the others stay as they are. */
enum drover_setting {
    DROVER_SET_FIFO = 1 << 0,
    DROVER_SET_FAIR = 1 << 1,
    DROVER_SET_PAUSED = 1 << 2,
    DROVER_SET_EXPIRED_DIE = 1 << 3,
    DROVER_SET_ATTEMPTS = 1 << 4,
    DROVER_SET_CLAIMS = 1 << 5,
    DROVER_SET_BACKOFF = 1 << 6, /* all four */
    DROVER_SET_LIMIT = 1 << 7,
    DROVER_SET_LIMIT_PER_SHARE = 1 << 8,
    DROVER_SET_RATE = 1 << 9, /* all three */
    DROVER_SET_KEEP_DONE = 1 << 10,
    DROVER_SET_KEEP_DEAD = 1 << 11,
    DROVER_SET_REMEMBER_KEYS = 1 << 12,
    DROVER_SET_MAX_TASKS = 1 << 13,
    DROVER_SET_DEAD = 1 << 14,
};

struct drover_settings {
    unsigned set; /* of a change: enum drover_setting */

    int fifo;        /* the task that became available first is given out first; else any */
    int fair;        /* claims go round the shares that have tasks */
    int paused;      /* nothing is given out */
    int expired_die; /* an expired task is dead; else it is removed */

    int64_t attempts; /* after so many failures a task is dead; 0: never; default 5 */
    int64_t claims;   /* after so many claims without an answer it is dead; 0: never */

    /* How long it waits after a failure: first, times factor each time, at most max. */
    int64_t backoff_ms, backoff_max_ms;    /* default 1 s, 1 h */
    double backoff_factor, backoff_jitter; /* default 2, 0.1; jitter: the share that is random */

    int64_t limit, limit_per_share; /* how many may be claimed at once; 0: any number */
    int64_t rate, rate_ms;          /* so many tasks in this time; 0: any number */
    int64_t rate_burst;             /* so many at once; 0: what comes in a tenth of a second */

    int64_t keep_done_ms;     /* how long finished tasks and their results are kept */
    int64_t keep_dead_ms;     /* dead tasks are removed after that; 0: never */
    int64_t remember_keys_ms; /* how long a key stays taken after the end of its task */
    int64_t max_tasks;        /* an add beyond that gets GROUP_FULL; 0: any number */
    const char *dead;         /* where dead tasks go; NULL or "": GROUP/dead */
};

/* The tasks of a group by their states. */
struct drover_counts {
    int64_t available, delayed, retrying, claimed, dead, done;
};

/* The groups that have tasks. The caller releases it. */
struct drover_groups {
    const char **names;
    size_t count;
    void *memory;
    const struct drover_counts *counts; /* of each; NULL unless they were asked for */
};

void drover_groups_release(struct drover_groups *g);

/* One group, or a pattern. The caller releases it. */
struct drover_group {
    const char *pattern; /* to which the settings belong; NULL: they are the defaults */
    struct drover_settings settings;
    struct drover_counts counts;
    const struct drover_task *claimed; /* at most 100: id, first, ownerid, timespec */
    size_t claimed_count;
    void *memory;
};

void drover_group_release(struct drover_group *g);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
