/*
 * session - the sessions of a tree and their deadlines.
 *
 * Pure: time is a parameter. A session that this process holds open (pins > 0) never expires; any
 * other expires when it has not been touched for its timeout. first_ephemeral is the head of the
 * list of its ephemeral nodes, which the tree maintains.
 */
#ifndef KEEPER_TREE_SESSION_H
#define KEEPER_TREE_SESSION_H

#include "base/map.h"
#include "keeper/keeper.h"

struct tree_session {
    int64_t id;
    int32_t timeout_ms;
    char password[KEEPER_PASSWORD_LEN];
    uint32_t first_ephemeral; /* ref of a node, 0: none */

    /* In memory only: */
    int64_t deadline_ms;
    int pins;
};

struct tree_sessions {
    struct tree_session **list; /* unordered; NULL where one was removed */
    uint32_t len, cap, count;
    struct map by_id;
};

void sessions_release(struct tree_sessions *s);
struct tree_session *sessions_find(const struct tree_sessions *s, int64_t id);

/* Adds a session, or changes timeout and password of an existing one. */
struct tree_session *sessions_put(struct tree_sessions *s, int64_t id, int32_t timeout_ms,
                                  const char *password);
void sessions_remove(struct tree_sessions *s, int64_t id);

void session_touch(struct tree_session *s, int64_t now_ms);

/* Gives every session a full timeout: after a start, or after this process was stopped. */
void sessions_touch_all(struct tree_sessions *s, int64_t now_ms);

/* An expired session, or NULL; and when the next one may expire, INT64_MAX: never. */
struct tree_session *sessions_expired(struct tree_sessions *s, int64_t now_ms);
int64_t sessions_next_deadline(const struct tree_sessions *s);

#endif
