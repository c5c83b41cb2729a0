/*
 * callbacks - what watches and commits said, written down by their callbacks to be waited for and
 * asserted on by the case. All belong to the fixture.
 */
#ifndef CONFORMANCE_CALLBACKS_H
#define CONFORMANCE_CALLBACKS_H

#include "fixture.h"

enum { RECORDER_MAX = 64 };

/*
 * A watch and what it told. RECONNECTED is not counted: over a network it may come at any time.
 * `hook`, where given, runs inside the callback, before the event is counted.
 */
struct recorder {
    struct keeper *k;
    struct keeper_watch *watch;
    void (*hook)(struct recorder *r, enum keeper_event event);
    void *hook_arg;
    const char *path;

    pthread_mutex_t lock;
    pthread_cond_t told;
    int count;
    int wrong_paths;
    enum keeper_event events[RECORDER_MAX]; /* the first of them */
    pthread_t thread;                       /* that ran the latest */
};

/* A recorder without a watch, and setting it without asserting: for use inside callbacks. */
struct recorder *recorder_new(struct fixture *f, const char *path);
int recorder_watch(struct recorder *r, struct keeper *k, enum keeper_watch_kind kind);

struct recorder *watch(struct fixture *f, struct keeper *k, const char *path,
                       enum keeper_watch_kind kind);
struct recorder *watch_hook(struct fixture *f, struct keeper *k, const char *path,
                            enum keeper_watch_kind kind,
                            void (*hook)(struct recorder *r, enum keeper_event event), void *arg);
void unwatch(struct recorder *r);

/* Waits for at least `count` events. */
#define recorder_wait(r, count) recorder_wait_at((r), (count), __FILE__, __LINE__)
void recorder_wait_at(struct recorder *r, int count, const char *file, int line);
int recorder_count(struct recorder *r);

/* That many events so far; when it fails, it says which there were. */
#define expect_count(r, count) expect_count_at((r), (count), __FILE__, __LINE__)
void expect_count_at(struct recorder *r, int count, const char *file, int line);

/* Exactly this event and no other so far, about the path that was watched. */
#define expect_event(r, event) expect_event_at((r), (event), __FILE__, __LINE__)
void expect_event_at(struct recorder *r, enum keeper_event event, const char *file, int line);

/*
 * A node and a watch on it that has told one event when quiesce() returns: events come in the order
 * of the changes, so whatever an earlier change was to tell has been told by then. `by` makes the
 * change.
 */
void quiesce(struct fixture *f, struct keeper *watcher, struct keeper *by);

/* What the callbacks of a series of commits said, in the order in which they came. */
struct done {
    size_t index; /* of the submission */
    int err;
    size_t count; /* of results */
    struct keeper_result first;
    pthread_t thread;
};

struct done_log {
    struct fixture *f;
    void (*hook)(struct done_log *log, const struct done *d); /* runs inside the callback */
    void *hook_arg;

    pthread_mutex_t lock;
    pthread_cond_t told;
    size_t submitted; /* guarded too: several threads may submit */
    size_t count;     /* callbacks; also those beyond the room in `done` */
    size_t max;
    struct done *done;
};

struct done_log *done_log_new(struct fixture *f, size_t max);

/* keeper_commit() with a callback that writes to the log. Returns what that returns. */
int log_commit(struct done_log *log, struct keeper *k, const struct keeper_op *ops, size_t count);

#define done_wait(log, count) done_wait_at((log), (count), __FILE__, __LINE__)
void done_wait_at(struct done_log *log, size_t count, const char *file, int line);
size_t done_count(struct done_log *log);

/* Exactly as many callbacks as submissions, in their order. */
void expect_done_in_order(struct done_log *log);

#endif
