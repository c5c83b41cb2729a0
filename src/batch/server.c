#include "batch/server.h"

#include "base/thread.h"
#include "server/sessions.h"
#include "server/sessions_http.h"

int batch_server_ready(struct batch_server *h, struct batch_call *c)
{
    int err = 0;

    LOCKED(&h->lock);
    if (!h->ready) {
        err = batch_store_init(c);
        h->ready = !err;
    }
    return err;
}

uint64_t batch_list_key(const struct batch_view *v)
{
    return http_key("batch-list", str_of(v->dir), (struct str){0});
}

/* The kind of items by the path: /v1/batches, /v1/jobs, /v1/access. */
static enum batch_kind_id kind_of(const struct http_request *r)
{
    char first = r->head.path.p[sizeof "/v1/" - 1];
    const struct batch_in *in = r->in;

    return first == 'b'   ? BATCH_KIND_BATCH
           : first == 'j' ? BATCH_KIND_JOB
                          : BATCH_KIND_SMALL + (unsigned)in->queue;
}

bool batch_request_open(struct batch_request *d, struct http_request *r)
{
    struct batch_server *h = r->arg;

    *d = (struct batch_request){.server = h, .r = r, .in = r->in, .kind = kind_of(r)};
    d->keeper = d->in->session.p ? session_of_request(h->context, r, d->in->session)
                                 : context_keeper(h->context);
    if (!d->keeper) {
        if (!d->in->session.p)
            http_reply_error(r, 503, "the keeper is away: try again");
        return false;
    }
    d->call = (struct batch_call){h->store, d->keeper, &r->arena, &d->why};
    if (batch_server_ready(h, &d->call)) {
        batch_request_close(d, DROVER_CLOSED);
        return false;
    }
    return true;
}

void batch_request_leave(struct batch_request *d)
{
    if (d->in->session.p)
        sessions_done(d->server->context->sessions, d->keeper);
    else
        context_return(d->server->context, d->keeper);
}

void batch_request_close(struct batch_request *d, int err)
{
    batch_request_leave(d);
    if (err < 0)
        http_reply_err(d->r, err, d->why.text);
    else
        http_reply(d->r, 200, d->out.len ? buf_str(&d->out) : STR("{}"));
    buf_release(&d->out);
}

void batch_request_run(struct http_request *r, int (*answer)(struct batch_request *d))
{
    struct batch_request d;

    if (batch_request_open(&d, r))
        batch_request_close(&d, answer(&d));
}

void batch_request_open_list(struct batch_request *d, const char *key)
{
    json_open(&d->out, '{');
    json_member_open(&d->out, key, '[');
}

int batch_request_close_list(struct batch_request *d, int err)
{
    json_close(&d->out, ']');
    json_close(&d->out, '}');
    return err;
}
