/*
 * pending - what is known of the pending list, so that a claim need not read it.
 *
 * A node of the list is read once, when it is first seen; what is pending stands in a heap for each
 * type, oldest first (by the transaction that made the node). A claim takes the first, tries it,
 * and says what came of it. Looking again reads the names only, and the nodes that are new. Under
 * load the lists change with every claim; then they are read again when looking takes up less than
 * a tenth of the time. When there is nothing left to take, watches on the two lists tell when to
 * look again. So a claim touches a bounded number of nodes however long the list is.
 *
 * What it says may be old; whoever claims finds out, by a transaction that insists on what was
 * seen.
 *
 * Safe from any thread. One look is under way at a time, and serves all who asked before it began.
 */
#ifndef WORLD_PENDING_H
#define WORLD_PENDING_H

#include <stdbool.h>

#include "base/arena.h"
#include "keeper/keeper.h"

struct pending;

struct pending_options {
    const char *root;           /* of the world whose tasks count */
    void (*changed)(void *arg); /* NULL: nobody wants to know */
    void (*note)(void *arg, const char *line);
    void *arg;
};

/* k is watched until pending_free(). */
struct pending *pending_new(struct keeper *k, const struct pending_options *o);
void pending_free(struct pending *p);

/*
 * Looks again: with `must`, returns when a look that began after the call is done; without, only
 * where there is reason to and time for it.
 */
int pending_look(struct pending *p, struct keeper *k, bool must);

/* Whether the lists may have changed since the last look. */
bool pending_has_changed(struct pending *p);

struct pending_task {
    struct str key, type;
    int64_t czxid;
    int32_t version;
    bool plain; /* the node holds what world_record_make() says, so it need not be read */
};

/* Takes the oldest that is free, of one of the types. It is the caller's to say what came of it. */
bool pending_take(struct pending *p, struct arena *a, const struct str *types, size_t type_count,
                  struct pending_task *ret_task);

/*
 * It was claimed by a session, which left the pending node at a version; and what is known of that.
 */
void pending_is_claimed(struct pending *p, struct str key, int64_t session, int32_t version);
bool pending_claim_of(struct pending *p, struct arena *a, struct str key, int64_t session,
                      struct pending_task *ret_task);

void pending_is_queued(struct pending *p, struct str key);
void pending_free_again(struct pending *p, struct str key, int64_t czxid); /* 0: as before */
void pending_is_taken(struct pending *p, struct str key);
void pending_is_gone(struct pending *p, struct str key);
void pending_is_rubbish(struct pending *p, struct str key, const char *why);

/* An ancestor is pending, which has this data and stat. */
void pending_is_blocked(struct pending *p, struct str key, struct str ancestor, struct str data,
                        const struct keeper_stat *stat);

/*
 * Whether the data of a pending node says that it is of another world, which blocks nothing here.
 */
bool pending_is_foreign(struct pending *p, struct str key, struct str data);

#endif
