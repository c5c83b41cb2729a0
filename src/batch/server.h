/*
 * server - batches and jobs in drover serve: the module, the scope of one request, and two threads.
 *
 * The keeper is that of the session that the request names, else the server's own. All routes run
 * on worker threads. One thread reports that batches have ended, by an event, and by a command or
 * URL; the other watches the keeper for acquires that wait.
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
 * by its status alone (item.h).
 */
#ifndef BATCH_SERVER_H
#define BATCH_SERVER_H

#include "batch/item.h"
#include "server/context.h"

enum { BATCH_WAIT_MAX_MS = 60 * 1000, BATCH_LIST_MAX = 10000, BATCH_LIST_DEFAULT = 1000 };

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

/* Of the threads. */
struct batch_thread_options {
    struct batch_store *store;
    struct keeper *(*borrow)(void *arg); /* NULL: there is none now */
    void (*give_back)(void *arg, struct keeper *k);
    int (*ready)(void *arg, struct batch_call *c); /* called before the keeper is used */
    void *arg;

    /* Reporting. */
    void (*due)(void *arg, const struct batch_report *r); /* publishes the event */
    void (*warn)(void *arg, const char *line);
    const char *hook;            /* a shell command, or an http:// or https:// URL; NULL: none */
    const struct policy *policy; /* as whom the hook runs; NULL: as this process */

    /* Watching: how many acquires wait for a list; wakes so many. */
    size_t (*waiting)(void *arg, const struct batch_view *v);
    void (*wake)(void *arg, const struct batch_view *v, uint32_t max);
    struct batch_callbacks *callbacks; /* woken when a report may be due */
};

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

/* The session that was borrowed has ended (k NULL), or there is a new one. */
void batch_watcher_session(void *watcher, struct keeper *k);

/*
 * In active.c: the batches that are not in a final state. Of the thread that watches, except
 * `changed`: a watch fired.
 */
struct batch_actives *batch_actives_open(void (*changed)(void *arg), void *arg);
void batch_actives_close(struct batch_actives *s);

/* Removes all watches, which were set through the keeper of the call. */
void batch_actives_clear(struct batch_actives *s);

/* Adds those that are in the list of a state. */
int batch_actives_read(struct batch_actives *s, struct batch_call *c, int state);

/* Looks at those that changed, or at all; the earlier of *next_ms and when to look again. */
void batch_actives_look(struct batch_actives *s, struct batch_call *c, bool all, int64_t *next_ms);

/* In metrics.c. */
struct batch_metrics;
struct metrics;

struct batch_metrics *batch_metrics_open(const struct batch_thread_options *o,
                                         struct metrics *registry);
void batch_metrics_close(struct batch_metrics *m);

struct batch_server {
    struct context *context;
    struct batch_store *store;
    struct arena arena; /* holds the machines */
    struct batch_callbacks *callbacks;
    struct batch_watcher *watcher;
    struct batch_metrics *metrics;
    _Atomic int64_t retention_ms; /* 0: ended items stay */
    struct periodic *purge;       /* NULL: that has been so since the start */
    pthread_mutex_t lock;
    bool ready; /* batch_store_init() was done */
};

/* The fields of all routes; each route declares the ones that it takes. */
struct batch_in {
    struct str id;   /* of the batch, job or access item */
    int queue;       /* of access items: 0 small, 1 large */
    struct str kind; /* of locks */
    struct str name, who;
    struct str session, state, message, uuid, after, batch, profile, path;
    int64_t token, wait_ms, start, limit, priority, age_ms;
    bool keep, force, repair, all, remove;
    const struct json *submission, *body;
};

struct batch_request {
    struct http_request *r;
    const struct batch_in *in;
    enum batch_kind_id kind; /* of the items of the route */
    struct batch_call call;
    struct err_info why;
    struct buf out;
};

/* False: it has been answered. */
bool batch_request_open(struct batch_request *d, struct http_request *r);

/* Answers with d->out, {} if that is empty, or with an error. */
void batch_request_close(struct batch_request *d, int err);

/* Opens a request, calls answer, and closes it. */
void batch_request_run(struct http_request *r, int (*answer)(struct batch_request *d));

/* Defines a handler. Its body gets d, writes to d->out, and returns 0 or an error. */
#define BATCH_HANDLER(name)                                                                        \
    static int answer_##name(struct batch_request *d);                                             \
    void name(struct http_request *r)                                                              \
    {                                                                                              \
        batch_request_run(r, answer_##name);                                                       \
    }                                                                                              \
    static int answer_##name(struct batch_request *d)

/* {"KEY": [ and ]} */
void batch_request_open_list(struct batch_request *d, const char *key);
int batch_request_close_list(struct batch_request *d); /* 0 */

/* Gives the keeper back without an answer, before the request waits. */
void batch_request_leave(struct batch_request *d);

/* What acquires wait for on context->topic: an item of a list can be acquired. */
uint64_t batch_list_key(const struct batch_view *v);

/* Calls batch_store_init() once. */
int batch_server_ready(void *server, struct batch_call *c);

/* The handlers. */
route_fn post_item, list_items, count_items, get_item, delete_item, move_item, acquire_item;
route_fn post_batch_jobs, put_field, post_job_verb, release_jobs;
route_fn get_locks, get_lock, put_lock, delete_lock;
route_fn get_machines, get_legacy, post_legacy, post_fsck, post_purge;

struct route_table batch_server_routes(void *module);

extern const struct module batch_module;

#endif
