#include "task/task.h"

const char *task_state_name(enum task_state state)
{
    static const char *const names[TASK_STATES] = {"available", "delayed", "retrying",
                                                   "claimed",   "dead",    "done"};
    return names[state];
}
