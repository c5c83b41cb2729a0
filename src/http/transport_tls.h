/*
 * transport_tls - the files with which a client speaks TLS.
 */
#ifndef HTTP_TRANSPORT_TLS_H
#define HTTP_TRANSPORT_TLS_H

/*
 * For https://, in PEM. A member that is NULL: $DROVER_CA, $DROVER_CERT, $DROVER_KEY; without
 * these, the authorities of the system, no certificate, and the key in the file of the certificate.
 */
struct transport_tls {
    const char *ca; /* authorities of the server's certificate; no others count then */
    const char *cert, *key;
};

struct curl;

/* Sets the options of a handle of libcurl. tls: NULL: all defaults. */
void transport_tls_set(const struct curl *curl, void *easy, const struct transport_tls *tls);

#endif
