/*
 * openssl - libssl and libcrypto, loaded when they are first used.
 *
 * They take four megabytes in every process that is linked with them, and most servers listen on
 * loopback only. So nothing is linked with them: their functions are looked up by name and called
 * through this struct, as those of libcurl are (http/curl.h). Many names of the manual are macros
 * around SSL_CTX_ctrl() and the like, which is what is called here.
 */
#ifndef BASE_OPENSSL_H
#define BASE_OPENSSL_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/err.h"

#define OPENSSL_FUNCTIONS(X)                                                                       \
    X(TLS_server_method)                                                                           \
    X(TLS_client_method)                                                                           \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_set_options)                                                                         \
    X(SSL_CTX_set_alpn_select_cb)                                                                  \
    X(SSL_CTX_set_default_passwd_cb)                                                               \
    X(SSL_CTX_set_default_passwd_cb_userdata)                                                      \
    X(SSL_CTX_set_session_id_context)                                                              \
    X(SSL_CTX_use_certificate_chain_file)                                                          \
    X(SSL_CTX_use_PrivateKey_file)                                                                 \
    X(SSL_CTX_load_verify_file)                                                                    \
    X(SSL_CTX_set_default_verify_paths)                                                            \
    X(SSL_load_client_CA_file)                                                                     \
    X(SSL_CTX_set_client_CA_list)                                                                  \
    X(SSL_CTX_set_verify)                                                                          \
    X(SSL_CTX_get0_certificate)                                                                    \
    X(SSL_select_next_proto)                                                                       \
    X(SSL_new)                                                                                     \
    X(SSL_free)                                                                                    \
    X(SSL_set_bio)                                                                                 \
    X(SSL_set_accept_state)                                                                        \
    X(SSL_set_connect_state)                                                                       \
    X(SSL_set1_host)                                                                               \
    X(SSL_set_hostflags)                                                                           \
    X(SSL_ctrl)                                                                                    \
    X(SSL_get_verify_result)                                                                       \
    X(SSL_do_handshake)                                                                            \
    X(SSL_read)                                                                                    \
    X(SSL_write)                                                                                   \
    X(SSL_shutdown)                                                                                \
    X(SSL_get_error)                                                                               \
    X(SSL_get1_peer_certificate)                                                                   \
    X(BIO_get_new_index)                                                                           \
    X(BIO_meth_new)                                                                                \
    X(BIO_meth_set_read)                                                                           \
    X(BIO_meth_set_write)                                                                          \
    X(BIO_meth_set_ctrl)                                                                           \
    X(BIO_new)                                                                                     \
    X(BIO_free)                                                                                    \
    X(BIO_set_data)                                                                                \
    X(BIO_get_data)                                                                                \
    X(BIO_set_init)                                                                                \
    X(BIO_set_flags)                                                                               \
    X(BIO_clear_flags)                                                                             \
    X(ERR_clear_error)                                                                             \
    X(ERR_peek_error)                                                                              \
    X(ERR_reason_error_string)                                                                     \
    X(ASN1_TIME_to_tm)                                                                             \
    X(ASN1_STRING_get0_data)                                                                       \
    X(ASN1_STRING_length)                                                                          \
    X(ASN1_STRING_to_UTF8)                                                                         \
    X(CRYPTO_free)                                                                                 \
    X(X509_free)                                                                                   \
    X(X509_get0_notAfter)                                                                          \
    X(X509_verify_cert_error_string)                                                               \
    X(X509_get_subject_name)                                                                       \
    X(X509_get_ext_d2i)                                                                            \
    X(X509_NAME_get_index_by_NID)                                                                  \
    X(X509_NAME_get_entry)                                                                         \
    X(X509_NAME_ENTRY_get_data)                                                                    \
    X(X509_NAME_print_ex)                                                                          \
    X(GENERAL_NAMES_free)                                                                          \
    X(OPENSSL_sk_num)                                                                              \
    X(OPENSSL_sk_value)

struct openssl {
#define X(name) __typeof__(&(name)) name;
    OPENSSL_FUNCTIONS(X)
#undef X
};

/*
 * From any thread. NULL: OpenSSL 3 is not installed, and ret_error says so. Valid until the process
 * ends.
 */
const struct openssl *openssl_load(struct err_info *ret_error);

#endif
