/* Each line leaves in one write, so that lines of several threads do not mix. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/json.h"

enum { MESSAGE_LEN_MAX = 1000 };

struct level {
    const char *name, *prefix;
};

static const struct level ERROR = {"error", ""}, WARNING = {"warning", "warning: "},
                          INFO = {"info", ""};
static bool as_json;

void log_as_json(void)
{
    as_json = true;
}

static void put_json(struct buf *b, const struct level *level, const struct log_field *fields,
                     size_t count, const char *message)
{
    int64_t ms = clock_wall_ms();
    char time[HUMAN_SIZE];
    json_open(b, '{');
    json_key(b, "time");
    buf_printf(b, "\"%s.%03dZ\"", human_utc(time, ms), (int)(ms % 1000));
    json_member_text(b, "level", str_of(level->name));
    json_member_text(b, "message", str_of(message));
    for (size_t i = 0; i < count; i++)
        json_member_text(b, fields[i].name, fields[i].value);
    json_close(b, '}');
}

/* A value with something in it that would break the line apart is written as JSON writes it. */
static void put_value(struct buf *b, struct str value)
{
    bool plain = value.len > 0;
    for (size_t i = 0; i < value.len; i++)
        plain &= value.p[i] > ' ' && value.p[i] <= '~' && value.p[i] != '"';
    if (plain)
        buf_put_str(b, value);
    else
        json_put_text(b, value);
}

static void put_text(struct buf *b, const struct level *level, const struct log_field *fields,
                     size_t count, const char *message)
{
    buf_printf(b, "drover: %s%s", level->prefix, message);
    for (size_t i = 0; i < count; i++) {
        buf_printf(b, " %s=", fields[i].name);
        put_value(b, fields[i].value);
    }
}

__attribute__((format(printf, 4, 0))) static void log_line(const struct level *level,
                                                           const struct log_field *fields,
                                                           size_t count, const char *fmt,
                                                           va_list ap)
{
    char message[MESSAGE_LEN_MAX];
    CLEANUP(buf_release) struct buf line = {0};
    vsnprintf(message, sizeof message, fmt, ap);
    (as_json ? put_json : put_text)(&line, level, fields, count, message);
    buf_put_str(&line, STR("\n"));
    if (write(STDERR_FILENO, line.p, line.len) < 0) {
        /* there is nobody left to tell */
    }
}

#define LOG_FUNCTION(function, level, fields, count)                                               \
    void function                                                                                  \
    {                                                                                              \
        va_list ap;                                                                                \
        va_start(ap, fmt);                                                                         \
        log_line(level, fields, count, fmt, ap);                                                   \
        va_end(ap);                                                                                \
    }

LOG_FUNCTION(log_error(const char *fmt, ...), &ERROR, NULL, 0)
LOG_FUNCTION(log_warning(const char *fmt, ...), &WARNING, NULL, 0)
LOG_FUNCTION(log_info(const char *fmt, ...), &INFO, NULL, 0)
LOG_FUNCTION(log_error_with(const struct log_field *fields, size_t count, const char *fmt, ...),
             &ERROR, fields, count)
