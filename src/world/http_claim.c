/* Calls on a world over HTTP; claims and their ends. */
#include "server/sessions.h"
#include "world/http.h"

static const char UNREACHABLE[] = "the keeper is unreachable: try again";

bool world_call_begin(struct world_call *c, struct http_request *r, struct str world,
                      struct str session)
{
    struct world_module *m = r->arg;

    *c = (struct world_call){.r = r, .module = m, .own = session.p};
    int err = world_registry_get(m->registry, world, &c->world, &c->e);
    if (err) {
        http_reply_err(r, err, c->e.text[0] ? c->e.text : NULL);
        return false;
    }
    if (c->own)
        c->k = session_of_request(m->context, r, session);
    else if (!(c->k = context_keeper(m->context)))
        http_reply_err(r, DROVER_CLOSED, UNREACHABLE);
    if (!c->k)
        world_registry_put(m->registry, c->world);
    return c->k != NULL;
}

/* Before the answer, so that the session is free for the client's next request. */
void world_call_end(struct world_call *c)
{
    if (c->own)
        sessions_done(c->module->context->sessions, c->k);
    else
        context_return(c->module->context, c->k);
    world_registry_put(c->module->registry, c->world);
}

void world_call_answer(struct world_call *c, int err)
{
    world_call_end(c);
    if (err == DROVER_SESSION_EXPIRED && !c->own) /* the server's: it will open another */
        err = err_set(&c->e, DROVER_CLOSED, UNREACHABLE);
    if (err)
        http_reply_err(c->r, err, c->e.text[0] ? c->e.text : NULL);
    else
        http_reply(c->r, 200, buf_str(&c->out));
    buf_release(&c->out);
}

/* The data of a task is JSON, unless another client wrote it: then it is shown as text. */
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
    json_member_text(b, "name", r->name);
    json_member_text(b, "type", r->type);
    json_member_text(b, "path", r->path);
    json_member_text(b, "parent", r->parent);
    if (r->failures) {
        json_member_int(b, "failures", r->failures);
        json_member_text(b, "error", r->error);
    }
}

/* Claims. */

static void put_claim(struct world_call *c, const struct world_claim *claim)
{
    json_open(&c->out, '{');
    json_member_text(&c->out, "node", claim->key);
    json_member_open(&c->out, "task", '{');
    world_put_record(&c->out, &claim->record);
    world_put_data(c, claim->data);
    json_close(&c->out, '}');
    json_close(&c->out, '}');
}

static struct http_watch watch(struct world_module *m, struct http_request *r,
                               const struct world_claim_in *in)
{
    uint64_t *keys = arena_alloc(&r->arena, (in->type_count + 1) * sizeof *keys);

    for (size_t i = 0; i < in->type_count; i++)
        keys[i] = world_type_key(in->world, in->types[i]);
    keys[in->type_count] = world_list_key(in->world);
    return session_watch(m->context, r, in->session, keys, in->type_count + 1);
}

/* Only the first and the last run of a waiting claim insist on an exact refresh of the list. */
void world_post_claim(struct http_request *r)
{
    const struct world_claim_in *in = r->in;
    struct world_module *m = r->arg;
    struct http_watch w = watch(m, r, in);
    bool look = !http_was_parked(r) || http_wait_over(r);
    struct world_claim claim;
    struct world_call c;

    if (!world_call_begin(&c, r, in->world, in->session))
        return;
    int err = world_claim(c.world, c.k, &r->arena, in->types, in->type_count, look, &claim, &c.e);
    if (err) {
        if (err == 1)
            put_claim(&c, &claim);
        world_call_answer(&c, err == 1 ? 0 : err);
        return;
    }
    world_call_end(&c);
    if (!session_park(m->context, r, in->session, &w, in->wait_ms))
        http_reply(r, 200, STR("{\"node\":null}"));
}

static void end_answer(struct world_call *c, int err, struct str node, bool pending)
{
    if (!err) {
        json_open(&c->out, '{');
        json_member_text(&c->out, "node", node);
        json_member_text(&c->out, "state", str_of(pending ? "pending" : "completed"));
        json_close(&c->out, '}');
    }
    world_call_answer(c, err);
}

void world_post_complete(struct http_request *r)
{
    const struct world_end_in *in = r->in;
    struct world_call c;
    bool again = false;

    if (!world_call_begin(&c, r, in->world, in->session))
        return;
    int err = world_complete(c.world, c.k, in->node, &again, &c.e);
    end_answer(&c, err, in->node, again);
}

void world_post_release(struct http_request *r)
{
    const struct world_end_in *in = r->in;
    struct world_call c;

    if (world_call_begin(&c, r, in->world, in->session))
        end_answer(&c, world_release(c.world, c.k, in->node, &c.e), in->node, true);
}

void world_post_fail(struct http_request *r)
{
    const struct world_end_in *in = r->in;
    struct str error = in->error.p ? in->error : STR("");
    struct world_call c;

    if (world_call_begin(&c, r, in->world, in->session))
        end_answer(&c, world_fail(c.world, c.k, in->node, error, &c.e), in->node, true);
}
