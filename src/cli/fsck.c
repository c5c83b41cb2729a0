/*
 * drover fsck - looks at a data directory; with --salvage, cuts it at the first damage after asking.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cmd.h"
#include "keeper/local/fsck.h"

/* Whoever cannot be asked has not agreed. */
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

int cmd_fsck(int argc, char **argv)
{
    bool yes = false;
    struct fsck_options o = {.confirm = ask, .arg = &yes, .out = stdout};
    const struct option options[] = {
        {"dump", NULL, "Print every transaction in the journal.", option_flag, &o.dump},
        {"salvage", NULL,
         "When the journal is damaged, keep what comes before the damage and give up the\n"
         "rest, after asking. What is cut off is put aside in files named salvaged-*.",
         option_flag, &o.salvage},
        {"yes", NULL, "Do not ask.", option_flag, &yes},
    };
    const struct cmd c = {
        .name = "fsck",
        .operands = "DIR",
        .operands_min = 1,
        .operands_max = 1,
        .about =
            "Checks the data directory DIR, which no server may have open, and says what it\n"
            "holds. Changes nothing unless --salvage is given. Exits with 0 when everything is\n"
            "whole, with 1 when something is damaged.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    struct err_info e;
    int status, err;

    if (!cmd_parse(&c, &argc, argv, &status))
        return status;
    o.dir = argv[1];
    err = fsck_run(&o, &e);
    fflush(stdout);
    if (err)
        log_error("%s", e.text);
    return err ? CMD_FAILURE : CMD_OK;
}
