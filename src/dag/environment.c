#include "dag/environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The variables of the server that commands inherit. */
static const char *const PASSED[] = {"HOME", "USER", "LOGNAME", "SHELL",
                                     "LANG", "TZ",   "TMPDIR",  "LC_ALL"};

enum { PASSED_COUNT = sizeof PASSED / sizeof *PASSED };

static bool is_given(const char *const *given, const char *name)
{
    size_t len = strlen(name);

    for (; given && *given; given++)
        if (!strncmp(*given, name, len) && (*given)[len] == '=')
            return true;
    return false;
}

const char **environment_make(struct arena *a, const struct environment *e,
                              const char *const *given)
{
    const char **env, *path = getenv("PATH");
    size_t count = 0, at = 0;

    while (given && given[count])
        count++;
    env = arena_alloc(a, (count + PASSED_COUNT + 7) * sizeof *env);
    env[at++] = e->token;
    env[at++] = arena_printf(a, "DROVER_NODE=%s", e->node);
    env[at++] = arena_printf(a, "DROVER_PARENT=%s", e->parent);
    if (e->url)
        env[at++] = arena_printf(a, "DROVER_URL=%s", e->url);
    if (e->password)
        env[at++] = arena_printf(a, "DROVER_TOKEN=%s", e->password);
    for (size_t i = 0; i < count; i++)
        if (strncmp(given[i], "DROVER_", 7) != 0)
            env[at++] = given[i];
    if (!is_given(given, "PATH"))
        env[at++] = arena_printf(a, "PATH=%s", path ? path : "/usr/local/bin:/usr/bin:/bin");
    for (int i = 0; i < PASSED_COUNT; i++) {
        const char *value = getenv(PASSED[i]);

        if (value && !is_given(given, PASSED[i]))
            env[at++] = arena_printf(a, "%s=%s", PASSED[i], value);
    }
    env[at] = NULL;
    return env;
}
