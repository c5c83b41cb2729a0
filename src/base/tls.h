/*
 * tls - TLS 1.2 and 1.3 for servers and clients, with OpenSSL. Does no input and output of its own,
 * except that it reads the files of the certificate.
 *
 * A context is what all connections share: certificate, key, and the authorities of the other
 * side's certificates. It is a server's or a client's. tls_context_reload() reads the files again;
 * connections keep what they began with.
 *
 * A connection, in order: tls_new or tls_new_client; when bytes have arrived, tls_feed, then
 * tls_read until it returns 0; tls_write for what is to be sent; after each of these, send what is
 * in `out` and empty it; tls_end before the connection is closed; tls_free. All on one thread, that
 * of the context. A client speaks first: it begins with tls_read.
 *
 * What is in `in` is borrowed until tls_read has returned 0, by which it is used up: an incomplete
 * record is kept inside.
 *
 * Clients resume sessions with tickets, whose keys live as long as the certificate is in use. They
 * cannot renegotiate, and have no 0-RTT data, which could be replayed.
 */
#ifndef BASE_TLS_H
#define BASE_TLS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum {
    TLS_HANDSHAKE_LEN_MAX = 128 * 1024, /* bytes that arrive before the handshake is done */
    TLS_NAMES_MAX = 32,                 /* of a client certificate; further ones do not count */
    TLS_READ_SIZE = 16 * 1024,          /* a record's; a good size for tls_read */
};

enum tls_verify { TLS_VERIFY_OPTIONAL, TLS_VERIFY_REQUIRED };

struct tls_options {
    const char *cert, *key; /* PEM; the certificate with its chain */
    const char *ca;         /* of client certificates; NULL: none are asked for */
    int verify;             /* enum tls_verify, if there is a ca */
    bool client;            /* cert NULL: none is shown; ca: of servers, NULL: the system's */
};

struct tls_context;

int tls_context_open(const struct tls_options *o, struct tls_context **ret_context,
                     struct err_info *ret_error);
void tls_context_close(struct tls_context *c); /* NULL is allowed; after its connections */

/* Reads the files again. On failure everything stays as it was. */
int tls_context_reload(struct tls_context *c, struct err_info *ret_error);

/* Whether a file has changed since the last attempt to read it. */
bool tls_context_is_stale(const struct tls_context *c);

/* Whether the certificate was made for this name. Wildcards do not count. */
bool tls_context_has_name(const struct tls_context *c, struct str name);

/* When the certificate expires, in seconds of the wall clock. Only if there is one. */
int64_t tls_context_expires(const struct tls_context *c);

/* Who a certificate was made for; one of a client was verified. */
struct tls_peer {
    char *subject;              /* "CN=worker,O=Example", as RFC 2253 writes it */
    char *names[TLS_NAMES_MAX]; /* CN, and the alternative names: DNS, URI, email */
    size_t count;
};

struct tls {
    struct tls_context *context;
    struct ssl_st *ssl;
    struct str in;         /* bytes that have arrived */
    struct buf out;        /* bytes to send */
    size_t handshake_len;  /* that have arrived before it was ready */
    bool ready;            /* the handshake is done */
    bool failed;           /* nothing can be read or written any more; an alert may be in `out` */
    bool ended;            /* the end was said */
    bool untrusted;        /* it failed because of the server's certificate */
    const char *problem;   /* why it failed; NULL: not known */
    struct tls_peer *peer; /* NULL: it has no certificate */
};

/* Never NULL. */
struct tls *tls_new(struct tls_context *c);

/*
 * With the context of a client. host is a name or an address: the server's certificate must be
 * valid, signed by one of the authorities and made for it. Otherwise tls_read returns FAILED.
 */
struct tls *tls_new_client(struct tls_context *c, const char *host);
void tls_free(struct tls *t); /* NULL is allowed */

enum { TLS_CLOSED = -1, TLS_FAILED = -2 };

void tls_feed(struct tls *t, struct str bytes);

/*
 * How many bytes were read; 0: more must arrive first. CLOSED: the other side sends nothing more.
 * FAILED: it does not speak TLS properly, or has no certificate that is accepted.
 */
ssize_t tls_read(struct tls *t, char *to, size_t size);

/* Encrypts into `out`. Only when it is ready and has not failed. */
void tls_write(struct tls *t, struct str text);

/* Says the end, once. */
void tls_end(struct tls *t);

#endif
