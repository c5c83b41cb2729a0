#include "base/memory_limit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The first line of a file that begins with this, without it. False: there is none. */
static bool read_line(const char *path, const char *begin, char *line, size_t size)
{
    FILE *in = fopen(path, "re");
    bool found = false;
    while (in && !found && fgets(line, (int)size, in))
        found = !strncmp(line, begin, strlen(begin));
    if (in)
        fclose(in);
    if (!found)
        return false;
    memmove(line, line + strlen(begin), strlen(line) - strlen(begin) + 1);
    line[strcspn(line, "\n")] = '\0';
    return true;
}

/* "max": no limit. */
static size_t limit_of(const char *root, const char *group)
{
    char path[2 * PATH_MAX], text[64];
    uint64_t bytes;
    snprintf(path, sizeof path, "%s%s/memory.max", root, group);
    if (!read_line(path, "", text, sizeof text) || sscanf(text, "%" SCNu64, &bytes) != 1)
        return SIZE_MAX;
    return (size_t)bytes;
}

/* The limits of all cgroups above count, too. */
size_t memory_limit_in(const char *self, const char *root, size_t machine)
{
    char group[PATH_MAX];
    size_t least = machine;
    if (!read_line(self, "0::/", group + 1, sizeof group - 1))
        return machine;
    group[0] = '/';
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = '\0';
        size_t limit = limit_of(root, group);
        least = limit < least ? limit : least;
    }
    return least;
}

size_t memory_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t machine = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX;
    return memory_limit_in("/proc/self/cgroup", "/sys/fs/cgroup", machine);
}
