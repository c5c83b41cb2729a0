#include "base/account.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

static int find_group(const char *name, gid_t *ret_gid, struct err_info *e)
{
    errno = 0;
    const struct group *g = getgrnam(name);
    if (!g && errno)
        return err_set_errno(e, errno, "cannot look up group '%s'", name);
    if (!g)
        return err_set(e, DROVER_BAD_ARGUMENT, "there is no group '%s'", name);
    *ret_gid = g->gr_gid;
    return 0;
}

static char *copy(const char *text)
{
    return mem_dup(text, strlen(text));
}

int account_find(const char *text, struct account **ret_account, struct err_info *ret_error)
{
    const char *colon = strchr(text, ':');
    CLEANUP(mem_free) char *name = mem_dup(text, colon ? (size_t)(colon - text) : strlen(text));
    gid_t gid;

    errno = 0;
    const struct passwd *p = getpwnam(name);
    if (!p && errno && errno != ENOENT && errno != ESRCH)
        return err_set_errno(ret_error, errno, "cannot look up user '%s'", name);
    if (!p)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "there is no user '%s'", name);
    gid = p->pw_gid;
    if (colon)
        TRY(find_group(colon + 1, &gid, ret_error));
    struct account *a = mem_zalloc(sizeof *a);
    *a = (struct account){
        .name = copy(p->pw_name),
        .home = copy(p->pw_dir && *p->pw_dir ? p->pw_dir : "/"),
        .shell = copy(p->pw_shell && *p->pw_shell ? p->pw_shell : "/bin/sh"),
        .uid = p->pw_uid,
        .gid = gid,
        .groups = mem_alloc(ACCOUNT_GROUPS_MAX * sizeof *a->groups),
        .group_count = ACCOUNT_GROUPS_MAX,
    };
    if (getgrouplist(a->name, gid, a->groups, &a->group_count) < 0) {
        int count = a->group_count;
        account_free(a);
        return err_set(ret_error, DROVER_TOO_BIG, "user '%s' has %d groups, more than %d", name,
                       count, ACCOUNT_GROUPS_MAX);
    }
    *ret_account = a;
    return 0;
}

void account_free(struct account *a)
{
    if (!a)
        return;
    free(a->name);
    free(a->home);
    free(a->shell);
    free(a->groups);
    free(a);
}

void account_variables(const struct account *a, struct arena *to,
                       const char *ret_variables[static ACCOUNT_VARIABLES])
{
    ret_variables[0] = arena_printf(to, "HOME=%s", a->home);
    ret_variables[1] = arena_printf(to, "USER=%s", a->name);
    ret_variables[2] = arena_printf(to, "LOGNAME=%s", a->name);
    ret_variables[3] = arena_printf(to, "SHELL=%s", a->shell);
}

/* A signal to a process of another user needs a capability too. */
bool account_may_switch(void)
{
    const uint32_t needed = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    return !syscall(SYS_capget, &header, data) && (data[0].effective & needed) == needed;
}
