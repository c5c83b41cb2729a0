/*
 * callback - the two threads of batches in drover serve: one reports that batches have ended, by an
 * event, and by a command or URL; the other watches the keeper for acquires that wait.
 *
 * A report is due while its batch is Reporting or UpdateReporting, which is durable (item.h).
 * Every server publishes an event "batch-done" for each due batch that it sees, to its own
 * listeners; after a restart it publishes those that are still due again.
 *
 * With a hook, a server also reports: it locks the batch, runs the hook, and moves the batch. The
 * state changes exactly once, because the move insists on the lock. The hook runs at least once: if
 * a server dies between the hook and the move, the batch stays due and the hook runs again. All
 * calls for one report carry the same key, BID-NUMBER (DROVER_REPORT in the environment,
 * Idempotency-Key over HTTP), and no two reports share a key, so a hook that remembers keys can act
 * exactly once. A hook that fails is retried with growing delays of up to a minute.
 *
 * The same thread corrects, every 30 s, what no watch tells: it indexes what foreign clients moved
 * by its status alone (item.h), and settles batches whose jobs they ended.
 */
#ifndef BATCH_CALLBACK_H
#define BATCH_CALLBACK_H

#include "batch/store.h"

enum {
    BATCH_RETRY_MS = 1000, /* while something is unfinished, or the keeper fails */
    BATCH_SWEEP_MS = 30 * 1000,
    BATCH_HOOK_TIMEOUT_MS = 60 * 1000,
};

struct batch_report {
    const char *batch, *state;
    int64_t number;
    struct str failed; /* JSON, a list of ids */
    const char *json;  /* the whole report, as the hook gets it */
};

/* Of both threads. */
struct batch_thread_options {
    struct batch_store *store;
    struct keeper *(*borrow)(void *arg); /* NULL: there is none now */
    void (*give_back)(void *arg, struct keeper *k);
    int (*ready)(void *arg, struct batch_call *c); /* called before the keeper is used */
    void *arg;

    /* Reporting. */
    void (*due)(void *arg, const struct batch_report *r); /* publishes the event */
    void (*warn)(void *arg, const char *line);
    const char *hook; /* a shell command, or an http:// or https:// URL; NULL: none */

    /* Watching: how many acquires wait for a list; wake so many; a report may be due. */
    size_t (*waiting)(void *arg, const struct batch_view *v);
    void (*wake)(void *arg, const struct batch_view *v, int max);
    void (*reporting)(void *arg);
};

struct batch_callbacks;

struct batch_callbacks *batch_callbacks_open(const struct batch_thread_options *o);

/* A report may be due: scans now. From any thread. */
void batch_callbacks_wake(struct batch_callbacks *n);

/* Stops the thread, and a hook that is running. */
void batch_callbacks_close(struct batch_callbacks *n);

/* In watch.c. The functions are safe from any thread, also while the watcher opens. */
struct batch_watcher;

struct batch_watcher *batch_watcher_open(const struct batch_thread_options *o);
void batch_watcher_close(struct batch_watcher *w);

/* A watch of the store fired. */
void batch_watcher_stale(void *watcher);

/* An acquire is about to wait for a list, or has locked an item of a list while another waits. */
void batch_watcher_want(struct batch_watcher *w, struct batch_view *v);

/* The session that was borrowed has ended, or there is a new one. */
void batch_watcher_session(struct batch_watcher *w, bool ended);

#endif
