/*
 * find - what the routes and the library share about searches: cursors and states as text, and
 * changes of all tasks that a search finds.
 */
#ifndef TASK_FIND_H
#define TASK_FIND_H

#include "task/store.h"

enum { CURSOR_SIZE = 64 };

/* A cursor as text: "17" or "done:17". False: it is none. */
bool cursor_read(struct str text, struct store_cursor *ret_cursor);
void cursor_write(const struct store_cursor *c, char text[CURSOR_SIZE]);

/* TASK_STATES: there is no state of this name. */
enum task_state task_state_of(struct str name);

/*
 * Finds up to `limit` tasks from a cursor on and changes them, as one update with `operate` and
 * `skips`. A claimed task is somebody's: it is changed only if the filter says claimed.
 */
struct task_bulk {
    struct store_filter filter;
    struct store_cursor from;
    size_t limit;
    enum task_edit_kind kind;
    struct str group; /* of EDIT_MOVE */
    int64_t priority; /* of EDIT_PRIORITY */
    bool dry_run;
    struct arena *arena;

    /* What it has found, in the arena, and where the next one begins. */
    const struct task **tasks;
    struct task_edit *edits;
    size_t matched;
    struct store_cursor next;
};

/* In the `prepare` of the update: adds the changes. Starts over when it is called again. */
int bulk_prepare(struct task_bulk *b, struct store *s, int64_t now_ms, struct task_update *u);

/* When the update is done: how many tasks were changed. */
size_t bulk_changed(const struct task_bulk *b);

#endif
