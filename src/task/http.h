/*
 * The room of tasks: the document's routes (/groups, /task, /tasks, /group, /update, /claim). Other
 * rooms find the service at house->tasks.
 */
#ifndef TASK_HTTP_H
#define TASK_HTTP_H

#include "server/modules.h"

extern const struct module task_module;

#endif
