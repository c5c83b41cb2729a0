/*
 * Files are looked at by name every few seconds: what a renewal does to them (a new file, a link to
 * another directory, two files one after the other) is all the same then. A certificate whose key
 * is yet to come is refused, and tried again with the next change.
 */
#include "server/certificate.h"

#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/uv_check.h"

enum { LOOK_MS = 2000, SOON_S = 14 * 24 * 3600 };

static void warn(const struct tls_options *o, const struct tls_context *tls)
{
    time_t expires = (time_t)tls_context_expires(tls);
    int64_t left = expires - clock_wall_ms() / 1000;
    char when[64];
    struct tm utc;
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&expires, &utc));
    if (left < SOON_S)
        log_warning("the certificate %s %s on %s", o->cert, left > 0 ? "expires" : "has expired",
                    when);
    if (secret_is_exposed(o->key))
        log_warning("every user of this machine can read %s: chmod o-r", o->key);
}

int certificate_open(struct certificate *c, const struct tls_options *o, struct err_info *ret_error)
{
    TRY(tls_context_open(o, &c->tls, ret_error));
    c->options = *o;
    warn(o, c->tls);
    return 0;
}

static void say_loaded(void *arg)
{
    const struct certificate *c = arg;
    log_info("certificate %s loaded again", c->options.cert);
    warn(&c->options, c->tls);
}

static void on_timer(uv_timer_t *timer)
{
    struct certificate *c = timer->data;
    struct err_info e;
    if (!tls_context_is_stale(c->tls))
        return;
    if (tls_context_reload(c->tls, &e))
        log_error("the old certificate stays in use: %s", e.text);
    else
        say_loaded(c);
}

/* The last hook: nothing fails after it, so it may change what is in use at once. */
static int load_again(void *arg, const struct reload *r, struct err_info *ret_error)
{
    struct certificate *c = arg;
    (void)r;
    return tls_context_reload(c->tls, ret_error);
}

void certificate_watch(struct certificate *c, uv_loop_t *loop, struct reload *r)
{
    if (!c->tls)
        return;
    UV_CHECK(uv_timer_init(loop, &c->timer));
    c->timer.data = c;
    reload_add(r, (struct reload_hook){load_again, say_loaded, NULL, c});
    UV_CHECK(uv_timer_start(&c->timer, on_timer, LOOK_MS, LOOK_MS));
    uv_unref((uv_handle_t *)&c->timer);
    c->watched = true;
}

void certificate_unwatch(struct certificate *c)
{
    if (!c->watched)
        return;
    c->watched = false;
    uv_close((uv_handle_t *)&c->timer, NULL);
}

void certificate_close(struct certificate *c)
{
    tls_context_close(c->tls);
    c->tls = NULL;
}
