/*
 * The commands of queues that stand in files of their own.
 */
#ifndef CLI_QUEUE_H
#define CLI_QUEUE_H

#include "cli/cmd.h"

int cmd_queue_work(int argc, char **argv);

#endif
