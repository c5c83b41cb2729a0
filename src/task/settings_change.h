/*
 * settings_change - changes the settings of a pattern: the node and the store in one step. For the
 * routes and for the library.
 *
 * It is an update without tasks: settings_change_prepare() is its `prepare`, `op` its extra
 * operation, settings_change_settle() its `settled`. The new settings are made from the present
 * ones under the service's lock, and are in effect when the node is certain. On an ensemble two
 * changes may be in one commit, which the version of the node refuses: each is then made alone.
 */
#ifndef TASK_SETTINGS_CHANGE_H
#define TASK_SETTINGS_CHANGE_H

#include "base/err.h"
#include "base/json.h"
#include "task/service.h"

struct settings_change {
    struct str pattern;
    const struct json *members; /* what changes; NULL: the settings are removed */
    struct arena *arena;

    struct task_settings settings; /* the new ones */
    struct keeper_op op;
    const char *wrong_field; /* of BAD_ARGUMENT; NULL: an unknown member */
    struct err_info wrong;
};

/* BAD_ARGUMENT: `wrong` says why. NO_NODE: there are none to remove. */
int settings_change_prepare(struct settings_change *w, struct store *s);
void settings_change_settle(const struct settings_change *w, struct store *s);

#endif
