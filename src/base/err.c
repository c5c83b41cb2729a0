/* Lookups in the error table, and the one-line explanations. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct err_row {
    int code, http, cli;
    const char *name, *message;
};

/* clang-format off */
static const struct err_row ROWS[] = {
    {0, 200, 0, "OK", "success"},
#define X(name, number, http, cli, message) {number, http, cli, #name, message},
    DROVER_ERRORS(X)
#undef X
};
/* clang-format on */

static const struct err_row *row_of(int err)
{
    static const struct err_row none = {1, 500, 1, "UNLISTED", "an unknown error"};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (ROWS[i].code == err)
            return &ROWS[i];
    return &none;
}

const char *drover_err_name(int err)
{
    return row_of(err)->name;
}

const char *drover_err_message(int err)
{
    return row_of(err)->message;
}

int drover_err_http_status(int err)
{
    return row_of(err)->http;
}

int drover_err_exit_status(int err)
{
    return row_of(err)->cli;
}

int err_set(struct err_info *e, int code, const char *fmt, ...)
{
    va_list ap;
    if (e) {
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

int err_explain(struct err_info *e, int err)
{
    return err_set(e, err, "%s", drover_err_message(err));
}

int err_set_errno(struct err_info *e, int errnum, const char *fmt, ...)
{
    va_list ap;
    if (e) {
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
        size_t len = strlen(e->text);
        snprintf(e->text + len, sizeof e->text - len, ": %s", strerror(errnum));
    }
    if (errnum == EMFILE || errnum == ENFILE)
        return DROVER_TOO_MANY;
    return errnum == ENOSPC || errnum == EDQUOT ? DROVER_DISK_FULL : DROVER_IO;
}

int err_fatal_status;

void err_fatal(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("drover: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    if (err_fatal_status)
        _exit(err_fatal_status);
    abort();
}
