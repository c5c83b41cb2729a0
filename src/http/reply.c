/*
 * Answers. An answer is formatted once: into the connection's output if its request is the first in
 * the queue, else into the exchange.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "http/conn.h"

enum { ANSWER_HEAD_LEN = 256 }; /* roughly */

#define RETRY_AFTER "1" /* seconds, in every answer 503 */

/* A status and its line, ready to be copied: every request needs one. */
struct status_row {
    int number;
    struct str line;
    const char *code; /* of errors that have no code of their own */
};

#define ROW(number, reason, code)                                                                  \
    {                                                                                              \
        number,                                                                                    \
            {"HTTP/1.1 " #number " " reason "\r\n",                                                \
             sizeof("HTTP/1.1 " #number " " reason "\r\n") - 1},                                   \
            code                                                                                   \
    }

static const struct status_row STATUSES[] = {
    ROW(200, "OK", "OK"),
    ROW(206, "Partial Content", "OK"),
    ROW(307, "Temporary Redirect", "NOT_LEADER"),
    ROW(400, "Bad Request", "BAD_ARGUMENT"),
    ROW(401, "Unauthorized", "NO_TOKEN"),
    ROW(403, "Forbidden", "NO_AUTH"),
    ROW(404, "Not Found", "NOT_FOUND"),
    ROW(405, "Method Not Allowed", "NO_METHOD"),
    ROW(408, "Request Timeout", "TIMEOUT"),
    ROW(409, "Conflict", "REFUSED"),
    ROW(410, "Gone", "GONE"),
    ROW(413, "Content Too Large", "TOO_BIG"),
    ROW(415, "Unsupported Media Type", "NOT_JSON"),
    ROW(416, "Range Not Satisfiable", "BAD_ARGUMENT"),
    ROW(417, "Expectation Failed", "BAD_ARGUMENT"),
    ROW(421, "Misdirected Request", "WRONG_HOST"),
    ROW(429, "Too Many Requests", "TOO_MANY"),
    ROW(431, "Request Header Fields Too Large", "TOO_BIG"),
    ROW(500, "Internal Server Error", "IO"),
    ROW(501, "Not Implemented", "UNIMPLEMENTED"),
    ROW(503, "Service Unavailable", "CLOSED"),
    ROW(505, "HTTP Version Not Supported", "BAD_ARGUMENT"),
    ROW(507, "Insufficient Storage", "DISK_FULL"),
};

static const struct status_row *status_of(int number)
{
    static const struct status_row other = ROW(500, "Internal Server Error", "IO");
    for (size_t i = 0; i < sizeof STATUSES / sizeof *STATUSES; i++)
        if (STATUSES[i].number == number)
            return &STATUSES[i];
    return &other;
}

/* The Date header, formatted once a second. */
static void put_date(struct buf *b, struct http_server *s)
{
    uint64_t second = uv_now(s->loop) / 1000;
    if (!s->date_len || second != s->date_second) {
        time_t now = (time_t)(clock_wall_ms() / 1000);
        struct tm tm;
        gmtime_r(&now, &tm);
        s->date_len = strftime(s->date, sizeof s->date, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
        s->date_second = second;
    }
    buf_put(b, s->date, s->date_len);
}

static void put_content_length(struct buf *b, size_t len)
{
    char digits[24], *at = digits + sizeof digits;
    do
        *--at = (char)('0' + len % 10);
    while (len /= 10);
    buf_put_str(b, STR("Content-Length: "));
    buf_put(b, at, (size_t)(digits + sizeof digits - at));
    buf_put_str(b, STR("\r\n"));
}

static void put_content_type(struct buf *b, const char *type)
{
    buf_put_str(b, STR("Content-Type: "));
    buf_put_str(b, str_of(type));
    buf_put_str(b, STR("\r\n"));
}

/* The headers that the handler added, and the end of the head. */
static void put_head_end(struct buf *b, const struct exchange *x)
{
    buf_put(b, x->fields.p, x->fields.len);
    if (x->closes)
        buf_put_str(b, STR("Connection: close\r\n"));
    else if (x->request.head.http_1_0)
        buf_put_str(b, STR("Connection: keep-alive\r\n"));
    buf_put_str(b, STR("\r\n"));
}

static const char json_type[] = "application/json";

/* An empty body has no type. JSON ends with a newline, for terminals. */
static void put_answer(struct buf *b, struct exchange *x, int status, const char *content_type,
                       struct str body)
{
    bool newline = body.len && content_type == json_type;
    buf_reserve(b, ANSWER_HEAD_LEN + body.len);
    buf_put_str(b, status_of(status)->line);
    put_date(b, x->server);
    put_content_length(b, body.len + newline);
    if (body.len)
        put_content_type(b, content_type);
    put_head_end(b, x);
    if (x->request.head.head_only)
        return;
    buf_put_str(b, body);
    if (newline)
        buf_put(b, "\n", 1);
}

/* Where the bytes of an answer go. */
static struct buf *target_of(struct exchange *x)
{
    return x == x->conn->first ? &x->conn->out : &x->answer;
}

void exchange_answer(struct exchange *x, int status, const char *content_type, struct str body)
{
    struct conn *c = x->conn;
    assert(!x->answered && !x->streaming);
    if (memory_refuses_answer(x, status, body.len))
        return;
    x->answered = true;
    if (status >= 400)
        topic_pass_on(x);
    server_metrics_count(x, status);
    access_answered(x, status);
    limits_count(x);
    x->closes |= c->last_request && x == c->last;
    put_answer(target_of(x), x, status, content_type, body);
    memory_set(x->server, &x->held, x->held + x->answer.len);
    conn_answered(c);
}

void http_reply_as(struct http_request *r, int status, const char *content_type, struct str body)
{
    struct exchange *x = (struct exchange *)r;
    if (!x->away) {
        exchange_answer(x, status, content_type, body);
        return;
    }
    x->status = status;
    x->content_type = content_type;
    buf_put_str(&x->reply, body);
    work_settle(x);
}

void http_reply(struct http_request *r, int status, struct str json)
{
    http_reply_as(r, status, json_type, json);
}

/* Logs errors of the server where they are answered. */
static void log_failure(const struct http_request *r, int status, const char *message)
{
    struct exchange *x = (struct exchange *)r;
    struct log_field fields[] = {
        LOG_NUMBER("status", status),
        LOG_TEXT_OF("method", route_method(x->row->route)),
        LOG_STR("path", r->head.path),
    };
    log_error_with(fields, 3, "%s", message);
}

static void put_errors(struct buf *b, const char *const *reasons, size_t count, const char *code,
                       const char *field)
{
    json_open(b, '{');
    json_member_open(b, "errors", '[');
    for (size_t i = 0; i < count; i++)
        json_put_text(b, str_of(reasons[i]));
    json_close(b, ']');
    json_member_text(b, "code", str_of(code));
    if (field)
        json_member_text(b, "field", str_of(field));
    json_close(b, '}');
}

void reply_with(struct http_request *r, int status, const char *code, const char *field,
                const char *message)
{
    CLEANUP(buf_release) struct buf body = {0};
    const struct exchange *x = (const struct exchange *)r;
    if (status == 503)
        http_add_header(r, "Retry-After", STR(RETRY_AFTER));
    if (status >= 500 && x->row && !x->limit)
        log_failure(r, status, message);
    put_errors(&body, &message, 1, code ? code : status_of(status)->code, field);
    http_reply(r, status, buf_str(&body));
}

void http_reply_error(struct http_request *r, int status, const char *message)
{
    reply_with(r, status, NULL, NULL, message);
}

#define format_message(message, fmt)                                                               \
    do {                                                                                           \
        va_list ap;                                                                                \
        va_start(ap, fmt);                                                                         \
        vsnprintf(message, sizeof(message), fmt, ap);                                              \
        va_end(ap);                                                                                \
    } while (0)

void http_reply_errorf(struct http_request *r, int status, const char *fmt, ...)
{
    char message[512];
    format_message(message, fmt);
    reply_with(r, status, NULL, NULL, message);
}

void http_reply_field(struct http_request *r, const char *field, const char *fmt, ...)
{
    char message[512];
    format_message(message, fmt);
    reply_with(r, 400, NULL, field, message);
}

void http_reply_err(struct http_request *r, int err, const char *message_or_null)
{
    reply_with(r, drover_err_http_status(err), drover_err_name(err), NULL,
               message_or_null ? message_or_null : drover_err_message(err));
}

void http_reply_reasons(struct http_request *r, int err, const char *const *reasons, size_t count)
{
    CLEANUP(buf_release) struct buf body = {0};
    put_errors(&body, reasons, count, drover_err_name(err), NULL);
    http_reply(r, drover_err_http_status(err), buf_str(&body));
}

/* A line end in a value would begin another header, or the body. */
void http_add_header(struct http_request *r, const char *name, struct str value)
{
    struct exchange *x = (struct exchange *)r;
    buf_printf(&x->fields, "%s: ", name);
    size_t begin = x->fields.len;
    buf_put_str(&x->fields, value);
    for (size_t i = begin; i < x->fields.len; i++)
        if ((unsigned char)x->fields.p[i] < ' ')
            x->fields.p[i] = ' ';
    buf_put_str(&x->fields, STR("\r\n"));
}

/*
 * Streamed answers. Each piece is a chunk; an HTTP/1.0 client, which knows no chunks, reads until
 * the connection closes.
 */

static void put_stream_head(struct buf *b, struct exchange *x, int status, const char *content_type)
{
    struct conn *c = x->conn;
    bool chunked = !x->request.head.http_1_0;
    server_metrics_count(x, status);
    access_answered(x, status);
    c->last_request |= !chunked;
    x->closes |= c->last_request && x == c->last;
    buf_put_str(b, status_of(status)->line);
    put_date(b, x->server);
    put_content_type(b, content_type);
    if (chunked)
        buf_put_str(b, STR("Transfer-Encoding: chunked\r\n"));
    put_head_end(b, x);
}

static void flush(struct exchange *x)
{
    conn_answered(x->conn);
    x->undrained = http_stream_unsent(&x->request) > 0;
}

bool http_stream_begin(struct http_request *r, const char *content_type)
{
    return http_stream_begin_with(r, 200, content_type);
}

bool http_stream_begin_with(struct http_request *r, int status, const char *content_type)
{
    struct exchange *x = (struct exchange *)r;
    assert(!x->answered && !x->away && !x->streaming);
    put_stream_head(target_of(x), x, status, content_type);
    if (r->head.head_only) {
        x->answered = true;
        conn_answered(x->conn);
        return false;
    }
    x->streaming = true;
    flush(x);
    return true;
}

void stream_put(struct exchange *x, struct str data)
{
    struct buf *b = target_of(x);
    if (!data.len)
        return;
    if (!x->request.head.http_1_0)
        buf_printf(b, "%zx\r\n", data.len);
    buf_put_str(b, data);
    if (!x->request.head.http_1_0)
        buf_put_str(b, STR("\r\n"));
    if (b == &x->answer)
        memory_set(x->server, &x->held, x->held + data.len);
    flush(x);
}

bool http_stream_send(struct http_request *r, struct str data)
{
    struct exchange *x = (struct exchange *)r;
    if (target_of(x)->len + x->conn->writing.len + data.len > HTTP_STREAM_UNSENT_MAX) {
        http_stream_abort(r);
        return false;
    }
    stream_put(x, data);
    return true;
}

size_t http_stream_unsent(const struct http_request *r)
{
    const struct exchange *x = (const struct exchange *)r;
    return x->answer.len + x->conn->out.len + x->conn->writing.len;
}

void http_stream_end(struct http_request *r)
{
    struct exchange *x = (struct exchange *)r;
    if (!r->head.http_1_0)
        buf_put_str(target_of(x), STR("0\r\n\r\n"));
    x->answered = true;
    conn_answered(x->conn);
}

void http_stream_abort(struct http_request *r)
{
    r->gone = NULL;
    conn_close(((struct exchange *)r)->conn);
}
