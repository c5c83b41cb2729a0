/*
 * task_share - what the commands of the task store share: the client id, and reading tasks.
 *
 * A task is owned by a client id. A claim by one process is finished by another ("drover claim g",
 * then "drover done 7"), so the commands of one user on one machine are one client: its id is drawn
 * once from the system's random source and kept in a file, $XDG_STATE_HOME/drover-client-id, else
 * ~/.local/state/drover-client-id. --client-id and $DROVER_CLIENT_ID name another.
 */
#ifndef CLI_TASK_SHARE_H
#define CLI_TASK_SHARE_H

#include "cli/verb.h"

extern int64_t task_clientid; /* the value of --client-id; 0: not given */

#define TASK_CLIENT_ID_OPTION                                                                      \
    {                                                                                              \
        "client-id", "N",                                                                          \
            "Act as this client. Default: $DROVER_CLIENT_ID, else a random number that is kept\n"  \
            "for this user.",                                                                      \
            option_number, &task_clientid, 1, INT64_MAX                                            \
    }

/* Finds the client id if none was given. Exit status. */
int task_find_clientid(void);

/* Appends the ids among the operands, "1,2". Exit status. */
int task_put_ids(const struct cmd_call *call, struct buf *b);

/* Reads the tasks that the operands name; the reply is a list with a task or null for each. */
int task_read(struct client *c, const struct cmd_call *call, struct client_reply *ret_reply);

/* How a list of tasks looks. */
extern const struct verb_column TASK_COLUMNS[];

#endif
