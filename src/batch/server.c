#include "batch/server.h"

#include "server/sessions.h"
#include "server/sessions_http.h"

int batch_server_ready(struct batch_server *h, struct batch_call *c)
{
    int err = 0;

    pthread_mutex_lock(&h->lock);
    if (!h->ready) {
        err = batch_store_init(c);
        h->ready = !err;
    }
    pthread_mutex_unlock(&h->lock);
    return err;
}

bool batch_request_refuse(struct http_request *r, const struct err_info *why)
{
    http_reply_error(r, 400, why->text);
    return false;
}

bool batch_request_int(struct http_request *r, const struct json *v, const char *name, int64_t *ret)
{
    struct err_info why;

    return json_get_int(v, name, ret, &why) >= 0 || batch_request_refuse(r, &why);
}

bool batch_request_text(struct http_request *r, const struct json *v, const char *name,
                        struct str *ret)
{
    struct err_info why;

    return json_get_text(v, name, ret, &why) >= 0 || batch_request_refuse(r, &why);
}

bool batch_request_bool(struct http_request *r, const struct json *v, const char *name, bool *ret)
{
    struct err_info why;

    return json_get_bool(v, name, ret, &why) >= 0 || batch_request_refuse(r, &why);
}

const struct json *batch_request_body(struct http_request *r, const char *const *members)
{
    const struct json *v = http_json(r);
    struct err_info why;

    if (!v)
        return NULL;
    if (v->kind != JSON_OBJECT) {
        http_reply_error(r, 400, "the body must be an object");
        return NULL;
    }
    if (json_only(v, members, &why) < 0) {
        batch_request_refuse(r, &why);
        return NULL;
    }
    return v;
}

static bool open_request(struct batch_request *d, struct http_request *r, struct str session)
{
    *d = (struct batch_request){.server = r->arg, .r = r, .of_session = session.p != NULL};
    d->keeper = d->of_session ? session_of_request(d->server->context, r, session)
                              : context_keeper(d->server->context);
    if (!d->keeper) {
        if (!d->of_session)
            http_reply_error(r, 503, "the keeper is away: try again");
        return false;
    }
    d->call = (struct batch_call){d->server->store, d->keeper, &r->arena, &d->why};
    if (batch_server_ready(d->server, &d->call)) {
        batch_request_close(d, DROVER_CLOSED);
        return false;
    }
    return true;
}

bool batch_request_open(struct batch_request *d, struct http_request *r, const struct json *body)
{
    struct str session = {0};

    if (!batch_request_text(r, body, "session", &session))
        return false;
    return open_request(d, r, session);
}

bool batch_request_open_session(struct batch_request *d, struct http_request *r,
                                const struct json *body)
{
    struct str session = {0};

    if (!batch_request_text(r, body, "session", &session))
        return false;
    if (!session.p) {
        http_reply_error(r, 400, "'session' is missing: open one with POST /v1/sessions");
        return false;
    }
    return open_request(d, r, session);
}

void batch_request_leave(struct batch_request *d)
{
    if (d->of_session)
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
        http_reply(d->r, 200, (struct str){d->out.p, d->out.len});
    buf_release(&d->out);
}

int64_t batch_request_wait_ms(struct batch_server *h, const struct json *body)
{
    struct session_info info;
    struct str session = {0};
    int64_t wait_ms = 0;

    json_get_int(body, "wait", &wait_ms, NULL);
    json_get_text(body, "session", &session, NULL);
    if (wait_ms > BATCH_WAIT_MAX_MS)
        wait_ms = BATCH_WAIT_MAX_MS;
    if (session.p && sessions_get(h->context->sessions, session, &info) == 0 &&
        wait_ms > info.timeout_ms * 2 / 3)
        wait_ms = info.timeout_ms * 2 / 3;
    return wait_ms;
}
