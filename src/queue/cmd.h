/*
 * The commands of queues that stand in files of their own.
 */
#ifndef QUEUE_CMD_H
#define QUEUE_CMD_H

#include "cmd.h"

int cmd_queue_work(int argc, char **argv);

#endif
