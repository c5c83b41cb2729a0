/*
 * cmd - the command line: what the subcommands have in common.
 *
 * A subcommand describes itself by a struct cmd, whose options are a table that is also its --help.
 * It parses its arguments with cmd_parse(), which prints an error as one line on stderr:
 *
 *   drover serve: unknown option '--prot' (see 'drover serve --help')
 *
 * An option is "--name" alone, or "--name VALUE" or "--name=VALUE". The last one given counts. "--"
 * ends the options; everything else is an operand. For a command that runs another one ("drover work
 * GROUP -- COMMAND"), everything after the "--" is that command and its arguments.
 *
 * Commands that belong together are a struct cmd_group, "drover world init". Its table is its --help,
 * finds the subcommand, and suggests one for a mistyped name. cmd.name of a subcommand is the full
 * name, "world init".
 *
 * Shell completion is generated from the same tables: cmd_describe() runs a command in a mode in
 * which it only shows its struct cmd.
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "base/option.h"

enum cmd_status {
    CMD_OK = 0,
    CMD_FAILURE = 1,
    CMD_USAGE = 2,
    CMD_NOTHING = 3, /* there was nothing to claim */
};

struct cmd {
    const char *name;     /* "serve", "world init" */
    const char *operands; /* as --help shows them; NULL: none */
    size_t operands_min, operands_max;
    char ***command;   /* takes a command after "--": its argv goes here; NULL: takes none */
    const char *about; /* a paragraph */
    const struct option *options;
    size_t option_count;
};

/*
 * Parses the arguments after argv[0]. True: go on; the operands now stand in argv[1] up to
 * argv[*argc - 1]. False: the command is over, with *ret_status, either because --help was asked
 * for and printed or because the arguments are wrong.
 */
bool cmd_parse(const struct cmd *c, int *argc, char **argv, int *ret_status);

struct cmd_sub {
    const char *name;
    const char *summary; /* one line; NULL: is not listed */
    int (*run)(int argc, char **argv);
    const char *heading; /* --help begins a new part with it here; NULL: goes on */
    const char *option;  /* does the same when it stands for the name ("--version"); NULL: none */
};

struct cmd_group {
    const char *name;  /* "world"; NULL: drover itself */
    const char *about; /* a paragraph */
    const struct cmd_sub *subs;
    size_t sub_count;
};

/* Runs the subcommand that argv[1] names, with argv[0] its name. */
int cmd_group_run(const struct cmd_group *g, int argc, char **argv);

/* What "drover help a b" does: prints the help of the subcommand that the words lead to. */
int cmd_group_help(const struct cmd_group *g, int argc, char **argv);

/*
 * Calls see for every command that run leads to, in the order of the tables, instead of running it.
 * A group is seen before its commands, as one without options; summary is its line in the table.
 */
typedef void cmd_see(void *arg, const struct cmd *c, const char *summary);
void cmd_describe(int (*run)(int argc, char **argv), cmd_see *see, void *arg);

/* Prints a line about a wrong use of the command. Returns CMD_USAGE. */
int cmd_usage_error(const struct cmd *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Of the names, the one that a mistyped word was probably meant to be, or NULL. */
const char *cmd_nearest(const char *word, const char *const *names, size_t count);

/* The subcommands. argv[0] is the name. The result is the exit status. */
int cmd_access(int argc, char **argv);
int cmd_add(int argc, char **argv);
int cmd_agent(int argc, char **argv);
int cmd_batch(int argc, char **argv);
int cmd_claim(int argc, char **argv);
int cmd_done(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_fsck(int argc, char **argv);
int cmd_group(int argc, char **argv);
int cmd_groups(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_log(int argc, char **argv);
int cmd_job(int argc, char **argv);
int cmd_legacy(int argc, char **argv);
int cmd_lock(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_queue(int argc, char **argv);
int cmd_nodes(int argc, char **argv);
int cmd_renew(int argc, char **argv);
int cmd_retry(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_task(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_update(int argc, char **argv);
int cmd_wait(int argc, char **argv);
int cmd_work(int argc, char **argv);
int cmd_world(int argc, char **argv);
int cmd_workers(int argc, char **argv);

#endif
