/*
 * player - does the same on a store and on the model, and compares. Every call fails the test if
 * the two differ: in an error, a path, a stat, a child, a byte of data, a zxid.
 */
#ifndef CRASH_PLAYER_H
#define CRASH_PLAYER_H

#include "fs_faulty.h"
#include "model.h"
#include "snapper.h"
#include "store.h"

enum { PLAYER_SESSIONS_MAX = 6, PLAYER_OPS_MAX = 6 };

/* id 0: there is none. k NULL: it was abandoned and can be resumed. */
struct player_session {
    int64_t id;
    struct keeper_session name;
    struct keeper *k;
};

struct player {
    struct model model;
    struct store *s;
    struct fs_faulty *f;
    struct snapper snapper;
    char *dir;
    enum local_mode mode;
    struct player_session sessions[PLAYER_SESSIONS_MAX];
    struct rng rng;
    uint64_t snapshots; /* that starts have found */
};

void player_open(struct player *p, enum local_mode mode, uint64_t seed);
void player_close(struct player *p);

void player_session_open(struct player *p, struct player_session *s);
void player_session_close(struct player *p, struct player_session *s);
void player_session_leave(struct player *p, struct player_session *s);
void player_session_resume(struct player *p, struct player_session *s);

/* A transaction; `later`: by keeper_commit. */
void player_multi(struct player *p, struct player_session *s, const struct keeper_op *ops,
                  size_t count, bool later);

/* One node, or that there is none; or everything. */
void player_look(struct player *p, struct keeper *k, const char *path);
void player_look_at_all(struct player *p, struct keeper *k);

/* Closes the store and opens it again. Sessions are closed or left, at random. */
void player_restart(struct player *p);

/*
 * Continues in a copy of the directory, as after a kill. At random the newest snapshot is missing
 * from it.
 */
void player_kill(struct player *p);

#endif
