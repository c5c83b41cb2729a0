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
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/human.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"

enum { MESSAGE_LEN_MAX = 1000, REPEAT_MS = 10 * 1000 };

static const struct log_rank {
    const char *name, *prefix;
    int priority; /* as syslog's */
} LEVELS[] = {
    [LOG_LEVEL_DEBUG] = {"debug", "", 7},
    [LOG_LEVEL_INFO] = {"info", "", 6},
    [LOG_LEVEL_WARNING] = {"warning", "warning: ", 4},
    [LOG_LEVEL_ERROR] = {"error", "", 3},
};

/* What a line is made of. */
struct log_parts {
    const struct log_rank *level;
    const char *message;
    struct log_fields f;
    bool fields_in_text;
};

/* A line begins with its time, which repetitions do not share. */
struct log_style {
    void (*put)(struct buf *b, const struct log_parts *p);
    void (*put_time)(struct buf *b, int64_t wall_ms);
    bool is_json;
};

/* Text. */

/* A value with something in it that would break the line apart is written as JSON writes it. */
static void put_value(struct buf *b, const struct log_field *f)
{
    CLEANUP(buf_release) struct buf quoted = {0}; /* the writer puts a comma after what precedes */
    bool plain = f->value.len > 0;
    for (size_t i = 0; i < f->value.len; i++)
        plain &= f->value.p[i] > ' ' && f->value.p[i] <= '~' && f->value.p[i] != '"';
    if (f->is_number) {
        buf_printf(b, "%" PRId64, f->number);
        return;
    }
    if (!plain)
        json_put_text(&quoted, f->value);
    escape_put(b, plain ? f->value : buf_str(&quoted), ESCAPE_LINE);
}

static void put_message(struct buf *b, const struct log_parts *p)
{
    escape_put(b, str_of(p->message), ESCAPE_LINE);
    for (size_t i = 0; i < p->f.count && p->fields_in_text; i++) {
        buf_printf(b, " %s=", p->f.fields[i].name);
        put_value(b, &p->f.fields[i]);
    }
}

static void put_command(struct buf *b, const struct log_parts *p)
{
    buf_printf(b, "drover: %s", p->level->prefix);
    put_message(b, p);
}

static void put_level(struct buf *b, const struct log_parts *p)
{
    buf_printf(b, "%s ", p->level->name);
    put_message(b, p);
}

static void put_journal(struct buf *b, const struct log_parts *p)
{
    buf_printf(b, "<%d>", p->level->priority);
    put_message(b, p);
}

static void put_no_time(struct buf *b, int64_t wall_ms)
{
    (void)b;
    (void)wall_ms;
}

static void put_clock(struct buf *b, int64_t wall_ms)
{
    char text[HUMAN_SIZE];
    buf_printf(b, "%s ", human_clock(text, wall_ms));
}

static void put_local(struct buf *b, int64_t wall_ms)
{
    char text[HUMAN_SIZE];
    buf_printf(b, "%s ", human_iso(text, wall_ms));
}

/* JSON: an object without the last bracket. */

static void put_json(struct buf *b, const struct log_parts *p)
{
    json_member_text(b, "level", str_of(p->level->name));
    json_member_text(b, "message", str_of(p->message));
    if (p->f.event)
        json_member_text(b, "event", str_of(p->f.event));
    for (size_t i = 0; i < p->f.count; i++) {
        const struct log_field *f = &p->f.fields[i];
        if (f->is_number)
            json_member_int(b, f->name, f->number);
        else
            json_member_text(b, f->name, f->value);
    }
}

static void put_json_time(struct buf *b, int64_t wall_ms)
{
    char time[HUMAN_SIZE];
    json_open(b, '{');
    json_key(b, "time");
    buf_printf(b, "\"%s.%03dZ\",", human_utc(time, wall_ms), (int)(wall_ms % 1000));
}

static const struct log_style COMMAND = {put_command, put_no_time, false},
                              TERMINAL = {put_level, put_clock, false},
                              JOURNAL = {put_journal, put_no_time, false},
                              STREAM = {put_level, put_local, false},
                              JSON = {put_json, put_json_time, true};

/* Writing. */

static _Atomic(const struct log_style *) style = &COMMAND;
static atomic_int least_level = LOG_LEVEL_INFO;
static int64_t (*now_ms)(void) = clock_boot_ms;

/* The last line that was written, without its time. */
static struct {
    pthread_mutex_t lock;
    const struct log_style *style;
    struct buf line;
    uint64_t repeated; /* since then */
    int64_t at_ms;
    bool ends; /* the last count is written when the process ends */
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

void log_use_clock(int64_t (*boot_ms)(void))
{
    now_ms = boot_ms;
}

/* systemd says which stream it is, so that one who inherits the variable does not take another. */
static bool is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;
    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           !fstat(STDERR_FILENO, &st) && st.st_dev == device && st.st_ino == inode;
}

void log_begin(enum log_format format, enum log_level least)
{
    least_level = (int)least;
    style = format == LOG_JSON      ? &JSON
            : isatty(STDERR_FILENO) ? &TERMINAL
            : is_journal()          ? &JOURNAL
                                    : &STREAM;
}

bool log_shows(enum log_level level)
{
    return (int)level >= least_level;
}

/* Writes the last line: as it is, or that it was repeated. Under the lock. */
static void write_last(uint64_t repeated)
{
    CLEANUP(buf_release) struct buf b = {0}, shown = {0};
    last.style->put_time(&b, clock_wall_ms());
    buf_put_str(&b, buf_str(&last.line));
    if (repeated && last.style->is_json)
        json_member_int(&b, "repeated", (int64_t)repeated);
    else if (repeated)
        buf_printf(&b, " (repeated %" PRIu64 " time%s)", repeated, repeated == 1 ? "" : "s");
    if (last.style->is_json)
        json_close(&b, '}');
    buf_put_str(&b, STR("\n"));
    escape_put(&shown, buf_str(&b), last.style->is_json ? ESCAPE_JSON : ESCAPE_LINES);
    if (write(STDERR_FILENO, shown.p, shown.len) < 0) {
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

static void write_or_count(const struct log_style *s, struct buf *line)
{
    LOCKED(&last.lock);
    if (!last.ends)
        last.ends = atexit(at_end) == 0;
    if (s == last.style && str_eq(buf_str(line), buf_str(&last.line))) {
        last.repeated++;
        if (now_ms() >= last.at_ms + REPEAT_MS)
            write_count();
        return;
    }
    write_count();
    last.style = s;
    last.line.len = 0;
    buf_put_str(&last.line, buf_str(line));
    write_last(0);
}

__attribute__((format(printf, 4, 0))) static void log_line(enum log_level level,
                                                           struct log_fields f, bool fields_in_text,
                                                           const char *fmt, va_list ap)
{
    char message[MESSAGE_LEN_MAX];
    CLEANUP(buf_release) struct buf line = {0};
    if (!log_shows(level))
        return;
    vsnprintf(message, sizeof message, fmt, ap);
    const struct log_style *s = style;
    s->put(&line, &(struct log_parts){&LEVELS[level], message, f, fields_in_text});
    write_or_count(s, &line);
}

#define LOG_FUNCTION(function, level, fields, in_text)                                             \
    void function                                                                                  \
    {                                                                                              \
        va_list ap;                                                                                \
        va_start(ap, fmt);                                                                         \
        log_line(level, fields, in_text, fmt, ap);                                                 \
        va_end(ap);                                                                                \
    }

#define NO_FIELDS ((struct log_fields){0})

LOG_FUNCTION(log_error(const char *fmt, ...), LOG_LEVEL_ERROR, NO_FIELDS, false)
LOG_FUNCTION(log_warning(const char *fmt, ...), LOG_LEVEL_WARNING, NO_FIELDS, false)
LOG_FUNCTION(log_info(const char *fmt, ...), LOG_LEVEL_INFO, NO_FIELDS, false)
LOG_FUNCTION(log_event(enum log_level level, struct log_fields f, const char *fmt, ...), level, f,
             false)
LOG_FUNCTION(log_error_with(const struct log_field *fields, size_t count, const char *fmt, ...),
             LOG_LEVEL_ERROR, ((struct log_fields){NULL, fields, count}), true)
