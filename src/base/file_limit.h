/*
 * file_limit - the limit on file descriptors, of this process and of its children.
 *
 * A server needs a descriptor for each connection, so it raises its soft limit. Programs that use
 * select() need the low one, so the commands that we run get back the limit that we were started
 * with.
 */
#ifndef BASE_FILE_LIMIT_H
#define BASE_FILE_LIMIT_H

#include <sys/resource.h>

/* Raises the soft limit to the hard one. Call it once, before other threads start. */
void file_limit_raise(void);

/* The limit before it was raised. */
struct rlimit file_limit_given(void);

#endif
