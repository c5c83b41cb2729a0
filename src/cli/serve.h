/*
 * serve - what `drover serve` and `drover config` share: the options, and the checks between them.
 */
#ifndef CLI_SERVE_H
#define CLI_SERVE_H

#include "cli/cmd.h"
#include "server/serve.h"

#define SERVE_VARIABLES "DROVER_SERVE_"

extern const struct option SERVE_OPTIONS[]; /* and those that this appends: */
size_t serve_more_options(struct option *to);

/* Checks the options that were parsed into o. Those that an ensemble does not have become none. */
int serve_check_options(const struct cmd_call *call, struct serve_options *o,
                        struct err_info *ret_error);

/* Reads the options of a server that runs, for SIGHUP. There is one in a process. */
const struct reload_source *serve_source(const struct cmd_call *call,
                                         const struct serve_options *chosen);

/* Prints what is wrong and returns CMD_USAGE, or gives the options that were parsed. */
int serve_check(const struct cmd_call *call, struct serve_options **ret_options);

/* Whether an option means anything with the keeper and the journal that were chosen. */
bool serve_applies(const struct serve_options *o, const struct option *option);

#endif
