/*
 * task - tasks, transactions on them, and the task store in this process.
 *
 * A task is immutable: an update or a claim ends its id and gives it a new one. While its timespec
 * lies in the future, the task belongs to its owner and no other client can change it. Times are
 * milliseconds since the epoch. drover/client.h uses the same structs for the task store of a
 * server.
 */
#ifndef DROVER_TASK_H
#define DROVER_TASK_H

#include <drover/core.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct drover_task {
    int64_t id;
    const char *group; /* group and data end with NUL, which the lengths do not count */
    size_t group_len;
    const char *data;
    size_t data_len;
    int64_t timespec;
    int64_t ownerid;
};

/*
 * In a request, a length of 0 means that the text ends with NUL. A timespec of 0 is now, a negative
 * one is now plus its absolute value, a positive one is absolute. Adds need a group; updates need
 * an id and the new data. The transaction fails if a task in `depends` does not exist.
 */
struct drover_update {
    int64_t clientid; /* 0: the id of the drover_client */
    const struct drover_task *adds, *updates;
    size_t add_count, update_count;
    const int64_t *deletes, *depends;
    size_t delete_count, depend_count;
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
};

/* The tasks of a reply or, with REFUSED, the reasons. The caller releases it. */
struct drover_result {
    struct drover_task *tasks;
    size_t task_count;
    const char **errors;
    size_t error_count;
    void *memory;
};

void drover_result_release(struct drover_result *r);

/* The names of all groups that have tasks. The caller releases it. */
struct drover_groups {
    const char **names;
    size_t count;
    void *memory;
};

void drover_groups_release(struct drover_groups *g);

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
 * Group and data are UTF-8 text, because the server and its clients pass them as JSON. Other bytes
 * are refused with BAD_ARGUMENT, here and in drover/client.h; so what was stored comes back as it
 * was. Encode binary data, for example as base64.
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
 * 0: the result holds the adds, then the updates, with their new ids. REFUSED: the result holds the
 * reasons, ret_error the first of them. Any other error: there is no result to release.
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

int drover_store_groups(struct drover_store *s, struct drover_groups *ret_groups);

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
