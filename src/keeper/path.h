/*
 * path - the paths of nodes.
 *
 * A path is "/" or a sequence of parts, each after a slash. A part is not empty, not "." and not
 * "..". Text is UTF-8 without control characters, surrogates, private use, U+FFF0..U+FFFF, and
 * nothing beyond U+FFFF: the rules of ZooKeeper, which uses UTF-16.
 */
#ifndef KEEPER_PATH_H
#define KEEPER_PATH_H

#include <stdbool.h>

#include "base/str.h"

enum {
    PATH_MAX_LEN = 64 * 1024,
    PATH_NUMBER_MAX_LEN = 11, /* the most that a sequential create appends */
};

/*
 * The path of a sequential create may end in a slash, because its number can be the whole name, and
 * must leave space for that number.
 */
bool path_is_valid(struct str path, bool sequential);

/* Nodes that always exist: "/", "/zookeeper" and its two children. */
bool path_is_special(struct str path);

/* "/a/b" gives "/a", "/a" gives "/". Not for "/". */
struct str path_parent(struct str path);

/* "/a/b" gives "b". */
struct str path_name(struct str path);

#endif
