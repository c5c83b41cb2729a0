#include "cli/progress.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/buf.h"
#include "cli/term.h"

void progress_init(struct progress *p, FILE *to, uint32_t total, int64_t now_ms)
{
    *p = (struct progress){.to = to,
                           .columns = term_columns(to),
                           .coloured = term_has_colour(to),
                           .total = total,
                           .started_ms = now_ms};
}

void progress_clear(struct progress *p)
{
    if (p->line)
        fputs("\r\033[K", p->to);
    p->line = false;
    fflush(p->to);
}

/* "1h02m", "3m20s", "12s". */
static void put_time(struct buf *b, int64_t ms)
{
    int64_t s = (ms + 500) / 1000;

    if (s >= 3600)
        buf_printf(b, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
    else if (s >= 60)
        buf_printf(b, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else
        buf_printf(b, "%" PRId64 "s", s);
}

void progress_line(struct progress *p, struct str name, int64_t now_ms)
{
    struct buf b = {0};

    (void)now_ms;
    if (!p->columns)
        return;
    buf_printf(&b, "[%" PRIu32 "/%" PRIu32 "] ", p->ended, p->total);
    if (p->running)
        buf_printf(&b, "%" PRIu32 " running ", p->running);
    if (p->expected_ms) {
        buf_printf(&b, "~");
        put_time(&b, p->expected_ms / (p->jobs ? p->jobs : 1));
        buf_printf(&b, " left ");
    }
    if (b.len + 4 < p->columns)
        term_put_safe(&b, name, p->columns - 1 - b.len);
    fprintf(p->to, "\r\033[K%.*s", (int)b.len, b.p);
    fflush(p->to);
    p->line = true;
    buf_release(&b);
}

void progress_say(struct progress *p, const char *fmt, ...)
{
    va_list ap;

    progress_clear(p);
    va_start(ap, fmt);
    vfprintf(p->to, fmt, ap);
    va_end(ap);
    fputc('\n', p->to);
    fflush(p->to);
}
