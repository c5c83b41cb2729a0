/*
 * uv_check - libuv calls that fail only when the system is out of memory or descriptors.
 *
 *     UV_CHECK(uv_timer_init(loop, &c->timer));
 */
#ifndef BASE_UV_CHECK_H
#define BASE_UV_CHECK_H

#include <uv.h>

#include "base/err.h"

/* Ends the process, with libuv's words on stderr, when the call fails. */
#define UV_CHECK(call) uv_check((call), #call)

static inline void uv_check(int err, const char *call)
{
    if (err)
        err_fatal("%s: %s", call, uv_strerror(err));
}

#endif
