/*
 * check - what must hold of every tree, and of two trees that should be the same.
 *
 * For fuzz targets and unit tests. Each call returns NULL, or one line that says what is wrong; the
 * line is overwritten by the next call.
 */
#ifndef FUZZ_CHECK_H
#define FUZZ_CHECK_H

#include "keeper/tree/tree.h"

/* A tree at rest: live, or sealed after restoring. */
const char *check_tree(const struct tree *t);

/*
 * Whether the two hold the same nodes and sessions, down to every number. Neither need be sealed:
 * what links an ephemeral node to its session is not looked at.
 */
const char *check_same(const struct tree *a, const struct tree *b);

#endif
