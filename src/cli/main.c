/* The table of all commands. */
#include <stdio.h>

#include "base/uv_check.h"
#include "cli/cmd.h"
#include "drover.h"

static int run_help(const struct cmd_call *call)
{
    return cmd_help(&cmd_drover, call->count, call->operands);
}

static int run_version(const struct cmd_call *call)
{
    (void)call;
    puts("drover " DROVER_VERSION);
    return CMD_OK;
}

static const struct cmd *const COMMANDS[] = {
    &cmd_serve,
    &cmd_config,
    &cmd_fsck,
    &cmd_token,
    &cmd_whoami,
    &cmd_backup,
    &cmd_restore,
    &cmd_export,
    &cmd_import,
    &cmd_doctor,
    &cmd_add,
    &cmd_claim,
    &cmd_done,
    &cmd_fail,
    &cmd_release,
    &cmd_renew,
    &cmd_work,
    &cmd_result,
    &cmd_ls,
    &cmd_find,
    &cmd_task,
    &cmd_groups,
    &cmd_group,
    &cmd_pause,
    &cmd_resume,
    &cmd_dead,
    &cmd_purge,
    &cmd_move,
    &cmd_cron,
    &cmd_update,
    &cmd_graph_run,
    &cmd_attach,
    &cmd_exec,
    &cmd_runs,
    &cmd_graph,
    &cmd_nodes,
    &cmd_show,
    &cmd_log,
    &cmd_wait,
    &cmd_kill,
    &cmd_retry,
    &cmd_edit,
    &cmd_rm,
    &cmd_prune,
    &cmd_top,
    &cmd_agent,
    &cmd_agents,
    &cmd_drain,
    &cmd_world,
    &cmd_queue,
    &cmd_workers,
    &cmd_batch,
    &cmd_job,
    &cmd_lock,
    &cmd_access,
    &cmd_legacy,
    CMD("help", "explain drover, or one command", "[COMMAND...]",
        "Explains a command, or lists them.", NULL, CMD_LOCAL, run_help, .heading = "About drover",
        .flag = "--help"),
    &cmd_completion,
    CMD("version", "print the version", NULL, "Prints the version.", NULL, CMD_LOCAL, run_version,
        .flag = "--version"),
    NULL,
};

const struct cmd cmd_drover = {
    .name = "",
    .about = "Stores tasks, runs them in order, and never loses one.",
    .subs = COMMANDS,
};

int main(int argc, char **argv)
{
    err_fatal_status = CMD_FAILURE;
    uv_use_checked_memory();
    int status = cmd_run(&cmd_drover, argc, argv);
    if (fflush(stdout)) { /* output that nobody received is a failure */
        perror("drover: cannot write to standard output");
        return CMD_FAILURE;
    }
    return status;
}
