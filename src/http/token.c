#include "http/head.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

static bool is_token(const char *text)
{
    size_t len = strlen(text);

    if (len < TOKEN_LEN_MIN)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return true;
}

int token_read(const char *path, char **ret_token, struct err_info *ret_error)
{
    char line[TOKEN_LEN_MAX + 2] = "";
    FILE *in = fopen(path, "re");
    bool failed = !in || (!fgets(line, sizeof line, in) && ferror(in));
    int errnum = errno;

    if (in)
        fclose(in);
    if (failed)
        return err_set_errno(ret_error, errnum, "cannot read %s", path);
    line[strcspn(line, "\r\n")] = '\0';
    if (!is_token(line) || strlen(line) > TOKEN_LEN_MAX)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "%s does not begin with a token: a line of %d to %d visible characters",
                       path, TOKEN_LEN_MIN, TOKEN_LEN_MAX);
    *ret_token = mem_dup(line, strlen(line));
    return 0;
}

bool token_fits(const char *token, const struct str *authorization)
{
    static const struct str scheme = STR("Bearer ");
    size_t len = strlen(token);
    unsigned different = 0;
    struct str given;

    if (!authorization || authorization->len < scheme.len ||
        strncasecmp(authorization->p, scheme.p, scheme.len) != 0)
        return false;
    given = (struct str){authorization->p + scheme.len, authorization->len - scheme.len};
    while (given.len && *given.p == ' ') {
        given.p++;
        given.len--;
    }
    different = given.len != len;
    for (size_t i = 0; i < given.len; i++)
        different |= (unsigned char)given.p[i] ^ (unsigned char)token[i % len];
    return !different;
}
