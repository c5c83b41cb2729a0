/*
 * llhttp reads the method and the meaning of Connection. The checks here come first, because llhttp
 * as Debian builds it accepts things (a lone LF as the end of a line, spaces in names) that allow
 * request smuggling. Every rule that security depends on is enforced here.
 */
#include "http/head.h"

#include <llhttp.h>
#include <stdio.h>
#include <strings.h>

#include "base/mem.h"

ssize_t head_scan(const char *p, size_t len, size_t *scanned)
{
    for (size_t i = *scanned; i < len; i++) {
        unsigned char c = (unsigned char)p[i];
        bool after_cr = i && p[i - 1] == '\r', line_start = i == 0 || p[i - 1] == '\n';
        if (i >= HEAD_LEN_MAX)
            return -431;
        if (after_cr != (c == '\n') || (line_start && (c == ' ' || c == '\t')))
            return -400;
        if ((c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f)
            return -400;
        if (c == '\n' && i >= 3 && p[i - 2] == '\n')
            return (ssize_t)i + 1;
    }
    *scanned = len;
    return 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Letters, digits and the listed others. */
static bool is_made_of(struct str s, const char *others)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i], lower = c | 0x20;
        if (!(lower >= 'a' && lower <= 'z') && !is_digit(c) && !(c && strchr(others, c)))
            return false;
    }
    return s.len > 0;
}

static struct str trimmed(struct str s)
{
    while (s.len && (*s.p == ' ' || *s.p == '\t')) {
        s.p++;
        s.len--;
    }
    while (s.len && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
        s.len--;
    return s;
}

static bool same_word(struct str s, const char *word)
{
    return s.len == strlen(word) && strncasecmp(s.p, word, s.len) == 0;
}

/* Removes the next line from the front of *rest and returns it without its CR LF. */
static struct str next_line(struct str *rest)
{
    struct str line = str_cut(rest, '\n');
    line.len--;
    return line;
}

static int refuse(int status, const char *reason, const char **ret_reason)
{
    *ret_reason = reason;
    return status;
}

static int check_version(struct head *h, struct str version, const char **ret_reason)
{
    if (version.len != 8 || memcmp(version.p, "HTTP/", 5) || !is_digit(version.p[5]) ||
        version.p[6] != '.' || !is_digit(version.p[7]))
        return refuse(400, "malformed HTTP version", ret_reason);
    if (version.p[5] != '1' || version.p[7] > '1')
        return refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken here", ret_reason);
    h->http_1_0 = version.p[7] == '0';
    return 0;
}

/* METHOD SP TARGET SP VERSION, where the target is a path of visible ASCII. */
static int check_request_line(struct head *h, struct str line, const char **ret_reason)
{
    const char *first = memchr(line.p, ' ', line.len);
    const char *last = memrchr(line.p, ' ', line.len);
    if (!first || first == last)
        return refuse(400, "malformed request line", ret_reason);
    struct str target = {first + 1, (size_t)(last - first) - 1};
    for (size_t i = 0; i < target.len; i++)
        if (target.p[i] <= ' ' || target.p[i] > '~' || target.p[i] == '#')
            return refuse(400, "malformed request target", ret_reason);
    if (!target.len || target.p[0] != '/')
        return refuse(400, "the request target must be a path", ret_reason);
    h->query = target;
    h->path = str_cut(&h->query, '?');
    return check_version(h, (struct str){last + 1, (size_t)(line.p + line.len - last) - 1},
                         ret_reason);
}

static int split_fields(struct head *h, struct str rest, const char **ret_reason)
{
    for (struct str line = next_line(&rest); line.len; line = next_line(&rest)) {
        struct str value = line, name = str_cut(&value, ':');
        if (!value.p || !is_made_of(name, "!#$%&'*+-.^_`|~"))
            return refuse(400, "malformed header", ret_reason);
        if (h->field_count == HEAD_FIELDS_MAX)
            return refuse(431, "too many headers", ret_reason);
        h->fields[h->field_count++] = (struct head_field){name, trimmed(value)};
    }
    return 0;
}

/* The next field of that name, from the one at *at on, or NULL. */
static const struct str *next_field(const struct head *h, const char *name, size_t *at)
{
    while (*at < h->field_count) {
        const struct head_field *f = &h->fields[(*at)++];
        if (same_word(f->name, name))
            return &f->value;
    }
    return NULL;
}

const struct str *head_field(const struct head *h, const char *name)
{
    return next_field(h, name, &(size_t){0});
}

/* A field that may occur at most once. False when it occurs twice. */
static bool single_field(const struct head *h, const char *name, const struct str **ret_value)
{
    size_t at = 0;
    *ret_value = next_field(h, name, &at);
    return !next_field(h, name, &at);
}

/* Digits only, and too few to overflow. */
static bool parse_length(struct str s, uint64_t *ret_len)
{
    uint64_t len = 0;
    if (!s.len || s.len > 18)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.p[i]))
            return false;
        len = len * 10 + (uint64_t)(s.p[i] - '0');
    }
    *ret_len = len;
    return true;
}

static int check_body_length(struct head *h, const char **ret_reason)
{
    const struct str *length, *encoding;
    if (!single_field(h, "Content-Length", &length))
        return refuse(400, "more than one Content-Length", ret_reason);
    if (!single_field(h, "Transfer-Encoding", &encoding))
        return refuse(400, "more than one Transfer-Encoding", ret_reason);
    if (length && encoding)
        return refuse(400, "both Content-Length and Transfer-Encoding", ret_reason);
    if (length && !parse_length(*length, &h->content_len))
        return refuse(400, "malformed Content-Length", ret_reason);
    if (encoding && (h->http_1_0 || !same_word(*encoding, "chunked")))
        return refuse(400, "Transfer-Encoding other than chunked", ret_reason);
    h->chunked = encoding;
    return 0;
}

static int check_host(struct head *h, const char **ret_reason)
{
    const struct str *host;
    if (!single_field(h, "Host", &host))
        return refuse(400, "more than one Host", ret_reason);
    if (!host && !h->http_1_0)
        return refuse(400, "no Host", ret_reason);
    if (host && !is_made_of(*host, ".-_:[]"))
        return refuse(400, "malformed Host", ret_reason);
    h->host = host ? *host : STR("");
    return 0;
}

static int check_expect(struct head *h, const char **ret_reason)
{
    const struct str *expect = head_field(h, "Expect");
    if (expect && !same_word(*expect, "100-continue"))
        return refuse(417, "unknown expectation", ret_reason);
    h->expects_continue = expect && !h->http_1_0;
    return 0;
}

/* llhttp stops when the head is complete: nothing after it is parsed. */
static int on_headers_complete(llhttp_t *parser)
{
    struct head *h = parser->data;
    h->keep_alive = llhttp_should_keep_alive(parser);
    return HPE_PAUSED;
}

static int run_llhttp(struct head *h, const char *p, size_t len, const char **ret_reason)
{
    static const llhttp_settings_t settings = {.on_headers_complete = on_headers_complete};
    static const uint8_t numbers[] = {[METHOD_GET] = HTTP_GET,
                                      [METHOD_POST] = HTTP_POST,
                                      [METHOD_PUT] = HTTP_PUT,
                                      [METHOD_PATCH] = HTTP_PATCH,
                                      [METHOD_DELETE] = HTTP_DELETE};
    llhttp_t parser;
    llhttp_init(&parser, HTTP_REQUEST, &settings);
    parser.data = h;
    if (llhttp_execute(&parser, p, len) != HPE_PAUSED)
        return refuse(400, "malformed request", ret_reason);
    h->head_only = parser.method == HTTP_HEAD;
    if (!h->head_only)
        while (h->method < METHOD_OTHER && numbers[h->method] != parser.method)
            h->method++;
    return 0;
}

int head_parse(struct head *h, const char *p, size_t len, const char **ret_reason)
{
    struct str rest = {p, len};
    memset(h, 0, offsetof(struct head, fields));
    TRY(check_request_line(h, next_line(&rest), ret_reason));
    TRY(split_fields(h, rest, ret_reason));
    TRY(run_llhttp(h, p, len, ret_reason));
    TRY(check_body_length(h, ret_reason));
    TRY(check_host(h, ret_reason));
    return check_expect(h, ret_reason);
}

/*
 * The body: a state machine with one state for each byte that may come next:
 *
 *   SIZE -> LF after the size -> DATA -> CR -> LF -> SIZE ...
 *   a size of 0: LF after the size -> CR of the empty line -> LF of it -> done
 */
enum { SIZE, SIZE_LF, DATA, DATA_CR, DATA_LF, END_CR, END_LF };

/* States in which exactly one byte is allowed, and the state that follows. */
static const struct {
    char byte;
    int next;
} FIXED[] = {
    [SIZE_LF] = {'\n', DATA},  [DATA_CR] = {'\r', DATA_LF}, [DATA_LF] = {'\n', SIZE},
    [END_CR] = {'\r', END_LF}, [END_LF] = {'\n', SIZE},
};

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int size_byte(struct chunk *c, char byte)
{
    int digit = digit_of(byte);
    if (byte == '\r' && c->digits) {
        c->state = SIZE_LF;
        return 0;
    }
    if (digit < 0 || c->digits == 8)
        return -400;
    c->digits++;
    c->left = c->left << 4 | (uint32_t)digit;
    return 0;
}

static int fixed_byte(struct chunk *c, char byte)
{
    int was = c->state;
    if (byte != FIXED[was].byte)
        return -400;
    c->state = FIXED[was].next;
    c->digits = 0;
    if (was == SIZE_LF && !c->left)
        c->state = END_CR;
    c->done = was == END_LF;
    return 0;
}

ssize_t chunk_feed(struct chunk *c, const char *p, size_t len, struct buf *body, size_t max)
{
    size_t at = 0;
    while (at < len && !c->done) {
        if (c->state == DATA) {
            size_t run = len - at < c->left ? len - at : c->left;
            buf_put(body, p + at, run);
            at += run;
            c->left -= (uint32_t)run;
            if (!c->left)
                c->state = DATA_CR;
            continue;
        }
        TRY(c->state == SIZE ? size_byte(c, p[at]) : fixed_byte(c, p[at]));
        if (c->state == DATA && c->left > max - body->len)
            return -413;
        at++;
    }
    return (ssize_t)at;
}

/* The query. */

bool query_unescape(struct arena *a, struct str text, bool plus_is_space, struct str *ret_text)
{
    if (!text.len ||
        (!memchr(text.p, '%', text.len) && !(plus_is_space && memchr(text.p, '+', text.len)))) {
        *ret_text = text;
        return true;
    }
    char *out = arena_alloc(a, text.len), *at = out;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '%') {
            int high = i + 2 < text.len ? digit_of(text.p[i + 1]) : -1;
            int low = high >= 0 ? digit_of(text.p[i + 2]) : -1;
            if (low < 0)
                return false;
            *at++ = (char)(high << 4 | low);
            i += 2;
        } else {
            *at++ = plus_is_space && text.p[i] == '+' ? ' ' : text.p[i];
        }
    }
    *ret_text = (struct str){out, (size_t)(at - out)};
    return true;
}

bool query_has(const struct query *q, struct str name)
{
    for (size_t i = 0; i < q->count; i++)
        if (str_eq(q->params[i].name, name))
            return true;
    return false;
}

const char *query_parse(struct arena *a, struct str text, struct query *ret_query)
{
    struct query q = {0};
    size_t room = 1;
    if (!text.len) {
        *ret_query = q;
        return NULL;
    }
    for (size_t i = 0; i < text.len; i++)
        room += text.p[i] == '&';
    q.params = arena_alloc(a, sizeof *q.params * (room < QUERY_MAX ? room : QUERY_MAX));
    while (text.len) {
        struct str value = str_cut(&text, '&');
        if (!value.len)
            continue;
        if (q.count == QUERY_MAX)
            return "too many parameters in the query";
        struct query_param *param = &q.params[q.count];
        struct str name = str_cut(&value, '=');
        if (!value.p)
            value = STR("");
        if (!query_unescape(a, name, true, &param->name) ||
            !query_unescape(a, value, true, &param->value))
            return "malformed escape in the query";
        if (query_has(&q, param->name))
            return "a parameter stands twice in the query";
        q.count++;
    }
    *ret_query = q;
    return NULL;
}
