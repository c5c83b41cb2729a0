/* What batches, jobs and access items have in common over HTTP. */
#include "batch/batch.h"
#include "batch/server.h"

static enum batch_kind_id kind_of(const struct http_request *r)
{
    char first = r->head.path.p[sizeof "/v1/" - 1];

    return first == 'b' ? BATCH_KIND_BATCH : first == 'j' ? BATCH_KIND_JOB : BATCH_KIND_SMALL;
}

/* Opens a request for items of a kind; the queue of access items is the first part of the path. */
static bool open_kind(struct batch_request *d, struct http_request *r, const struct json *body,
                      bool session, enum batch_kind_id *ret_kind)
{
    struct str queue;
    int err = 0;

    *ret_kind = kind_of(r);
    if ((*ret_kind == BATCH_KIND_SMALL && !http_decode(r, r->params[0], &queue)) ||
        (session ? !batch_request_open_session(d, r, body) : !batch_request_open(d, r, body)))
        return false;
    if (*ret_kind == BATCH_KIND_SMALL)
        err = batch_access_kind(&d->call, queue, ret_kind);
    if (err)
        batch_request_close(d, err);
    return !err;
}

static bool read_id(struct http_request *r, struct str *ret_id)
{
    return http_decode(r, r->params[kind_of(r) == BATCH_KIND_SMALL], ret_id);
}

/* {"KEY": item}, and the token if it is not 0. */
static int put_item(struct batch_request *d, enum batch_kind_id kind, struct str id, int64_t token)
{
    struct batch_item item;
    int err = batch_item_get(&d->call, kind, id, &item);

    if (err)
        return err;
    json_open(&d->out, '{');
    json_key(&d->out, item.kind->key);
    batch_format_item(&d->out, &d->call, &item);
    if (token) {
        json_key(&d->out, "token");
        json_put_int(&d->out, token);
    }
    json_close(&d->out, '}');
    return 0;
}

int batch_request_put_item(struct batch_request *d, enum batch_kind_id kind, struct str id)
{
    return put_item(d, kind, id, 0);
}

/* GET /v1/batches?uuid= is a list of one. */
static int find_batch(struct batch_request *d, struct str uuid, struct batch_item *ret_batch)
{
    char bid[BATCH_ID_LEN + 1];
    int err = batch_find(&d->call, uuid, bid);

    return err ? err : batch_item_get(&d->call, BATCH_KIND_BATCH, str_of(bid), ret_batch);
}

static int read_filter(struct batch_request *d, enum batch_kind_id kind, struct batch_filter *f)
{
    struct http_request *r = d->r;
    struct str name = {0}, after = {0};

    if (http_query(r, "state", &name)) {
        f->state = batch_machine_named(d->call.store->kinds[kind].machine, name, &d->why);
        if (f->state < 0)
            return f->state;
    }
    http_query(r, "batch", &f->bid);
    http_query(r, "profile", &f->profile);
    if (kind == BATCH_KIND_BATCH && http_query(r, "after", &after)) {
        f->from = batch_id_number(BATCH_ID_BATCH, after) + 1;
        if (!f->from)
            return err_set(&d->why, DROVER_BAD_ARGUMENT, "'after' is not a batch");
    }
    return 0;
}

void list_items(struct http_request *r)
{
    struct batch_filter f = {.state = BATCH_NO_STATE};
    int64_t start = 0, limit = BATCH_LIST_DEFAULT;
    struct batch_item found, *items = &found;
    enum batch_kind_id kind;
    struct batch_request d;
    struct str uuid = {0};
    size_t count = 1;
    int err;

    if (http_query_number(r, "start", &start) < 0 || http_query_number(r, "limit", &limit) < 0 ||
        !open_kind(&d, r, NULL, false, &kind))
        return;
    f.start = (size_t)start;
    f.limit = (size_t)(limit > BATCH_LIST_MAX ? BATCH_LIST_MAX : limit);
    if (kind >= BATCH_KIND_SMALL)
        f.limit = SIZE_MAX;
    err = read_filter(&d, kind, &f);
    if (!err && kind == BATCH_KIND_BATCH && http_query(r, "uuid", &uuid))
        err = find_batch(&d, uuid, &found);
    else if (!err)
        err = batch_item_list(&d.call, kind, &f, &items, &count);
    json_open(&d.out, '{');
    json_key(&d.out, d.call.store->kinds[kind].plural);
    json_open(&d.out, '[');
    for (size_t i = 0; i < count && !err; i++)
        batch_format_item(&d.out, &d.call, &items[i]);
    json_close(&d.out, ']');
    json_close(&d.out, '}');
    batch_request_close(&d, err);
}

void get_item(struct http_request *r)
{
    enum batch_kind_id kind;
    struct batch_request d;
    struct str id;

    if (read_id(r, &id) && open_kind(&d, r, NULL, false, &kind))
        batch_request_close(&d, put_item(&d, kind, id, 0));
}

void delete_item(struct http_request *r)
{
    enum batch_kind_id kind;
    struct batch_request d;
    struct str id;

    if (!read_id(r, &id) || !open_kind(&d, r, NULL, false, &kind))
        return;
    buf_printf(&d.out, "{}");
    batch_request_close(&d, batch_item_delete(&d.call, kind, id));
}

void batch_request_move(struct batch_request *d, enum batch_kind_id kind, struct str id,
                        const struct batch_move *m)
{
    const struct batch_kind *k = &d->call.store->kinds[kind];
    int state, err = batch_item_move(&d->call, kind, id, m, &state);

    if (!err) {
        json_open(&d->out, '{');
        json_key(&d->out, k->key);
        json_put_text(&d->out, id);
        json_key(&d->out, "state");
        json_put_text(&d->out, str_of(k->machine->states[state].name));
        json_close(&d->out, '}');
    }
    batch_request_close(d, err);
}

void put_item_state(struct http_request *r)
{
    static const char *const MEMBERS[][7] = {
        [BATCH_KIND_BATCH] = {"state", "message", "token", "session", "keep"},
        [BATCH_KIND_JOB] = {"state", "message", "token", "session", "keep", "priority"},
        [BATCH_KIND_SMALL] = {"state", "message", "token", "session"},
    };
    const struct json *body = batch_request_body(r, MEMBERS[kind_of(r)]);
    struct batch_move m = {.priority = -1};
    enum batch_kind_id kind;
    struct batch_request d;
    struct str id;

    if (!body || !read_id(r, &id) || !batch_request_text(r, body, "state", &m.state) ||
        !batch_request_text(r, body, "message", &m.message) ||
        !batch_request_int(r, body, "token", &m.token) ||
        !batch_request_int(r, body, "priority", &m.priority) ||
        !batch_request_bool(r, body, "keep", &m.keep))
        return;
    if (!m.state.p) {
        http_reply_error(r, 400, "'state' is missing");
        return;
    }
    if (json_get(body, "priority") && m.priority == -1)
        m.priority = -2; /* was given, and is not valid */
    if (open_kind(&d, r, body, false, &kind))
        batch_request_move(&d, kind, id, &m);
}

/* The state that is acquired from; batches take "update-reporting" too. */
static int acquired_state(struct batch_request *d, enum batch_kind_id kind, struct str name)
{
    const struct batch_machine *m = d->call.store->kinds[kind].machine;
    int state;

    if (kind == BATCH_KIND_JOB)
        return batch_machine_named(m, name, &d->why);
    if (str_eq(name, STR("update-reporting")))
        name = STR("UpdateReporting");
    state = name.p ? batch_machine_find(m, name) : d->call.store->batch.pending;
    return state >= 0 ? state
                      : err_set(&d->why, DROVER_BAD_ARGUMENT,
                                "a batch is acquired for pending, reporting or updatereporting");
}

void acquire_item(struct http_request *r)
{
    static const char *const MEMBERS[][4] = {
        [BATCH_KIND_BATCH] = {"session", "wait", "for"},
        [BATCH_KIND_JOB] = {"session", "wait", "state"},
        [BATCH_KIND_SMALL] = {"session", "wait"},
    };
    const struct json *body = batch_request_body(r, MEMBERS[kind_of(r)]);
    struct batch_server *h = r->arg;
    uint64_t seen = http_topic_seen(&h->topic);
    struct batch_item item = {.id = ""};
    enum batch_kind_id kind;
    struct batch_request d;
    struct str name = {0};
    int64_t wait_ms;
    int got;

    if (!body || !batch_request_text(r, body, "for", &name) ||
        !batch_request_text(r, body, "state", &name) ||
        !batch_request_int(r, body, "wait", &wait_ms))
        return;
    if (kind_of(r) == BATCH_KIND_JOB && !name.p) {
        http_reply_error(r, 400, "'state' is missing");
        return;
    }
    if (!open_kind(&d, r, body, true, &kind))
        return;
    got = kind >= BATCH_KIND_SMALL ? BATCH_NO_STATE : acquired_state(&d, kind, name);
    if (got >= 0 || kind >= BATCH_KIND_SMALL)
        got = batch_item_acquire(&d.call, kind, got, &item);
    if (got == 0) {
        wait_ms = batch_request_wait_ms(h, body);
        batch_request_leave(&d);
        if (wait_ms <= 0 || !http_wait(r, &h->topic, seen, wait_ms)) {
            buf_printf(&d.out, "{\"%s\":null}", h->store->kinds[kind].key);
            http_reply(r, 200, (struct str){d.out.p, d.out.len});
            buf_release(&d.out);
        }
        return;
    }
    batch_request_close(&d, got < 0 ? got : put_item(&d, kind, str_of(item.id), item.token));
}
