/*
 * Streamed answers. Each piece is a chunk; an HTTP/1.0 client, which knows no chunks, reads until
 * the connection closes.
 */
#include <assert.h>

#include "http/conn.h"

/* Where the bytes of an answer go. */
static struct buf *target_of(struct exchange *x)
{
    return x == x->conn->first ? &x->conn->out : &x->answer;
}

/*
 * Writes what can be written. False when the connection turned out to be closed; `gone` is not
 * called then.
 */
static bool flush(struct exchange *x)
{
    void (*gone)(struct http_request * r) = x->request.gone;
    struct conn *c = x->conn;

    x->request.gone = NULL;
    conn_answered(c);
    if (c->closing)
        return false;
    x->request.gone = gone;
    x->undrained = http_stream_unsent(&x->request) > 0;
    return true;
}

bool http_stream_begin(struct http_request *r, const char *content_type)
{
    struct exchange *x = (struct exchange *)r;

    assert(!x->answered && !x->away && !x->streaming);
    if (r->head.head_only) {
        http_reply_as(r, 200, content_type, STR(""));
        return false;
    }
    x->streaming = true;
    exchange_put_stream_head(x, target_of(x), content_type);
    return flush(x);
}

bool http_stream_send(struct http_request *r, struct str data)
{
    struct exchange *x = (struct exchange *)r;
    struct conn *c = x->conn;
    struct buf *b = target_of(x);

    if (!data.len)
        return true;
    if (b->len + c->writing.len + data.len > HTTP_STREAM_UNSENT_MAX) {
        r->gone = NULL;
        conn_close(c);
        return false;
    }
    if (!r->head.http_1_0)
        buf_printf(b, "%zx\r\n", data.len);
    buf_put_str(b, data);
    if (!r->head.http_1_0)
        buf_put_str(b, STR("\r\n"));
    return flush(x);
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
