#include "base/file_limit.h"

#include <stdbool.h>

static struct rlimit given;
static bool raised;

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
