/*
 * path - what may name a node.
 *
 * A path is "/" or a run of parts, each after a slash. A part is not empty, not "." and not "..".
 * Text is UTF-8 without control characters, surrogates, private use, U+FFF0..U+FFFF, and nothing
 * beyond U+FFFF: the rules of ZooKeeper, which counts in UTF-16 units.
 */
#ifndef KEEPER_PATH_H
#define KEEPER_PATH_H

#include <stdbool.h>

#include "base/str.h"

enum {
    PATH_MAX_LEN = 64 * 1024,
    PATH_NUMBER_MAX_LEN = 11, /* what a sequential create appends at most */
};

/*
 * The path of a sequential create may end in a slash, since its number becomes the whole name, and
 * must leave room for that number.
 */
bool path_is_valid(struct str path, bool sequential);

/* Nodes that are always there and cannot be deleted: "/", "/zookeeper" and its two. */
bool path_is_special(struct str path);

/* "/a/b" gives "/a", "/a" gives "/". Not for "/". */
struct str path_parent(struct str path);

/* "/a/b" gives "b". */
struct str path_name(struct str path);

#endif
