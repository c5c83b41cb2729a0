/*
 * token - the secret of a client: "Authorization: Bearer TOKEN".
 */
#ifndef HTTP_TOKEN_H
#define HTTP_TOKEN_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum { TOKEN_LEN_MIN = 16, TOKEN_LEN_MAX = 1024 };

/* Reads the first line of a file: visible ASCII, no spaces. The caller frees it. */
int token_read(const char *path, char **ret_token, struct err_info *ret_error);

/* Whether the value of an Authorization header has the token. Takes constant time. */
bool token_fits(const char *token, const struct str *authorization);

#endif
