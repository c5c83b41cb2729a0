/*
 * Widths come from wcwidth() in the locale C.UTF-8, whatever the user's locale is: the server sends
 * UTF-8. The cells of a table are stored until its widths are known, then printed row by row.
 */
#include "cli/term.h"

#include <assert.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"

bool term_has_colour(FILE *to)
{
    const char *no = getenv("NO_COLOR"), *kind = getenv("TERM");
    return !(no && *no) && isatty(fileno(to)) && kind && *kind && strcmp(kind, "dumb") != 0;
}

const char *term_colour(enum term_colour colour)
{
    static const char *const escapes[] = {
        [TERM_PLAIN] = "\033[0m", [TERM_BOLD] = "\033[1m",   [TERM_DIM] = "\033[2m",
        [TERM_RED] = "\033[31m",  [TERM_GREEN] = "\033[32m", [TERM_YELLOW] = "\033[33m",
        [TERM_BLUE] = "\033[34m",
    };
    return escapes[colour];
}

size_t term_columns(FILE *to)
{
    struct winsize size;
    if (!isatty(fileno(to)))
        return 0;
    if (ioctl(fileno(to), TIOCGWINSZ, &size) || !size.ws_col)
        return 80;
    return size.ws_col;
}

/* Characters. */

static pthread_once_t utf8_once = PTHREAD_ONCE_INIT;
static locale_t utf8;
static bool only_ascii;

bool term_is_utf8(void)
{
    locale_t user = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (!user)
        return false;
    bool is = !strcmp(nl_langinfo_l(CODESET, user), "UTF-8");
    freelocale(user);
    return is;
}

void term_set_ascii(bool ascii)
{
    only_ascii = ascii;
}

static void open_utf8(void)
{
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* How one character is shown: unchanged, or as an escape. */
struct shown {
    size_t used; /* bytes of the text */
    size_t width;
    struct escaped_byte escape; /* empty: shown as it is */
};

static struct shown show_byte(char byte)
{
    struct shown s = {.used = 1, .escape = escape_byte(byte)};
    s.width = strlen(s.escape.text);
    return s;
}

/* Whether a backslash here would read as an escape. */
static bool is_ambiguous(struct str text)
{
    return text.len > 1 && text.p[1] && strchr("ntrx\\", text.p[1]);
}

/* In the locale utf8. A character that is escaped is so byte by byte. */
static struct shown show_first(struct str text)
{
    mbstate_t state = {0};
    wchar_t wide;
    if (text.p[0] == '\\')
        return is_ambiguous(text) ? show_byte('\\') : (struct shown){.used = 1, .width = 1};
    if (text.p[0] >= ' ' && text.p[0] < 127)
        return (struct shown){.used = 1, .width = 1};
    size_t used = escape_shown_len(text);
    if (!used || only_ascii || mbrtowc(&wide, text.p, used, &state) != used || wcwidth(wide) < 0)
        return show_byte(text.p[0]);
    return (struct shown){.used = used, .width = (size_t)wcwidth(wide)};
}

size_t term_width(struct str text)
{
    size_t width = 0;
    pthread_once(&utf8_once, open_utf8);
    locale_t before = uselocale(utf8);
    for (struct shown s; text.len; text.p += s.used, text.len -= s.used) {
        s = show_first(text);
        width += s.width;
    }
    uselocale(before);
    return width;
}

void term_put_safe(struct buf *b, struct str text, size_t max_width)
{
    bool cut = term_width(text) > max_width;
    size_t room = cut && max_width ? max_width - 1 : max_width;
    locale_t before = uselocale(utf8);
    for (struct shown s; text.len; text.p += s.used, text.len -= s.used) {
        s = show_first(text);
        if (s.width > room)
            break;
        room -= s.width;
        if (s.escape.text[0])
            buf_printf(b, "%s", s.escape.text);
        else
            buf_put(b, text.p, s.used);
    }
    uselocale(before);
    if (cut && max_width)
        buf_printf(b, only_ascii ? "~" : "…");
}

void term_paint(struct buf *b, bool coloured, enum term_colour colour, struct str text,
                size_t max_width)
{
    coloured = coloured && colour != TERM_PLAIN;
    if (coloured)
        buf_printf(b, "%s", term_colour(colour));
    term_put_safe(b, text, max_width);
    if (coloured)
        buf_printf(b, "%s", term_colour(TERM_PLAIN));
}

/* Streams. */

void term_write(FILE *to, struct str text, enum escape_style style)
{
    CLEANUP(buf_release) struct buf b = {0};
    if (isatty(fileno(to))) {
        escape_put(&b, text, style);
        text = buf_str(&b);
    }
    fwrite(text.p, 1, text.len, to);
}

int term_copy(int fd, struct str bytes)
{
    while (bytes.len) {
        ssize_t n = write(fd, bytes.p, bytes.len);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -1;
        if (n < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        if (n > 0)
            bytes = (struct str){bytes.p + n, bytes.len - (size_t)n};
    }
    return 0;
}

void term_line(FILE *to, struct str text, enum escape_style style)
{
    term_write(to, text, style);
    putc('\n', to);
}

/* The status. Each change is one write, and an unfinished line of a command is left alone. */

#define ERASE "\r\033[K"

static struct {
    pthread_mutex_t lock;
    char line[200];
    bool shown, unfinished;
} status = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool term_can_status(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

static void erase_status(struct buf *b)
{
    if (status.shown)
        buf_put_str(b, STR(ERASE));
    status.shown = false;
}

static void draw_status(struct buf *b)
{
    size_t columns = term_columns(stderr);
    if (!status.line[0] || status.unfinished)
        return;
    term_put_safe(b, str_of(status.line), columns ? columns - 1 : SIZE_MAX);
    status.shown = true;
}

/* Whoever does not read what we say does not stop us. */
static void write_all(int fd, struct str bytes)
{
    while (bytes.len) {
        ssize_t len = write(fd, bytes.p, bytes.len);
        if (len < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (len < 0 && errno != EINTR)
            return;
        size_t written = len > 0 ? (size_t)len : 0;
        bytes = (struct str){bytes.p + written, bytes.len - written};
    }
}

void term_status(const char *line)
{
    CLEANUP(buf_release) struct buf b = {0};
    LOCKED(&status.lock);
    erase_status(&b);
    snprintf(status.line, sizeof status.line, "%s", line);
    draw_status(&b);
    write_all(STDERR_FILENO, buf_str(&b));
}

void term_pass(int fd, struct str bytes)
{
    CLEANUP(buf_release) struct buf before = {0}, after = {0};
    LOCKED(&status.lock);
    erase_status(&before);
    write_all(STDERR_FILENO, buf_str(&before));
    write_all(fd, bytes);
    status.unfinished = status.line[0] && bytes.len && bytes.p[bytes.len - 1] != '\n';
    draw_status(&after);
    write_all(STDERR_FILENO, buf_str(&after));
}

void term_vsay(const char *prefix, const char *fmt, va_list ap)
{
    CLEANUP(mem_free) char *text;
    CLEANUP(buf_release) struct buf b = {0};
    if (vasprintf(&text, fmt, ap) < 0)
        err_fatal("out of memory");
    LOCKED(&status.lock);
    erase_status(&b);
    if (status.unfinished)
        buf_put_str(&b, STR("\n"));
    status.unfinished = false;
    buf_printf(&b, "%s", prefix);
    escape_put(&b, str_of(text), ESCAPE_LINE);
    buf_put_str(&b, STR("\n"));
    draw_status(&b);
    fwrite(b.p, 1, b.len, stderr);
}

void term_say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    term_vsay("", fmt, ap);
    va_end(ap);
}

/* Tables. */

enum { GAP = 2, NARROWEST = 8 };

struct table_value {
    struct str text;
    enum term_colour colour;
};

void table_release(struct table *t)
{
    free(t->values);
    arena_release(&t->arena);
}

static void add_value(struct table *t, enum term_colour colour, struct str text)
{
    mem_grow(t->values, t->value_count, t->value_cap);
    t->values[t->value_count++] = (struct table_value){text, colour};
}

void table_text(struct table *t, enum term_colour colour, struct str text)
{
    add_value(t, colour, (struct str){arena_text(&t->arena, text), text.len});
}

void table_cell(struct table *t, enum term_colour colour, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_value(t, colour, str_of(arena_vprintf(&t->arena, fmt, ap)));
    va_end(ap);
}

static void natural_widths(const struct table *t, size_t widths[static TABLE_COLUMNS_MAX])
{
    for (size_t i = 0; i < t->column_count; i++)
        widths[i] = term_width(str_of(t->columns[i].name));
    for (size_t i = 0; i < t->value_count; i++) {
        size_t width = term_width(t->values[i].text), *column = &widths[i % t->column_count];
        *column = width > *column ? width : *column;
    }
}

/*
 * Narrows the widest of the first `shown` columns by one, until the line fits or all are narrow.
 * Returns the length of the line.
 */
static size_t fit_widths(size_t shown, size_t columns, size_t widths[static TABLE_COLUMNS_MAX])
{
    size_t total = (shown - 1) * GAP;
    for (size_t i = 0; i < shown; i++)
        total += widths[i];
    while (total > columns) {
        size_t widest = 0;
        for (size_t i = 1; i < shown; i++)
            if (widths[i] >= widths[widest])
                widest = i;
        if (widths[widest] <= NARROWEST)
            break;
        widths[widest]--;
        total--;
    }
    return total;
}

struct table_style {
    size_t widths[TABLE_COLUMNS_MAX];
    size_t shown; /* columns */
    bool coloured, cut;
};

static void put_cell(struct buf *b, const struct table *t, size_t column,
                     const struct table_value *v, const struct table_style *s)
{
    size_t width = s->widths[column], shown = term_width(v->text);
    int pad = shown < width ? (int)(width - shown) : 0;
    bool right = t->columns[column].right, last = column + 1 == s->shown;
    buf_printf(b, "%*s", right ? pad : 0, "");
    term_paint(b, s->coloured, v->colour, v->text, s->cut ? width : SIZE_MAX);
    buf_printf(b, "%*s", last ? 0 : GAP + (right ? 0 : pad), "");
    if (last)
        buf_printf(b, "\n");
}

/* Writes to a stream now and then, so that a long table is not in memory twice; NULL: to b only. */
static void put_table(const struct table *t, const struct table_style *s, struct buf *b, FILE *to)
{
    for (size_t i = 0; i < s->shown; i++)
        put_cell(b, t, i, &(struct table_value){str_of(t->columns[i].name), TERM_BOLD}, s);
    for (size_t i = 0; i < t->value_count; i++) {
        if (i % t->column_count < s->shown)
            put_cell(b, t, i % t->column_count, &t->values[i], s);
        if (to && b->len > 65536) {
            fwrite(b->p, 1, b->len, to);
            b->len = 0;
        }
    }
}

void table_print(const struct table *t, FILE *to)
{
    size_t columns = term_columns(to);
    struct table_style s = {
        .coloured = term_has_colour(to), .cut = columns > 0, .shown = t->column_count};
    CLEANUP(buf_release) struct buf b = {0};
    assert(t->column_count <= TABLE_COLUMNS_MAX && t->value_count % t->column_count == 0);
    if (!t->value_count)
        return;
    natural_widths(t, s.widths);
    if (columns)
        fit_widths(s.shown, columns, s.widths);
    put_table(t, &s, &b, to);
    fwrite(b.p, 1, b.len, to);
}

void table_put(const struct table *t, size_t columns, bool coloured, struct buf *b)
{
    struct table_style s = {.coloured = coloured, .cut = true, .shown = t->column_count + 1};
    assert(t->column_count <= TABLE_COLUMNS_MAX && t->value_count % t->column_count == 0);
    if (!t->value_count)
        return;
    do {
        s.shown--;
        natural_widths(t, s.widths);
    } while (fit_widths(s.shown, columns, s.widths) > columns && s.shown > 1);
    if (s.widths[0] > columns)
        s.widths[0] = columns;
    put_table(t, &s, b, NULL);
}
