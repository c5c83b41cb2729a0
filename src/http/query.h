/*
 * query - the part of a request target after '?', and percent-escapes. Pure.
 *
 * A query is "name=value" pairs between '&'; a name without '=' has the empty value. Escapes are
 * decoded, '+' is a space. Strict: malformed escapes and repeated names are refused, because
 * programs disagree about which of two values counts.
 */
#ifndef HTTP_QUERY_H
#define HTTP_QUERY_H

#include "base/arena.h"
#include "base/str.h"

enum { QUERY_MAX = 64 }; /* parameters */

struct query_param {
    struct str name, value;
};

struct query {
    struct query_param *params;
    size_t count;
};

/* Decodes escapes. Text without any is returned as it is, else a copy in the arena. */
bool query_unescape(struct arena *a, struct str text, bool plus_is_space, struct str *ret_text);

/* NULL, or one sentence about what is wrong. */
const char *query_parse(struct arena *a, struct str text, struct query *ret_query);

#endif
