/* drover fsck - checks a data directory; with --salvage, cuts it at the first damage, if asked. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/cmd.h"
#include "keeper/local/local.h"

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
static struct fsck_options checks = {.confirm = ask, .arg = &yes};

static int run_fsck(const struct cmd_call *call)
{
    struct err_info e;
    checks.dir = call->operands[0];
    checks.out = stdout;
    int err = fsck_run(&checks, &e);
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
        {"dump", NULL, "Print every transaction in the journal.", option_flag, &checks.dump},
        {"salvage", NULL,
         "When the journal is damaged, or ends before what was on disk, keep what comes\n"
         "before that and cut off the rest, after asking. What is cut off is saved in\n"
         "files named salvaged-*.",
         option_flag, &checks.salvage},
        {"yes", NULL, "Do not ask.", option_flag, &yes}),
    CMD_LOCAL, run_fsck);
