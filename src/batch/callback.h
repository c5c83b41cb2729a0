/*
 * notify - tells that batches are done, in drover serve: an event, and a command or a web hook.
 *
 * A batch is due while it is Reporting or UpdateReporting, which is durable (batch.h). Every server
 * publishes an event "batch-done" for each due batch that it sees; its listeners are its own, and one
 * that listens again after a restart gets those that are still due once more.
 *
 * With a hook, a server also reports: it acquires the batch, calls the hook, and moves the batch on.
 * The state changes exactly once, because the move insists on the lock. The hook is called at least
 * once: whoever dies between the call and the move leaves the batch due, and it is called again. Each
 * call of one report carries the same key, BID-NUMBER (DROVER_REPORT in the environment,
 * Idempotency-Key over HTTP), and no two reports share one: a hook that remembers keys acts exactly
 * once. A hook that fails is called again, later each time, up to a minute.
 *
 * It also finds what foreign clients finished step by step: batches that are Processing and have no
 * job left there.
 */
#ifndef BATCH_CALLBACK_H
#define BATCH_CALLBACK_H

#include "batch/store.h"

enum {
    BATCH_SCAN_MS = 1000, /* what other servers and foreign clients did is seen by then */
    BATCH_SWEEP_MS = 30 * 1000,
    BATCH_HOOK_TIMEOUT_MS = 60 * 1000,
};

struct batch_report {
    const char *batch, *state;
    int64_t report;    /* its number */
    struct str failed; /* JSON, a list of ids */
    const char *json;  /* all of it, as the hook gets it */
};

struct batch_callback_options {
    struct batch_store *store;
    struct keeper *(*borrow)(void *arg); /* NULL: there is none now */
    void (*give_back)(void *arg, struct keeper *k);
    int (*ready)(void *arg, struct batch_call *c); /* before anything is done */
    void (*tick)(void *arg); /* after each look: others may have changed something */
    void (*done)(void *arg, const struct batch_report *n); /* the event */
    void (*warn)(void *arg, const char *line);
    void *arg;
    const char *hook; /* a command for the shell, or an http:// or https:// URL; NULL: none */
};

struct batch_callbacks;

int batch_callbacks_open(const struct batch_callback_options *o,
                         struct batch_callbacks **ret_callbacks);

/* A batch may be due: look now. From any thread. */
void batch_callbacks_wake(struct batch_callbacks *n);

/* Ends a hook that runs. */
void batch_callbacks_close(struct batch_callbacks *n);

/* The hook, in hook.c: 0, or what went wrong. stop is asked while it runs. */
int batch_hook_run(const char *hook, const struct batch_report *n, bool (*stop)(void *arg),
                   void *arg, struct err_info *ret_error);

#endif
