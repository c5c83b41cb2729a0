/*
 * drover.h - the public C interface of Drover.
 *
 * Drover keeps tasks, runs them in order, and never loses one. This header holds what every part of
 * it and every program that links it shares: the version and the errors; then the calls of the rooms.
 *
 * A task store in this process, without any server (this is compiled and run by the tests; with
 * `cc example.c -ldrover`):
 *
 *     #include <drover.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         const char *groups[] = {"greetings"};
 *         struct drover_store_options options = {.mode = DROVER_STRICT, .dir = "tasks"};
 *         struct drover_task add = {.group = "greetings", .data = "hello"};
 *         struct drover_update put = {.clientid = 1, .adds = &add, .add_count = 1};
 *         struct drover_claim take = {
 *             .clientid = 2, .groups = groups, .group_count = 1, .duration_ms = 60000};
 *         struct drover_store *store;
 *         struct drover_result result;
 *         struct drover_error error;
 *
 *         if (drover_store_open(&options, &store, &error))
 *             return fprintf(stderr, "%s\n", error.text), 1;
 *         if (!drover_store_update(store, &put, &result, &error))
 *             drover_result_release(&result);
 *         while (drover_store_claim(store, &take, &result, &error) > 0) {
 *             struct drover_update done = {
 *                 .clientid = 2, .deletes = &result.tasks[0].id, .delete_count = 1};
 *             struct drover_result nothing;
 *
 *             printf("%s\n", result.tasks[0].data);
 *             if (!drover_store_update(store, &done, &nothing, &error))
 *                 drover_result_release(&nothing);
 *             drover_result_release(&result);
 *         }
 *         drover_result_release(&result);
 *         drover_store_close(store);
 *         return 0;
 *     }
 *
 * What can fail returns int: 0 or a count on success, a negative enum drover_err otherwise.
 * Out-parameters are named ret_... and stay untouched on failure.
 */
#ifndef DROVER_H
#define DROVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All else is hidden. */
#pragma GCC visibility push(default)

#define DROVER_VERSION "0.1.0"

/*
 * One row an error: name, number, HTTP status, CLI exit status, message. The numbers are part of the
 * interface: a row may be added, never renumbered.
 *
 * UNKNOWN is no failure and no success: the request may or may not have happened. Look before you
 * try again.
 */
#define DROVER_ERRORS(X)                                                                           \
    X(BAD_ARGUMENT, -1, 400, 2, "bad argument")                                                    \
    X(NO_NODE, -2, 404, 1, "no such node")                                                         \
    X(EXISTS, -3, 409, 1, "the node exists already")                                               \
    X(BAD_VERSION, -4, 409, 1, "the version is not the one expected")                              \
    X(NOT_EMPTY, -5, 409, 1, "the node has children")                                              \
    X(NO_CHILDREN_FOR_EPHEMERALS, -6, 409, 1, "an ephemeral node cannot have children")            \
    X(SESSION_EXPIRED, -7, 410, 1, "the session has ended")                                        \
    X(FENCED, -8, 409, 1, "another has taken over")                                                \
    X(TOO_BIG, -9, 413, 1, "too big")                                                              \
    X(DISK_FULL, -10, 507, 1, "the disk is full")                                                  \
    X(IO, -11, 500, 1, "input or output failed")                                                   \
    X(UNKNOWN, -12, 503, 1, "the outcome is not known")                                            \
    X(NOT_TRIED, -13, 409, 1, "not tried: another operation of the transaction failed")            \
    X(NO_AUTH, -14, 403, 1, "not allowed")                                                         \
    X(CLOSED, -15, 503, 1, "closed")                                                               \
    X(IN_USE, -16, 409, 1, "in use by another process")                                            \
    X(DAMAGED, -17, 500, 1, "damaged")                                                             \
    X(NEWER_VERSION, -18, 500, 1, "written by a newer version of drover")                          \
    X(NO_MEMORY, -19, 500, 1, "out of memory")                                                     \
    X(BAD_ACL, -20, 400, 1, "the access list is not valid")                                        \
    X(UNIMPLEMENTED, -21, 501, 1, "this is not implemented")                                       \
    X(UNREACHABLE, -22, 503, 1, "the server cannot be reached")                                    \
    X(TOO_MANY, -23, 429, 1, "too many")                                                           \
    X(REFUSED, -24, 409, 1, "the transaction was refused")                                         \
    X(NO_TASK, -25, 404, 1, "no such task")                                                        \
    X(NOT_LEADER, -26, 503, 1, "another server leads")                                             \
    X(NOT_ALLOWED, -27, 409, 1, "its state does not allow that")                                   \
    X(LOCKED, -28, 409, 1, "locked by another")

enum drover_err {
#define X(name, number, http, cli, message) DROVER_##name = (number),
    DROVER_ERRORS(X)
#undef X
};

/* The name of an error ("NO_NODE"), and one sentence about it. Both live for ever. 0 is "OK". */
const char *drover_err_name(int err);
const char *drover_err_message(int err);

/* What an error becomes at the edges. 0 gives 200 and 0. */
int drover_err_http_status(int err);
int drover_err_exit_status(int err);

/*
 * keeper - the durable tree that everything stands on, opened by its name:
 *
 *   zk://h1:2181,h2:2181/chroot    a ZooKeeper ensemble, or the ZooKeeper port of a drover server
 *   /some/dir, ./dir               a data directory of the embedded keeper, for this process alone
 *   memory:                        an embedded keeper that is lost when it is closed
 *
 * One struct is one session: what it holds ephemerally goes when it is closed. Calls on it may come
 * from any thread. The calls of the rooms take it; it must outlive what is opened on it.
 */
struct drover_keeper;

/* Where a call says in words what went wrong. */
struct drover_error {
    char text[512];
};

struct drover_keeper_options {
    const char *auth; /* "user:password" for an ensemble (digest); NULL: none */
    int timeout_ms;   /* of the session; 0: 10 s */
};

/* o and ret_error may be NULL. */
int drover_keeper_open(const char *name, const struct drover_keeper_options *o,
                       struct drover_keeper **ret_keeper, struct drover_error *ret_error);
void drover_keeper_close(struct drover_keeper *k);

/*
 * task - tasks and the transactions on them: what the store in this process and the client of a server
 * have in common. Times are milliseconds since the epoch.
 *
 * A task is immutable: an update or a claim ends its id and gives a new one. While its timespec lies in
 * the future it belongs to its owner, and nobody else can change it.
 */
struct drover_task {
    int64_t id;
    const char *group; /* NUL-terminated, as is data; the lengths do not count that */
    size_t group_len;
    const char *data;
    size_t data_len;
    int64_t timespec;
    int64_t ownerid;
};

/*
 * In requests lengths may be left 0 for text that ends with NUL, timespec is 0 for now, negative for
 * that long from now, positive for the moment itself. Adds need a group, updates an id and the data
 * that the task shall have. depends must be there, unchanged, for anything to happen.
 */
struct drover_update {
    int64_t clientid; /* 0, with a client: its own */
    const struct drover_task *adds, *updates;
    size_t add_count, update_count;
    const int64_t *deletes, *depends;
    size_t delete_count, depend_count;
};

struct drover_claim {
    int64_t clientid; /* 0, with a client: its own */
    const char *const *groups;
    size_t group_count;
    int64_t duration_ms; /* how long it shall be ours */
    int64_t wait_ms;     /* for a task to appear; 0: not at all */
    size_t limit;        /* 0: one */
    const int64_t *deletes, *depends;
    size_t delete_count, depend_count;
};

/* What came of it: tasks, or, when the call says REFUSED, the reasons. The caller releases it. */
struct drover_result {
    struct drover_task *tasks;
    size_t task_count;
    const char **errors;
    size_t error_count;
    void *memory;
};

void drover_result_release(struct drover_result *r);

/* The names of the groups that have tasks. */
struct drover_groups {
    const char **names;
    size_t count;
    void *memory;
};

void drover_groups_release(struct drover_groups *g);

/*
 * store - the task store in this process, for this process alone. Calls may come from any thread.
 *
 * STRICT: a call returns when what it did, or showed, is on disk. OPPORTUNISTIC: it returns at once, and
 * is on disk at most 100 ms later. MEMORY: nothing is kept.
 *
 * Where it is kept: in files below dir, the same ones that drover serve has, so that a server can go on
 * with them; or in a journal of your own. The files are a journal too (of records, with snapshots after
 * snapshot_every transactions, while work goes on), but not through struct drover_journal: they are
 * written by many transactions at a time, which that interface is too simple for.
 */
struct drover_store;

enum drover_mode { DROVER_STRICT, DROVER_OPPORTUNISTIC, DROVER_MEMORY };

/*
 * A journal of your own: where records go, and come back from. A record is bytes that mean something to
 * the store only. All functions return 0, or something else, after which the store takes no changes any
 * more. They are called one at a time; append comes also between snapshot_begin and snapshot_end.
 *
 *  - append: one transaction. STRICT: before its call returns, and it must be on disk when append
 *    does. OPPORTUNISTIC: in the same order, by a thread of the store's own, soon after.
 *  - replay: when the store is opened. Calls each, with its argument, for the records of the last
 *    snapshot that was ended well and then for all that was appended since that snapshot began, in
 *    order; returns at once what each returned, if that is not 0.
 *  - snapshot_begin, snapshot_put for each record, snapshot_end (complete: 0 means throw it away): what
 *    was appended before the beginning may be dropped once it has ended. NULL: no snapshots.
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
    const char *dir;                      /* made if it is missing */
    const struct drover_journal *journal; /* instead of dir; copied */
    int64_t snapshot_every;               /* transactions; 0: 200,000 */
};

/* IN_USE: another process has the directory open. ret_error may be NULL, here and below. */
int drover_store_open(const struct drover_store_options *o, struct drover_store **ret_store,
                      struct drover_error *ret_error);

/* No call may be under way. */
void drover_store_close(struct drover_store *s);

/*
 * 0, and the result has the adds, then the updates, with their new ids. REFUSED, and the result has the
 * reasons; ret_error has the first. After any other error there is no result to release.
 */
int drover_store_update(struct drover_store *s, const struct drover_update *u,
                        struct drover_result *ret_result, struct drover_error *ret_error);

/* How many were claimed: 0 when there was none, or the wait was over. Errors as with an update. */
int drover_store_claim(struct drover_store *s, const struct drover_claim *c,
                       struct drover_result *ret_result, struct drover_error *ret_error);

/* A task by its id: 1 and the result has it, or 0. */
int drover_store_get(struct drover_store *s, int64_t id, struct drover_result *ret_result);

/* The tasks of a group: how many. limit 0: all; owned: those that belong to somebody too. */
int drover_store_list(struct drover_store *s, const char *group, size_t limit, int owned,
                      struct drover_result *ret_result);

/* The groups that have tasks. */
int drover_store_groups(struct drover_store *s, struct drover_groups *ret_groups);

/* How many tasks there are; the last id that was given. */
int64_t drover_store_count(struct drover_store *s);
int64_t drover_store_latest_id(struct drover_store *s);

/* Takes a snapshot now, and returns when it is complete. Whether one is being taken. */
int drover_store_snapshot(struct drover_store *s);
int drover_store_snapshotting(struct drover_store *s);

/*
 * client - the task store of a server, over HTTP.
 *
 *     struct drover_client *c;
 *     struct drover_result r;
 *     const char *groups[] = {"map"};
 *
 *     if (drover_client_open(NULL, &c, &error))
 *         ...
 *     if (drover_client_claim(c, &(struct drover_claim){.groups = groups, .group_count = 1,
 *                             .duration_ms = 30000, .wait_ms = 60000}, &r, &error) > 0) {
 *         struct drover_hold *hold = drover_client_hold(c, &r.tasks[0], 30000);
 *         ... work on r.tasks[0].data ...
 *         if (!drover_hold_release(hold, &id))
 *             drover_client_update(c, &(struct drover_update){.deletes = &id, .delete_count = 1}, ...
 *     }
 *
 * Calls may come from any thread. A call that finds no server, or loses it, tries again for a while:
 * each request carries an id that the server remembers, so what was committed is not committed twice,
 * and the answer is the one that was lost. UNKNOWN comes back only when the server stayed away.
 */
struct drover_client;

struct drover_client_options {
    const char *server; /* URL, or several with commas; NULL: $DROVER_URL, else the default one */
    const char *token;  /* NULL: $DROVER_TOKEN, else none */
    int64_t clientid;   /* who we are; 0: drawn from the system's random source */
    int64_t retry_ms;   /* how long to try again; 0: 30 s; negative: not at all */
    int stop_fd;        /* calls end with CLOSED when it becomes readable; 0: none */
};

/* Nothing is connected yet. o and, everywhere, ret_error may be NULL. */
int drover_client_open(const struct drover_client_options *o, struct drover_client **ret_client,
                       struct drover_error *ret_error);

/* All holds must have been released. */
void drover_client_close(struct drover_client *c);

int64_t drover_client_id(const struct drover_client *c);

/*
 * 0, and the result has the adds, then the updates, with their new ids. REFUSED, and the result has the
 * reasons; ret_error has the first. After any other error there is no result to release.
 */
int drover_client_update(struct drover_client *c, const struct drover_update *u,
                         struct drover_result *ret_result, struct drover_error *ret_error);

/* How many were claimed: 0 when the wait was over. Errors as with an update. */
int drover_client_claim(struct drover_client *c, const struct drover_claim *claim,
                        struct drover_result *ret_result, struct drover_error *ret_error);

/* A task by its id: 1 and the result has it, or 0. */
int drover_client_get(struct drover_client *c, int64_t id, struct drover_result *ret_result,
                      struct drover_error *ret_error);

/* The tasks of a group: how many. limit 0: all; owned: those that belong to somebody too. */
int drover_client_list(struct drover_client *c, const char *group, size_t limit, int owned,
                       struct drover_result *ret_result, struct drover_error *ret_error);

/* The groups that have tasks. */
int drover_client_groups(struct drover_client *c, struct drover_groups *ret_groups,
                         struct drover_error *ret_error);

/*
 * Automatic renewal. From now on a thread of the client renews a claimed task, each time for
 * duration_ms and well before it runs out. Its id changes with that: the hold knows the one of the
 * moment. The task is copied.
 */
struct drover_hold;

struct drover_hold *drover_client_hold(struct drover_client *c, const struct drover_task *t,
                                       int64_t duration_ms);

/* Whether it is lost: another has it, or the server was away for too long. Then stop working on it. */
int drover_hold_lost(struct drover_hold *h);

/*
 * Ends the renewal and frees the hold. 0, and *ret_id is the id of the task now; FENCED when it was
 * lost, UNKNOWN when the server stayed away.
 */
int drover_hold_release(struct drover_hold *h, int64_t *ret_id);

/*
 * queue - queues whose messages are handled in order, by workers that share the queues among them.
 *
 *     struct drover_queues *qs;
 *     struct drover_worker *w;
 *
 *     if (drover_queues_open(NULL, &qs, &error) ||
 *         drover_worker_join(qs, &(struct drover_worker_options){.handle = fn}, &w, &error))
 *         ...
 *     drover_worker_wait(w);       (another thread, or a signal's, calls drover_worker_stop)
 *     drover_worker_free(w);
 *     drover_queues_close(qs);
 *
 * A queue is named by 32 hex digits. Its messages are tasks of the group of that name; how far they have
 * been handled stands in the keeper, with who handles what. Workers that come and go are noticed, and
 * queues move to those who have fewest, no more than they must. A message is handled at least once, in
 * order, and by one worker at a time.
 *
 * Calls may come from any thread.
 */
struct drover_queues;

enum { DROVER_QUEUE_NAME_SIZE = 33 }; /* with the NUL */

struct drover_queues_options {
    const char *server; /* where the messages are; NULL: $DROVER_URL, else http://127.0.0.1:8048 */
    const char *token;  /* NULL: $DROVER_TOKEN, else none */
    const char *keeper; /* zk://...; NULL: the one that the server names */
    const char *auth;   /* for the keeper, "user:password"; NULL: none */
    const char *ns;     /* the namespace; NULL: /mozilla-qdo */
    int timeout_ms;     /* of sessions; 0: 10 s */
};

/* Opens a session on the keeper. */
int drover_queues_open(const struct drover_queues_options *o, struct drover_queues **ret_queues,
                       struct drover_error *ret_error);

/* All workers must have been freed. */
void drover_queues_close(struct drover_queues *qs);

int drover_queue_create(struct drover_queues *qs, char ret_name[DROVER_QUEUE_NAME_SIZE],
                        struct drover_error *ret_error);

/* Removes the queue. Its messages stay until they are too old. */
int drover_queue_remove(struct drover_queues *qs, const char *queue,
                        struct drover_error *ret_error);

/* Posts a message at the end of the queue. len 0: data ends with NUL. ret_id may be NULL. */
int drover_queue_post(struct drover_queues *qs, const char *queue, const char *data, size_t len,
                      int64_t *ret_id, struct drover_error *ret_error);

/*
 * How many messages there are after the one with that id, at most limit (0: 100); they have their ids,
 * data, and in timespec when they were posted. "qdo_error" is the queue of those that were set aside.
 */
int drover_queue_read(struct drover_queues *qs, const char *queue, int64_t after, size_t limit,
                      struct drover_result *ret_result, struct drover_error *ret_error);

/* The id up to which messages have been handled, 0: none; and setting it, which workers follow. */
int drover_queue_last(struct drover_queues *qs, const char *queue, int64_t *ret_last,
                      struct drover_error *ret_error);
int drover_queue_set_last(struct drover_queues *qs, const char *queue, int64_t last,
                          struct drover_error *ret_error);

/* A message in hand. */
struct drover_message {
    const char *queue;
    int64_t id;
    int64_t time; /* when it was posted */
    const char *data;
    size_t data_len;
    int64_t
        fence;   /* rises with each worker that takes the queue: let others refuse a smaller one */
    char *error; /* 256 bytes, for what went wrong */
    const void *inside;
};

/* 0: handled. Positive: it failed. Negative: broken off, to be handled again. */
typedef int drover_message_fn(void *arg, struct drover_message *m);

/*
 * Whether the queue is certain to be ours: the keeper said so not long ago. Whoever takes longer asks now
 * and then, and when it is not, breaks off within drover_message_grace_ms(): another worker may begin.
 */
int drover_message_is_sure(const struct drover_message *m);
int64_t drover_message_grace_ms(const struct drover_message *m);

enum drover_policy {
    DROVER_RETRY, /* a message that failed is tried again, later and later, then set aside */
    DROVER_SKIP,  /* it is set aside at once: posted to the queue qdo_error, and passed over */
    DROVER_STOP,  /* it stops the worker */
};

struct drover_worker_options {
    drover_message_fn *handle; /* from `parallel` threads, each with another queue */
    void *arg;
    void (*note)(void *arg, const char *line); /* what happens, for people; NULL: dropped */
    enum drover_policy policy;
    int retries;      /* before a message is set aside; 0: 10; negative: none */
    int parallel;     /* messages in hand at once; 0: 1 */
    int64_t quiet_ms; /* that the lists must rest before queues move; 0: 3 s; negative: none */
    int64_t poll_ms;  /* between two looks into an empty queue, beside those when the server tells
                         of a message; 0: 10 s */
    const char *const *only; /* these queues only; NULL: all */
    size_t only_count;
};

struct drover_worker;

/* Joins, with a session of its own, and works until it is stopped. What o points to must stay. */
int drover_worker_join(struct drover_queues *qs, const struct drover_worker_options *o,
                       struct drover_worker **ret_worker, struct drover_error *ret_error);

/* Asks it to finish what is in hand, give up its queues and leave. Returns at once. */
void drover_worker_stop(struct drover_worker *w);

/* Returns when it has left: 0, or REFUSED when a message failed and the policy is STOP. */
int drover_worker_wait(struct drover_worker *w);

/* Stops it if need be, waits, and frees it. */
void drover_worker_free(struct drover_worker *w);

/*
 * world - a tree of tasks on a keeper, with lists of what is pending, working and completed.
 *
 * A task has a name, a type and data, which is JSON. Its node names it in the lists: "a_t" at the top,
 * "a_t|b_t" for the child b of type t below it. Handlers claim by types, the oldest first; a task whose
 * ancestor is pending waits. What is claimed belongs to the keeper's session until it is completed,
 * released or failed, or until the session ends. (name, type: not empty, no space, '/', '\\', '|' or
 * control character.)
 *
 * In order: open a keeper; init once; open the world; the calls below, from any thread; close. Text that
 * comes back belongs to the drover_world_list that it came in, which the caller releases.
 */
struct drover_world;

enum drover_world_state {
    DROVER_WORLD_PENDING,
    DROVER_WORLD_WORKING,
    DROVER_WORLD_COMPLETED,
    DROVER_WORLD_NONE, /* in the tree, and in no list */
};

struct drover_world_item {
    const char *node;
    const char *name, *type;
    const char *path;   /* in the tree: "/zoott_w/a_t/b_t" */
    const char *parent; /* its path; NULL: at the top */
    const char *data;   /* of a claim and of drover_world_get(); else NULL */
    enum drover_world_state state;
    int64_t since_ms;  /* in this state, since the epoch; 0: not known */
    int64_t failures;  /* and what the last one said: */
    const char *error; /* NULL: none */
};

struct drover_world_list {
    struct drover_world_item *items;
    size_t count;
    int more; /* of drover_world_ls(): there are more after the last */
    void *memory;
};

void drover_world_list_release(struct drover_world_list *l);

/* Makes a world; no harm when it is there. */
int drover_world_init(struct drover_keeper *k, const char *world, struct drover_error *ret_error);

/* NO_NODE when it was not made. k must outlive it. */
int drover_world_open(struct drover_keeper *k, const char *world, struct drover_world **ret_world,
                      struct drover_error *ret_error);
void drover_world_close(struct drover_world *w);

struct drover_world_task {
    const char *name, *type;
    const char *data; /* JSON; NULL: null */
};

/* Regular expressions (PCRE), each of which must match the whole name or type. */
struct drover_world_match {
    const char *name, *type;
};

/* Names the child of a parent: text from malloc(), which drover frees; NULL: the name cannot be made. */
typedef char *drover_world_name_fn(void *arg, const char *parent, const char *child);

/*
 * Creates the task, or gives it new data, and makes it pending: below every task that matches parent, or
 * at the top where that is NULL. All of that together or nothing. name_fn may be NULL. One that is being
 * worked on is pending again when it is completed. UNKNOWN: it may have happened; queue it again or look.
 */
int drover_world_queue(struct drover_world *w, const struct drover_world_task *task,
                       const struct drover_world_match *parent, drover_world_name_fn *name_fn,
                       void *arg, struct drover_world_list *ret_list,
                       struct drover_error *ret_error);

/* The tasks of the tree that match, with nodes and paths. */
int drover_world_find(struct drover_world *w, const struct drover_world_match *match,
                      struct drover_world_list *ret_list, struct drover_error *ret_error);

/* Claims one task. 1: it is the one in ret_list; 0: there was none, not even after wait_ms. */
int drover_world_claim(struct drover_world *w, const char *const *types, size_t type_count,
                       int64_t wait_ms, struct drover_world_list *ret_list,
                       struct drover_error *ret_error);

/*
 * The end of a claim. NO_NODE: nobody works on it; FENCED: another session does. complete returns 1 when
 * the task was queued again meanwhile and is pending; fail keeps it pending, behind the others.
 */
int drover_world_complete(struct drover_world *w, const char *node, struct drover_error *ret_error);
int drover_world_release(struct drover_world *w, const char *node, struct drover_error *ret_error);
int drover_world_fail(struct drover_world *w, const char *node, const char *error,
                      struct drover_error *ret_error);

/* Takes it out of the tree and the lists. IN_USE: somebody works on it; NOT_EMPTY: tasks are below it. */
int drover_world_remove(struct drover_world *w, const char *node, struct drover_error *ret_error);

/* Those in a list, in the order of their nodes, after one (NULL: from the first), at most limit. */
int drover_world_ls(struct drover_world *w, enum drover_world_state state, const char *after,
                    size_t limit, struct drover_world_list *ret_list,
                    struct drover_error *ret_error);

int drover_world_get(struct drover_world *w, const char *node, struct drover_world_list *ret_list,
                     struct drover_error *ret_error);

/* Every task of the tree, a parent before its children. What fn returns, if it is not 0, ends it. */
typedef int drover_world_walk_fn(void *arg, const char *node, int depth,
                                 enum drover_world_state state);

int drover_world_walk(struct drover_world *w, drover_world_walk_fn *fn, void *arg,
                      struct drover_error *ret_error);

/*
 * batch - batches of jobs that move from state to state by priority, at the paths of the document
 * (/batches, /jobs, ...), beside servers and foreign clients on the same keeper.
 *
 *     drover_batches_open(keeper, NULL, &b, &error);
 *     drover_batch_create(b, "{\"batchID\": \"u-1\"}", bid, &error);
 *     drover_job_create(b, bid, "{\"configuration\": {...}, \"priority\": 20}", jid, &error);
 *     while (drover_job_acquire(b, "Pending", &job, &error) == 1) {
 *         ...
 *         drover_job_move(b, job.id, &(struct drover_job_move){.state = "next", .token = job.token,
 *                         .priority = -1}, &error);
 *     }
 *
 * Each change is one transaction. A lock belongs to the keeper's session; its token is refused, with
 * FENCED, once the lock was lost. Submissions, jobs and messages are JSON and text, ended by NUL. From
 * any thread.
 */
struct drover_batches;

enum { DROVER_BATCH_ID_SIZE = 14 }; /* "bid0000000000", "jid0000000000", and its NUL */

/* pipeline: state machines as JSON, NULL: the built-in ones. The keeper must outlive it. */
int drover_batches_open(struct drover_keeper *k, const char *pipeline,
                        struct drover_batches **ret_batches, struct drover_error *ret_error);
void drover_batches_close(struct drover_batches *b);

int drover_batch_create(struct drover_batches *b, const char *submission,
                        char ret_bid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error);

/* By the batchID of its submission. NO_NODE: there is none. */
int drover_batch_find(struct drover_batches *b, const char *uuid,
                      char ret_bid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error);

/* Takes the oldest batch that is "Pending", "Reporting" or "UpdateReporting". 1, or 0: there is none. */
int drover_batch_acquire(struct drover_batches *b, const char *state,
                         char ret_bid[DROVER_BATCH_ID_SIZE], int64_t *ret_token,
                         struct drover_error *ret_error);

/* Moves it on; from Reporting that commits its report. token 0: nobody may hold a lock on it. */
int drover_batch_move(struct drover_batches *b, const char *bid, const char *state, int64_t token,
                      struct drover_error *ret_error);

/* The name of its state, which lives for ever. */
int drover_batch_state(struct drover_batches *b, const char *bid, const char **ret_state,
                       struct drover_error *ret_error);

int drover_job_create(struct drover_batches *b, const char *bid, const char *job,
                      char ret_jid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error);

struct drover_job {
    char id[DROVER_BATCH_ID_SIZE], batch[DROVER_BATCH_ID_SIZE];
    int priority;
    int64_t token;
};

/* Takes the first job of a state, by priority. 1, or 0: there is none. */
int drover_job_acquire(struct drover_batches *b, const char *state, struct drover_job *ret_job,
                       struct drover_error *ret_error);

struct drover_job_move {
    const char *state;   /* a state, "next" or "fail" */
    const char *message; /* NULL: none */
    int priority;        /* from now on; -1: as it is */
    int64_t token;       /* 0: nobody may hold a lock on it */
    int keep;            /* the lock */
};

/* NOT_ALLOWED: it cannot become that; ret_error says what it can. */
int drover_job_move(struct drover_batches *b, const char *jid, const struct drover_job_move *m,
                    struct drover_error *ret_error);

int drover_job_state(struct drover_batches *b, const char *jid, const char **ret_state,
                     struct drover_error *ret_error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
