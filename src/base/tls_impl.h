/*
 * tls_impl - the inside of tls.
 *
 *   tls_context.c  certificate, key and authorities
 *   tls.c          a connection
 *   tls_peer.c     who a certificate was made for
 */
#ifndef BASE_TLS_IMPL_H
#define BASE_TLS_IMPL_H

#include <sys/stat.h>

#include "base/openssl.h"
#include "base/tls.h"

struct tls_context {
    const struct openssl *openssl;
    struct tls_options files;
    struct stat seen[3]; /* the files, when they were read last */
    SSL_CTX *ctx;
    struct tls_peer *own; /* its names */
    const BIO_METHOD *bio;
};

/* tls.c: a BIO that reads from `in` of a struct tls and writes to its `out`. Made once; OpenSSL
   is loaded before. */
const BIO_METHOD *tls_bio(void);
BIO *tls_bio_new(const struct tls_context *c, struct tls *t);

/* tls_peer.c */
struct tls_peer *tls_peer_new(const struct tls_context *c, const X509 *cert);
void tls_peer_free(struct tls_peer *peer); /* NULL is allowed */

#endif
