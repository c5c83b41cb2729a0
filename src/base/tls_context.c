/*
 * What the connections share. A reload makes a new SSL_CTX beside the old one, which OpenSSL keeps
 * until the last connection that began with it is freed. So the files are either used together or
 * not at all, and a certificate without its key changes nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tls_impl.h"

enum { CERTIFICATES_LEN_MAX = 64 * 1024, FILES = 3 }; /* of a client's chain */

/* Debian's default, and what is the case anywhere else: neither SSL 3 nor TLS 1.0 and 1.1. */
static const struct {
    int command;
    long value;
} SETTINGS[] = {
    {SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION},
    {SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS            /* an idle connection has none */
                        | SSL_MODE_NO_AUTO_CHAIN},      /* the file has the chain */
    {SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF}, /* the client keeps the session: a ticket */
    {SSL_CTRL_SET_MAX_CERT_LIST, CERTIFICATES_LEN_MAX},
};

/* http/1.1, for those who ask. A client that only knows others would not understand an answer. */
static int choose_protocol(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_len,
                           const unsigned char *offered, unsigned offered_len, void *arg)
{
    static const unsigned char known[] = "\010http/1.1";
    const struct openssl *o = arg;
    unsigned char *name;
    (void)ssl;
    if (o->SSL_select_next_proto(&name, ret_len, known, sizeof known - 1, offered, offered_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret_name = name;
    return SSL_TLSEXT_ERR_OK;
}

/* A key with a password: nobody is there to be asked. */
static int no_password(char *to, int size, int writing, void *asked)
{
    (void)to;
    (void)size;
    (void)writing;
    *(bool *)asked = true;
    return -1;
}

static int fail(const struct openssl *o, const char *what, const char *path,
                struct err_info *ret_error)
{
    const char *reason = o->ERR_reason_error_string(o->ERR_peek_error());
    o->ERR_clear_error();
    return err_set(ret_error, DROVER_BAD_ARGUMENT, "cannot use the %s %s: %s", what, path,
                   reason ? reason : "it is not in PEM");
}

static int check_readable(const char *path, struct err_info *ret_error)
{
    return access(path, R_OK) ? err_set_errno(ret_error, errno, "cannot read %s", path) : 0;
}

/* Those of servers. */
static int load_trusted(const struct openssl *o, SSL_CTX *ctx, const struct tls_options *files,
                        struct err_info *ret_error)
{
    o->SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (files->ca ? o->SSL_CTX_load_verify_file(ctx, files->ca) == 1
                  : o->SSL_CTX_set_default_verify_paths(ctx) == 1)
        return 0;
    return fail(o, "certificate authorities", files->ca ? files->ca : "of the system", ret_error);
}

/* Those of clients. */
static int load_authorities(const struct openssl *o, SSL_CTX *ctx, const struct tls_options *files,
                            struct err_info *ret_error)
{
    int mode = SSL_VERIFY_PEER;
    if (files->verify == TLS_VERIFY_REQUIRED)
        mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    STACK_OF(X509_NAME) *names = o->SSL_load_client_CA_file(files->ca);
    if (!names || !o->SSL_CTX_load_verify_file(ctx, files->ca))
        return fail(o, "certificate authorities", files->ca, ret_error);
    o->SSL_CTX_set_client_CA_list(ctx, names);
    o->SSL_CTX_set_verify(ctx, mode, NULL);
    return 0;
}

static int load_key(const struct openssl *o, SSL_CTX *ctx, const char *path,
                    struct err_info *ret_error)
{
    bool asked = false;
    o->SSL_CTX_set_default_passwd_cb(ctx, no_password);
    o->SSL_CTX_set_default_passwd_cb_userdata(ctx, &asked);
    if (o->SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM) == 1)
        return 0;
    fail(o, "key", path, ret_error);
    return asked ? err_set(ret_error, DROVER_BAD_ARGUMENT,
                           "cannot use the key %s: it has a password", path)
                 : DROVER_BAD_ARGUMENT;
}

static int load_pair(const struct openssl *o, SSL_CTX *ctx, const struct tls_options *files,
                     struct err_info *ret_error)
{
    TRY(check_readable(files->cert, ret_error));
    TRY(check_readable(files->key, ret_error));
    if (o->SSL_CTX_use_certificate_chain_file(ctx, files->cert) != 1)
        return fail(o, "certificate", files->cert, ret_error);
    return load_key(o, ctx, files->key, ret_error);
}

static int load_files(const struct openssl *o, SSL_CTX *ctx, const struct tls_options *files,
                      struct err_info *ret_error)
{
    if (files->cert)
        TRY(load_pair(o, ctx, files, ret_error));
    if (files->ca)
        TRY(check_readable(files->ca, ret_error));
    if (files->client)
        return load_trusted(o, ctx, files, ret_error);
    return files->ca ? load_authorities(o, ctx, files, ret_error) : 0;
}

static SSL_CTX *new_ssl_context(const struct openssl *o, bool client)
{
    static const unsigned char name[] = "drover";
    SSL_CTX *ctx = o->SSL_CTX_new(client ? o->TLS_client_method() : o->TLS_server_method());
    if (!ctx)
        err_fatal("out of memory (OpenSSL)");
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++)
        o->SSL_CTX_ctrl(ctx, SETTINGS[i].command, SETTINGS[i].value, NULL);
    o->SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
    o->SSL_CTX_set_session_id_context(ctx, name, sizeof name - 1);
    o->SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, (void *)o);
    return ctx;
}

/* The state of the files, so that a change is seen. One that is missing is all zero. */
static void look(const struct tls_options *files, struct stat states[FILES])
{
    const char *const paths[FILES] = {files->cert, files->key, files->ca};
    memset(states, 0, FILES * sizeof *states);
    for (size_t i = 0; i < FILES; i++)
        if (paths[i] && stat(paths[i], &states[i]))
            memset(&states[i], 0, sizeof states[i]);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool tls_context_is_stale(const struct tls_context *c)
{
    struct stat now[FILES];
    look(&c->files, now);
    for (size_t i = 0; i < FILES; i++)
        if (!is_same(&now[i], &c->seen[i]))
            return true;
    return false;
}

static void release(struct tls_context *c)
{
    c->openssl->SSL_CTX_free(c->ctx);
    tls_peer_free(c->own);
}

/* The state is taken before the files are read: a change meanwhile is seen the next time. */
int tls_context_reload(struct tls_context *c, struct err_info *ret_error)
{
    const struct openssl *o = c->openssl;
    SSL_CTX *ctx = new_ssl_context(o, c->files.client);
    look(&c->files, c->seen);
    int err = load_files(o, ctx, &c->files, ret_error);
    if (err) {
        o->SSL_CTX_free(ctx);
        return err;
    }
    release(c);
    c->ctx = ctx;
    c->own = c->files.cert ? tls_peer_new(c, o->SSL_CTX_get0_certificate(ctx)) : NULL;
    return 0;
}

bool tls_context_has_name(const struct tls_context *c, struct str name)
{
    for (size_t i = 0; i < c->own->count; i++)
        if (strlen(c->own->names[i]) == name.len &&
            !strncasecmp(c->own->names[i], name.p, name.len))
            return true;
    return false;
}

int64_t tls_context_expires(const struct tls_context *c)
{
    const struct openssl *o = c->openssl;
    const X509 *cert = o->SSL_CTX_get0_certificate(c->ctx);
    struct tm when;
    if (!o->ASN1_TIME_to_tm(o->X509_get0_notAfter(cert), &when))
        return 0;
    return timegm(&when);
}

int tls_context_open(const struct tls_options *o, struct tls_context **ret_context,
                     struct err_info *ret_error)
{
    const struct openssl *openssl = openssl_load(ret_error);
    if (!openssl)
        return DROVER_IO;
    struct tls_context *c = mem_zalloc(sizeof *c);
    c->openssl = openssl;
    c->files = *o;
    c->bio = tls_bio();
    int err = tls_context_reload(c, ret_error);
    if (err) {
        tls_context_close(c);
        return err;
    }
    *ret_context = c;
    return 0;
}

void tls_context_close(struct tls_context *c)
{
    if (!c)
        return;
    release(c);
    free(c);
}
