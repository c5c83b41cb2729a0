/*
 * house - what the rooms of drover serve have in common: the loop, the keeper, the events, the server.
 *
 * The house is opened before the rooms and closed after them. On the embedded keeper `local` is there
 * and rooms may open sessions of their own on it; on an ensemble it is NULL.
 *
 * The server's own session is borrowed for as long as something is done with it, from any thread, and
 * given back. On an ensemble it may end: then there is none for a while, until the next; one that is
 * over is closed when the last borrower has returned it. Callbacks of commits and watches come on the
 * loop. Who keeps watches keeps the session borrowed as long, listens with house_listen(), and takes
 * its watches back and returns the session when it is told that it has gone.
 */
#ifndef SERVER_CONTEXT_H
#define SERVER_CONTEXT_H

#include <uv.h>

#include "base/err.h"
#include "http/events.h"
#include "http/server.h"
#include "keeper/keeper.h"
#include "keeper/local/local.h"

struct zookeeper_session;
struct leader;
struct service;
struct session_table;

/* The session of the moment; NULL: there is none. On the loop. */
typedef void context_session_fn(void *arg, struct keeper *k);

struct context_listener {
    context_session_fn *fn;
    void *arg;
};

enum { CONTEXT_LISTENERS_MAX = 16 };

struct context {
    uv_loop_t *loop;
    struct local *local; /* NULL on an ensemble */
    struct events *events;
    struct metrics *metrics; /* http/metrics.h: rooms register their figures when they open */
    struct session_table *sessions; /* that clients hold over HTTP: session/sessions.h */
    struct service *tasks;          /* task/service.h */
    struct leader *leader;          /* task/leader.h; NULL on the embedded keeper */
    struct http_server *http;       /* NULL: HTTP is not served */
    const char *token;              /* clients must send it; commands are given it; NULL: none */
    const char *data_dir;           /* of the embedded keeper; NULL: none */
    const char *url;                /* of this server, "http://127.0.0.1:8048"; NULL without HTTP */
    const char *keeper_url;         /* for clients of the keeper: zk://...; NULL: none is served */

    /* The house's own. */
    struct zookeeper_session *ensemble;
    struct keeper *keeper; /* on the embedded keeper */
    uv_async_t wake;
    struct context_listener listeners[CONTEXT_LISTENERS_MAX];
    size_t listener_count;
};

/* One of local and ensemble is given. events are the house's from now on. */
int context_open(struct context *h, uv_loop_t *loop, struct local *local,
                 struct zookeeper_session *ensemble, struct err_info *ret_error);

/* Ends the server's session. Run the loop until its handles are gone. */
void context_close(struct context *h);

/*
 * On the embedded keeper: a session for a module alone, with callbacks on its thread (keeper_options.wake); the
 * module closes it. On an ensemble it does nothing.
 */
int context_connect(struct context *h, void (*wake)(void *arg), void *arg,
                    struct keeper **ret_keeper, struct err_info *ret_error);

/* The server's session, to be returned; NULL while an ensemble is away (answer 503). Any thread. */
struct keeper *context_keeper(struct context *h);
void context_return(struct context *h, struct keeper *k);

/*
 * From now on fn is called, on the loop, when the server's session has gone and when there is a new
 * one. Not for the one that is there already.
 */
void context_listen(struct context *h, context_session_fn *fn, void *arg);

#endif
