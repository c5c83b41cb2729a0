/*
 * The room of tasks: the document's routes (/groups, /task, /tasks, /group, /update, /claim). Other rooms
 * find the service at house->tasks.
 */
#ifndef TASK_HTTP_H
#define TASK_HTTP_H

#include "rooms.h"

extern const struct room task_room;

#endif
