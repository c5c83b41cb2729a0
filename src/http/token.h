/*
 * token - the secret that a client shows: "Authorization: Bearer TOKEN". Pure but for the file.
 */
#ifndef HTTP_TOKEN_H
#define HTTP_TOKEN_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum { TOKEN_LEN_MIN = 16, TOKEN_LEN_MAX = 1024 };

/* The first line of a file: visible ASCII, no spaces. To be freed. */
int token_read(const char *path, char **ret_token, struct err_info *ret_error);

/* Whether the value of an Authorization header holds the token, in a time that tells nothing of it. */
bool token_fits(const char *token, const struct str *authorization);

#endif
