#include "base/policy.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/mem.h"
#include "base/process.h"

/* Opening. */

static int find_accounts(struct policy *p, bool runs, struct err_info *ret_error)
{
    struct err_info why;
    int err = p->run_as_text ? account_find(p->run_as_text, &p->run_as, &why) : 0;
    if (err)
        return err_set(ret_error, err, "--run-as: %s", why.text);
    for (size_t i = 0; i < p->users.count && runs; i++) {
        err = account_find(p->users.items[i], &p->accounts[i], &why);
        if (err)
            return err_set(ret_error, err, "--allow-user: %s", why.text);
    }
    return 0;
}

int policy_open(struct policy *p, bool runs, struct err_info *ret_error)
{
    int err = find_accounts(p, runs, ret_error);
    bool switches = p->run_as || p->accounts[0];
    p->runs = runs;
    if (!err && switches && !account_may_switch())
        err = err_set(ret_error, DROVER_NO_AUTH,
                      "--%s: this process may not change its user: start it as root, or with "
                      "CAP_SETUID, CAP_SETGID and CAP_KILL",
                      p->run_as ? "run-as" : "allow-user");
    if (!err && switches)
        process_guard_start();
    else if (switches)
        for (size_t i = 0; i <= p->users.count; i++) {
            struct account **at = i < p->users.count ? &p->accounts[i] : &p->run_as;
            account_free(*at);
            *at = NULL;
        }
    return err;
}

void policy_close(struct policy *p)
{
    if (p->run_as || p->accounts[0])
        process_guard_stop();
    account_free(p->run_as);
    p->run_as = NULL;
    for (size_t i = 0; i < p->users.count; i++) {
        account_free(p->accounts[i]);
        p->accounts[i] = NULL;
    }
}

bool policy_runs_as_root(const struct policy *p)
{
    return p->runs && !p->run_as_text && geteuid() == 0;
}

/* Users. */

static int check_user(const struct policy *p, const char *user, const struct account **ret_account,
                      struct err_info *e)
{
    *ret_account = p->run_as;
    if (!user || (p->run_as && !strcmp(user, p->run_as->name)))
        return 0;
    for (size_t i = 0; i < p->users.count; i++)
        if (!strcmp(user, p->users.items[i])) {
            *ret_account = p->accounts[i];
            return 0;
        }
    return err_set(e, DROVER_BAD_ARGUMENT,
                   "no command may run as user '%.80s' here: --allow-user permits it", user);
}

/* Executables. */

/*
 * Variables that make a program run code that is not its own, or find other programs: with them, a
 * list of permitted executables would permit everything.
 */
static const char *const UNSAFE[] = {
    "LD_*",      "GLIBC_TUNABLES", "GCONV_PATH", "PATH",     "IFS",     "ENV",
    "BASH_ENV",  "BASH_FUNC_*",    "SHELLOPTS",  "BASHOPTS", "PS4",     "PERL5LIB",
    "PERL5OPT",  "PYTHONHOME",     "PYTHONPATH", "RUBYLIB",  "RUBYOPT", "NODE_OPTIONS",
    "NODE_PATH", "JAVA_TOOL_*",    "CLASSPATH",  "GIT_*",    "EDITOR",  "VISUAL",
    "PAGER",     "MAKEFLAGS",
};

static int check_variables(const char *const *env, struct err_info *e)
{
    for (; env && *env; env++) {
        char name[80];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*env, "="), *env);
        for (size_t i = 0; i < sizeof UNSAFE / sizeof *UNSAFE; i++)
            if (!fnmatch(UNSAFE[i], name, 0))
                return err_set(e, DROVER_BAD_ARGUMENT,
                               "env: with --allow-command, %s cannot be set by a node", name);
    }
    return 0;
}

/* Whether the path is absolute, and leads where it says: a pattern compares it name by name. */
static bool is_plain(const char *path)
{
    if (*path != '/')
        return false;
    while (*path) {
        size_t len = strcspn(++path, "/");
        if (!len || (len == 1 && *path == '.') || (len == 2 && path[0] == '.' && path[1] == '.'))
            return false;
        path += len;
    }
    return true;
}

static bool matches(const struct policy *p, const char *path)
{
    for (size_t i = 0; i < p->patterns.count; i++)
        if (!fnmatch(p->patterns.items[i], path, FNM_PATHNAME))
            return true;
    return false;
}

/* If there are patterns, those files of the command that match one; else NULL. */
static int check_command(const struct policy *p, const struct policy_request *q, struct arena *a,
                         const char *const **ret_paths, struct err_info *e)
{
    size_t count = 0;
    *ret_paths = NULL;
    if (!p->patterns.count)
        return 0;
    TRY(check_variables(q->env, e));
    const char **paths = process_find(a, q->argv[0], process_path(), true), *first = paths[0];
    if (!first)
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "--allow-command: there is no command '%.80s' here to compare with",
                       q->argv[0]);
    for (const char **path = paths; *path; path++)
        if (is_plain(*path) && matches(p, *path))
            paths[count++] = *path;
    paths[count] = NULL;
    *ret_paths = paths;
    if (!count && !is_plain(first))
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "--allow-command: '%.80s' is neither a name nor an absolute path without "
                       ". and ..",
                       first);
    return count ? 0 : err_set(e, DROVER_BAD_ARGUMENT, "no --allow-command permits %.200s", first);
}

/* Requests. */

int policy_check(const struct policy *p, const struct policy_request *q, struct err_info *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    char asked[HUMAN_SIZE], most[HUMAN_SIZE];
    const struct account *account;
    const char *const *paths;
    TRY(check_user(p, q->user, &account, ret_error));
    for (enum limit_kind i = 0; i < LIMIT_KINDS; i++)
        if (p->limits.of[i] && q->limits.of[i] > p->limits.of[i])
            return err_set(ret_error, DROVER_BAD_ARGUMENT,
                           "limits.%s is %s, more than the maximum of this server, %s",
                           LIMIT_NAMES[i], limit_text(asked, i, q->limits.of[i]),
                           limit_text(most, i, p->limits.of[i]));
    return check_command(p, q, &a, &paths, ret_error);
}

int policy_grant(const struct policy *p, const struct policy_request *q, struct arena *a,
                 struct policy_grant *ret_grant, struct err_info *ret_error)
{
    const struct account *account;
    TRY(check_user(p, q->user, &account, ret_error));
    TRY(check_command(p, q, a, &ret_grant->paths, ret_error));
    ret_grant->account = account;
    ret_grant->new_privileges = p->new_privileges;
    for (enum limit_kind i = 0; i < LIMIT_KINDS; i++) {
        int64_t asked = q->limits.of[i], most = p->limits.of[i];
        ret_grant->limits.of[i] = !asked || (most && most < asked) ? most : asked;
    }
    return 0;
}
