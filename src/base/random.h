/*
 * random - random bytes from the kernel, good enough for ids that nobody may guess.
 *
 * Both end the process when the kernel gives none, which Linux does only before it has booted.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>

/* At most 256 bytes. */
void random_fill(void *to, size_t len);

/* Fills text with an even number of hex digits and a NUL. */
void random_hex(char *text, size_t digits);

#endif
