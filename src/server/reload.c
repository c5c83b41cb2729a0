#include "server/reload.h"

#include <assert.h>

#include "base/log.h"

void reload_add(struct reload *r, struct reload_hook hook)
{
    assert(r->count < RELOAD_HOOKS_MAX && hook.apply);
    r->hooks[r->count++] = hook;
}

const char *reload_text(const struct reload *r, const char *option)
{
    return r->source->text(option);
}

/* All or none: what has prepared is cancelled when a later one fails. */
static int prepare(struct reload *r, struct err_info *ret_error)
{
    int err = r->source ? r->source->read(ret_error) : 0;
    for (size_t i = 0; i < r->count && !err; i++) {
        const struct reload_hook *h = &r->hooks[i];
        if (h->prepare)
            err = h->prepare(h->arg, r, ret_error);
        while (err && i-- > 0)
            if (r->hooks[i].cancel)
                r->hooks[i].cancel(r->hooks[i].arg);
        if (err)
            break;
    }
    return err;
}

bool reload_run(struct reload *r)
{
    CLEANUP(buf_release) struct buf changed = {0};
    CLEANUP(buf_release) struct buf later = {0};
    struct err_info e;
    if (prepare(r, &e)) {
        log_event(LOG_LEVEL_ERROR, LOG_FIELDS("reload-failed", LOG_TEXT_OF("error", e.text)),
                  "reload: nothing was changed: %s", e.text);
        return false;
    }
    if (r->source)
        r->source->apply(&changed, &later);
    for (size_t i = 0; i < r->count; i++)
        r->hooks[i].apply(r->hooks[i].arg);
    log_event(LOG_LEVEL_INFO,
              LOG_FIELDS("reloaded", LOG_TEXT_OF("changed", buf_text(&changed)),
                         LOG_TEXT_OF("at_next_start", buf_text(&later))),
              "reload: %s", changed.len ? buf_text(&changed) : "no option has changed");
    if (later.len)
        log_warning("reload: %s changed: takes effect at the next start", buf_text(&later));
    return true;
}
