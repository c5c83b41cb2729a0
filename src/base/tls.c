/*
 * A connection. OpenSSL reads from and writes to memory through a BIO of our own: unlike its memory
 * BIOs, which copy what they are given, it takes the bytes from where they have arrived and appends
 * to `out`.
 */
#include "base/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/tls_impl.h"

enum { RECORD_LEN = 16 * 1024, RECORD_OVERHEAD = 64 };

/* The BIO. */

static const struct openssl *openssl; /* for the functions that have no argument of ours */
static BIO_METHOD *method;

static int on_bio_read(BIO *bio, char *to, int size)
{
    struct tls *t = openssl->BIO_get_data(bio);
    size_t len = t->in.len < (size_t)size ? t->in.len : (size_t)size;
    openssl->BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    if (!len) {
        openssl->BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
        return -1;
    }
    memcpy(to, t->in.p, len);
    t->in = (struct str){t->in.p + len, t->in.len - len};
    return (int)len;
}

static int on_bio_write(BIO *bio, const char *p, int len)
{
    struct tls *t = openssl->BIO_get_data(bio);
    openssl->BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    buf_put(&t->out, p, (size_t)len);
    return len;
}

/* OpenSSL wants to flush; everything else it might ask has the answer 0. */
static long on_bio_ctrl(BIO *bio, int command, long number, void *p)
{
    (void)bio;
    (void)number;
    (void)p;
    return command == BIO_CTRL_FLUSH;
}

static void make_method(void)
{
    openssl = openssl_load(NULL);
    method = openssl->BIO_meth_new(openssl->BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "drover");
    if (!method)
        err_fatal("out of memory (OpenSSL)");
    openssl->BIO_meth_set_read(method, on_bio_read);
    openssl->BIO_meth_set_write(method, on_bio_write);
    openssl->BIO_meth_set_ctrl(method, on_bio_ctrl);
}

const BIO_METHOD *tls_bio(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    return method;
}

BIO *tls_bio_new(const struct tls_context *c, struct tls *t)
{
    BIO *bio = c->openssl->BIO_new(c->bio);
    if (!bio)
        err_fatal("out of memory (OpenSSL)");
    c->openssl->BIO_set_data(bio, t);
    c->openssl->BIO_set_init(bio, 1);
    return bio;
}

/* Life. */

static struct tls *new_connection(struct tls_context *c)
{
    struct tls *t = mem_zalloc(sizeof *t);
    t->context = c;
    t->ssl = c->openssl->SSL_new(c->ctx);
    if (!t->ssl)
        err_fatal("out of memory (OpenSSL)");
    BIO *bio = tls_bio_new(c, t);
    c->openssl->SSL_set_bio(t->ssl, bio, bio);
    return t;
}

struct tls *tls_new(struct tls_context *c)
{
    struct tls *t = new_connection(c);
    c->openssl->SSL_set_accept_state(t->ssl);
    return t;
}

static bool is_address(const char *host)
{
    struct in6_addr unused;
    return inet_pton(AF_INET, host, &unused) == 1 || inet_pton(AF_INET6, host, &unused) == 1;
}

/* SSL_set1_host() tells names from addresses itself. Only a name goes into the greeting (SNI). */
struct tls *tls_new_client(struct tls_context *c, const char *host)
{
    struct tls *t = new_connection(c);
    const struct openssl *o = c->openssl;
    o->SSL_set_connect_state(t->ssl);
    o->SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    bool set = o->SSL_set1_host(t->ssl, host) == 1;
    if (set && !is_address(host))
        set = o->SSL_ctrl(t->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                          (void *)host) == 1;
    if (!set) {
        t->failed = true;
        t->problem = "not a host name";
    }
    return t;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    t->context->openssl->SSL_free(t->ssl);
    tls_peer_free(t->peer);
    buf_release(&t->out);
    free(t);
}

/* Reading and writing. */

void tls_feed(struct tls *t, struct str bytes)
{
    assert(!t->in.len);
    t->in = bytes;
    if (!t->ready)
        t->handshake_len += bytes.len;
}

static int fail(struct tls *t, const char *problem)
{
    t->failed = true;
    t->problem = problem;
    t->in.len = 0;
    return TLS_FAILED;
}

/* What a call that did not succeed means. */
static int translate(struct tls *t, int result)
{
    const struct openssl *o = t->context->openssl;
    int error = o->SSL_get_error(t->ssl, result);
    if (error == SSL_ERROR_WANT_READ)
        return 0;
    t->in.len = 0;
    if (error == SSL_ERROR_ZERO_RETURN)
        return TLS_CLOSED;
    const char *reason = o->ERR_reason_error_string(o->ERR_peek_error());
    long verified = o->SSL_get_verify_result(t->ssl);
    t->untrusted = t->context->files.client && verified != X509_V_OK;
    if (t->untrusted)
        reason = o->X509_verify_cert_error_string(verified);
    o->ERR_clear_error();
    return fail(t, reason);
}

static int shake_hands(struct tls *t)
{
    if (t->handshake_len > TLS_HANDSHAKE_LEN_MAX)
        return fail(t, "handshake too long");
    const struct openssl *o = t->context->openssl;
    int result = o->SSL_do_handshake(t->ssl);
    if (result != 1)
        return translate(t, result);
    t->ready = true;
    X509 *cert = o->SSL_get1_peer_certificate(t->ssl);
    if (cert)
        t->peer = tls_peer_new(t->context, cert);
    o->X509_free(cert);
    return 1;
}

ssize_t tls_read(struct tls *t, char *to, size_t size)
{
    const struct openssl *o = t->context->openssl;
    if (t->failed)
        return TLS_FAILED;
    o->ERR_clear_error();
    if (!t->ready) {
        int done = shake_hands(t);
        if (done != 1)
            return done;
    }
    int len = o->SSL_read(t->ssl, to, size > INT_MAX ? INT_MAX : (int)size);
    return len > 0 ? len : translate(t, len);
}

void tls_write(struct tls *t, struct str text)
{
    const struct openssl *o = t->context->openssl;
    assert(t->ready && !t->failed);
    buf_reserve(&t->out, text.len + (text.len / RECORD_LEN + 1) * RECORD_OVERHEAD);
    o->ERR_clear_error();
    while (text.len && !t->failed) {
        int len = text.len > INT_MAX / 2 ? INT_MAX / 2 : (int)text.len;
        int written = o->SSL_write(t->ssl, text.p, len);
        if (written <= 0) {
            fail(t, "cannot encrypt");
            return;
        }
        text = (struct str){text.p + written, text.len - (size_t)written};
    }
}

void tls_end(struct tls *t)
{
    if (t->ended || t->failed || !t->ready)
        return;
    t->ended = true;
    t->context->openssl->ERR_clear_error();
    t->context->openssl->SSL_shutdown(t->ssl);
}
