/*
 * task - tasks, transactions on them, and the task store in this process.
 *
 * A task is immutable: an update or a claim ends its id and gives it a new one. While its timespec
 * lies in the future, the task belongs to its owner and no other client can change it. Times are
 * milliseconds since the epoch. drover/client.h uses the same structs for the task store of a
 * server, drover/group.h has the settings of groups, drover/schedule.h has schedules.
 *
 * A plain task has a group, data and a time, and everything else may stay 0. Of what it may carry
 * beyond that, each member is 0 or NULL where it has its default. Every text has a length beside
 * it: in a request, a length of 0 means that the text ends with NUL; in an answer, the text ends
 * with NUL, which the length does not count.
 */
#ifndef DROVER_TASK_H
#define DROVER_TASK_H

#include <drover/core.h>
#include <drover/group.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum drover_task_state {
    DROVER_TASK_AVAILABLE = 1,
    DROVER_TASK_DELAYED = 2,  /* its time has not come yet */
    DROVER_TASK_RETRYING = 4, /* it failed, and waits for its next attempt */
    DROVER_TASK_CLAIMED = 8,
    DROVER_TASK_DEAD = 16,    /* it is not tried again */
    DROVER_TASK_DONE = 32,    /* it was finished, and its result is kept */
    DROVER_TASK_DELETED = 64, /* only as the outcome of a wait */
};

/* What an add does if a living task of its group has its key. */
enum drover_on_key {
    DROVER_KEY_REFUSE,  /* the transaction is refused */
    DROVER_KEY_KEEP,    /* the answer has that task */
    DROVER_KEY_REPLACE, /* that task gets the data and the time, unless it is claimed */
};

struct drover_task {
    int64_t id;
    const char *group;
    size_t group_len;
    const char *data;
    size_t data_len;
    int64_t timespec;
    int64_t ownerid;

    /* Of an add, and of answers. An update keeps them, but for `bytes`. */
    int64_t priority; /* smaller goes first */
    const char *key;  /* unique among the living tasks of the group */
    size_t key_len;
    enum drover_on_key on_key; /* of an add */
    const char *share;         /* the tenant, for the settings fair and limit_per_share */
    size_t share_len;
    int64_t expires; /* not given out after that; in an add as a timespec, but 0 is never */
    int bytes;       /* the data need not be UTF-8 */

    /* Of answers. */
    enum drover_task_state state; /* 0: the answer of a server to an update or a claim has none */
    int64_t first;                /* the first id that it had, a name that stays; 0: not told */
    int64_t attempts, claims;     /* how often it failed and, if that is counted, was claimed */
    int64_t created, ended;       /* when it was added; when it died or was finished */
    const char *error;            /* what the last failure said */
    size_t error_len;
    const char *origin; /* of a dead task: the group where it died */
    size_t origin_len;
    const char *result; /* of a task that is done */
    size_t result_len;
};

/* Wherever an id is taken, this names the task by the first id that it had. */
#define DROVER_FIRST(id) ((int64_t)(id) + INT64_MIN)

/* A task that failed: the settings of its group say when it is tried again, or that it is dead. */
struct drover_fail {
    int64_t id;
    const char *error; /* what went wrong; the first 4 KiB are kept */
    size_t error_len;
    int64_t retry_ms; /* try again after that; 0: as the settings say; negative: at once */
    int64_t attempts; /* dead after so many failures; 0: as the settings say */
    int dead;         /* do not try again */
};

/* A task that is done. It ends as by a delete, and the settings say how long it is kept. */
struct drover_finish {
    int64_t id;
    const char *result; /* at most 256 KiB */
    size_t result_len;
};

/*
 * A timespec of 0 is now, a negative one is now plus its absolute value, a positive one is
 * absolute. Adds need a group; updates need an id and the new data. The transaction fails if a task
 * in `depends` does not exist. Released tasks are available at once, without a failure.
 */
struct drover_update {
    int64_t clientid; /* 0: the id of the drover_client */
    const struct drover_task *adds, *updates;
    size_t add_count, update_count;
    const int64_t *deletes, *depends;
    size_t delete_count, depend_count;
    const struct drover_fail *fails;
    const struct drover_finish *finishes;
    const int64_t *releases;
    size_t fail_count, finish_count, release_count;
};

struct drover_claim {
    int64_t clientid; /* 0: the id of the drover_client */
    const char *const *groups;
    size_t group_count;
    int64_t duration_ms; /* how long the claim lasts */
    int64_t wait_ms;     /* how long to wait for a task; 0: do not wait */
    size_t limit;        /* how many tasks to claim at most; 0: one */
    const int64_t *deletes, *depends;
    size_t delete_count, depend_count;
    const struct drover_fail *fails;
    const struct drover_finish *finishes;
    const int64_t *releases;
    size_t fail_count, finish_count, release_count;
    int tasks_only; /* refused where it would get a message of a queue or the task of a node */
};

/* The tasks of a reply or, with REFUSED, the reasons. The caller releases it. */
struct drover_result {
    struct drover_task *tasks;
    size_t task_count;
    const char **errors;
    size_t error_count;
    void *memory;
    const char
        *next; /* of a search that `limit` has cut: where it goes on; NULL: there is no more */
};

void drover_result_release(struct drover_result *r);

/* Which tasks are looked for: those that have all that is given. Texts end with NUL. */
struct drover_filter {
    const char *group, *key;
    const char *text, *error; /* part of the data, of the last error */
    unsigned states;          /* DROVER_TASK_DEAD | DROVER_TASK_RETRYING; 0: any */
    int internal;             /* of a search: also messages of queues and tasks of nodes */
    const char *after;        /* go on where a search ended, by its `next`; NULL: from the start */
    const char *origin;       /* dead tasks of this group */
    const int64_t *ids;       /* of a bulk: among these tasks, at most 10,000; NULL: any */
    size_t id_count;
};

enum drover_bulk_action {
    DROVER_BULK_DELETE,
    DROVER_BULK_RETRY,    /* available at once without attempts, a dead one where it died */
    DROVER_BULK_MOVE,     /* to `group` */
    DROVER_BULK_RELEASE,  /* available at once */
    DROVER_BULK_PRIORITY, /* gets `priority` */
};

/*
 * Acts on all tasks that the filter finds, up to 1,000 in each transaction. A claimed task is
 * changed only if the filter has that state; a task whose key is taken where it would go is not.
 */
struct drover_bulk {
    struct drover_filter filter;
    int all; /* needed if the filter is empty */
    enum drover_bulk_action action;
    const char *group;
    int64_t priority;
    int dry_run;      /* change nothing, only count */
    int64_t clientid; /* 0: the id of the drover_client */

    /* After each transaction, with the sums so far; not 0: stop here. NULL: none. */
    int (*progress)(void *arg, int64_t matched, int64_t changed);
    void *arg;
};

struct drover_bulk_count {
    int64_t matched, changed;
};

/*
 * store - the task store in this process. No other process can use it at the same time.
 *
 * STRICT: a call returns when the state that it changed or read is on disk. OPPORTUNISTIC: a call
 * returns at once; its change is on disk at most 100 ms later. MEMORY: nothing is stored.
 *
 * The store keeps its files below `dir`. `drover serve` has the same format, so a server can open
 * the directory later. Instead of a directory, the program can provide its own journal, or name an
 * ensemble as in drover_keeper_open() (zk://host:port/chroot, zks://...): then the tasks are those
 * of the servers on that ensemble, one process at a time has them, every call returns when the
 * ensemble has the change, and a call gets NOT_LEADER while the process has no session. After a
 * crash the ensemble waits for the end of the session before another process can open the store.
 *
 * Texts are UTF-8, because the server and its clients pass them as JSON. Other bytes are refused
 * with BAD_ARGUMENT, here and in drover/client.h; so what was stored comes back as it was. Data of
 * other bytes is stored with `bytes` set, in the add or the update, and comes back with it.
 *
 * Expired tasks, and results that were kept long enough, are removed while calls run, at the latest
 * when a server opens the store. Schedules need a server.
 */
struct drover_store;

enum drover_mode { DROVER_STRICT, DROVER_OPPORTUNISTIC, DROVER_MEMORY };

/*
 * A journal that the program provides. It stores records, which are opaque bytes. Each function
 * returns 0 on success; after any other value the store accepts no more changes. The store calls
 * them one at a time; it may call append between snapshot_begin and snapshot_end.
 *
 *  - append: stores one transaction. STRICT: the record must be on disk when append returns.
 *    OPPORTUNISTIC: a thread of the store calls append soon after the change, in the same order.
 *  - replay: runs when the store opens. It calls `each` for every record of the last complete
 *    snapshot, then for every record that was appended since that snapshot began, in order. If
 *    `each` returns something other than 0, replay stops and returns it.
 *  - snapshot_begin, then snapshot_put for each record, then snapshot_end. With complete = 0 the
 *    journal discards the snapshot. After a complete one it may drop all records that were appended
 *    before snapshot_begin. NULL: no snapshots.
 */
struct drover_journal {
    int (*append)(void *arg, const void *bytes, size_t len);
    int (*replay)(void *arg, int (*each)(void *each_arg, const void *bytes, size_t len),
                  void *each_arg);
    int (*snapshot_begin)(void *arg);
    int (*snapshot_put)(void *arg, const void *bytes, size_t len);
    int (*snapshot_end)(void *arg, int complete);
    void *arg;
};

struct drover_store_options {
    enum drover_mode mode;
    const char *dir;                      /* created if it does not exist; or zk://..., zks://... */
    const struct drover_journal *journal; /* instead of dir; the struct is copied */
    int64_t snapshot_every;               /* transactions between snapshots; 0: 200,000 */
    const struct drover_keeper_options *keeper; /* of an ensemble; NULL: the defaults */
};

/* IN_USE: another process has the directory open, or leads on the ensemble. */
int drover_store_open(const struct drover_store_options *o, struct drover_store **ret_store,
                      struct drover_error *ret_error);

/* No other call may be running. */
void drover_store_close(struct drover_store *s);

/*
 * 0: the result holds the adds, then the updates, then the tasks that failed or were released, with
 * their new ids. REFUSED: the result holds the reasons, ret_error the first of them. Any other
 * error: there is no result to release. GROUP_FULL: the group has as many tasks as its settings
 * allow.
 */
int drover_store_update(struct drover_store *s, const struct drover_update *u,
                        struct drover_result *ret_result, struct drover_error *ret_error);

/* Returns the number of claimed tasks; 0: none was available in time. Errors as for an update. */
int drover_store_claim(struct drover_store *s, const struct drover_claim *c,
                       struct drover_result *ret_result, struct drover_error *ret_error);

/* 1: the result holds the task; 0: there is no such task. */
int drover_store_get(struct drover_store *s, int64_t id, struct drover_result *ret_result);

/* Returns the number of tasks in the result. limit 0: all. owned: include tasks with an owner. */
int drover_store_list(struct drover_store *s, const char *group, size_t limit, int owned,
                      struct drover_result *ret_result);

/*
 * Waits until a task has ended. 1: it has, with the state DONE, DEAD or DELETED; 0: the time is
 * over. Either way the result holds the task: id, first, group, state, and its result or error.
 * NO_TASK: there is none. A result that is not kept reaches those who waited when it was stored.
 */
int drover_store_wait(struct drover_store *s, int64_t id, int64_t timeout_ms,
                      struct drover_result *ret_result, struct drover_error *ret_error);

/*
 * Finds tasks: returns their number, at most limit (0: all). With a group they come in the order of
 * their ids, and one that changes meanwhile may come again with its new id; without one they come
 * in no order, each once.
 */
int drover_store_find(struct drover_store *s, const struct drover_filter *f, size_t limit,
                      struct drover_result *ret_result, struct drover_error *ret_error);

/* *ret_count, which may be NULL, is also set after an error: what was changed stays changed. */
int drover_store_bulk(struct drover_store *s, const struct drover_bulk *b,
                      struct drover_bulk_count *ret_count, struct drover_error *ret_error);

/* The names of the groups; the second with their tasks by state, internal ones only if asked. */
int drover_store_groups(struct drover_store *s, struct drover_groups *ret_groups);
int drover_store_count_groups(struct drover_store *s, int internal,
                              struct drover_groups *ret_groups);

/*
 * The settings of a group or a pattern, see drover/group.h. Setting changes what s->set names.
 * Unsetting returns 1, or 0 if there were none of this name; the tasks stay.
 */
int drover_store_group(struct drover_store *s, const char *group, struct drover_group *ret_group,
                       struct drover_error *ret_error);
int drover_store_set_group(struct drover_store *s, const char *pattern,
                           const struct drover_settings *settings, struct drover_error *ret_error);
int drover_store_unset_group(struct drover_store *s, const char *pattern,
                             struct drover_error *ret_error);

/*
 * The number of tasks; the last id that the store gave, also before a restart. After a crash in
 * OPPORTUNISTIC mode: the last one that is on disk.
 */
int64_t drover_store_count(struct drover_store *s);
int64_t drover_store_latest_id(struct drover_store *s);

/* Takes a snapshot and returns when it is complete. The second returns whether one is running. */
int drover_store_snapshot(struct drover_store *s);
int drover_store_snapshotting(struct drover_store *s);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
