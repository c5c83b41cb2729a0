/*
 * settings_json - the settings of a group as JSON: in requests, in answers and in the tree.
 *
 * A node below /drover/groups holds the settings of one pattern. Its name is a hash of the pattern,
 * its data {"version":1,"pattern":"mail*","settings":{...}}, where a setting that has its default
 * may be left out.
 */
#ifndef TASK_SETTINGS_JSON_H
#define TASK_SETTINGS_JSON_H

#include "base/err.h"
#include "base/json.h"
#include "task/settings.h"

#define SETTINGS_ROOT "/drover/groups"

enum { SETTINGS_PATH_SIZE = sizeof SETTINGS_ROOT + 1 + 32 };

/* What the documentation shows. */
#define SETTINGS_SHAPE                                                                             \
    "(order?:=random|fifo fair?:bool paused?:bool expired?:=remove|dead attempts?:int "            \
    "claims?:int backoff?:(first?:int factor?:number max?:int jitter?:number) limit?:int "         \
    "limit_per_share?:int rate?:(count?:int per?:int burst?:int) keep_done?:int keep_dead?:int "   \
    "remember_keys?:int max_tasks?:int dead?:text)"

/*
 * Sets what the object has; the rest stays as it is. Text is borrowed. BAD_ARGUMENT: ret_error says
 * why, and *ret_field names the member.
 */
int settings_read(const struct json *v, struct task_settings *s, const char **ret_field,
                  struct err_info *ret_error);

/* All settings. */
void settings_put(struct buf *b, const struct task_settings *s);

/* The node of a pattern. */
void settings_path(struct str pattern, char path[SETTINGS_PATH_SIZE]);
void settings_put_node(struct buf *b, struct str pattern, const struct task_settings *s);

/* The text is in the arena. 0, DAMAGED or NEWER_VERSION. */
int settings_read_node(struct str data, struct arena *a, struct str *ret_pattern,
                       struct task_settings *ret_settings);

/* NULL, or what is wrong with a pattern. */
const char *settings_pattern_wrong(struct str pattern);

#endif
