#include "http/transport_tls.h"

#include <stdlib.h>

#include "http/curl.h"

static const char *file_or(const char *given, const char *variable)
{
    const char *text = given ? given : getenv(variable);
    return text && *text ? text : NULL;
}

void transport_tls_set(const struct curl *curl, void *easy, const struct transport_tls *tls)
{
    const char *ca = file_or(tls ? tls->ca : NULL, "DROVER_CA");
    const char *cert = file_or(tls ? tls->cert : NULL, "DROVER_CERT");
    const char *key = file_or(tls ? tls->key : NULL, "DROVER_KEY");
    curl->curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (ca) {
        curl->curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
        curl->curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    if (cert)
        curl->curl_easy_setopt(easy, CURLOPT_SSLCERT, cert);
    if (key)
        curl->curl_easy_setopt(easy, CURLOPT_SSLKEY, key);
}
