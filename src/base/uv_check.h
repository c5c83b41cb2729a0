/*
 * uv_check - libuv calls that fail only when the system is out of memory or descriptors.
 *
 *     UV_CHECK(uv_timer_init(loop, &c->timer));
 */
#ifndef BASE_UV_CHECK_H
#define BASE_UV_CHECK_H

#include <uv.h>

#include "base/err.h"
#include "base/mem.h"

/* Ends the process, with libuv's words on stderr, when the call fails. */
#define UV_CHECK(call) uv_check((call), #call)

static inline void uv_check(int err, const char *call)
{
    if (err)
        err_fatal("%s: %s", call, uv_strerror(err));
}

/* libuv's own, small numbers. */
static inline void *uv_checked_calloc(size_t count, size_t size)
{
    return mem_zalloc(count * size);
}

/* From now on libuv ends the process as we do when there is no memory, and not without a word. */
static inline void uv_use_checked_memory(void)
{
    UV_CHECK(uv_replace_allocator(mem_alloc, mem_realloc, uv_checked_calloc, free));
}

#endif
