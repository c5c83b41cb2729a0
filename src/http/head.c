/*
 * llhttp reads the method and the meaning of Connection. The checks here come first, because llhttp
 * as Debian builds it accepts things (a lone LF as the end of a line, spaces in names) that allow
 * request smuggling. Every rule that security depends on is enforced here.
 */
#include "http/head.h"

#include <llhttp.h>
#include <strings.h>

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
    const char *end = memchr(rest->p, '\n', rest->len);
    struct str line = {rest->p, (size_t)(end - rest->p) - 1};

    rest->len -= line.len + 2;
    rest->p += line.len + 2;
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
    const char *mark = memchr(target.p, '?', target.len);
    h->path = (struct str){target.p, mark ? (size_t)(mark - target.p) : target.len};
    h->query = mark ? (struct str){mark + 1, target.len - h->path.len - 1} : STR("");
    return check_version(h, (struct str){last + 1, (size_t)(line.p + line.len - last) - 1},
                         ret_reason);
}

static int split_fields(struct head *h, struct str rest, const char **ret_reason)
{
    for (struct str line = next_line(&rest); line.len; line = next_line(&rest)) {
        const char *colon = memchr(line.p, ':', line.len);
        struct str name = {line.p, colon ? (size_t)(colon - line.p) : 0};

        if (!colon || !is_made_of(name, "!#$%&'*+-.^_`|~"))
            return refuse(400, "malformed header", ret_reason);
        if (h->field_count == HEAD_FIELDS_MAX)
            return refuse(431, "too many headers", ret_reason);
        h->fields[h->field_count++] =
            (struct head_field){name, trimmed((struct str){colon + 1, line.len - name.len - 1})};
    }
    return 0;
}

const struct str *head_field(const struct head *h, const char *name)
{
    for (size_t i = 0; i < h->field_count; i++)
        if (same_word(h->fields[i].name, name))
            return &h->fields[i].value;
    return NULL;
}

/* A field that may occur at most once. False when it occurs twice. */
static bool single_field(const struct head *h, const char *name, const struct str **ret_value)
{
    const struct str *value = NULL;

    for (size_t i = 0; i < h->field_count; i++) {
        if (!same_word(h->fields[i].name, name))
            continue;
        if (value)
            return false;
        value = &h->fields[i].value;
    }
    *ret_value = value;
    return true;
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

static enum method method_of(uint8_t number)
{
    static const struct {
        uint8_t number;
        enum method method;
    } rows[] = {
        {HTTP_GET, METHOD_GET}, {HTTP_HEAD, METHOD_GET},      {HTTP_POST, METHOD_POST},
        {HTTP_PUT, METHOD_PUT}, {HTTP_DELETE, METHOD_DELETE},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].number == number)
            return rows[i].method;
    return METHOD_OTHER;
}

static int run_llhttp(struct head *h, const char *p, size_t len, const char **ret_reason)
{
    static const llhttp_settings_t settings = {.on_headers_complete = on_headers_complete};
    llhttp_t parser;
    enum llhttp_errno err;

    llhttp_init(&parser, HTTP_REQUEST, &settings);
    parser.data = h;
    err = llhttp_execute(&parser, p, len);
    if (err != HPE_PAUSED)
        return refuse(400, "malformed request", ret_reason);
    h->head_only = parser.method == HTTP_HEAD;
    h->method = method_of(parser.method);
    return 0;
}

int head_parse(struct head *h, const char *p, size_t len, const char **ret_reason)
{
    struct str rest = {p, len};

    memset(h, 0, offsetof(struct head, fields));
    int status = check_request_line(h, next_line(&rest), ret_reason);
    if (!status)
        status = split_fields(h, rest, ret_reason);
    if (!status)
        status = run_llhttp(h, p, len, ret_reason);
    if (!status)
        status = check_body_length(h, ret_reason);
    if (!status)
        status = check_host(h, ret_reason);
    if (!status)
        status = check_expect(h, ret_reason);
    return status;
}
