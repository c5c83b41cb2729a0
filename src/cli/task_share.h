/*
 * task_share - what the commands of the task store share: the client id, ids of tasks, tables.
 *
 * A task is owned by a client id. A claim by one process is finished by another ("drover claim g",
 * then "drover done 7"), so the commands of one user on one machine are one client: its id is drawn
 * once from the system's random source and kept in a file, $XDG_STATE_HOME/drover-client-id, else
 * ~/.local/state/drover-client-id. Where none can be kept, the commands of one terminal session
 * have the same id. --client-id and $DROVER_CLIENT_ID name another.
 *
 * An id of a task is a number, or first:N: the task whose first id was N.
 */
#ifndef CLI_TASK_SHARE_H
#define CLI_TASK_SHARE_H

#include "cli/verb.h"

#define TASK_YEAR_MS (INT64_C(365) * 86400 * 1000)

extern int64_t task_clientid; /* the value of --client-id; 0: not given */

#define TASK_CLIENT_ID_OPTION                                                                      \
    {                                                                                              \
        "client-id", "N",                                                                          \
            "Act as this client. Default: $DROVER_CLIENT_ID, else a random number that is kept\n"  \
            "for this user, else one of the terminal session.",                                    \
            option_number, &task_clientid, 1, INT64_MAX                                            \
    }

/* Finds the client id if none was given. Exit status. */
int task_find_clientid(void);

/* Opens a request that changes something: clientid and requestid. */
void task_open_body(struct client *c, struct buf *b);
void task_put_requestid(struct client *c, struct buf *b);

/* Checks that the operands are ids. Exit status. */
int task_check_ids(const struct cmd_call *call);

/* Appends an id, and those of the operands as a member. */
void task_put_id(struct buf *b, const char *id);
void task_put_ids(const struct cmd_call *call, struct buf *b, const char *member);

/* How a list of tasks looks; with --wide. */
extern const struct verb_column TASK_COLUMNS[], TASK_WIDE[];

#define TASK_WIDE_OPTION                                                                           \
    {                                                                                              \
        "wide", NULL, "Also first id, priority, failures, owner, key and error.", option_flag,     \
            .flags = VERB_LOCAL                                                                    \
    }

/* Prints the ids of the tasks of a reply, one in each line. */
verb_print_fn task_print_ids;

/* Which tasks: the filters of find, purge, move and dead, beside the group. */
#define TASK_STATE_OPTION                                                                          \
    {                                                                                              \
        "state", "STATE,...",                                                                      \
            "In one of these states: available, delayed, retrying, claimed, dead, done.",          \
            option_text                                                                            \
    }
#define TASK_FILTER_OPTIONS                                                                        \
    {"text", "TEXT", "With this in its data.", option_text},                                       \
        {"key", "KEY", "With this key.", option_text},                                             \
    {                                                                                              \
        "error", "TEXT", "With this in its last error.", option_text                               \
    }

#endif
