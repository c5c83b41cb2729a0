/*
 * group_body - the settings and the counts of a group as JSON: for the client, and for the store in
 * process, which checks settings as the server does.
 */
#ifndef CLIENT_GROUP_BODY_H
#define CLIENT_GROUP_BODY_H

#include "base/json.h"
#include "drover.h"

/* Appends what settings->set names. BAD_ARGUMENT: a text is not UTF-8. */
int group_body_put_settings(struct buf *b, const struct drover_settings *settings,
                            struct err_info *ret_error);

/* What the object lacks stays as it is. Text goes into the arena. */
void group_body_read_settings(const struct json *v, struct arena *a,
                              struct drover_settings *settings);

struct drover_counts group_body_read_counts(const struct json *v);

/* The names of states in the order of their bits, from DROVER_TASK_AVAILABLE on. */
enum { GROUP_BODY_STATES = 7 };
extern const char *const GROUP_BODY_STATE[GROUP_BODY_STATES];

/* 0: there is no such state. */
enum drover_task_state group_body_state(struct str name);

#endif
