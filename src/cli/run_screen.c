/* What is read from the nodes that run, and the block as text. */
#include "cli/run_screen.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/human.h"

enum { BAR_MAX = 20, NAME_MAX_WIDTH = 30 };

void run_screen_init(struct run_screen *s)
{
    const char *kind = getenv("TERM");
    bool dumb = !kind || !*kind || !strcmp(kind, "dumb");
    *s = (struct run_screen){.on = term_columns(stderr) && !dumb,
                             .coloured = term_has_colour(stderr),
                             .utf8 = term_is_utf8()};
    term_set_ascii(s->on && !s->utf8);
}

/* A node that is new takes a place that is free; one that has none is only counted. */
void run_screen_running(struct run_screen *s, uint64_t id, struct str name, int64_t started_ms)
{
    struct run_tail *free_one = NULL;
    for (size_t i = 0; i < RUN_TAILS; i++) {
        struct run_tail *t = &s->tails[i];
        if (t->id == id) {
            t->seen = true;
            return;
        }
        free_one = free_one || t->id ? free_one : t;
    }
    if (!free_one || !s->on)
        return;
    *free_one = (struct run_tail){.id = id, .name = name, .started_ms = started_ms, .seen = true};
    snprintf(free_one->id_text, sizeof free_one->id_text, "%" PRIu64, id);
    free_one->output = (struct dag_output){.id = free_one->id_text, .key = "mixedout"};
}

/* The last line of a text that is not empty. */
static struct str last_line(struct str text)
{
    while (text.len && (text.p[text.len - 1] == '\n' || text.p[text.len - 1] == '\r'))
        text.len--;
    const char *end = text.len ? memrchr(text.p, '\n', text.len) : NULL;
    return end ? (struct str){end + 1, text.len - (size_t)(end + 1 - text.p)} : text;
}

/* One page for each node, so that a node that prints much does not hold up the others. */
static void read_tail(struct run_tail *t, struct client *c)
{
    char *text = NULL;
    size_t len = 0;
    bool more;
    t->output.to = open_memstream(&text, &len);
    follow_output(c, &t->output, 0, &more);
    fclose(t->output.to);
    struct str line = last_line((struct str){text, len});
    if (line.len)
        snprintf(t->line, sizeof t->line, "%.*s", STR_ARGS(line));
    free(text);
}

void run_screen_read(struct run_screen *s, struct client *c)
{
    bool silent = c->silent;
    c->silent = true;
    for (size_t i = 0; i < RUN_TAILS; i++) {
        struct run_tail *t = &s->tails[i];
        if (!t->seen)
            t->id = 0;
        if (t->id && s->on)
            read_tail(t, c);
        t->seen = false;
    }
    c->silent = silent;
}

static void put_bar(const struct run_screen *s, const struct run_progress *p, size_t width,
                    struct buf *b)
{
    size_t full = p->total ? width * p->over / p->total : 0;
    for (size_t i = 0; i < width; i++)
        buf_printf(b, "%s", i < full ? (s->utf8 ? "█" : "#") : s->utf8 ? "░" : ".");
    buf_printf(b, " ");
}

static void put_node(const struct run_screen *s, const struct run_tail *t, int64_t now_ms,
                     size_t columns, struct buf *b)
{
    char span[HUMAN_SIZE];
    int64_t ms = now_ms > t->started_ms ? now_ms - t->started_ms : 0;
    const char *time = human_span(span, ms / 1000 * 1000);
    size_t fixed = 2 + strlen(time) + 2, room = columns > fixed ? columns - fixed : 0;
    size_t width = term_width(t->name), most = room < NAME_MAX_WIDTH ? room : NAME_MAX_WIDTH;
    width = width < most ? width : most;
    buf_printf(b, "\n%s  ", s->coloured ? term_colour(TERM_YELLOW) : "");
    term_put_safe(b, t->name, width);
    buf_printf(b, "%s", s->coloured ? term_colour(TERM_PLAIN) : "");
    if (room)
        buf_printf(b, "  %s", time);
    if (room > width + 4 && t->line[0]) {
        buf_printf(b, "  ");
        term_paint(b, s->coloured, TERM_DIM, str_of(t->line), room - width - 2);
    }
}

/* One column stays free: some terminals begin a line when the last one is written. */
void run_screen_put(const struct run_screen *s, const struct run_progress *p, size_t columns,
                    struct buf *b)
{
    CLEANUP(buf_release) struct buf counts = {0};
    char span[HUMAN_SIZE];
    columns = columns > 1 ? columns - 1 : 1;
    size_t bar = columns / 4 < BAR_MAX ? columns / 4 : BAR_MAX, room = columns;
    buf_printf(&counts, "[%zu/%zu] ", p->over, p->total);
    if (columns > counts.len + bar + 1) {
        room -= counts.len + bar + 1;
        buf_put_str(b, buf_str(&counts));
        put_bar(s, p, bar, b);
        counts.len = 0;
    }
    if (p->running)
        buf_printf(&counts, "%" PRIu32 " running", p->running);
    if (p->left_ms)
        buf_printf(&counts, "%s~%s left", p->running ? ", " : "",
                   human_span(span, (p->left_ms + 500) / 1000 * 1000));
    term_put_safe(b, buf_str(&counts), room);
    for (size_t i = 0; i < RUN_TAILS; i++)
        if (s->tails[i].id)
            put_node(s, &s->tails[i], p->now_ms, columns, b);
}

void run_screen_clear(struct run_screen *s)
{
    if (s->lines > 1)
        fprintf(stderr, "\033[%zuA", s->lines - 1);
    if (s->lines)
        fputs("\r\033[J", stderr);
    s->lines = 0;
    fflush(stderr);
}

void run_screen_show(struct run_screen *s, const struct run_progress *p)
{
    CLEANUP(buf_release) struct buf b = {0};
    if (!s->on)
        return;
    run_screen_put(s, p, term_columns(stderr), &b);
    run_screen_clear(s);
    fputs(buf_text(&b), stderr);
    fflush(stderr);
    s->lines = 1;
    for (size_t i = 0; i < b.len; i++)
        s->lines += b.p[i] == '\n';
}
