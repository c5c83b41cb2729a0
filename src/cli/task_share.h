/*
 * cmd_share - what the commands of the task store have in common: who we are, and how tasks look.
 *
 * Ownership of a task is by client id. A claim by one process is finished by another ("drover claim g",
 * then "drover done 7"), so the commands of one user on one machine are one client: its id is drawn
 * once from the system's random source and kept in a file, $XDG_STATE_HOME/drover-client-id, else
 * ~/.local/state/drover-client-id. --client-id and $DROVER_CLIENT_ID name another.
 */
#ifndef CLI_TASK_SHARE_H
#define CLI_TASK_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "cli/cmd.h"
#include "cli/http_client.h"

struct task_options {
    struct client_options client;
    int64_t clientid; /* 0: not named */
};

#define TASK_CLIENT_ID_OPTION(o)                                                                   \
    {                                                                                              \
        "client-id", "N",                                                                          \
            "Act as this client. Default: $DROVER_CLIENT_ID, else a number that is drawn at\n"     \
            "random once and kept for this user.",                                                 \
            option_number, &(o).clientid, 1, INT64_MAX                                             \
    }

/* Finds the client id when none was named. CMD_OK, or it has been said what is wrong. */
int task_find_clientid(struct task_options *o);

/* The operands as ids, in an array that the caller frees; NULL: one is none, which has been said. */
int64_t *task_parse_ids(const struct cmd *c, int argc, char **argv);

/* Append members of a request that changes something. With a requestid it can be sent again. */
void task_put_clientid(struct buf *b, const struct task_options *o);
void task_put_requestid(struct buf *b);

/* Opens an object with both. */
void task_open_body(struct buf *b, const struct task_options *o);

/* Prints a list of tasks as a table. Null stands for no task and is passed over. */
void task_print(const struct json *tasks);

/* Sends a body to /update, again when the answer is lost: it must have a requestid. */
int task_update(struct client *c, struct buf *body, struct client_reply *ret_reply);

#endif
