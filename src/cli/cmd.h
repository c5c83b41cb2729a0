/*
 * cmd - the command line: what the subcommands have in common.
 *
 * A subcommand describes itself by a struct cmd, whose options are a table that is also its --help.
 * It parses its arguments with cmd_parse(), which prints what went wrong as one line on stderr:
 *
 *   drover serve: unknown option '--prot' (see 'drover serve --help')
 *
 * An option is "--name" alone, or "--name VALUE" or "--name=VALUE". The last one given counts. "--"
 * ends the options; what is no option is an operand. Of a command that runs another one ("drover
 * work GROUP -- COMMAND"), what follows the "--" is that other command, options and all.
 *
 * Commands that belong together are a struct cmd_group, "drover world init". Its table is its --help,
 * finds the subcommand, and guesses at mistyped ones. The subcommand's cmd.name is the whole of it,
 * "world init".
 *
 * The tables are all there is to know about the command line: completion is written from them, by
 * cmd_describe(), which runs a command in such a way that it only shows its struct cmd.
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

enum cmd_status {
    CMD_OK = 0,
    CMD_FAILURE = 1,
    CMD_USAGE = 2,
    CMD_NOTHING = 3, /* there was nothing to claim */
};

struct cmd_option {
    const char *name;     /* without the dashes */
    const char *argument; /* as --help shows it; NULL: a flag, which takes none */
    const char *help;     /* lines, separated by newlines */

    /* Writes what the text means to target, or says in e what is wrong with it. */
    int (*parse)(const struct cmd_option *o, const char *text, struct err_info *e);
    void *target;
    int64_t min, max; /* cmd_number */
};

struct cmd {
    const char *name;     /* "serve", "world init" */
    const char *operands; /* as --help shows them; NULL: none */
    size_t operands_min, operands_max;
    char ***command;   /* takes a command after "--": its argv goes here; NULL: takes none */
    const char *about; /* a paragraph */
    const struct cmd_option *options;
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

/* Kinds of options, for cmd_option.parse, and what their targets are. */
int cmd_flag(const struct cmd_option *o, const char *text, struct err_info *e);   /* bool */
int cmd_text(const struct cmd_option *o, const char *text, struct err_info *e);   /* const char * */
int cmd_number(const struct cmd_option *o, const char *text, struct err_info *e); /* int64_t */

/* A span of time, "500ms", "30s", "5m", "2h", "1d": int64_t, in milliseconds, from min to max. */
int cmd_span(const struct cmd_option *o, const char *text, struct err_info *e);

/* One that may be given more than once. */
enum { CMD_LIST_MAX = 32 };

struct cmd_list {
    const char *items[CMD_LIST_MAX];
    size_t count;
};

int cmd_list_add(const struct cmd_option *o, const char *text, struct err_info *e); /* cmd_list */

/* One of the words in o->argument, "strict|none": target is an int, which word it was. */
int cmd_choice(const struct cmd_option *o, const char *text, struct err_info *e);

/* ADDR:PORT, where ADDR is an IPv4 address, an IPv6 address in brackets, or localhost; or "none".
 */
struct cmd_address {
    bool none;
    struct sockaddr_storage address;
};

int cmd_address(const struct cmd_option *o, const char *text, struct err_info *e);

/* Of the names, the one that a mistyped word was probably meant to be, or NULL. */
const char *cmd_nearest(const char *word, const char *const *names, size_t count);

/* Digits only, in decimal; what strtoll would forgive is refused. */
bool cmd_digits(const char *text, int64_t min, int64_t max, int64_t *ret_number);

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
