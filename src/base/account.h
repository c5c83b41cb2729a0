/*
 * account - a user of this machine, with what a process of this user needs: ids, groups, home.
 *
 * Everything is looked up when the account is found, because a process that is being started cannot
 * ask the system's databases: it shares our memory (base/process.h).
 */
#ifndef BASE_ACCOUNT_H
#define BASE_ACCOUNT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"

enum { ACCOUNT_GROUPS_MAX = 1024, ACCOUNT_VARIABLES = 4 };

struct account {
    char *name, *home, *shell;
    uid_t uid;
    gid_t gid;
    gid_t *groups; /* supplementary, and the primary one */
    int group_count;
};

/* "USER" or "USER:GROUP", by name; without a group it is the user's own. account_free() it. */
int account_find(const char *text, struct account **ret_account, struct err_info *ret_error);
void account_free(struct account *a); /* NULL: does nothing */

/* "HOME=...", USER, LOGNAME and SHELL, in the arena. */
void account_variables(const struct account *a, struct arena *to,
                       const char *ret_variables[static ACCOUNT_VARIABLES]);

/* Whether this process may start processes as another user, and end them. */
bool account_may_switch(void);

#endif
