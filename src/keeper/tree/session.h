/*
 * session - who is connected, and until when they count as alive.
 *
 * Pure: time is a parameter. A session that is held open in this process (pins > 0) never runs out;
 * any other ends when it has not been touched for its timeout. Which nodes it holds is the tree's
 * business: first_ephemeral is the head of a list that the tree keeps.
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

    /* Not on disk: */
    int64_t deadline_ms;
    int pins;
};

struct tree_sessions {
    struct tree_session **list; /* in no order; NULL where one was removed */
    uint32_t len, cap, count;
    struct map by_id;
};

void sessions_release(struct tree_sessions *s);
struct tree_session *sessions_find(const struct tree_sessions *s, int64_t id);

/* Adds one, or gives the one that is there already a new timeout and password. */
struct tree_session *sessions_put(struct tree_sessions *s, int64_t id, int32_t timeout_ms,
                                  const char *password);
void sessions_remove(struct tree_sessions *s, int64_t id);

void session_touch(struct tree_session *s, int64_t now_ms);

/* Everybody gets a full timeout from now on: after a start, or after this process stood still. */
void sessions_touch_all(struct tree_sessions *s, int64_t now_ms);

/* The first session found that has run out, or NULL; and when the next one may, INT64_MAX: never. */
struct tree_session *sessions_expired(struct tree_sessions *s, int64_t now_ms);
int64_t sessions_next_deadline(const struct tree_sessions *s);

#endif
