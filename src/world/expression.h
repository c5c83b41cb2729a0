/*
 * expression - a regular expression that must match the whole of a name (PCRE2).
 *
 * Every match has limits: an expensive pattern is an error, not a delay. An expression without
 * special characters is plain: it matches itself, and can be looked up.
 *
 * Used by one thread at a time.
 */
#ifndef WORLD_EXPRESSION_H
#define WORLD_EXPRESSION_H

#include "base/err.h"
#include "base/str.h"

enum {
    EXPRESSION_LEN_MAX = 1000,
    EXPRESSION_MATCH_LIMIT = 20000, /* steps of one match */
    EXPRESSION_DEPTH_LIMIT = 1000,
    EXPRESSION_HEAP_LIMIT_KB = 1024,
};

struct expression;

/* BAD_ARGUMENT and why, if it does not compile. what: "parent's name", for messages. */
int expression_new(struct str pattern, const char *what, struct expression **ret_expression,
                   struct err_info *ret_error);
void expression_free(struct expression *x);

/* The text of a plain one; p NULL: it is not plain. */
struct str expression_plain(const struct expression *x);

/* 1: matches; 0: does not; BAD_ARGUMENT: exceeded a limit. */
int expression_match(struct expression *x, struct str name, struct err_info *ret_error);

#endif
