/*
 * file_limit - how many descriptors this process may have, and what its children get.
 *
 * A server takes a descriptor for each connection, so it raises its soft limit. That limit is there for
 * programs that still use select(): the commands that we run are given back the one we were given.
 */
#ifndef BASE_FILE_LIMIT_H
#define BASE_FILE_LIMIT_H

#include <sys/resource.h>

/* Raises the soft limit to the hard one. Once, before there are threads. */
void file_limit_raise(void);

/* As it was before it was raised. */
struct rlimit file_limit_given(void);

#endif
