/*
 * sessions - the sessions that clients hold over HTTP.
 *
 * Each session is a keeper of its own. On the embedded keeper it is a session of the store and
 * survives a restart of the server; on an ensemble it is a subsession of the server's session and
 * ends with it. What it holds (ephemeral nodes) is deleted when the session is ended or was not
 * used for its timeout. The store does not expire sessions of its own process, so this table does.
 *
 *     struct keeper *k = sessions_use(t, id, &err); // from any thread; keeps the session alive
 *     if (!k)
 *         return err;
 *     ... use k ...
 *     sessions_done(t, k);
 *
 * What always holds:
 *  - A session does not end while it is in use. Its timeout runs from the end of its last use.
 *  - A session does not time out while a request waits with it (sessions_wait), but it can be
 *    ended.
 *  - The id is session and password in hex: whoever knows it can use the session. It cannot be
 *    guessed and is not visible in the tree.
 *  - sessions_close() leaves the sessions to their timeouts, as a crash would: after the next start
 *    the same ids work again on the embedded keeper. No session may be in use by then.
 */
#ifndef SERVER_SESSIONS_H
#define SERVER_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "keeper/keeper.h"
#include "keeper/local/local.h"

enum {
    SESSION_ID_LEN = 2 * (8 + KEEPER_PASSWORD_LEN),
    SESSIONS_MAX = 20000,
};

struct session_table;

struct sessions_options {
    struct local *local; /* the embedded keeper; NULL: the sessions live inside a host's */
    size_t max;          /* 0: SESSIONS_MAX; in the embedded keeper all sessions count */

    /* Borrows the server's present session (NULL: there is none now), and returns it. */
    struct keeper *(*host)(void *arg);
    void (*unhost)(void *arg, struct keeper *k);

    /* A session ends that requests wait with. With the table's lock held; may be NULL. */
    void (*ended)(void *arg, struct str id);
    void *arg;

    /* For tests: a table with its own clock has no thread; call sessions_tick(). */
    int64_t (*now_ms)(void *arg);
};

struct session_info {
    char id[SESSION_ID_LEN + 1];
    int32_t timeout_ms;
    int64_t silent_ms; /* since it was last used */
};

struct session_table *sessions_open(const struct sessions_options *o);
void sessions_close(struct session_table *t);

/* How many there are in the table. Any thread. */
size_t sessions_count(struct session_table *t);

/* Another maximum, as in the options; sessions beyond it stay. Any thread. */
void sessions_set_max(struct session_table *t, size_t max);

/*
 * A new session. timeout_ms 0: KEEPER_TIMEOUT_DEFAULT_MS; clamped to the keeper's limits. TOO_MANY
 * when there are too many, CLOSED while there is no host.
 */
int sessions_create(struct session_table *t, int32_t timeout_ms, struct session_info *ret_info);

/*
 * Borrows the keeper of a session until sessions_done(). NULL on failure: *ret_err, if given, is
 * then SESSION_EXPIRED (no such session, or it has ended) or the error of resuming it.
 */
struct keeper *sessions_use(struct session_table *t, struct str id, int *ret_err);
void sessions_done(struct session_table *t, struct keeper *k);

/*
 * A request waits with the session; false: there is no such session. Then, it does not wait any
 * more.
 */
bool sessions_wait(struct session_table *t, struct str id);
void sessions_unwait(struct session_table *t, struct str id);

/* Describes it; touch: and keeps it alive. */
int sessions_get(struct session_table *t, struct str id, bool touch, struct session_info *ret_info);

/* Ends it: when this returns 0, what it held is deleted. Waits for a use that is under way. */
int sessions_end(struct session_table *t, struct str id);

/*
 * The server's session has ended, and with it all its subsessions. Each returns its host when
 * nobody uses it any more; does not wait for that.
 */
void sessions_evict(struct session_table *t);

/* Ends those that timed out. Returns when to call it again; INT64_MAX: never. */
int64_t sessions_tick(struct session_table *t);

/*
 * The module (sessions_http.c): POST /v1/sessions; GET, PUT and DELETE /v1/sessions/{id}. Other
 * modules find the table at context->sessions.
 */

struct context;
struct http_request;
struct http_watch;

extern const struct module session_module;

/*
 * Borrows the keeper of the session that a request names, or answers the request with the error and
 * returns NULL. Return the keeper with sessions_done().
 */
struct keeper *session_of_request(struct context *h, struct http_request *r, struct str id);

/*
 * Waiting with a session, as http_watch() and http_park() on context->topic. The session stays
 * alive while the request is parked, and the handler runs again at once when the session ends.
 */
struct http_watch session_watch(struct context *h, struct http_request *r, struct str id,
                                const uint64_t *keys, size_t count);
bool session_park(struct context *h, struct http_request *r, struct str id,
                  const struct http_watch *w, int64_t wait_ms);

#endif
