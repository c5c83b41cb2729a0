/*
 * schedule - tasks and graphs that a server adds at certain times.
 *
 *     struct drover_task task = {.group = "report", .data = "daily"};
 *     struct drover_schedule s = {.name = "report", .cron = "0 9 * * mon-fri",
 *                                 .timezone = "Europe/Berlin", .task = &task};
 *     drover_client_put_schedule(client, &s, NULL, &error);
 *
 * A time adds the task and moves the schedule to its next time in one commit: over crashes,
 * restarts and a change of the leader no time is lost and none comes twice. It takes a server that
 * runs, so there are no schedules for the store in process. doc/protocol.md says what happens when
 * clocks are set forward or back.
 */
#ifndef DROVER_SCHEDULE_H
#define DROVER_SCHEDULE_H

#include <drover/core.h>
#include <drover/task.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct drover_client;

/* What happens to times at which no server ran. */
enum drover_missed { DROVER_MISSED_ONE, DROVER_MISSED_SKIP, DROVER_MISSED_ALL };

/* Whether a time adds something while what was added last has not ended. */
enum drover_overlap { DROVER_OVERLAP_ALLOW, DROVER_OVERLAP_SKIP };

enum { DROVER_SCHEDULE_TIMES = 5 };

/* Texts end with NUL. */
struct drover_schedule {
    const char *name;
    const char *cron;     /* five fields, six with seconds in front, or a word such as @daily */
    const char *timezone; /* of cron; NULL: UTC */
    int64_t every_ms;     /* instead of cron: at least 1,000 */
    const struct drover_task *task; /* its group, data, priority and key */
    const char *graph;              /* instead of a task: nodes as JSON, as in POST /v1/nodes */
    enum drover_missed missed;
    enum drover_overlap overlap;
    int paused; /* in a request: 1 yes, -1 no, 0 as it was */

    /* Of answers. */
    int64_t next_ms, last_ms;      /* the next time and the last one; 0: none */
    int64_t runs;                  /* how often it has added something */
    int64_t last_task;             /* what it added last: the first id of a task; 0: none */
    int64_t last_node, last_nodes; /* or nodes: the id of the first, and their number */
    const char *error;             /* why it could add nothing the last time; NULL: it could */
    int64_t
        times[DROVER_SCHEDULE_TIMES]; /* the next ones; not in a list, which has no graphs either */
    size_t time_count;
};

/* The caller releases it. */
struct drover_schedules {
    struct drover_schedule *schedules;
    size_t count;
    const char *next; /* of a list that `limit` has cut: its `after`; NULL: there is no more */
    void *memory;
};

void drover_schedules_release(struct drover_schedules *s);

/* Makes a schedule, or replaces what it does. ret_schedules may be NULL here and below. */
int drover_client_put_schedule(struct drover_client *c, const struct drover_schedule *s,
                               struct drover_schedules *ret_schedules,
                               struct drover_error *ret_error);

/* 1: the result holds it; 0: there is no such schedule. */
int drover_client_get_schedule(struct drover_client *c, const char *name,
                               struct drover_schedules *ret_schedules,
                               struct drover_error *ret_error);

/* Returns the number: names behind `after` (NULL: all), at most limit (0: all). */
int drover_client_list_schedules(struct drover_client *c, const char *after, size_t limit,
                                 struct drover_schedules *ret_schedules,
                                 struct drover_error *ret_error);

/* 1: it is deleted; 0: there is no such schedule, or no more after a reply that was lost. */
int drover_client_delete_schedule(struct drover_client *c, const char *name,
                                  struct drover_error *ret_error);

/* The times of a paused schedule do not come, and are not missed. NO_NODE: there is none. */
int drover_client_pause_schedule(struct drover_client *c, const char *name,
                                 struct drover_schedules *ret_schedules,
                                 struct drover_error *ret_error);
int drover_client_resume_schedule(struct drover_client *c, const char *name,
                                  struct drover_schedules *ret_schedules,
                                  struct drover_error *ret_error);

/*
 * Adds the task or the nodes now; the times stay. NO_NODE: there is none. UNKNOWN: it may have
 * happened; unlike all other calls this one is not sent again, because it would add twice.
 */
int drover_client_run_schedule(struct drover_client *c, const char *name,
                               struct drover_schedules *ret_schedules,
                               struct drover_error *ret_error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
