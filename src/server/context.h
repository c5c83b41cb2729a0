/*
 * context - the modules of drover serve, and what they share: the loop, the keeper, the events, the
 * sessions of clients, the HTTP server.
 *
 * The context is opened before the modules and closed after them. On the embedded keeper `local` is
 * set and modules may open sessions of their own on it; on an ensemble it is NULL.
 *
 * The server's own session is borrowed for as long as it is used, from any thread, and then
 * returned. On an ensemble the session may end: context_keeper() then returns NULL until there is a
 * new one, and the old one is closed when its last borrower has returned it. Callbacks of commits
 * and watches run on the loop. A module that keeps watches keeps the session borrowed, listens with
 * context_listen(), and removes its watches and returns the session when it hears that the session
 * has ended.
 */
#ifndef SERVER_CONTEXT_H
#define SERVER_CONTEXT_H

#include <uv.h>

#include "base/err.h"
#include "base/option.h"
#include "http/events.h"
#include "http/server.h"
#include "keeper/keeper.h"
#include "keeper/local/local.h"
#include "keeper/zookeeper/zookeeper.h"

struct audit;
struct auth;
struct backup_stream;
struct dag;
struct ground;
struct leader;
struct policy;
struct reload;
struct service;
struct session_table;
struct tokens;
struct wire;

/* The present session; NULL: there is none. On the loop. */
typedef void context_session_fn(void *arg, struct keeper *k);

struct context_listener {
    context_session_fn *fn;
    void *arg;
};

enum { CONTEXT_LISTENERS_MAX = 16 };

struct context {
    uv_loop_t *loop;     /* NULL: not open */
    struct local *local; /* NULL on an ensemble */
    struct events *events;
    struct metrics *metrics;        /* modules register theirs when they open */
    struct http_topic topic;        /* what requests wait for */
    struct session_table *sessions; /* of clients over HTTP: server/sessions.h */
    struct tokens *tokens;          /* server/tokens.h */
    struct service *tasks;          /* task/service.h */
    struct dag *dag;                /* dag/service.h; NULL: not open */
    struct leader *leader;          /* server/leader.h; NULL on the embedded keeper */
    const struct policy *policy;    /* of commands: base/policy.h; NULL: not open */
    struct ground *ground;          /* server/ground.h; NULL: not open */
    struct reload *reload;          /* server/reload.h: hooks for SIGHUP; NULL: none are called */
    struct backup_stream *backup;   /* server/backup.h, the one under way; NULL: none */
    void (*on_written)(void *arg);  /* the loop has written changes itself: answers may leave */
    void *on_written_arg;
    struct http_server *http; /* NULL: HTTP is not served */
    struct auth *auth;        /* server/auth.h: who may do what */
    struct audit *audit;      /* server/audit.h; NULL: none */
    size_t sessions_max;      /* of clients, on both ports; 0: the default */
    const char *data_dir;     /* of the embedded keeper; NULL: none */
    const char *url;          /* of this server, "http://127.0.0.1:8048"; NULL without HTTP */
    const char *keeper_url;   /* for clients of the keeper: zk://...; NULL: none is served */

    struct zookeeper_session *ensemble; /* NULL: the embedded keeper */
    struct wire *wire;                  /* the ZooKeeper port; NULL: none */

    /* Private to context.c. */
    struct keeper *keeper; /* on the embedded keeper */
    uv_async_t wake;
    struct context_listener listeners[CONTEXT_LISTENERS_MAX];
    size_t listener_count;
};

/*
 * The server's session on a ZooKeeper ensemble. One that has ended is closed, on the loop, when its
 * last borrower has returned it. Callbacks of the keeper run on the loop. After the first time,
 * connecting and everything else that waits for the ensemble happens on another thread.
 */
struct zookeeper_session;

/*
 * "user:password" of an ensemble: the first line of the file, or $DROVER_ZK_AUTH. Neither is
 * visible in a list of processes. NULL: there is none. To be freed.
 */
int zookeeper_auth_read(const char *file, char **ret_auth, struct err_info *ret_error);

struct zookeeper_session_options {
    const char *url;
    const char *auth_file;    /* "user:password"; NULL: $DROVER_ZK_AUTH, if set */
    int32_t timeout_ms;       /* 0: KEEPER_TIMEOUT_DEFAULT_MS */
    struct zookeeper_tls tls; /* the names outlive the session */
};

/* Connects, and warns if everybody may write below the chroot. */
int zookeeper_session_open(uv_loop_t *loop, const struct zookeeper_session_options *o,
                           struct zookeeper_session **ret_ensemble, struct err_info *ret_error);

/* Ends the session; all borrowers have returned it. Frees itself: run the loop until then. */
void zookeeper_session_close(struct zookeeper_session *e);

/* Opens a context whose members are set; of local and ensemble exactly one. */
int context_open(struct context *h, uv_loop_t *loop, struct err_info *ret_error);

/* Ends the server's session. Run the loop until its handles are gone. */
void context_close(struct context *h);

/*
 * On the embedded keeper: opens a session for one module, whose callbacks run on the thread of that
 * module (keeper_options.wake). The module closes it. On an ensemble it does nothing.
 */
int context_connect(struct context *h, void (*wake)(void *arg), void *arg,
                    struct keeper **ret_keeper, struct err_info *ret_error);

/* Borrows the server's session; NULL while there is none (answer 503). Any thread. */
struct keeper *context_keeper(struct context *h);
void context_return(struct context *h, struct keeper *k);

/*
 * From now on fn is called, on the loop, when the server's session has ended and when there is a
 * new one; not for the present one.
 */
void context_listen(struct context *h, context_session_fn *fn, void *arg);

/*
 * The modules: tasks, the DAG, worlds, queues, batches.
 *
 * Modules are opened in the order of their table, which the command `serve` owns; a module may use,
 * through the context, the modules before it. They are closed in the reverse order, when no request
 * is left and no handler runs. Handles that a module leaves on the loop close by themselves.
 *
 * A module declares its own options of `serve` and keeps their values itself. They are parsed
 * before the modules are opened. Those with OPTION_RELOADS get new values later, on the loop; the
 * module hears of it by `reload`.
 */
struct module {
    const char *name;
    int (*open)(struct context *h, void **ret_module, struct err_info *ret_error);
    struct route_table (*routes)(void *module); /* NULL: none */
    bool (*ready)(void *module);                /* for /readyz, on the loop; NULL: always */
    void (*reload)(void *module);               /* its options may have changed; NULL: none can */
    void (*close)(void *module);
    const struct option *options; /* of `drover serve` */
    size_t option_count;
};

#endif
