/*
 * Answers. Each is formatted once, into the connection's output when it is the turn of its request,
 * else into the exchange until it is.
 */
#include <assert.h>
#include <time.h>

#include "base/clock.h"
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

static void put_answer(struct buf *b, struct exchange *x, int status, struct str body)
{
    buf_printf(b, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Length: %zu\r\n", status,
               reason_of(status), date_text(), body.len);
    if (body.len)
        buf_put_str(b, STR("Content-Type: application/json\r\n"));
    buf_put(b, x->fields.p, x->fields.len);
    buf_printf(b, "%s\r\n", connection_text(x));
    if (!x->request.head.head_only)
        buf_put_str(b, body);
}

void http_reply(struct http_request *r, int status, struct str json)
{
    struct exchange *x = (struct exchange *)r;
    struct conn *c = x->conn;

    assert(!x->answered);
    x->answered = true;
    x->closes |= c->last_request && x == c->last;
    put_answer(x == c->first ? &c->out : &x->answer, x, status, json);
    conn_answered(c);
}

static void put_json_text(struct buf *b, const char *text)
{
    buf_put_u8(b, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            buf_printf(b, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            buf_printf(b, "\\u%04x", *text);
        else
            buf_put(b, text, 1);
    }
    buf_put_u8(b, '"');
}

void http_reply_error(struct http_request *r, int status, const char *message)
{
    struct buf body = {0};

    buf_put_str(&body, STR("{\"errors\":["));
    put_json_text(&body, message);
    buf_put_str(&body, STR("]}"));
    http_reply(r, status, (struct str){body.p, body.len});
    buf_release(&body);
}

void http_add_header(struct http_request *r, const char *name, struct str value)
{
    struct exchange *x = (struct exchange *)r;

    buf_printf(&x->fields, "%s: %.*s\r\n", name, (int)value.len, value.p);
}
