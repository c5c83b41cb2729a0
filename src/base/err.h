/*
 * err - error messages.
 *
 * The errors themselves are a table in drover/core.h. Calls whose failures people see (opening a
 * data directory, parsing an option) also fill a struct err_info: one line that says what and
 * where. Core and library never print it; the edge does, once.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>

#include "drover.h"

/* The line is that of the public interface, so that the library fills the caller's directly. */
#define err_info drover_error

/* Returns from the function with what the call returned, unless that is 0. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_err = (call);                                                                      \
        if (try_err)                                                                               \
            return try_err;                                                                        \
    } while (0)

/* Writes the line and returns code, so that a failure is one statement. e may be NULL. */
int err_set(struct err_info *e, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * The same for a failed system call: appends ": " and the text of errnum, and chooses the code:
 * DISK_FULL for ENOSPC and EDQUOT, TOO_MANY for EMFILE and ENFILE, IO for the rest.
 */
int err_set_errno(struct err_info *e, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether the system may have room again later: disk space, or descriptors. */
static inline bool err_is_shortage(int err)
{
    return err == DROVER_DISK_FULL || err == DROVER_TOO_MANY;
}

/*
 * For what no caller can handle (no memory, no thread, no random bytes): prints one line on stderr
 * and ends the process with err_fatal_status, or, if that is 0, with SIGABRT: a program that only
 * uses the library may want to know where. main() sets it.
 */
extern int err_fatal_status;
_Noreturn void err_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The general message of an error, where there is nothing more to say. */
int err_explain(struct err_info *e, int err);

#endif
