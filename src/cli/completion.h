/*
 * completion - scripts with which a shell completes the commands and options of drover, generated from
 * the tables of the commands.
 */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "cli/cmd.h"

/* Prints the script for a shell ("bash", "zsh") on stdout. False: there is none for that shell. */
bool completion_print(const char *shell, const struct cmd *drover);

#endif
