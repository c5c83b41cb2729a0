#include "cli/progress.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/buf.h"
#include "base/human.h"
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

void progress_line(struct progress *p, struct str name)
{
    struct buf b = {0};
    char span[HUMAN_SIZE];

    if (!p->columns)
        return;
    buf_printf(&b, "[%" PRIu32 "/%" PRIu32 "] ", p->ended, p->total);
    if (p->running)
        buf_printf(&b, "%" PRIu32 " running ", p->running);
    if (p->expected_ms) {
        int64_t left_ms = p->expected_ms / (p->jobs ? p->jobs : 1);

        buf_printf(&b, "~%s left ", human_span(span, (left_ms + 500) / 1000 * 1000));
    }
    if (b.len + 4 < p->columns)
        term_put_safe(&b, name, p->columns - 1 - b.len);
    fprintf(p->to, "\r\033[K%.*s", STR_ARGS(b));
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
