/*
 * schedule - one schedule: what it does, and when. Pure: time is a parameter.
 *
 * The spec is JSON, as a client gave it: {"cron": "0 9 * * mon-fri", "timezone": "Europe/Berlin"}
 * or {"every": 60000}; "task" or "graph"; "missed", "overlap". The state changes with each tick.
 *
 * Which times come. A time is due once the clock has reached it, and is then behind the schedule:
 * no time comes twice. Of several times that are due together, because no server ran or the clock
 * was set forward,
 *   all   every one comes;
 *   one   the last one comes, for all of them;
 *   skip  the last one comes, unless it is more than SCHEDULE_GRACE_MS ago.
 * When the clock is set back, the times that have come do not come again, so there is a pause of
 * that length. If it was ahead by more than SCHEDULE_AHEAD_MS, it was wrong: then the times count
 * from now.
 *
 * Nodes: SCHEDULES_ROOT/HASH holds {"version":1,"name":...,"spec":{...}}, and its child `state` the
 * state, which each tick writes. HASH is that of the name.
 */
#ifndef SCHEDULE_SCHEDULE_H
#define SCHEDULE_SCHEDULE_H

#include "base/arena.h"
#include "base/cron.h"
#include "base/json.h"

#define SCHEDULES_ROOT "/drover/schedules"

enum {
    SCHEDULE_NAME_LEN_MAX = 256,
    SCHEDULE_EVERY_MIN_MS = 1000,
    SCHEDULE_GRACE_MS = 60 * 1000,
    SCHEDULE_AHEAD_MS = 3 * 3600 * 1000,
    SCHEDULE_PATH_SIZE = sizeof SCHEDULES_ROOT + 1 + 32 + sizeof "/state",
};

enum schedule_missed { MISSED_ONE, MISSED_SKIP, MISSED_ALL };
#define SCHEDULE_MISSED_WORDS "one|skip|all"
#define SCHEDULE_OVERLAP_WORDS "allow|skip"

struct schedule_state {
    int64_t from_ms; /* since when it has its times; those of `every` count from here */
    int64_t next_ms; /* INT64_MAX: none */
    int64_t last_ms; /* the last time that came; 0: none */
    int64_t runs;    /* how often it has added something */
    int64_t task;    /* what it added last: the first id of the task, or the nodes; 0: nothing */
    int64_t node, node_count;
    bool paused;
};

struct schedule {
    char *name, *spec;
    struct cron cron;
    const struct time_zone *zone; /* of the cron expression; NULL: it is `every` */
    int64_t every_ms;
    enum schedule_missed missed;
    bool skips_overlap, is_graph;
    struct schedule_state state;

    /* The table's own. */
    uint32_t ref, heap_at; /* heap_at UINT32_MAX: it is not in the heap */
    bool exists;           /* stored; else somebody is about to */
    bool busy;             /* a change of it is under way */
    int64_t again_ms;      /* not before: the last try failed */
    char *error;           /* why; NULL: it did not */
    struct schedule_op *waiting, **waiting_end;
};

/* Finds a zone by its name, for as long as the schedule lives. */
typedef int schedule_zone_fn(void *arg, struct str name, const struct time_zone **ret_zone,
                             struct err_info *ret_error);

/*
 * Reads a spec into a zeroed schedule, all but the task or graph. BAD_ARGUMENT: *ret_field names
 * the member.
 */
int schedule_read(struct schedule *s, const struct json *spec, schedule_zone_fn *find_zone,
                  void *arg, const char **ret_field, struct err_info *ret_error);
void schedule_free(struct schedule *s);

/* Whether both have the same times. */
bool schedule_same_times(const struct schedule *a, const struct schedule *b);

/* The first time after an instant. INT64_MAX: there is none. */
int64_t schedule_after(const struct schedule *s, int64_t after_ms);

/* The time that comes now, of a schedule that is due, and the next. False: none comes. */
bool schedule_due(const struct schedule *s, int64_t now_ms, int64_t *ret_time_ms,
                  int64_t *ret_next_ms);

/* Sets the next time anew if the clock was wrong when the present one was found. */
bool schedule_correct(struct schedule *s, int64_t now_ms);

/* Nodes. */
void schedule_path(const char *name, bool of_state, char path[SCHEDULE_PATH_SIZE]);
void schedule_put_node(struct buf *b, const struct schedule *s);
void schedule_put_state(struct buf *b, const struct schedule_state *state);

/*
 * 0, DAMAGED or NEWER_VERSION. A schedule whose zone is missing is read, with an error and without
 * times.
 */
int schedule_read_node(struct str data, schedule_zone_fn *find_zone, void *arg,
                       struct schedule **ret_schedule);
int schedule_read_state(struct str data, struct schedule_state *ret_state);

#endif
