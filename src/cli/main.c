/* A table of subcommands, nothing else. */
#include <stdio.h>

#include "cli/cmd.h"
#include "cli/completion.h"
#include "drover.h"

static int cmd_completion(int argc, char **argv);
static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct cmd_sub COMMANDS[] = {
    {"serve", "run the server", cmd_serve, "The server"},
    {"fsck", "check a data directory and say what it holds", cmd_fsck},
    {"add", "add tasks to a group", cmd_add, "Tasks"},
    {"claim", "take a task and own it for a while", cmd_claim},
    {"done", "delete tasks that are finished", cmd_done},
    {"renew", "own tasks for longer", cmd_renew},
    {"work", "run a command for each task of a group", cmd_work},
    {"ls", "list tasks", cmd_ls},
    {"groups", "list the groups that have tasks", cmd_groups},
    {"group", "list the tasks of one group", cmd_group},
    {"task", "show tasks by their ids", cmd_task},
    {"update", "send a transaction, as JSON", cmd_update},
    {"run", "run a graph of nodes from a file", cmd_run, "Graphs of commands"},
    {"exec", "run one command as a node", cmd_exec},
    {"nodes", "list nodes", cmd_nodes},
    {"show", "show a node, and why it waits", cmd_show},
    {"log", "print what a node has printed", cmd_log},
    {"wait", "wait until nodes have ended", cmd_wait},
    {"kill", "kill nodes", cmd_kill},
    {"retry", "run nodes again that failed or were killed", cmd_retry},
    {"top", "show what the DAG does, live", cmd_top},
    {"agent", "run nodes on this machine for a server", cmd_agent},
    {"world", "trees of tasks", cmd_world, "Worlds and queues"},
    {"queue", "queues, and work that is shared by queue", cmd_queue},
    {"workers", "list the workers that share the queues", cmd_workers},
    {"batch", "batches of jobs", cmd_batch, "Batches"},
    {"job", "jobs that move from state to state", cmd_job},
    {"lock", "locks of queues, collections and objects", cmd_lock},
    {"access", "the access queues", cmd_access},
    {"legacy", "records of older queues", cmd_legacy},
    {"help", "explain drover, or one command", cmd_help, "About drover", "--help"},
    {"completion", "print what a shell needs to complete these words", cmd_completion},
    {"version", "print the version", cmd_version, NULL, "--version"},
};

static const struct cmd_group DROVER = {
    .about = "Keeps tasks, runs them in order, and never loses one.",
    .subs = COMMANDS,
    .sub_count = sizeof COMMANDS / sizeof *COMMANDS,
};

static int cmd_help(int argc, char **argv)
{
    static const struct cmd about = {
        .name = "help",
        .operands = "[COMMAND...]",
        .operands_max = 3,
        .about = "Explains a command, or lists them.",
    };
    int status;

    if (!cmd_parse(&about, &argc, argv, &status))
        return status;
    return cmd_group_help(&DROVER, argc, argv);
}

static int run_drover(int argc, char **argv)
{
    return cmd_group_run(&DROVER, argc, argv);
}

static int cmd_completion(int argc, char **argv)
{
    static const struct cmd about = {
        .name = "completion",
        .operands = "bash|zsh",
        .operands_min = 1,
        .operands_max = 1,
        .about = "Prints a script that lets the shell complete drover's commands and options:\n"
                 "source <(drover completion bash). 'make install' puts it where shells look.",
    };
    int status;

    if (!cmd_parse(&about, &argc, argv, &status))
        return status;
    if (!completion_print(argv[1], run_drover))
        return cmd_usage_error(&about, "'%s' is none of bash|zsh", argv[1]);
    return CMD_OK;
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
    int status = run_drover(argc, argv);

    if (fflush(stdout)) { /* the answer of a command is not given when nobody got it */
        perror("drover: cannot write to standard output");
        return CMD_FAILURE;
    }
    return status;
}
