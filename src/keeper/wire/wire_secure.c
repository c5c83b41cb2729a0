/*
 * TLS on a connection. A client whose certificate was verified has an identity of the scheme x509,
 * which is the subject, as ZooKeeper's provider of that name gives it.
 */
#include "keeper/wire/wire_impl.h"

int wire_decrypt(struct wire_conn *c, struct str bytes)
{
    struct tls *t = c->tls;
    bool was_ready = t->ready;
    ssize_t len;
    tls_feed(t, bytes);
    do {
        buf_reserve(&c->in, TLS_READ_SIZE);
        len = tls_read(t, c->in.p + c->in.len, c->in.cap - c->in.len);
        if (len > 0)
            c->in.len += (size_t)len;
    } while (len > 0);
    if (t->ready && !was_ready && t->peer)
        wire_add_id(c, STR("x509"), str_of(t->peer->subject));
    return (int)len;
}
