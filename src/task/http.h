/*
 * The module of tasks, with the routes of the document: /groups, /task, /tasks, /group, /update and
 * /claim. Other modules find its service at context->tasks.
 */
#ifndef TASK_HTTP_H
#define TASK_HTTP_H

#include "server/modules.h"

extern const struct module task_module;

#endif
