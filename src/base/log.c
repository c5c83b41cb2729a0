/* Each line leaves in one write, so that lines of several threads do not mix. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void log_line(const char *level, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

static void log_line(const char *level, const char *fmt, va_list ap)
{
    char line[1024];
    size_t len = (size_t)snprintf(line, sizeof line, "drover: %s", level);

    vsnprintf(line + len, sizeof line - len - 1, fmt, ap);
    len = strlen(line);
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) < 0)
        return; /* there is nobody left to tell */
}

#define LOG_FUNCTION(function, level)                                                              \
    void function(const char *fmt, ...)                                                            \
    {                                                                                              \
        va_list ap;                                                                                \
                                                                                                   \
        va_start(ap, fmt);                                                                         \
        log_line(level, fmt, ap);                                                                  \
        va_end(ap);                                                                                \
    }

LOG_FUNCTION(log_error, "")
LOG_FUNCTION(log_warning, "warning: ")
LOG_FUNCTION(log_info, "")
