/*
 * task_share - what the commands of the task store have in common: the client id, and how tasks
 * look.
 *
 * A task is owned by a client id. A claim by one process is finished by another ("drover claim g",
 * then "drover done 7"), so the commands of one user on one machine are one client: its id is drawn
 * once from the system's random source and kept in a file, $XDG_STATE_HOME/drover-client-id, else
 * ~/.local/state/drover-client-id. --client-id and $DROVER_CLIENT_ID name another.
 */
#ifndef CLI_TASK_SHARE_H
#define CLI_TASK_SHARE_H

#include "base/buf.h"
#include "base/json.h"
#include "cli/http_client.h"

extern int64_t task_clientid; /* the value of --client-id; 0: not given */

#define TASK_CLIENT_ID_OPTION                                                                      \
    {                                                                                              \
        "client-id", "N",                                                                          \
            "Act as this client. Default: $DROVER_CLIENT_ID, else a random number that is kept\n"  \
            "for this user.",                                                                      \
            option_number, &task_clientid, 1, INT64_MAX                                            \
    }

/* Finds the client id if none was given, and opens a client. Exit status. */
int task_open(const struct cmd_call *call, struct client **ret_client);

/*
 * "/tasks/1,2" from the operands, in the arena. NULL: one is not an id; the error has been printed.
 */
const char *task_path(struct client *c, const struct cmd_call *call);

/* Append members of a request that changes something. With a requestid it can be repeated. */
void task_put_clientid(struct buf *b);
void task_put_requestid(struct buf *b);

/* Opens an object and adds both. */
void task_open_body(struct buf *b);

/* Prints a list of tasks as a table; nulls are skipped. */
void task_print(const struct json *tasks);

/* Prints the ids of a list of tasks, one per line. */
void task_print_ids(const struct json *tasks);

/* Reads the tasks that the operands name; the reply is a list with a task or null for each. */
int task_read(struct client *c, const struct cmd_call *call, struct client_reply *ret_reply);

/* Prints the reply of an update: as JSON, or its tasks. */
void task_print_reply(const struct cmd_call *call, const struct client_reply *reply);

/* Sends a body, which must have a requestid, to /update; repeats it when the reply is lost. */
int task_update(struct client *c, struct buf *body, struct client_reply *ret_reply);

#endif
