/* /v1/batches */
#include "batch/format.h"
#include "batch/server.h"

void post_batches(struct http_request *r)
{
    static const char *const members[] = {"submission", "session", NULL};
    const struct json *body = batch_request_body(r, members), *submission = NULL;
    char bid[BATCH_ID_LEN + 1];
    struct err_info why;
    struct batch_request d;
    int err;

    if (!body)
        return;
    if (json_get_object(body, "submission", &submission, &why) < 0) {
        batch_request_refuse(r, &why);
        return;
    }
    if (!submission) {
        http_reply_error(r, 400, "'submission' is missing");
        return;
    }
    if (!batch_request_open(&d, r, body))
        return;
    err = batch_create(&d.call, submission, bid);
    if (!err)
        buf_printf(&d.out, "{\"batch\":\"%s\"}", bid);
    batch_request_close(&d, err);
}

static void put_batches(struct batch_request *d, const struct batch *list, size_t count)
{
    json_open(&d->out, '{');
    json_key(&d->out, "batches");
    json_open(&d->out, '[');
    for (size_t i = 0; i < count; i++)
        batch_format(&d->out, &d->call, &list[i]);
    json_close(&d->out, ']');
    json_close(&d->out, '}');
}

static int list_batches(struct batch_request *d, struct str state, struct str after, int64_t limit)
{
    const struct batch_machine *m = &d->call.store->machines.batch;
    int wanted = BATCH_NO_STATE, err;
    int64_t first = -1;
    struct batch *list;
    size_t count;

    if (state.p) {
        wanted = batch_machine_named(m, state, &d->why);
        if (wanted < 0)
            return wanted;
    }
    if (after.p) {
        first = batch_id_number(BATCH_ID_BATCH, after);
        if (first < 0)
            return err_set(&d->why, DROVER_BAD_ARGUMENT, "'after' is no batch");
    }
    err = batch_list(&d->call, wanted, first, (size_t)limit, &list, &count);
    if (!err)
        put_batches(d, list, count);
    return err;
}

static int find_batch(struct batch_request *d, struct str uuid)
{
    char bid[BATCH_ID_LEN + 1];
    struct batch batch;
    int err = batch_find(&d->call, uuid, bid);

    if (!err)
        err = batch_get(&d->call, str_of(bid), &batch);
    if (!err)
        put_batches(d, &batch, 1);
    return err;
}

void get_batches(struct http_request *r)
{
    struct str uuid = {0}, state = {0}, after = {0};
    int64_t limit = BATCH_LIST_DEFAULT;
    struct batch_request d;

    if (http_query_number(r, "limit", &limit) < 0)
        return;
    http_query(r, "uuid", &uuid);
    http_query(r, "state", &state);
    http_query(r, "after", &after);
    if (!batch_request_open(&d, r, NULL))
        return;
    if (limit > BATCH_LIST_MAX)
        limit = BATCH_LIST_MAX;
    batch_request_close(&d, uuid.p ? find_batch(&d, uuid) : list_batches(&d, state, after, limit));
}

/* What a batch can be acquired for, with the hyphen that people put there too. */
static int acquired_for(struct batch_request *d, struct str word)
{
    const struct batch_store *store = d->call.store;

    if (!word.p || str_eq(word, STR("pending")) || str_eq(word, STR("Pending")))
        return store->batch.pending;
    if (str_eq(word, STR("reporting")) || str_eq(word, STR("Reporting")))
        return store->batch.reporting;
    if (str_eq(word, STR("updatereporting")) || str_eq(word, STR("update-reporting")) ||
        str_eq(word, STR("UpdateReporting")))
        return store->batch.update_reporting;
    return err_set(&d->why, DROVER_BAD_ARGUMENT,
                   "a batch is acquired for pending, reporting or updatereporting");
}

void acquire_batch(struct http_request *r)
{
    static const char *const members[] = {"session", "for", "wait", NULL};
    const struct json *body = batch_request_body(r, members);
    struct batch_server *h = r->arg;
    uint64_t seen = http_topic_seen(&h->topic);
    char bid[BATCH_ID_LEN + 1];
    struct str word = {0};
    struct batch batch;
    int64_t token, wait_ms;
    struct batch_request d;
    int got;

    if (!body || !batch_request_text(r, body, "for", &word) ||
        !batch_request_int(r, body, "wait", &wait_ms) || !batch_request_open_session(&d, r, body))
        return;
    got = acquired_for(&d, word);
    if (got >= 0)
        got = batch_acquire(&d.call, got, bid, &token);
    if (got == 0) {
        wait_ms = batch_request_wait_ms(h, body);
        batch_request_leave(&d);
        if (wait_ms <= 0 || !http_wait(r, &h->topic, seen, wait_ms))
            http_reply(r, 200, STR("{\"batch\":null}"));
        return;
    }
    if (got == 1)
        got = batch_get(&d.call, str_of(bid), &batch);
    if (got >= 0) {
        json_open(&d.out, '{');
        json_key(&d.out, "batch");
        batch_format(&d.out, &d.call, &batch);
        json_key(&d.out, "token");
        json_put_int(&d.out, token);
        json_close(&d.out, '}');
    }
    batch_request_close(&d, got);
}

void get_batch(struct http_request *r)
{
    struct batch batch;
    struct str bid;
    struct batch_request d;
    int err;

    if (!http_decode(r, r->params[0], &bid) || !batch_request_open(&d, r, NULL))
        return;
    err = batch_get(&d.call, bid, &batch);
    if (!err) {
        json_open(&d.out, '{');
        json_key(&d.out, "batch");
        batch_format(&d.out, &d.call, &batch);
        json_close(&d.out, '}');
    }
    batch_request_close(&d, err);
}

void delete_batch(struct http_request *r)
{
    struct str bid;
    struct batch_request d;
    int err;

    if (!http_decode(r, r->params[0], &bid) || !batch_request_open(&d, r, NULL))
        return;
    err = batch_delete(&d.call, bid);
    buf_printf(&d.out, "{}");
    batch_request_close(&d, err);
}

static void move_batch(struct batch_request *d, struct str bid, const struct batch_move *m)
{
    int state, err = batch_move(&d->call, bid, m, &state);

    if (!err) {
        json_open(&d->out, '{');
        json_key(&d->out, "batch");
        json_put_text(&d->out, bid);
        json_key(&d->out, "state");
        json_put_text(&d->out, str_of(d->call.store->machines.batch.states[state].name));
        json_close(&d->out, '}');
    }
    batch_request_close(d, err);
}

void put_batch_state(struct http_request *r)
{
    static const char *const members[] = {"state", "message", "token", "session", "keep", NULL};
    const struct json *body = batch_request_body(r, members);
    struct batch_move m = {.token = 0};
    struct str bid;
    struct batch_request d;

    if (!body || !http_decode(r, r->params[0], &bid) ||
        !batch_request_text(r, body, "state", &m.state) ||
        !batch_request_text(r, body, "message", &m.message) ||
        !batch_request_int(r, body, "token", &m.token) ||
        !batch_request_bool(r, body, "keep", &m.keep))
        return;
    if (!m.state.p) {
        http_reply_error(r, 400, "'state' is missing");
        return;
    }
    if (batch_request_open(&d, r, body))
        move_batch(&d, bid, &m);
}

/* POST .../hold and .../release, with a message or nothing. */
static void change_held(struct http_request *r, bool hold)
{
    static const char *const members[] = {"message", "token", "session", NULL};
    const struct json *body = r->body.len ? batch_request_body(r, members) : NULL;
    struct batch_move m = {.state = hold ? STR("Held") : STR("Pending")};
    struct batch batch;
    struct str bid;
    struct batch_request d;
    int err;

    if ((r->body.len && !body) || !http_decode(r, r->params[0], &bid) ||
        !batch_request_text(r, body, "message", &m.message) ||
        !batch_request_int(r, body, "token", &m.token) || !batch_request_open(&d, r, body))
        return;
    err = batch_get(&d.call, bid, &batch);
    if (!err && !hold && batch.status.state != d.call.store->batch.held)
        err = err_set(&d.why, DROVER_NOT_ALLOWED, "batch %s is %s, not Held", batch.id,
                      d.call.store->machines.batch.states[batch.status.state].name);
    if (err)
        batch_request_close(&d, err);
    else
        move_batch(&d, bid, &m);
}

void hold_batch(struct http_request *r)
{
    change_held(r, true);
}

void release_batch(struct http_request *r)
{
    change_held(r, false);
}

/* The jobs of a request: one, or a list of them. */
static int read_specs(struct batch_request *d, const struct json *body, bool *ret_many,
                      struct batch_job_spec **ret_specs, size_t *ret_count)
{
    const struct json *list = body->kind == JSON_LIST ? body : json_get(body, "jobs");
    struct batch_job_spec *specs;
    size_t count = 0;
    int err = 0;

    *ret_many = list != NULL;
    *ret_specs = NULL;
    *ret_count = 0;
    if (list && (list->kind != JSON_LIST || list->count == 0))
        return err_set(&d->why, DROVER_BAD_ARGUMENT, "'jobs' must be a list with something in it");
    specs = arena_alloc(d->call.a, (list ? list->count : 1) * sizeof *specs);
    if (!list)
        err = batch_job_read_spec(&d->call, body, &specs[count++]);
    else
        json_each(v, list)
            if (!err)
                err = batch_job_read_spec(&d->call, v, &specs[count++]);
    *ret_specs = specs;
    *ret_count = count;
    return err;
}

void post_batch_jobs(struct http_request *r)
{
    const struct json *body = http_json(r);
    char(*jids)[BATCH_ID_LEN + 1];
    struct batch_job_spec *specs;
    struct str bid;
    struct batch_request d;
    size_t count;
    bool many;
    int err;

    if (!body || !http_decode(r, r->params[0], &bid) ||
        !batch_request_open(&d, r, body->kind == JSON_OBJECT ? body : NULL))
        return;
    err = read_specs(&d, body, &many, &specs, &count);
    if (!err) {
        jids = arena_alloc(&r->arena, count * sizeof *jids);
        err = batch_job_create(&d.call, bid, specs, count, jids);
    }
    if (!err && !many)
        buf_printf(&d.out, "{\"job\":\"%s\"}", jids[0]);
    if (!err && many) {
        json_open(&d.out, '{');
        json_key(&d.out, "jobs");
        json_open(&d.out, '[');
        for (size_t i = 0; i < count; i++)
            json_put_text(&d.out, str_of(jids[i]));
        json_close(&d.out, ']');
        json_close(&d.out, '}');
    }
    batch_request_close(&d, err);
}
