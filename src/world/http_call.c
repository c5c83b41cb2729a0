/* What the handlers of worlds over HTTP have in common. */
#include "world/http_call.h"

#include "server/sessions.h"
#include "server/sessions_http.h"

void world_refuse(struct http_request *r, int err, const struct err_info *e)
{
    http_reply_err(r, err, e->text[0] ? e->text : NULL);
}

const struct json *world_body(struct http_request *r, const char *const *members)
{
    const struct json *body = http_json(r);
    struct err_info e;

    if (!body)
        return NULL;
    if (body->kind != JSON_OBJECT) {
        http_reply_error(r, 400, "the body must be an object");
        return NULL;
    }
    if (json_only(body, members, &e)) {
        http_reply_error(r, 400, e.text);
        return NULL;
    }
    return body;
}

bool world_call_begin(struct world_call *c, struct http_request *r, struct str session)
{
    struct world_module *worlds = r->arg;
    struct str name;
    int err;

    *c = (struct world_call){.r = r, .worlds = worlds, .own = session.p};
    if (!http_decode(r, r->params[0], &name))
        return false;
    err = world_registry_get(worlds->registry, name, &c->world, &c->e);
    if (err) {
        world_refuse(r, err, &c->e);
        return false;
    }
    if (c->own)
        c->k = session_of_request(worlds->context, r, session);
    else if (!(c->k = context_keeper(worlds->context)))
        http_reply_err(r, DROVER_CLOSED, "the keeper is unreachable: try again");
    if (!c->k)
        world_registry_put(worlds->registry, c->world);
    return c->k != NULL;
}

/*
 * Gives back what was borrowed; before the answer, so that a client's next request finds it free.
 */
void world_call_end(struct world_call *c)
{
    if (c->own)
        sessions_done(c->worlds->context->sessions, c->k);
    else
        context_return(c->worlds->context, c->k);
    world_registry_put(c->worlds->registry, c->world);
}

void world_call_answer(struct world_call *c, int err)
{
    world_call_end(c);
    if (err == DROVER_SESSION_EXPIRED && !c->own) /* the server's, which will have another */
        err = err_set(&c->e, DROVER_CLOSED, "the keeper is unreachable: try again");
    if (err)
        world_refuse(c->r, err, &c->e);
    else
        http_reply(c->r, 200, (struct str){c->out.p, c->out.len});
    buf_release(&c->out);
}

void world_put_text(struct buf *b, const char *key, struct str text)
{
    json_key(b, key);
    if (text.p)
        json_put_text(b, text);
    else
        json_put_null(b);
}

/* Data of a task is JSON, unless a foreign hand wrote it: then it is shown as text. */
void world_put_data(struct world_call *c, struct str data)
{
    json_key(&c->out, "data");
    if (json_parse(&c->r->arena, data, NULL))
        json_put_raw(&c->out, data);
    else
        json_put_text(&c->out, data);
}

void world_put_record(struct buf *b, const struct world_record *r)
{
    world_put_text(b, "name", r->name);
    world_put_text(b, "type", r->type);
    world_put_text(b, "path", r->path);
    world_put_text(b, "parent", r->parent);
    if (r->failures) {
        json_key(b, "failures");
        json_put_int(b, r->failures);
        world_put_text(b, "error", r->error);
    }
}

int world_read_text(const struct json *v, const char *member, struct str *ret, struct err_info *e)
{
    int found = json_get_text(v, member, ret, e);

    return found == 0  ? err_set(e, DROVER_BAD_ARGUMENT, "%s is missing", member)
           : found < 0 ? found
                       : 0;
}
