/*
 * str - borrowed text: a pointer and a length, not necessarily with a NUL; and UTF-8.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *p;
    size_t len;
};

#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})

/* The two arguments of a %.*s: printf("%.*s", STR_ARGS(name)). */
#define STR_ARGS(s) (int)(s).len, (s).p

static inline struct str str_of(const char *text)
{
    return (struct str){text, strlen(text)};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

/* By bytes, as strcmp() orders. */
static inline int str_compare(struct str a, struct str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.p, b.p, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static inline bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.p, prefix.p, prefix.len) == 0);
}

/*
 * Removes the text up to the next separator, and the separator, from the front of *rest. Without a
 * separator that is all, and rest->p is NULL then.
 */
static inline struct str str_cut(struct str *rest, char separator)
{
    const char *found = rest->len ? memchr(rest->p, separator, rest->len) : NULL;
    struct str cut = {rest->p, found ? (size_t)(found - rest->p) : rest->len};
    *rest = found ? (struct str){found + 1, rest->len - cut.len - 1} : (struct str){0};
    return cut;
}

/*
 * The length of the well-formed UTF-8 sequence at text, which is before end; 0: it is not
 * well-formed.
 */
size_t utf8_len(const char *text, const char *end);

/*
 * Writes a character, or half a surrogate pair: at most four bytes. Returns the end of what it
 * wrote.
 */
char *utf8_put(char *to, uint32_t c);

#endif
