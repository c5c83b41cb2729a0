/*
 * memory_limit - how much memory this process may use: that of the machine, or less if a cgroup
 * says so (a container, a unit of systemd).
 */
#ifndef BASE_MEMORY_LIMIT_H
#define BASE_MEMORY_LIMIT_H

#include <stddef.h>

/* In bytes. Reads files: call it at the start. */
size_t memory_limit(void);

/* The same with other files: of /proc/self/cgroup, and of the root of the cgroups. For tests. */
size_t memory_limit_in(const char *self, const char *root, size_t machine);

#endif
