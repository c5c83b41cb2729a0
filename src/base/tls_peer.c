/*
 * Who a certificate was made for. A name with a NUL inside is left out: programs
 * disagree about where it ends.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/tls_impl.h"

/* As Java writes it, too: UTF-8 stays as it is. */
#define SUBJECT_FORM (XN_FLAG_RFC2253 & ~(unsigned long)ASN1_STRFLGS_ESC_MSB)

static void add_name(struct tls_peer *peer, const void *p, int len)
{
    if (len > 0 && peer->count < TLS_NAMES_MAX && !memchr(p, '\0', (size_t)len))
        peer->names[peer->count++] = mem_dup(p, (size_t)len);
}

static void add_common_names(const struct openssl *o, const X509_NAME *subject,
                             struct tls_peer *peer)
{
    int at = -1;
    while ((at = o->X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0) {
        unsigned char *text = NULL;
        int len = o->ASN1_STRING_to_UTF8(
            &text, o->X509_NAME_ENTRY_get_data(o->X509_NAME_get_entry(subject, at)));
        add_name(peer, text, len);
        o->CRYPTO_free(text, __FILE__, __LINE__);
    }
}

static void add_alternative_names(const struct openssl *o, const X509 *cert, struct tls_peer *peer)
{
    GENERAL_NAMES *names = o->X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; names && i < o->OPENSSL_sk_num((OPENSSL_STACK *)names); i++) {
        const GENERAL_NAME *name = o->OPENSSL_sk_value((OPENSSL_STACK *)names, i);
        if (name->type == GEN_DNS || name->type == GEN_URI || name->type == GEN_EMAIL)
            add_name(peer, o->ASN1_STRING_get0_data(name->d.ia5),
                     o->ASN1_STRING_length(name->d.ia5));
    }
    if (names)
        o->GENERAL_NAMES_free(names);
}

static char *print_subject(const struct tls_context *c, const X509_NAME *subject)
{
    struct tls page = {0};
    BIO *bio = tls_bio_new(c, &page);
    c->openssl->X509_NAME_print_ex(bio, subject, 0, SUBJECT_FORM);
    c->openssl->BIO_free(bio);
    char *text = mem_dup(buf_text(&page.out), page.out.len);
    buf_release(&page.out);
    return text;
}

struct tls_peer *tls_peer_new(const struct tls_context *c, const X509 *cert)
{
    const struct openssl *o = c->openssl;
    struct tls_peer *peer = mem_zalloc(sizeof *peer);
    const X509_NAME *subject = o->X509_get_subject_name(cert);
    peer->subject = print_subject(c, subject);
    add_common_names(o, subject, peer);
    add_alternative_names(o, cert, peer);
    return peer;
}

void tls_peer_free(struct tls_peer *peer)
{
    if (!peer)
        return;
    for (size_t i = 0; i < peer->count; i++)
        free(peer->names[i]);
    free(peer->subject);
    free(peer);
}
