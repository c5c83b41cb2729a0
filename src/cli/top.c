/*
 * drover top: keys and the screen. It is painted from the top at each refresh, each line cut to the
 * width of the terminal, on the alternate screen, so that the terminal is as before afterwards.
 * Without a terminal, on a dumb one and with --once, all lists are printed once.
 */
#include "cli/top.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { ROWS_ONCE = 40, HEAD_ROWS = 3 };
enum key { KEY_NONE, KEY_UP = 256, KEY_DOWN, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_ESCAPE };

static bool print_only_once;
static int64_t every_ms = 1000;

static void on_resize(int number)
{
    (void)number; /* it interrupts poll() */
}

static void read_size(struct top *t)
{
    struct winsize size = {0};
    if (ioctl(1, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row)
        size = (struct winsize){.ws_col = 80, .ws_row = 24};
    t->columns = size.ws_col;
    t->rows = size.ws_row;
}

/* The screen. */

static void put_tabs(const struct top *t, struct buf *b)
{
    size_t room = t->columns;
    for (size_t i = 0; TOP_VIEWS[i].title; i++) {
        char text[40];
        bool current = t->view == &TOP_VIEWS[i] || (t->view == &TOP_RUN && TOP_VIEWS[i].runs);
        snprintf(text, sizeof text, current ? "[%zu %s] " : " %zu %s  ", i + 1, TOP_VIEWS[i].title);
        struct str tab = str_of(text);
        term_paint(b, t->coloured, current ? TERM_BOLD : TERM_DIM, tab, room);
        room -= tab.len < room ? tab.len : room;
    }
    buf_printf(b, "\n");
}

static void put_foot(const struct top *t, struct buf *b)
{
    const char *keys = t->output.id     ? "up/down scroll  x kill  r retry  esc back  q quit"
                       : t->view->nodes ? "up/down  enter log  x kill  r retry  1-7 tab  q quit"
                       : t->view->runs  ? "up/down  enter open  x kill  r retry  1-7 tab  q quit"
                                        : "up/down  1-7 tab lists  q quit";
    term_paint(b, t->coloured, t->message[0] ? TERM_YELLOW : TERM_DIM,
               str_of(t->message[0] ? t->message : keys), t->columns - 1);
}

/* Each line ends by erasing what was there before; the last one has no newline. */
static void paint(const struct buf *screen, size_t rows)
{
    CLEANUP(buf_release) struct buf out = {0};
    struct str rest = {screen->p, screen->len};
    buf_printf(&out, "\033[H");
    for (size_t i = 0; i < rows && rest.p; i++) {
        buf_printf(&out, "%s", i ? "\033[K\r\n" : "");
        buf_put_str(&out, str_cut(&rest, '\n'));
    }
    buf_printf(&out, "\033[J");
    fputs(buf_text(&out), stdout);
    fflush(stdout);
}

static void show(struct top *t)
{
    CLEANUP(buf_release) struct buf b = {0}, body = {0};
    read_size(t);
    size_t rows = t->rows > HEAD_ROWS + 2 ? t->rows - HEAD_ROWS - 1 : 1, used = 0;
    top_read_counts(t);
    if (t->output.id) {
        top_read_log(t);
        top_put_log(t, rows, &body);
    } else {
        top_put_list(t, rows, &body);
    }
    term_put_safe(&b, buf_str(&t->counts), t->columns);
    buf_printf(&b, "\n");
    put_tabs(t, &b);
    if (t->output.id || t->view == &TOP_RUN) {
        CLEANUP(buf_release) struct buf title = {0};
        buf_printf(&title, "%s %s", t->output.id ? "log of" : "run",
                   t->output.id ? t->output.id : t->run);
        term_paint(&b, t->coloured, TERM_BOLD, buf_str(&title), t->columns);
    }
    buf_printf(&b, "\n");
    buf_put_str(&b, buf_str(&body));
    for (size_t i = 0; i < body.len; i++)
        used += body.p[i] == '\n';
    for (; used < rows; used++)
        buf_printf(&b, "\n");
    put_foot(t, &b);
    paint(&b, t->rows);
}

/* Keys. */

/* What was read and is not used: keys may come faster than they are handled. */
static char typed[64];
static size_t typed_len;

static int take_key(int key, size_t len)
{
    typed_len -= len;
    memmove(typed, typed + len, typed_len);
    return key;
}

/* Waits for a key until the next refresh, or until the size has changed. */
static int read_key(int64_t ms)
{
    static const struct {
        const char *text;
        int key;
    } escapes[] = {{"\033[A", KEY_UP},   {"\033[B", KEY_DOWN},     {"\033OA", KEY_UP},
                   {"\033OB", KEY_DOWN}, {"\033[5~", KEY_PAGE_UP}, {"\033[6~", KEY_PAGE_DOWN}};
    struct pollfd in = {.fd = 0, .events = POLLIN};
    if (!typed_len) {
        if (poll(&in, 1, (int)ms) != 1)
            return KEY_NONE;
        ssize_t len = read(0, typed, sizeof typed);
        if (len <= 0)
            return 'q'; /* the terminal is gone */
        typed_len = (size_t)len;
    }
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        size_t len = strlen(escapes[i].text);
        if (typed_len >= len && !memcmp(typed, escapes[i].text, len))
            return take_key(escapes[i].key, len);
    }
    if (typed[0] != '\033')
        return take_key((unsigned char)typed[0], 1);
    bool alone = typed_len == 1; /* another sequence is dropped, with all that follows */
    return take_key(alone ? KEY_ESCAPE : KEY_NONE, typed_len);
}

static void set_view(struct top *t, const struct top_view *view)
{
    t->view = view;
    t->selected = t->first = 0;
    t->output = (struct dag_output){0};
}

static void open_log(struct top *t, const char *id)
{
    snprintf(t->output_id, sizeof t->output_id, "%s", id);
    t->output = (struct dag_output){.id = t->output_id, .key = "mixedout"};
    t->log.len = t->back = 0;
}

static void open_row(struct top *t)
{
    if (!t->id[0] || t->output.id)
        return;
    if (t->view->nodes) {
        open_log(t, t->id);
    } else if (t->view->runs) {
        free((char *)t->run);
        t->run = mem_dup(t->id, strlen(t->id));
        set_view(t, &TOP_RUN);
    }
}

static void go_back(struct top *t)
{
    if (t->output.id)
        t->output = (struct dag_output){0};
    else if (t->view == &TOP_RUN)
        set_view(t, &TOP_VIEWS[1]);
}

static void move(struct top *t, int64_t by)
{
    size_t *at = t->output.id ? &t->back : &t->selected;
    by = t->output.id ? -by : by;
    *at = by < 0 && (size_t)-by > *at ? 0 : *at + (size_t)by;
}

/* Asks before it kills. */
static void kill_row(struct top *t)
{
    const char *id = t->output.id ? t->output.id : t->id;
    if (!*id)
        return;
    snprintf(t->message, sizeof t->message, "kill %s? y or n", id);
    char marked[sizeof t->id];
    memcpy(marked, t->id, sizeof marked);
    show(t);
    int key = KEY_NONE;
    while (key == KEY_NONE && !interrupts)
        key = read_key(every_ms);
    memcpy(t->id, marked, sizeof marked); /* the list may have moved meanwhile */
    t->message[0] = '\0';
    if (key == 'y')
        top_act(t, "kill");
}

static void handle(struct top *t, int key)
{
    size_t views = 0;
    while (TOP_VIEWS[views].title)
        views++;
    if (key != KEY_NONE)
        t->message[0] = '\0';
    if (key >= '1' && key < '1' + (int)views)
        set_view(t, &TOP_VIEWS[key - '1']);
    else if (key == '\t')
        set_view(t,
                 t->view == &TOP_RUN || t->view + 1 == TOP_VIEWS + views ? TOP_VIEWS : t->view + 1);
    else if (key == KEY_UP || key == KEY_DOWN)
        move(t, key == KEY_UP ? -1 : 1);
    else if (key == KEY_PAGE_UP || key == KEY_PAGE_DOWN)
        move(t, (key == KEY_PAGE_UP ? -1 : 1) * (int64_t)(t->rows / 2 + 1));
    else if (key == '\r' || key == '\n' || key == 'l')
        open_row(t);
    else if (key == KEY_ESCAPE)
        go_back(t);
    else if (key == 'x')
        kill_row(t);
    else if (key == 'r')
        top_act(t, "retry");
}

static void run_screen(struct top *t)
{
    struct termios before, raw;
    tcgetattr(0, &before);
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    interrupts_catch(SIGINT);
    interrupts_catch(SIGTERM);
    sigaction(SIGWINCH, &(struct sigaction){.sa_handler = on_resize}, NULL);
    tcsetattr(0, TCSANOW, &raw);
    fputs("\033[?1049h\033[?25l", stdout);
    for (int key = KEY_NONE; key != 'q' && !interrupts;) {
        show(t);
        key = read_key(every_ms);
        handle(t, key);
    }
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(0, TCSANOW, &before);
}

/* All lists, one after the other. The exit status tells whether the server answered. */
static int print_once(struct top *t)
{
    struct client_reply reply;
    TRY(client_call(t->c, &reply, NULL, "GET /v1/scheduler"));
    top_read_counts(t);
    term_line(stdout, buf_str(&t->counts), ESCAPE_LINE);
    t->columns = term_columns(stdout);
    t->columns = t->columns ? t->columns : 200;
    for (size_t i = 0; TOP_VIEWS[i].title; i++) {
        CLEANUP(buf_release) struct buf b = {0};
        t->view = &TOP_VIEWS[i];
        printf("\n%s\n", t->view->title);
        t->selected = 0;
        top_put_list(t, ROWS_ONCE, &b);
        fputs(buf_text(&b), stdout);
    }
    return CMD_OK;
}

static int run_top(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    const char *kind = getenv("TERM");
    struct top t = {.c = &c, .view = TOP_VIEWS, .coloured = term_has_colour(stdout)};
    int status = CMD_OK;
    TRY(client_open(&c, &call->client));
    term_set_ascii(!term_is_utf8());
    if (print_only_once || !isatty(0) || !isatty(1) || !kind || !strcmp(kind, "dumb"))
        status = print_once(&t);
    else
        run_screen(&t);
    buf_release(&t.log);
    buf_release(&t.counts);
    free((char *)t.run);
    return status;
}

const struct cmd cmd_top = CMD_INIT(
    "top", "show what all modules do, live", NULL,
    "Shows, live, the nodes that run and that failed, runs, groups of tasks, queues, batches\n"
    "and jobs, and whether the server is well. Keys: arrows move, Enter opens a run or a log,\n"
    "x kills, r retries, 1 to 7 and Tab change the list, q ends it.",
    CMD_OPTIONS({"once", NULL, "Print all lists once and exit.", option_flag, &print_only_once},
                {"every", "TIME", "Refresh interval. Default: 1s.", option_span, &every_ms, 100,
                 3600 * 1000}),
    CMD_REMOTE, run_top);
