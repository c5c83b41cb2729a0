#include "base/file_limit.h"

#include <limits.h>
#include <stdbool.h>

static struct rlimit given;
static bool raised;
static size_t kept; /* by file_limit_keep() */

void file_limit_raise(void)
{
    if (raised || getrlimit(RLIMIT_NOFILE, &given))
        return;
    struct rlimit limit = given;
    limit.rlim_cur = limit.rlim_max;
    raised = !setrlimit(RLIMIT_NOFILE, &limit);
}

struct rlimit file_limit_given(void)
{
    struct rlimit limit = given;
    if (!raised)
        getrlimit(RLIMIT_NOFILE, &limit);
    return limit;
}

static size_t file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > INT_MAX)
        return INT_MAX;
    return (size_t)limit.rlim_cur;
}

size_t file_limit_keep(size_t count, size_t each)
{
    size_t most = file_limit() / 4 / each;
    if (count > most)
        count = most;
    kept = count * each;
    return count;
}

int file_limit_of_clients(void)
{
    size_t limit = file_limit();
    size_t own = limit / 4 < FILE_LIMIT_KEPT ? limit / 4 : FILE_LIMIT_KEPT;
    return (int)(limit - own - kept);
}
