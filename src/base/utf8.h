/*
 * utf8 - characters as bytes. Pure.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The length of the well-formed sequence at text, which is before end; 0: there is none. */
size_t utf8_len(const char *text, const char *end);

/* Writes a character, or half a surrogate pair, and returns what is behind it: at most four bytes. */
char *utf8_put(char *to, uint32_t c);

#endif
