/*
 * curl - libcurl, loaded when it is first used.
 *
 * Debian's libcurl brings thirty other libraries along, which take more than four megabytes in every process
 * that is linked with it. A server never needs them (unless it has a web hook), nor does a program that
 * uses the library in process. So nothing is linked with it: the functions that we use are looked up by
 * name, and called through this struct.
 *
 *     const struct curl *c = curl_load(&e);
 *     CURL *easy = c->curl_easy_init();
 */
#ifndef HTTP_CURL_H
#define HTTP_CURL_H

/* The checks are macros that know only the plain functions. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/err.h"

#define CURL_FUNCTIONS(X)                                                                          \
    X(curl_global_init)                                                                            \
    X(curl_easy_init)                                                                              \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_perform)                                                                           \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_strerror)                                                                          \
    X(curl_easy_cleanup)                                                                           \
    X(curl_multi_init)                                                                             \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_multi_perform)                                                                          \
    X(curl_multi_poll)                                                                             \
    X(curl_multi_info_read)                                                                        \
    X(curl_multi_cleanup)                                                                          \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)

struct curl {
#define X(name) __typeof__(&(name)) name;
    CURL_FUNCTIONS(X)
#undef X
};

/* Safe from any thread. NULL: it is not installed, and ret_error says so. What it gives is for ever. */
const struct curl *curl_load(struct err_info *ret_error);

#endif
