/*
 * sessions - the sessions that clients hold over HTTP.
 *
 * Such a session is a keeper of its own. On the embedded keeper it is a session of the store, so it
 * outlives a restart of the server; on an ensemble it is a lodger inside the server's session and
 * goes when that goes. Either way what it holds (ephemeral nodes) goes when it is ended, or when
 * nothing was heard of it for its timeout. The store does not count silence for keepers that are
 * connected in its own process, so the table does.
 *
 *     k = sessions_use(t, id, &err);      from any thread; counts as a sign of life
 *     if (!k) answer err
 *     ... keeper_multi(k, ...) ...
 *     sessions_done(t, k);
 *
 * What always holds:
 *  - A session does not end while it is in use. Its time runs from the end of its last use.
 *  - The id is session and password in hex: whoever knows it holds the session. It cannot be guessed,
 *    and is not shown anywhere in the tree.
 *  - sessions_close() leaves the sessions to their timeouts, as a crash would: after the next start
 *    the same ids work again on the embedded keeper. Nothing may be in use by then.
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
    SESSIONS_MAX = 10000,
};

struct session_table;

struct sessions_options {
    struct local *local; /* the embedded keeper; NULL: the sessions live inside a host's */

    /* The host: borrows the server's session of the moment (NULL: none now), and gives it back. */
    struct keeper *(*host)(void *arg);
    void (*unhost)(void *arg, struct keeper *k);
    void *arg;

    /* For tests: with a clock of its own the table has no thread, and sessions_tick() is called. */
    int64_t (*now_ms)(void *arg);
};

struct session_info {
    char id[SESSION_ID_LEN + 1];
    int32_t timeout_ms;
    int64_t silent_ms; /* since the last sign of life */
};

int sessions_open(const struct sessions_options *o, struct session_table **ret_table);
void sessions_close(struct session_table *t);

/*
 * A new session. timeout_ms 0: KEEPER_TIMEOUT_DEFAULT_MS; clamped to the keeper's limits. TOO_MANY
 * when there are SESSIONS_MAX, CLOSED while there is no host.
 */
int sessions_create(struct session_table *t, int32_t timeout_ms, struct session_info *ret_info);

/*
 * Borrows the keeper of a session until sessions_done(). NULL when there is none: *ret_err, where
 * given, is SESSION_EXPIRED (there is no such session, or it has ended) or what kept it from being
 * found out.
 */
struct keeper *sessions_use(struct session_table *t, struct str id, int *ret_err);
void sessions_done(struct session_table *t, struct keeper *k);

/* A sign of life. */
int sessions_touch(struct session_table *t, struct str id, struct session_info *ret_info);

/* What is known of it; no sign of life. */
int sessions_get(struct session_table *t, struct str id, struct session_info *ret_info);

/* Ends it: when this returns 0, what it held is gone. A use that is under way is waited for. */
int sessions_end(struct session_table *t, struct str id);

/*
 * The host's session is over: so are those that live in it. They give it back as soon as nobody uses
 * them; does not wait for that.
 */
void sessions_evict(struct session_table *t);

/* Ends those whose time is over. Returns when the next one may be, INT64_MAX: never. */
int64_t sessions_tick(struct session_table *t);

#endif
