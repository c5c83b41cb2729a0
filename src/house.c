/*
 * The embedded keeper's session is there from open to close, so borrowing it is nothing; an ensemble
 * counts its borrowers itself.
 */
#include "house.h"

#include <assert.h>

#include "ensemble.h"

static void on_keeper_wake(void *arg)
{
    struct house *h = arg;

    uv_async_send(&h->wake);
}

static void on_wake(uv_async_t *wake)
{
    struct house *h = wake->data;

    if (h->keeper)
        keeper_dispatch(h->keeper);
}

static void on_session(void *arg, struct keeper *k)
{
    struct house *h = arg;

    for (size_t i = 0; i < h->listener_count; i++)
        h->listeners[i].fn(h->listeners[i].arg, k);
}

int house_open(struct house *h, uv_loop_t *loop, struct local *local, struct ensemble *ensemble,
               struct err_info *ret_error)
{
    struct keeper_options o = {.wake = on_keeper_wake, .wake_arg = h};
    int err = 0;

    h->loop = loop;
    h->local = local;
    h->ensemble = ensemble;
    uv_async_init(loop, &h->wake, on_wake);
    h->wake.data = h;
    if (ensemble)
        ensemble_listen(ensemble, on_session, h);
    else
        err = local_connect(local, &o, &h->keeper);
    if (err) {
        uv_close((uv_handle_t *)&h->wake, NULL);
        h->loop = NULL;
        return err_set(ret_error, err, "cannot open a session: %s", drover_err_message(err));
    }
    h->events = events_new(loop);
    return 0;
}

void house_close(struct house *h)
{
    events_free(h->events);
    if (h->keeper)
        keeper_close(h->keeper);
    h->keeper = NULL;
    uv_close((uv_handle_t *)&h->wake, NULL);
}

struct keeper *house_keeper(struct house *h)
{
    return h->ensemble ? ensemble_borrow(h->ensemble) : h->keeper;
}

void house_return(struct house *h, struct keeper *k)
{
    if (h->ensemble)
        ensemble_return(h->ensemble, k);
}

void house_listen(struct house *h, house_session_fn *fn, void *arg)
{
    assert(h->listener_count < HOUSE_LISTENERS_MAX);
    h->listeners[h->listener_count++] = (struct house_listener){fn, arg};
}
