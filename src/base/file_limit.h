/*
 * file_limit - the limit on file descriptors: of this process, of its clients, of its children.
 *
 * A server needs a descriptor for each connection, so it raises its soft limit. Programs that use
 * select() need the low one, so the commands that we run get back the limit that we were started
 * with.
 *
 * Some descriptors are kept back for the journal, snapshots and commands. The kernel gives out the
 * lowest number that is free, so that takes no counting: no connection keeps a descriptor with one
 * of the highest numbers, and the journal can have any. What always holds: however many clients
 * connect, as many descriptors as are kept back are not theirs.
 */
#ifndef BASE_FILE_LIMIT_H
#define BASE_FILE_LIMIT_H

#include <stddef.h>
#include <sys/resource.h>

/* Kept back, or a quarter of the limit if that is less; the same again for what runs. */
enum { FILE_LIMIT_KEPT = 128 };

/* Raises the soft limit to the hard one. Call it once, before other threads start. */
void file_limit_raise(void);

/* The limit before it was raised. */
struct rlimit file_limit_given(void);

/*
 * Keeps descriptors back for `count` things that take `each`, or for as many as fit into a quarter
 * of the limit, and returns that. The last call counts. On the loop.
 */
size_t file_limit_keep(size_t count, size_t each);

/* A connection may have descriptors below this. */
int file_limit_of_clients(void);

#endif
