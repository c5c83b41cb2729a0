/*
 * Widths come from wcwidth() in the locale C.UTF-8, whatever the user's locale is: the server sends
 * UTF-8.
 */
#include "cli/term.h"

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

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

static void open_utf8(void)
{
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* How one character is shown: unchanged, or as an escape. */
struct shown {
    size_t used; /* bytes of the text */
    size_t width;
    char escape[8]; /* empty: shown as it is */
};

static struct shown show_byte(unsigned char byte)
{
    struct shown s = {.used = 1};

    if (byte == '\n' || byte == '\t' || byte == '\r' || byte == '\\')
        snprintf(s.escape, sizeof s.escape, "\\%c",
                 byte == '\n'   ? 'n'
                 : byte == '\t' ? 't'
                 : byte == '\r' ? 'r'
                                : '\\');
    else
        snprintf(s.escape, sizeof s.escape, "\\x%02x", byte);
    s.width = strlen(s.escape);
    return s;
}

/* Whether a backslash here would read as an escape. */
static bool is_ambiguous(struct str text)
{
    return text.len > 1 && text.p[1] && strchr("ntrx\\", text.p[1]);
}

/* In the locale utf8. */
static struct shown show_first(struct str text)
{
    mbstate_t state = {0};
    wchar_t wide;

    if (text.p[0] == '\\')
        return is_ambiguous(text) ? show_byte('\\') : (struct shown){.used = 1, .width = 1};
    if (text.p[0] >= ' ' && text.p[0] < 127)
        return (struct shown){.used = 1, .width = 1};
    size_t used = mbrtowc(&wide, text.p, text.len, &state);
    if (used == 0 || used == (size_t)-1 || used == (size_t)-2)
        return show_byte((unsigned char)text.p[0]);
    int width = wcwidth(wide);
    if (width < 0)
        return show_byte((unsigned char)text.p[0]);
    return (struct shown){.used = used, .width = (size_t)width};
}

static struct str rest(struct str text, size_t used)
{
    return (struct str){text.p + used, text.len - used};
}

size_t term_width(struct str text)
{
    size_t width = 0;

    pthread_once(&utf8_once, open_utf8);
    locale_t before = uselocale(utf8);
    while (text.len) {
        struct shown s = show_first(text);

        width += s.width;
        text = rest(text, s.used);
    }
    uselocale(before);
    return width;
}

void term_put_safe(struct buf *b, struct str text, size_t max_width)
{
    bool cut = term_width(text) > max_width;
    size_t room = cut && max_width ? max_width - 1 : max_width;
    locale_t before = uselocale(utf8);

    while (text.len) {
        struct shown s = show_first(text);

        if (s.width > room)
            break;
        room -= s.width;
        if (s.escape[0])
            buf_printf(b, "%s", s.escape);
        else
            buf_put(b, text.p, s.used);
        text = rest(text, s.used);
    }
    uselocale(before);
    if (cut && max_width)
        buf_printf(b, "…");
}
