/*
 * secret - a secret in the first line of a file: the rest of the file does not count.
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* The line, without its end. One that does not fit with its end is read as an empty one. */
int secret_read(const char *path, char *ret_line, size_t size, struct err_info *ret_error);

/* Whether every user of the machine can read it. */
bool secret_is_exposed(const char *path);

#endif
