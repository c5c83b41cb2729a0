/*
 * policy - which commands may run, as whom, and with which limits.
 *
 * The options of `serve` and `agent` fill it (POLICY_OPTIONS). In order: policy_open() ->
 * policy_check() for each command that somebody submits, policy_grant() for each one that is about
 * to start, which may have been stored under another policy -> policy_close(). The environment, the
 * runner and the hooks of the server then follow the grant.
 *
 * What a command asks for can only make it weaker than the policy: fewer rights, lower limits.
 */
#ifndef BASE_POLICY_H
#define BASE_POLICY_H

#include "base/account.h"
#include "base/limits.h"
#include "base/str.h"

struct policy {
    /* As given. */
    const char *run_as_text;     /* "USER[:GROUP]"; NULL: the user of this process */
    struct option_list users;    /* that a command may ask for */
    struct option_list patterns; /* of executables; none: every command may run */
    struct limits limits;
    bool new_privileges; /* commands may gain some, by setuid programs */

    /* Opened. */
    bool runs; /* this process runs commands */
    struct account *run_as;
    struct account *accounts[OPTION_LIST_MAX]; /* of the users; NULL: only their names count */
};

/* What a command asks for. Pointers are borrowed. */
struct policy_request {
    const char *const *argv, *const *env; /* env: its own variables, "NAME=VALUE"; NULL: none */
    const char *user;                     /* NULL: the default */
    struct limits limits;
};

struct policy_grant {
    const struct account *account; /* NULL: the user of this process */
    struct limits limits;
    bool new_privileges;
    const char *const *paths; /* of the executable, up to NULL: one of these; NULL: any */
};

/*
 * Looks up the users, and starts the guard of processes if there are some. With runs false, users
 * that commands may ask for need not exist here: others run the commands.
 */
int policy_open(struct policy *p, bool runs, struct err_info *ret_error);
void policy_close(struct policy *p);

/* Checks a request. 0, or BAD_ARGUMENT and the reason. */
int policy_check(const struct policy *p, const struct policy_request *q,
                 struct err_info *ret_error);

/* The same for a start, with limits that are never above those of the policy. In the arena. */
int policy_grant(const struct policy *p, const struct policy_request *q, struct arena *a,
                 struct policy_grant *ret_grant, struct err_info *ret_error);

/* Whether commands run as root because nobody has chosen a user; what to say then. */
bool policy_runs_as_root(const struct policy *p);
#define POLICY_AS_ROOT "commands run as root; --run-as USER runs them as another user"

#define POLICY_OPTIONS(p)                                                                          \
    OPTION("run-as", "USER[:GROUP]",                                                               \
           "Run commands as this user, with its groups, and not as the user of this process.\n"    \
           "Needs root.",                                                                          \
           option_text, &(p).run_as_text),                                                         \
        OPTION("allow-user", "USER",                                                               \
               "Nodes may name this user for their command. May be given more than once. Needs\n"  \
               "root.",                                                                            \
               option_list_add, &(p).users),                                                       \
        OPTION("allow-command", "PATTERN",                                                         \
               "Only run commands whose executable matches a pattern such as '/usr/bin/*'. A\n"    \
               "shell command needs a pattern for the shell. May be given more than once.",        \
               option_list_add, &(p).patterns),                                                    \
        OPTION("allow-new-privileges", NULL,                                                       \
               "Commands may gain rights by setuid programs such as sudo.", option_flag,           \
               &(p).new_privileges),                                                               \
        LIMIT_OPTIONS((p).limits)

#endif
