/*
 * completion - scripts that let a shell complete drover's commands and options, written from the tables
 * of the commands, so that they are always right.
 */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include <stdbool.h>

/* Prints the script for a shell ("bash", "zsh") on stdout. False: there is none for that shell. */
bool completion_print(const char *shell, int (*run)(int argc, char **argv));

#endif
