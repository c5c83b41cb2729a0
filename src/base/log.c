/*
 * Each line leaves in one write, so that lines of several threads do not mix.
 *
 * A line that equals the one before it, time apart, is counted and not written. The count leaves
 * with the next different line, with the first repetition after REPEAT_MS, or when the process
 * ends.
 */
#include "base/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"

enum { MESSAGE_LEN_MAX = 1000, REPEAT_MS = 10 * 1000 };

struct level {
    const char *name, *prefix;
};

static const struct level ERROR = {"error", ""}, WARNING = {"warning", "warning: "},
                          INFO = {"info", ""};
static bool as_json;
static int64_t (*now_ms)(void) = clock_boot_ms;

/* The last line that was written, without its time. */
static struct {
    pthread_mutex_t lock;
    struct buf line;
    uint64_t repeated; /* since then */
    int64_t at_ms;
    bool ends; /* the last count is written when the process ends */
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

void log_as_json(void)
{
    as_json = true;
}

void log_use_clock(int64_t (*boot_ms)(void))
{
    now_ms = boot_ms;
}

/* An object without the time and the last bracket. */
static void put_json(struct buf *b, const struct level *level, const struct log_field *fields,
                     size_t count, const char *message)
{
    json_member_text(b, "level", str_of(level->name));
    json_member_text(b, "message", str_of(message));
    for (size_t i = 0; i < count; i++)
        json_member_text(b, fields[i].name, fields[i].value);
}

/* A value with something in it that would break the line apart is written as JSON writes it. */
static void put_value(struct buf *b, struct str value)
{
    CLEANUP(buf_release) struct buf quoted = {0}; /* the writer puts a comma after what precedes */
    bool plain = value.len > 0;
    for (size_t i = 0; i < value.len; i++)
        plain &= value.p[i] > ' ' && value.p[i] <= '~' && value.p[i] != '"';
    if (!plain)
        json_put_text(&quoted, value);
    buf_put_str(b, plain ? value : buf_str(&quoted));
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

static void write_json(struct buf *b, struct str line, uint64_t repeated)
{
    int64_t ms = clock_wall_ms();
    char time[HUMAN_SIZE];
    json_open(b, '{');
    json_key(b, "time");
    buf_printf(b, "\"%s.%03dZ\",", human_utc(time, ms), (int)(ms % 1000));
    buf_put_str(b, line);
    if (repeated)
        json_member_int(b, "repeated", (int64_t)repeated);
    json_close(b, '}');
}

static void write_text(struct buf *b, struct str line, uint64_t repeated)
{
    buf_put_str(b, line);
    if (repeated)
        buf_printf(b, " (repeated %" PRIu64 " time%s)", repeated, repeated == 1 ? "" : "s");
}

/* Writes the last line: as it is, or that it was repeated. Under the lock. */
static void write_last(uint64_t repeated)
{
    CLEANUP(buf_release) struct buf b = {0};
    (as_json ? write_json : write_text)(&b, buf_str(&last.line), repeated);
    buf_put_str(&b, STR("\n"));
    if (write(STDERR_FILENO, b.p, b.len) < 0) {
        /* there is nobody left to tell */
    }
    last.repeated = 0;
    last.at_ms = now_ms();
}

static void write_count(void)
{
    if (last.repeated)
        write_last(last.repeated);
}

static void at_end(void)
{
    LOCKED(&last.lock);
    write_count();
    buf_release(&last.line);
}

static void write_or_count(struct buf *line)
{
    LOCKED(&last.lock);
    if (!last.ends)
        last.ends = atexit(at_end) == 0;
    if (str_eq(buf_str(line), buf_str(&last.line))) {
        last.repeated++;
        if (now_ms() >= last.at_ms + REPEAT_MS)
            write_count();
        return;
    }
    write_count();
    last.line.len = 0;
    buf_put_str(&last.line, buf_str(line));
    write_last(0);
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
    write_or_count(&line);
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
