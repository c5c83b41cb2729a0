/*
 * schedules - all schedules of the server that leads, and the changes of them. On the loop.
 *
 * What always holds: a tick adds its task or its nodes and moves the schedule to its next time in
 * one commit, which the leader's fence guards. So after a crash, and when another server takes
 * over, the stored state says exactly which times have come. Memory changes when the commit is
 * certain.
 *
 * A schedule has one change at a time: a tick, or what a client asks for; further changes wait in
 * line. Due schedules with a task are ticked together, TICKS_MAX in a transaction; if that is
 * refused, each is tried alone, and again a second later, because its group may be full.
 */
#ifndef SCHEDULE_SCHEDULES_H
#define SCHEDULE_SCHEDULES_H

#include <uv.h>

#include "base/heap.h"
#include "dag/graph.h"
#include "http/metrics.h"
#include "schedule/schedule.h"
#include "server/context.h"
#include "task/service.h"

enum {
    SCHEDULES_MAX = 1000 * 1000,
    TICKS_MAX = 100,    /* of one transaction */
    LOOK_MS = 1000,     /* how often to look at the clock, which may have been set */
    AGAIN_MS = 1000,    /* until what failed is tried again */
    SCHEDULE_TIMES = 5, /* that an answer shows */
};

/* The schedules, by name and by when they are due. */
struct schedule_table {
    struct schedule **by_name; /* sorted */
    size_t count, cap;
    struct schedule **by_ref; /* of the heap; NULL: free */
    uint32_t ref_count, ref_cap;
    uint32_t *free_refs;
    uint32_t free_count, free_cap;
    struct heap due; /* those that are neither paused nor busy */
    struct schedule_zone *zones;
};

/* Reads all of them. The table is to be freed. */
int schedule_table_read(struct keeper *k, struct schedule_table **ret_table,
                        struct err_info *ret_error);
void schedule_table_free(struct schedule_table *t);

/* NULL: none of that name. The index of the first name behind `after`. */
struct schedule *schedule_table_find(const struct schedule_table *t, struct str name);
size_t schedule_table_seek(const struct schedule_table *t, struct str after);

/* Takes the schedule; and removes and frees it. */
void schedule_table_add(struct schedule_table *t, struct schedule *s);
void schedule_table_remove(struct schedule_table *t, struct schedule *s);

/* Puts it into the heap or takes it out, after a change of its state. */
void schedule_table_place(struct schedule_table *t, struct schedule *s);

schedule_zone_fn schedule_table_zone; /* arg: the table */

enum schedule_op_kind {
    SCHEDULE_TICK,
    SCHEDULE_RUN, /* at once, without moving to the next time */
    SCHEDULE_PUT,
    SCHEDULE_DELETE,
    SCHEDULE_PAUSE,
    SCHEDULE_RESUME,
};

/* One schedule in an operation. */
struct schedule_step {
    struct schedule *s;
    struct schedule_state to;
    bool wants; /* its time has come; a task is added unless the last one lives */
    bool adds;  /* decided */
    char *why;  /* what is wrong with it, though it moves on; in the arena, or NULL */
    struct task add;
    struct task_extra extra;
};

struct schedule_op {
    struct schedule_op *next, **link; /* of those under way */
    struct schedule_op *waiting;      /* the next one in line for the same schedule */
    struct schedules *all;            /* NULL: this server no longer leads */
    enum schedule_op_kind kind;
    struct schedule_step *steps;
    size_t count;
    struct http_request *r; /* NULL: nobody waits for the answer */
    struct schedule *fresh; /* what a PUT replaces it with */
    int set_paused;         /* of a PUT; -1: as before */
    bool may_run;           /* who may not add nodes, may not change when they are added either */
    struct arena arena;
    struct task_request request;
    struct keeper_op ops[TICKS_MAX];
    struct task adds[TICKS_MAX];
};

struct schedules {
    struct context *context;
    struct dag *dag;
    struct schedule_table *table; /* NULL: this server does not lead */
    struct schedule_op *under_way;
    uv_timer_t timer;
    int64_t wall_ms, boot_ms; /* when the clocks were last read */
    bool ticking;
    struct counter *ticks, *skipped, *failed;

    /* News from the leader's thread. */
    uv_async_t wake;
    pthread_mutex_t lock;
    struct schedule_table *read;
    bool stopped, closing;
    int open_handles;
};

/* A change that a client asks for, of a schedule in the table. The operation answers. */
struct schedule_op *schedule_op_new(struct schedules *all, enum schedule_op_kind kind,
                                    struct schedule *s, struct http_request *r);
void schedule_op_start(struct schedule_op *op);

/*
 * For ticks of several schedules: without a schedule, an operation takes up to TICKS_MAX steps. Aim
 * says what the state of a step will be; false: nothing is to be done.
 */
bool schedule_op_aim(struct schedule_op *op, struct schedule_step *step);
void schedule_op_begin_ticks(struct schedule_op *op);

/* Lets go of all operations, and answers those who wait with the error. */
void schedule_ops_drop(struct schedules *all, int err);

/* Ticks what is due, and sets the timer. */
void schedules_tick(struct schedules *all);

/* http.c */
struct route_table schedule_routes(void *module);
void schedule_answer(struct http_request *r, const struct schedule *s, int64_t now_ms);
void schedule_answer_err(struct schedules *all, struct http_request *r, int err,
                         const struct task_reply *reply_or_null);

#endif
