/*
 * str - text that somebody else owns: a pointer and a length, no NUL promised.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct str {
    const char *p;
    size_t len;
};

#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})

static inline struct str str_of(const char *text)
{
    return (struct str){text, strlen(text)};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static inline bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.p, prefix.p, prefix.len) == 0);
}

#endif
