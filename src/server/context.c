/*
 * The embedded keeper's session exists from open to close, so borrowing it takes no counting; that
 * of an ensemble counts its borrowers itself.
 */
#include "server/context.h"

#include <assert.h>

#include "base/uv_check.h"
#include "server/zookeeper_session.h"

static void on_keeper_wake(void *arg)
{
    struct context *h = arg;
    uv_async_send(&h->wake);
}

static void on_wake(uv_async_t *wake)
{
    struct context *h = wake->data;
    if (h->keeper)
        keeper_dispatch(h->keeper);
}

static void on_session(void *arg, struct keeper *k)
{
    struct context *h = arg;
    for (size_t i = 0; i < h->listener_count; i++)
        h->listeners[i].fn(h->listeners[i].arg, k);
}

int context_connect(struct context *h, void (*wake)(void *arg), void *arg,
                    struct keeper **ret_keeper, struct err_info *ret_error)
{
    struct keeper_options o = {.wake = wake, .wake_arg = arg};
    int err = h->local ? local_connect(h->local, &o, ret_keeper) : 0;
    return err ? err_set(ret_error, err, "cannot open a session: %s", drover_err_message(err)) : 0;
}

int context_open(struct context *h, uv_loop_t *loop, struct local *local,
                 struct zookeeper_session *ensemble, struct err_info *ret_error)
{
    h->local = local;
    h->ensemble = ensemble;
    UV_CHECK(uv_async_init(loop, &h->wake, on_wake));
    h->wake.data = h;
    int err = context_connect(h, on_keeper_wake, h, &h->keeper, ret_error);
    if (err) {
        uv_close((uv_handle_t *)&h->wake, NULL);
        return err;
    }
    if (ensemble)
        zookeeper_session_listen(ensemble, on_session, h);
    h->loop = loop;
    http_topic_init(&h->topic);
    h->events = events_new(loop);
    return 0;
}

void context_close(struct context *h)
{
    events_free(h->events);
    http_topic_release(&h->topic);
    if (h->keeper)
        keeper_close(h->keeper);
    h->keeper = NULL;
    uv_close((uv_handle_t *)&h->wake, NULL);
}

struct keeper *context_keeper(struct context *h)
{
    return h->ensemble ? zookeeper_session_borrow(h->ensemble) : h->keeper;
}

void context_return(struct context *h, struct keeper *k)
{
    if (h->ensemble)
        zookeeper_session_return(h->ensemble, k);
}

void context_listen(struct context *h, context_session_fn *fn, void *arg)
{
    assert(h->listener_count < CONTEXT_LISTENERS_MAX);
    h->listeners[h->listener_count++] = (struct context_listener){fn, arg};
}
