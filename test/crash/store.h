/*
 * store - an open store with its messages, its state as text, and the texts of all its past states.
 */
#ifndef CRASH_STORE_H
#define CRASH_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "keeper/local/local.h"
#include "support.h"

struct tree;

/*
 * A store and one session on it. Its clock moves only when a test changes wall_ms, segments are as
 * small as possible, and snapshots are taken only on request.
 */
struct store {
    struct local *l;
    struct keeper *k;
    struct err_info error; /* of a failed opening */
    _Atomic int64_t wall_ms;
    _Atomic int fatals, notes;
    pthread_mutex_t lock;
    char fatal[600]; /* the last line of each */
    char note[600];
};

struct store *store_new(void);
void store_free(struct store *s);

/* The options that the store opens with; change them before store_open_with. */
struct local_options store_options(struct store *s, const char *dir, const struct fs *fs);
int store_open_with(struct store *s, const struct local_options *o);

/* Strict. store_connect gives s->k a new session. */
int store_open(struct store *s, const char *dir, const struct fs *fs);
int store_connect(struct store *s);

/* Closes the session where there is one, or leaves it as a crash would; then the store. */
void store_close(struct store *s);
void store_leave(struct store *s);

/* keeper_multi, but by way of keeper_commit. At most COMMIT_MAX operations. */
enum { COMMIT_MAX = 8 };
int commit_and_wait(struct keeper *k, const struct keeper_op *ops, size_t count,
                    struct keeper_result *results);

int64_t store_zxid(struct store *s);
void store_last_note(struct store *s, char *ret_line, size_t len);

/*
 * Everything that a tree holds, a line a node and a line a session, sorted; data as length and sum.
 * The result is to be freed.
 */
char *tree_text(const struct tree *t);
char *store_text(struct store *s);

/* The same of a directory, which is read and not changed. ret_text is untouched on failure. */
int dir_text(const char *dir, char **ret_text, int64_t *ret_zxid, struct err_info *ret_error);

/* Fails with the first line in which the texts differ. */
void expect_text(const char *what, const char *want, const char *got);

/* What the tree was after each transaction, by its number. */
struct history {
    char **texts;
    size_t len;
};

void history_release(struct history *h);
void history_note(struct history *h, struct store *s);
const char *history_at(const struct history *h, int64_t zxid); /* NULL: unknown */

/* Both; where they differ, the later one is right. */
void history_join(struct history *to, const struct history *early, const struct history *late);

#endif
