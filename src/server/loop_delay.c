/*
 * libuv notes the time when it has waited for events, before it calls anybody back (uv_now()). The
 * end of a turn is before the next wait, after timers and idle handles. It is read from the coarse
 * clock, which costs a quarter of the exact one; that one is read when the turn was long enough for
 * the coarse one to have ticked. doc/benchmarks.md has the cost.
 */
#include "server/loop_delay.h"

#include <time.h>

#include "base/uv_check.h"

enum { NS_PER_MS = 1000 * 1000 };

static uint64_t coarse_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / NS_PER_MS;
}

static void on_before(uv_prepare_t *before)
{
    struct loop_delay *d = before->data;
    uint64_t took_ms = 0;
    if (coarse_ms() > d->woke_ms)
        took_ms = uv_hrtime() / NS_PER_MS - d->woke_ms;
    histogram_add(d->turns, took_ms * NS_PER_MS);
}

static void on_after(uv_check_t *after)
{
    struct loop_delay *d = after->data;
    d->woke_ms = uv_now(after->loop);
}

void loop_delay_open(struct loop_delay *d, uv_loop_t *loop, struct metrics *m)
{
    d->turns = metrics_histogram(m, "drover_loop_delay_seconds", NULL,
                                 "How long turns of the server's loop took: events that came "
                                 "meanwhile waited.",
                                 &HISTOGRAM_LATENCY);
    UV_CHECK(uv_prepare_init(loop, &d->before));
    UV_CHECK(uv_check_init(loop, &d->after));
    d->before.data = d->after.data = d;
    d->woke_ms = uv_now(loop);
    UV_CHECK(uv_prepare_start(&d->before, on_before));
    UV_CHECK(uv_check_start(&d->after, on_after));
    uv_unref((uv_handle_t *)&d->before);
    uv_unref((uv_handle_t *)&d->after);
}

void loop_delay_close(struct loop_delay *d)
{
    uv_close((uv_handle_t *)&d->before, NULL);
    uv_close((uv_handle_t *)&d->after, NULL);
}
