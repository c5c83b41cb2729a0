/*
 * Answers. Each is formatted once, into the connection's output when it is the turn of its request,
 * else into the exchange until it is.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "http/conn.h"

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } rows[] = {
        {200, "OK"},
        {201, "Created"},
        {204, "No Content"},
        {307, "Temporary Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].status == status)
            return rows[i].reason;
    return "Other";
}

/* The Date header, made anew once a second. */
static const char *date_text(void)
{
    static char text[64];
    static time_t of;
    time_t now = (time_t)(clock_wall_ms() / 1000);
    struct tm tm;

    if (now != of) {
        gmtime_r(&now, &tm);
        strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        of = now;
    }
    return text;
}

static const char *connection_text(const struct exchange *x)
{
    if (x->closes)
        return "Connection: close\r\n";
    return x->request.head.http_1_0 ? "Connection: keep-alive\r\n" : "";
}

/* A body of no length has no type. */
static void put_answer(struct buf *b, struct exchange *x, int status, const char *content_type,
                       struct str body)
{
    buf_printf(b, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Length: %zu\r\n", status,
               reason_of(status), date_text(), body.len);
    if (body.len)
        buf_printf(b, "Content-Type: %s\r\n", content_type);
    buf_put(b, x->fields.p, x->fields.len);
    buf_printf(b, "%s\r\n", connection_text(x));
    if (!x->request.head.head_only)
        buf_put_str(b, body);
}

void exchange_answer(struct exchange *x, int status, const char *content_type, struct str body)
{
    struct conn *c = x->conn;

    assert(!x->answered && !x->streaming);
    x->answered = true;
    figures_count(x, status);
    x->closes |= c->last_request && x == c->last;
    put_answer(x == c->first ? &c->out : &x->answer, x, status, content_type, body);
    conn_answered(c);
}

void exchange_put_stream_head(struct exchange *x, struct buf *b, const char *content_type)
{
    struct conn *c = x->conn;
    bool chunked = !x->request.head.http_1_0;

    figures_count(x, 200);
    c->last_request |= !chunked;
    x->closes |= c->last_request && x == c->last;
    buf_printf(b, "HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Type: %s\r\n", date_text(), content_type);
    if (chunked)
        buf_put_str(b, STR("Transfer-Encoding: chunked\r\n"));
    buf_put(b, x->fields.p, x->fields.len);
    buf_printf(b, "%s\r\n", connection_text(x));
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
    http_reply_as(r, status, "application/json", json);
}

/* What went wrong on our side is said where it is answered. */
static void log_failure(const struct http_request *r, int status, const char *message)
{
    struct exchange *x = (struct exchange *)r;
    char number[16];
    struct log_field fields[] = {
        {"status", {number, (size_t)snprintf(number, sizeof number, "%d", status)}},
        {"method", str_of(route_method(x->row->route))},
        {"path", r->head.path},
    };

    log_error_with(fields, 3, "%s", message);
}

void http_reply_error(struct http_request *r, int status, const char *message)
{
    struct buf body = {0};

    if (status >= 500 && ((struct exchange *)r)->row)
        log_failure(r, status, message);
    buf_put_str(&body, STR("{\"errors\":["));
    json_put_text(&body, str_of(message));
    buf_put_str(&body, STR("]}"));
    http_reply(r, status, (struct str){body.p, body.len});
    buf_release(&body);
}

void http_reply_errorf(struct http_request *r, int status, const char *fmt, ...)
{
    char message[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    http_reply_error(r, status, message);
}

void http_reply_err(struct http_request *r, int err, const char *message_or_null)
{
    http_reply_error(r, drover_err_http_status(err),
                     message_or_null ? message_or_null : drover_err_message(err));
}

void http_add_header(struct http_request *r, const char *name, struct str value)
{
    struct exchange *x = (struct exchange *)r;

    buf_printf(&x->fields, "%s: %.*s\r\n", name, (int)value.len, value.p);
}
