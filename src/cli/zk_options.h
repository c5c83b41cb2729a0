/*
 * zk_options - the options of every command that speaks to an ensemble with TLS.
 */
#ifndef CLI_ZK_OPTIONS_H
#define CLI_ZK_OPTIONS_H

#include "base/option.h"
#include "keeper/zookeeper/zookeeper.h"

/* tls: a struct zookeeper_tls. Further initializers of the rows follow: .flags = 0. */
#define ZK_TLS_OPTIONS(tls, ...)                                                                   \
    {"zk-ca",                                                                                      \
     "FILE",                                                                                       \
     "For zks://: accept servers whose certificate these authorities (PEM) have signed.\n"         \
     "Default: those of the system.",                                                              \
     option_text,                                                                                  \
     &(tls).ca,                                                                                    \
     __VA_ARGS__},                                                                                 \
        {"zk-cert",   "FILE",      "For zks://: show this certificate (PEM) to the servers.",      \
         option_text, &(tls).cert, __VA_ARGS__},                                                   \
    {                                                                                              \
        "zk-key", "FILE",                                                                          \
            "Its key, in PEM, without a password. Default: it is in the file of the certificate.", \
            option_text, &(tls).key, __VA_ARGS__                                                   \
    }

/* The first of the options that was given, without its dashes; NULL: none was. */
static inline const char *zk_option_given(const char *auth, const struct zookeeper_tls *tls)
{
    return auth        ? "zk-auth"
           : tls->ca   ? "zk-ca"
           : tls->cert ? "zk-cert"
           : tls->key  ? "zk-key"
                       : NULL;
}

#endif
