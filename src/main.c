/* A table of subcommands, nothing else. */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "drover.h"

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct {
    const char *name, *option; /* the option does the same: drover --version */
    const char *summary;
    int (*run)(int argc, char **argv);
} COMMANDS[] = {
    {"serve", NULL, "run the server", cmd_serve},
    {"fsck", NULL, "check a data directory and say what it holds", cmd_fsck},
    {"help", "--help", "explain drover, or one command", cmd_help},
    {"version", "--version", "print the version", cmd_version},
};

enum { COMMAND_COUNT = sizeof COMMANDS / sizeof *COMMANDS };

static int find_command(const char *word)
{
    if (!strcmp(word, "-h"))
        word = "--help";
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(word, COMMANDS[i].name) ||
            (COMMANDS[i].option && !strcmp(word, COMMANDS[i].option)))
            return i;
    return -1;
}

static int unknown_command(const char *word)
{
    const char *names[COMMAND_COUNT], *nearest;

    if (word[0] == '-') {
        fprintf(stderr, "drover: unknown option '%s' (see 'drover help')\n", word);
        return CMD_USAGE;
    }
    for (int i = 0; i < COMMAND_COUNT; i++)
        names[i] = COMMANDS[i].name;
    nearest = cmd_nearest(word, names, COMMAND_COUNT);
    if (nearest)
        fprintf(stderr, "drover: unknown command '%s' (did you mean '%s'?)\n", word, nearest);
    else
        fprintf(stderr, "drover: unknown command '%s' (see 'drover help')\n", word);
    return CMD_USAGE;
}

static void print_overview(FILE *to)
{
    fputs("Usage: drover COMMAND [ARGUMENT]...\n\n"
          "Keeps tasks, runs them in order, and never loses one.\n\n"
          "Commands:\n",
          to);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "  %-8s  %s\n", COMMANDS[i].name, COMMANDS[i].summary);
    fputs("\n'drover help COMMAND' explains a command.\n", to);
}

static int cmd_help(int argc, char **argv)
{
    static const struct cmd about = {
        .name = "help",
        .operands = "[COMMAND]",
        .operands_max = 1,
        .about = "Explains a command, or lists them.",
    };
    char *help_argv[] = {argv[0], "--help", NULL};
    int status, at;

    if (!cmd_parse(&about, &argc, argv, &status))
        return status;
    if (argc == 1) {
        print_overview(stdout);
        return CMD_OK;
    }
    at = find_command(argv[1]);
    return at < 0 ? unknown_command(argv[1]) : COMMANDS[at].run(2, help_argv);
}

static int cmd_version(int argc, char **argv)
{
    static const struct cmd about = {.name = "version", .about = "Prints the version."};
    int status;

    if (!cmd_parse(&about, &argc, argv, &status))
        return status;
    puts("drover " DROVER_VERSION);
    return CMD_OK;
}

int main(int argc, char **argv)
{
    int at, status;

    if (argc < 2) {
        print_overview(stderr);
        return CMD_USAGE;
    }
    at = find_command(argv[1]);
    status = at < 0 ? unknown_command(argv[1]) : COMMANDS[at].run(argc - 1, argv + 1);
    if (fflush(stdout)) { /* the answer of a command is not given when nobody got it */
        perror("drover: cannot write to standard output");
        return CMD_FAILURE;
    }
    return status;
}
