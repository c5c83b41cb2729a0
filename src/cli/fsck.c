/*
 * drover fsck - checks a data directory; with --salvage, cuts it at the first damage after asking.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cmd.h"
#include "keeper/local/fsck.h"

/* No answer means no. */
static bool ask(void *arg, const char *question)
{
    const bool *yes = arg;
    char answer[16];

    if (*yes)
        return true;
    fprintf(stderr, "%s [y/N] ", question);
    fflush(stderr);
    if (!fgets(answer, sizeof answer, stdin)) {
        fputc('\n', stderr);
        return false;
    }
    return !strcmp(answer, "y\n") || !strcmp(answer, "yes\n");
}

static bool yes;
static struct fsck_options options = {.confirm = ask, .arg = &yes};

static int run_fsck(const struct cmd_call *call)
{
    struct err_info e;

    options.dir = call->operands[0];
    options.out = stdout;
    int err = fsck_run(&options, &e);
    fflush(stdout);
    if (err)
        log_error("%s", e.text);
    return err ? CMD_FAILURE : CMD_OK;
}

const struct cmd cmd_fsck = CMD_INIT(
    "fsck", "check a data directory", "DIR",
    "Checks the data directory DIR, which no server may have open, and reports what it\n"
    "holds. Changes nothing unless --salvage is given. Exit status 1: something is\n"
    "damaged.",
    CMD_OPTIONS(
        {"dump", NULL, "Print every transaction in the journal.", option_flag, &options.dump},
        {"salvage", NULL,
         "When the journal is damaged, keep what comes before the damage and cut off the\n"
         "rest, after asking. What is cut off is saved in files named salvaged-*.",
         option_flag, &options.salvage},
        {"yes", NULL, "Do not ask.", option_flag, &yes}),
    CMD_LOCAL, run_fsck);
