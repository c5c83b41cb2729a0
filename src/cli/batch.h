/* batch - commands of batches that have a file of their own. */
#ifndef CLI_BATCH_H
#define CLI_BATCH_H

#include "cli/cmd.h"

/* "batch show". */
int batch_show(const struct cmd_call *call);

#endif
