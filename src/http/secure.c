/*
 * What a connection does only if it has TLS: it decrypts what arrives and encrypts what leaves.
 * Everything between is the same as without (conn.c).
 *
 * A client that speaks plain HTTP here is told so, in plain HTTP. One that fails otherwise gets
 * TLS's alert.
 */
#include "http/conn.h"

/* TLS begins with a byte that is no letter. */
static bool is_plain_http(const struct tls *t, struct str bytes)
{
    return !t->handshake_len && bytes.p[0] >= 'A' && bytes.p[0] <= 'Z';
}

static void tell_to_use_tls(struct conn *c)
{
    tls_free(c->tls);
    c->tls = NULL;
    exchange_refuse(exchange_new(c, "", 0), 400, "this address speaks TLS: use https://");
}

/*
 * The client said the end, which ends this side too. What it has asked for before is answered, as
 * if it had closed without TLS: if the answer is there.
 */
static void end(struct conn *c)
{
    conn_pump(c);
    if (c->closing || c->first) {
        conn_close(c);
        return;
    }
    c->last_request = true;
    conn_answered(c);
}

static void fail(struct conn *c)
{
    c->server->tls_failed++;
    if (c->first) {
        conn_close(c);
        return;
    }
    c->out.len = 0;
    c->last_request = true;
    conn_answered(c); /* the alert is sent */
}

void secure_receive(struct conn *c, struct str bytes)
{
    struct tls *t = c->tls;
    char plain[TLS_READ_SIZE];
    ssize_t len = 0;
    if (c->lingering || t->failed)
        return;
    if (is_plain_http(t, bytes)) {
        tell_to_use_tls(c);
        return;
    }
    tls_feed(t, bytes);
    while (!c->closing && (len = tls_read(t, plain, sizeof plain)) > 0)
        conn_receive(c, (struct str){plain, (size_t)len});
    if (c->closing)
        return;
    if (len == TLS_CLOSED)
        end(c);
    else if (len == TLS_FAILED)
        fail(c);
    else
        conn_answered(c); /* there may be bytes of TLS's own to send */
}

struct buf *secure_out(struct conn *c)
{
    struct tls *t = c->tls;
    if (c->out.len && t->ready && !t->failed) {
        tls_write(t, buf_str(&c->out));
        buf_empty(&c->out);
    }
    return &t->out;
}
