/* Claims over HTTP, and their ends. */
#include "world/http_call.h"

enum { WAIT_MAX_MS = 3600 * 1000 };

struct claim_request {
    struct str types[WORLD_TYPES_MAX];
    size_t type_count;
    struct str session;
    int64_t wait_ms;
};

static int read_types(const struct json *list, struct claim_request *q, struct err_info *e)
{
    json_each(type, list) {
        if (type->kind != JSON_TEXT)
            return err_set(e, DROVER_BAD_ARGUMENT, "types must be a list of strings");
        if (q->type_count == WORLD_TYPES_MAX)
            return err_set(e, DROVER_BAD_ARGUMENT, "at most %d types", WORLD_TYPES_MAX);
        q->types[q->type_count++] = type->text;
    }
    return 0;
}

static int read_claim_request(const struct json *body, struct claim_request *q, struct err_info *e)
{
    const struct json *types;
    int err = json_get_list(body, "types", &types, e);

    if (err == 0)
        return err_set(e, DROVER_BAD_ARGUMENT, "types is missing");
    if (err < 0 || (err = read_types(types, q, e)) ||
        (err = world_read_text(body, "session", &q->session, e)))
        return err;
    err = json_get_int(body, "wait", &q->wait_ms, e);
    if (err < 0)
        return err;
    if (q->wait_ms < 0 || q->wait_ms > WAIT_MAX_MS)
        return err_set(e, DROVER_BAD_ARGUMENT, "wait must be from 0 to %d ms", WAIT_MAX_MS);
    return 0;
}

static void put_claim(struct world_call *c, const struct world_claim *claim)
{
    json_open(&c->out, '{');
    world_put_text(&c->out, "node", claim->key);
    json_key(&c->out, "task");
    json_open(&c->out, '{');
    world_put_record(&c->out, &claim->record);
    world_put_data(c, claim->data);
    json_close(&c->out, '}');
    json_close(&c->out, '}');
}

/*
 * A claim that waits is run again whenever something has changed, and now and then without: using
 * the session is its sign of life. Then it goes by what is known; the first time, and the last, it
 * looks.
 */
void world_post_claim(struct http_request *r)
{
    static const char *const members[] = {"types", "session", "wait", NULL};
    struct world_module *worlds = r->arg;
    struct http_topic *topic = world_registry_topic(worlds->registry);
    uint64_t seen = http_topic_seen(topic);
    const struct json *body = world_body(r, members);
    struct claim_request q = {0};
    struct world_claim claim;
    struct world_call c;
    struct err_info e = {""};
    bool look = !r->handler_data || http_wait_over(r);
    int err;

    if (!body)
        return;
    err = read_claim_request(body, &q, &e);
    if (err) {
        world_refuse(r, err, &e);
        return;
    }
    if (!world_call_begin(&c, r, q.session))
        return;
    err = world_claim(c.world, c.k, &r->arena, q.types, q.type_count, look, &claim, &c.e);
    if (err == 1) {
        put_claim(&c, &claim);
        world_call_answer(&c, 0);
    } else if (err) {
        world_call_answer(&c, err);
    } else {
        world_call_end(&c);
        r->handler_data = worlds;
        if (!http_wait(r, topic, seen, q.wait_ms))
            http_reply(r, 200, STR("{\"node\":null}"));
    }
}

struct end_request {
    struct str node, session, error;
};

/* Reads the body of complete, release and fail, and begins; or answers. */
static bool end_begin(struct world_call *c, struct http_request *r, bool fails,
                      struct end_request *q)
{
    static const char *const members[] = {"node", "session", "error", NULL};
    static const char *const fewer[] = {"node", "session", NULL};
    const struct json *body = world_body(r, fails ? members : fewer);
    struct err_info e = {""};
    int err;

    if (!body)
        return false;
    *q = (struct end_request){.error = STR("")};
    err = world_read_text(body, "node", &q->node, &e);
    if (!err)
        err = world_read_text(body, "session", &q->session, &e);
    if (!err && fails && json_get_text(body, "error", &q->error, &e) < 0)
        err = DROVER_BAD_ARGUMENT;
    if (err) {
        world_refuse(r, err, &e);
        return false;
    }
    return world_call_begin(c, r, q->session);
}

static void end_answer(struct world_call *c, int err, const struct end_request *q, bool pending)
{
    if (!err) {
        json_open(&c->out, '{');
        world_put_text(&c->out, "node", q->node);
        world_put_text(&c->out, "state", str_of(pending ? "pending" : "completed"));
        json_close(&c->out, '}');
    }
    world_call_answer(c, err);
}

void world_post_complete(struct http_request *r)
{
    struct end_request q;
    struct world_call c;
    bool again = false;
    int err;

    if (!end_begin(&c, r, false, &q))
        return;
    err = world_complete(c.world, c.k, q.node, &again, &c.e);
    end_answer(&c, err, &q, again);
}

void world_post_release(struct http_request *r)
{
    struct end_request q;
    struct world_call c;

    if (end_begin(&c, r, false, &q))
        end_answer(&c, world_release(c.world, c.k, q.node, &c.e), &q, true);
}

void world_post_fail(struct http_request *r)
{
    struct end_request q;
    struct world_call c;

    if (end_begin(&c, r, true, &q))
        end_answer(&c, world_fail(c.world, c.k, q.node, q.error, &c.e), &q, true);
}
