/*
 * cmd - the command line: tables of commands.
 *
 * A command is a row of data, struct cmd. Its options are a table (base/option.h); the same tables
 * give --help, the suggestions for mistyped words, and shell completion. Errors are one line on
 * stderr:
 *
 *   drover serve: unknown option '--prot' (see 'drover serve --help')
 *
 * An option is "--name" alone, "--name VALUE" or "--name=VALUE"; some have a letter, "-f". The last
 * one given counts. "--" ends the options; everything else is an operand. For a command that runs
 * another one ("drover work GROUP -- COMMAND"), everything after the "--" is that command and its
 * arguments.
 *
 * The options of a command with `variables` may also come from a file and from the environment:
 * cli/config.h.
 *
 * Most commands are one request to the server: their run is verb_run() (cli/verb.h). The others
 * have a function of their own.
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "base/option.h"
#include "http/transport_tls.h"

enum cmd_status {
    CMD_OK = 0,
    CMD_FAILURE = 1,
    CMD_USAGE = 2,
    CMD_NOTHING = 3, /* there was nothing to claim */
};

/* Options that every command with a server takes, and the values they got. */
enum cmd_client {
    CMD_LOCAL,  /* none */
    CMD_REMOTE, /* --server, --token-file, --ca, --cert, --key */
    CMD_JSON,   /* and --json */
};

struct client_options {
    const char *server;     /* NULL: $DROVER_URL, else http://127.0.0.1:8048 */
    const char *token_file; /* NULL: the token is in $DROVER_TOKEN, or there is none */
    struct transport_tls tls;
    bool json;
};

/* Where the value of an option came from. Each overrules those before it. */
enum cmd_source { CMD_DEFAULT, CMD_FILE, CMD_ENVIRONMENT, CMD_LINE };

/* An option that was given, and the target of a row that has none of its own. */
struct cmd_value {
    const char *given; /* the text of its value, "" for a flag; NULL: it was not given */
    struct option_list list_given; /* all of them, if it is a list */
    enum cmd_source source;
    int line; /* of the file, if it came from there */
    union {
        const char *text;
        int64_t number;
        bool flag;
        int choice;
        struct option_list list;
    };
};

struct cmd;
struct verb;

struct cmd_call {
    const struct cmd *cmd;
    int count; /* of operands */
    char **operands;
    char **command;                 /* what follows "--", ends with NULL */
    const struct option *options;   /* cmd_all_options() */
    const struct cmd_value *values; /* by row of the options */
    size_t option_count;
    const char *file; /* the configuration file that was read; NULL: none */
    struct client_options client;
    int argc;
    char **argv;
};

struct cmd {
    const char *name;     /* in full: "serve", "world init" */
    const char *summary;  /* one line for the list of commands */
    const char *operands; /* "WORLD NODE...", "[FILE]"; how many there may be is read from this */
    const char *about;    /* a paragraph */
    const struct option *options;              /* up to a row without a name; NULL: none */
    size_t (*more_options)(struct option *to); /* appends rows of other tables; NULL: none */
    enum cmd_client client;
    bool takes_command;    /* after "--" */
    const char *variables; /* options come from a file, and from variables that begin so, too */
    int (*run)(const struct cmd_call *call);
    const struct verb *verb; /* for verb_run() */

    const struct cmd *const
        *subs;           /* a group of commands, up to NULL; has neither options nor run */
    const char *heading; /* the list of commands begins a new part here; NULL: it goes on */
    const char *flag;    /* may be given instead of the name: "--version"; NULL: none */
};

/* A command with a function of its own, and a group of commands. */
#define CMD_INIT(name_, summary_, operands_, about_, options_, client_, run_, ...)                 \
    {                                                                                              \
        .name = name_, .summary = summary_, .operands = operands_, .about = about_,                \
        .options = options_, .client = client_, .run = run_, ##__VA_ARGS__                         \
    }
#define CMD(...) (&(const struct cmd)CMD_INIT(__VA_ARGS__))
#define CMD_GROUP(name_, summary_, about_, subs_, ...)                                             \
    {                                                                                              \
        .name = name_, .summary = summary_, .about = about_, .subs = subs_, ##__VA_ARGS__          \
    }
#define CMD_OPTIONS(...) ((const struct option[]){__VA_ARGS__, {0}})

enum { CMD_OPTIONS_MAX = 96 };

struct cmd_parser {
    const struct cmd *c;
    struct option options[CMD_OPTIONS_MAX];
    size_t option_count;
    struct cmd_value values[CMD_OPTIONS_MAX];
    struct cmd_call call;
};

/* Runs the command, or the command of the group that argv[1] names. argv[0] is not looked at. */
int cmd_run(const struct cmd *c, int argc, char **argv);

/* "drover help a b": prints the help of the command that the words lead to. */
int cmd_help(const struct cmd *group, int count, char **words);

/* Notes that an option was given, after its value was parsed. */
void cmd_note_given(struct cmd_parser *p, const struct option *o, const char *text,
                    enum cmd_source source, int line);

/* All options of a command, its own and those for the server, in the order of --help. */
size_t cmd_all_options(const struct cmd *c, struct option all[static CMD_OPTIONS_MAX]);

/* The last word of its name. */
const char *cmd_word(const struct cmd *c);

/*
 * Parses once more, with what the file has now, into other targets: those that target() gives for a
 * row, or its value in p if that is NULL. Negative: ret_error says what is wrong.
 */
int cmd_parse_again(const struct cmd_call *call, void *(*target)(const struct option *o),
                    struct cmd_parser *p, struct err_info *ret_error);

/* Prints a line about a wrong use of the command. Returns CMD_USAGE. */
int cmd_usage_error(const struct cmd *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The name that a mistyped word was probably meant to be, or NULL. */
const char *cmd_nearest(const char *word, const char *const *names, size_t count);

/* All commands, and each one, in the order of main.c. */
extern const struct cmd cmd_drover;
extern const struct cmd cmd_serve, cmd_config, cmd_fsck, cmd_token, cmd_whoami, cmd_backup,
    cmd_restore, cmd_export, cmd_import, cmd_doctor;
extern const struct cmd cmd_add, cmd_claim, cmd_done, cmd_fail, cmd_release, cmd_renew, cmd_work,
    cmd_result, cmd_ls, cmd_find, cmd_task, cmd_groups, cmd_group, cmd_pause, cmd_resume, cmd_dead,
    cmd_purge, cmd_move, cmd_cron, cmd_update;
extern const struct cmd cmd_attach, cmd_runs, cmd_edit, cmd_rm, cmd_prune, cmd_agents, cmd_drain,
    cmd_graph;
extern const struct cmd cmd_graph_run, cmd_exec, cmd_nodes, cmd_show, cmd_log, cmd_wait, cmd_kill,
    cmd_retry, cmd_top, cmd_agent;
extern const struct cmd cmd_world, cmd_world_work, cmd_queue, cmd_queue_work, cmd_workers;
extern const struct cmd cmd_batch, cmd_job, cmd_job_work, cmd_lock, cmd_access, cmd_legacy,
    cmd_completion;

#endif
