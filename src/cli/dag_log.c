/*
 * drover log - prints what a node printed. Without --grep and --timestamps the bytes pass through
 * as they are; with them, lines do.
 *
 * The last lines (-n) are found by reading the end, then more of it, until there are enough.
 */
#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/node_stream.h"
#include "cli/term.h"

enum {
    LINE_LEN_MAX = 1024 * 1024, /* a longer one is printed in parts */
    TAIL_LEN = 64 * 1024,
    TAIL_LEN_MAX = 64 * 1024 * 1024,
};

static struct {
    bool follow, timestamps;
    int stream;
    int64_t lines;
    const char *pattern;
} options = {.lines = -1};

struct printer {
    bool by_lines, is_terminal;
    regex_t regex;
    bool has_regex;
    struct buf line;
    int64_t line_ms; /* when its first byte was printed */
    uint64_t skip;   /* bytes that are not wanted */
    uint64_t run;
};

static int put(const struct printer *p, struct str bytes)
{
    if (!p->is_terminal)
        return term_copy(STDOUT_FILENO, bytes);
    term_write(stdout, bytes, ESCAPE_LINES);
    return fflush(stdout);
}

static int put_line(struct printer *p)
{
    CLEANUP(buf_release) struct buf b = {0};
    regmatch_t match = {.rm_so = 0, .rm_eo = (regoff_t)p->line.len};
    if (match.rm_eo && p->line.p[match.rm_eo - 1] == '\n')
        match.rm_eo--;
    bool wanted = !p->has_regex || !regexec(&p->regex, buf_text(&p->line), 0, &match, REG_STARTEND);
    if (wanted && options.timestamps) {
        time_t seconds = (time_t)(p->line_ms / 1000);
        struct tm tm;
        char text[40];
        localtime_r(&seconds, &tm);
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
        buf_printf(&b, "%s.%03d ", text, (int)(p->line_ms % 1000));
    }
    if (wanted)
        buf_put_str(&b, buf_str(&p->line));
    p->line.len = 0;
    return b.len ? put(p, buf_str(&b)) : 0;
}

static int put_lines(struct printer *p, int64_t time_ms, struct str bytes)
{
    while (bytes.len) {
        const char *end = memchr(bytes.p, '\n', bytes.len);
        size_t len = end ? (size_t)(end - bytes.p) + 1 : bytes.len;
        if (!p->line.len)
            p->line_ms = time_ms;
        buf_put(&p->line, bytes.p, len);
        bytes = (struct str){bytes.p + len, bytes.len - len};
        if ((end || p->line.len >= LINE_LEN_MAX) && put_line(p))
            return -1;
    }
    return 0;
}

static int on_data(void *arg, enum run_stream s, int64_t time_ms, struct str bytes)
{
    struct printer *p = arg;
    (void)s;
    size_t skip = p->skip < bytes.len ? (size_t)p->skip : bytes.len;
    p->skip -= skip;
    bytes = (struct str){bytes.p + skip, bytes.len - skip};
    return p->by_lines ? put_lines(p, time_ms, bytes) : put(p, bytes);
}

static int on_gap(void *arg, uint64_t bytes)
{
    struct printer *p = arg;
    p->skip = bytes < p->skip ? p->skip - bytes : 0;
    client_error("%" PRIu64 " bytes were not kept", bytes);
    return 0;
}

static int on_at(void *arg, uint64_t offset, uint64_t run)
{
    struct printer *p = arg;
    if (p->run && run != p->run && !offset)
        client_error("the node runs again");
    p->run = run ? run : p->run;
    return 0;
}

/* The last lines. */

struct tail {
    uint64_t from; /* where the first byte stands */
    bool known;
    struct buf bytes;
    uint64_t missing; /* before the last gap */
};

static int tail_data(void *arg, enum run_stream s, int64_t time_ms, struct str bytes)
{
    struct tail *t = arg;
    (void)s;
    (void)time_ms;
    buf_put_str(&t->bytes, bytes);
    return t->bytes.len > 2 * (size_t)TAIL_LEN_MAX ? -1 : 0;
}

/* What is before a gap is none of the last lines. */
static int tail_gap(void *arg, uint64_t bytes)
{
    struct tail *t = arg;
    t->from += t->bytes.len + bytes;
    t->bytes.len = 0;
    return 0;
}

static int tail_at(void *arg, uint64_t offset, uint64_t run)
{
    struct tail *t = arg;
    (void)run;
    if (!t->known)
        t->from = offset;
    t->known = true;
    return 0;
}

/* The offset at which the last lines begin. */
static int find_tail(struct node_stream *o, int64_t *ret_from)
{
    for (int64_t len = TAIL_LEN;; len *= 8) {
        CLEANUP(buf_release) struct buf bytes = {0};
        struct tail t = {0};
        struct chunk_sink sink = {tail_data, tail_gap, tail_at, &t};
        struct node_stream part = {
            .c = o->c, .id = o->id, .stream = o->stream, .from = -len, .sink = &sink};
        int stopped;
        int64_t lines = 0;
        int status = node_stream_read(&part, &stopped);
        bytes = t.bytes;
        TRY(status);
        size_t at = bytes.len;
        while (at && (lines < options.lines || bytes.p[at - 1] != '\n')) {
            lines += at < bytes.len && bytes.p[at - 1] == '\n' ? 1 : 0;
            if (lines >= options.lines)
                break;
            at--;
        }
        if (at || !t.from || (uint64_t)len > t.from + bytes.len || len >= TAIL_LEN_MAX) {
            *ret_from = (int64_t)(t.from + (options.lines ? at : bytes.len));
            return CMD_OK;
        }
    }
}

static int print(struct client *c, const char *id, struct printer *p)
{
    static const enum run_stream streams[] = {RUN_MIXED, RUN_STDOUT, RUN_STDERR, RUN_MIXED};
    struct chunk_sink sink = {on_data, on_gap, on_at, p};
    struct node_stream o = {.c = c,
                            .id = id,
                            .stream = streams[options.stream],
                            .follow = options.follow,
                            .sink = &sink};
    int stopped = 0;
    if (options.lines >= 0)
        TRY(find_tail(&o, &o.from));
    TRY(node_stream_read(&o, &stopped));
    if (p->line.len && !stopped)
        stopped = put_line(p);
    return stopped ? CMD_FAILURE : CMD_OK;
}

static int run_log(const struct cmd_call *call)
{
    CLEANUP(client_close) struct client c = {0};
    struct printer p = {.by_lines = options.timestamps || options.pattern,
                        .is_terminal = isatty(STDOUT_FILENO)};
    const char *id;
    char why[256];

    if (options.pattern) {
        int error = regcomp(&p.regex, options.pattern, REG_EXTENDED | REG_NOSUB);
        regerror(error, &p.regex, why, sizeof why);
        if (error)
            return client_misuse("--grep: %s", why);
        p.has_regex = true;
    }
    int status = client_open(&c, &call->client);
    if (!status)
        status = node_stream_find(&c, call->operands[0], &id);
    if (!status)
        status = print(&c, id, &p);
    if (p.has_regex)
        regfree(&p.regex);
    buf_release(&p.line);
    return status;
}

const struct cmd cmd_log = CMD_INIT(
    "log", "print the output of a node", "NAME|ID",
    "Prints what a node printed, by its id or its name (the newest of that name).",
    CMD_OPTIONS({"follow", NULL, "Continue until the node has ended.", option_flag, &options.follow,
                 .letter = 'f'},
                {"lines", "N", "Begin with the last N lines.", option_number, &options.lines, 0,
                 INT32_MAX, .letter = 'n'},
                {"stream", "mixedout|stdout|stderr|mixed", "Which output. Default: mixedout, both.",
                 option_choice, &options.stream},
                {"grep", "PATTERN", "Only lines that match this extended regular expression.",
                 option_text, &options.pattern},
                {"timestamps", NULL, "Begin each line with the time at which it was printed.",
                 option_flag, &options.timestamps}),
    CMD_REMOTE, run_log);
