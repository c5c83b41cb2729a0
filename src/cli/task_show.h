/* task_show - what other commands need of those that read the task store. */
#ifndef CLI_TASK_SHOW_H
#define CLI_TASK_SHOW_H

#include "cli/cmd.h"

/* drover wait, with ids of tasks as operands. Exit status. */
int task_wait(const struct cmd_call *call, const struct cmd_value *timeout);

/* drover dead show, with --wide. */
extern bool task_show_wide;
int task_show_dead(const struct cmd_call *call);

#endif
