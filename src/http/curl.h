/*
 * curl - libcurl, loaded when it is first used.
 *
 * Debian's libcurl depends on thirty other libraries, which take more than 4 MiB in every process
 * that is linked with it. A server needs them only for a web hook, and a program that uses the
 * store in process not at all. So nothing is linked with libcurl: its functions are looked up by
 * name and called through this struct.
 *
 *     const struct curl *c = curl_load(&e);
 *     CURL *easy = c->curl_easy_init();
 */
#ifndef HTTP_CURL_H
#define HTTP_CURL_H

/* curl's type checks are macros that work with the plain functions only. */
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

/*
 * From any thread. NULL: libcurl is not installed, and ret_error says so. Valid until the process
 * ends.
 */
const struct curl *curl_load(struct err_info *ret_error);

#endif
