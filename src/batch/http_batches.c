/* /v1/batches */
#include "batch/hall.h"
#include "batch/show.h"

void post_batches(struct http_request *r)
{
    static const char *const members[] = {"submission", "session", NULL};
    const struct json *body = desk_body(r, members), *submission = NULL;
    char bid[NAME_ID_LEN + 1];
    struct err_info why;
    struct desk d;
    int err;

    if (!body)
        return;
    if (json_get_object(body, "submission", &submission, &why) < 0) {
        desk_refuse(r, &why);
        return;
    }
    if (!submission) {
        http_reply_error(r, 400, "'submission' is missing");
        return;
    }
    if (!desk_open(&d, r, body))
        return;
    err = batch_create(&d.call, submission, bid);
    if (!err)
        buf_printf(&d.out, "{\"batch\":\"%s\"}", bid);
    desk_close(&d, err);
}

static void put_batches(struct desk *d, const struct batch *list, size_t count)
{
    json_open(&d->out, '{');
    json_key(&d->out, "batches");
    json_open(&d->out, '[');
    for (size_t i = 0; i < count; i++)
        show_batch(&d->out, &d->call, &list[i]);
    json_close(&d->out, ']');
    json_close(&d->out, '}');
}

static int list_batches(struct desk *d, struct str state, struct str after, int64_t limit)
{
    const struct machine *m = &d->call.depot->machines.batch;
    int wanted = MACHINE_NONE, err;
    int64_t first = -1;
    struct batch *list;
    size_t count;

    if (state.p) {
        wanted = machine_named(m, state, &d->why);
        if (wanted < 0)
            return wanted;
    }
    if (after.p) {
        first = name_number(NAME_BATCH, after);
        if (first < 0)
            return err_set(&d->why, DROVER_BAD_ARGUMENT, "'after' is no batch");
    }
    err = batch_list(&d->call, wanted, first, (size_t)limit, &list, &count);
    if (!err)
        put_batches(d, list, count);
    return err;
}

static int find_batch(struct desk *d, struct str uuid)
{
    char bid[NAME_ID_LEN + 1];
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
    int64_t limit = HALL_LIST_DEFAULT;
    struct desk d;

    if (http_query_number(r, "limit", &limit) < 0)
        return;
    http_query(r, "uuid", &uuid);
    http_query(r, "state", &state);
    http_query(r, "after", &after);
    if (!desk_open(&d, r, NULL))
        return;
    if (limit > HALL_LIST_MAX)
        limit = HALL_LIST_MAX;
    desk_close(&d, uuid.p ? find_batch(&d, uuid) : list_batches(&d, state, after, limit));
}

/* What a batch can be acquired for, with the hyphen that people put there too. */
static int acquired_for(struct desk *d, struct str word)
{
    const struct depot *depot = d->call.depot;

    if (!word.p || str_eq(word, STR("pending")) || str_eq(word, STR("Pending")))
        return depot->batch.pending;
    if (str_eq(word, STR("reporting")) || str_eq(word, STR("Reporting")))
        return depot->batch.reporting;
    if (str_eq(word, STR("updatereporting")) || str_eq(word, STR("update-reporting")) ||
        str_eq(word, STR("UpdateReporting")))
        return depot->batch.update_reporting;
    return err_set(&d->why, DROVER_BAD_ARGUMENT,
                   "a batch is acquired for pending, reporting or updatereporting");
}

void acquire_batch(struct http_request *r)
{
    static const char *const members[] = {"session", "for", "wait", NULL};
    const struct json *body = desk_body(r, members);
    struct hall *h = r->arg;
    uint64_t seen = http_topic_seen(&h->topic);
    char bid[NAME_ID_LEN + 1];
    struct str word = {0};
    struct batch batch;
    int64_t token, wait_ms;
    struct desk d;
    int got;

    if (!body || !desk_text(r, body, "for", &word) || !desk_int(r, body, "wait", &wait_ms) ||
        !desk_open_session(&d, r, body))
        return;
    got = acquired_for(&d, word);
    if (got >= 0)
        got = batch_acquire(&d.call, got, bid, &token);
    if (got == 0) {
        wait_ms = desk_wait_ms(h, body);
        desk_leave(&d);
        if (wait_ms <= 0 || !http_wait(r, &h->topic, seen, wait_ms))
            http_reply(r, 200, STR("{\"batch\":null}"));
        return;
    }
    if (got == 1)
        got = batch_get(&d.call, str_of(bid), &batch);
    if (got >= 0) {
        json_open(&d.out, '{');
        json_key(&d.out, "batch");
        show_batch(&d.out, &d.call, &batch);
        json_key(&d.out, "token");
        json_put_int(&d.out, token);
        json_close(&d.out, '}');
    }
    desk_close(&d, got);
}

void get_batch(struct http_request *r)
{
    struct batch batch;
    struct str bid;
    struct desk d;
    int err;

    if (!http_decode(r, r->params[0], &bid) || !desk_open(&d, r, NULL))
        return;
    err = batch_get(&d.call, bid, &batch);
    if (!err) {
        json_open(&d.out, '{');
        json_key(&d.out, "batch");
        show_batch(&d.out, &d.call, &batch);
        json_close(&d.out, '}');
    }
    desk_close(&d, err);
}

void delete_batch(struct http_request *r)
{
    struct str bid;
    struct desk d;
    int err;

    if (!http_decode(r, r->params[0], &bid) || !desk_open(&d, r, NULL))
        return;
    err = batch_delete(&d.call, bid);
    buf_printf(&d.out, "{}");
    desk_close(&d, err);
}

static void move_batch(struct desk *d, struct str bid, const struct batch_move *m)
{
    int state, err = batch_move(&d->call, bid, m, &state);

    if (!err) {
        json_open(&d->out, '{');
        json_key(&d->out, "batch");
        json_put_text(&d->out, bid);
        json_key(&d->out, "state");
        json_put_text(&d->out, str_of(d->call.depot->machines.batch.states[state].name));
        json_close(&d->out, '}');
    }
    desk_close(d, err);
}

void put_batch_state(struct http_request *r)
{
    static const char *const members[] = {"state", "message", "token", "session", "keep", NULL};
    const struct json *body = desk_body(r, members);
    struct batch_move m = {.token = 0};
    struct str bid;
    struct desk d;

    if (!body || !http_decode(r, r->params[0], &bid) || !desk_text(r, body, "state", &m.state) ||
        !desk_text(r, body, "message", &m.message) || !desk_int(r, body, "token", &m.token) ||
        !desk_bool(r, body, "keep", &m.keep))
        return;
    if (!m.state.p) {
        http_reply_error(r, 400, "'state' is missing");
        return;
    }
    if (desk_open(&d, r, body))
        move_batch(&d, bid, &m);
}

/* POST .../hold and .../release, with a message or nothing. */
static void change_held(struct http_request *r, bool hold)
{
    static const char *const members[] = {"message", "token", "session", NULL};
    const struct json *body = r->body.len ? desk_body(r, members) : NULL;
    struct batch_move m = {.state = hold ? STR("Held") : STR("Pending")};
    struct batch batch;
    struct str bid;
    struct desk d;
    int err;

    if ((r->body.len && !body) || !http_decode(r, r->params[0], &bid) ||
        !desk_text(r, body, "message", &m.message) || !desk_int(r, body, "token", &m.token) ||
        !desk_open(&d, r, body))
        return;
    err = batch_get(&d.call, bid, &batch);
    if (!err && !hold && batch.status.state != d.call.depot->batch.held)
        err = err_set(&d.why, DROVER_NOT_ALLOWED, "batch %s is %s, not Held", batch.id,
                      d.call.depot->machines.batch.states[batch.status.state].name);
    if (err)
        desk_close(&d, err);
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
static int read_specs(struct desk *d, const struct json *body, bool *ret_many,
                      struct job_spec **ret_specs, size_t *ret_count)
{
    const struct json *list = body->kind == JSON_LIST ? body : json_get(body, "jobs");
    struct job_spec *specs;
    size_t count = 0;
    int err = 0;

    *ret_many = list != NULL;
    *ret_specs = NULL;
    *ret_count = 0;
    if (list && (list->kind != JSON_LIST || list->count == 0))
        return err_set(&d->why, DROVER_BAD_ARGUMENT, "'jobs' must be a list with something in it");
    specs = arena_alloc(d->call.a, (list ? list->count : 1) * sizeof *specs);
    if (!list)
        err = job_read_spec(&d->call, body, &specs[count++]);
    else
        json_each(v, list)
            if (!err)
                err = job_read_spec(&d->call, v, &specs[count++]);
    *ret_specs = specs;
    *ret_count = count;
    return err;
}

void post_batch_jobs(struct http_request *r)
{
    const struct json *body = http_json(r);
    char(*jids)[NAME_ID_LEN + 1];
    struct job_spec *specs;
    struct str bid;
    struct desk d;
    size_t count;
    bool many;
    int err;

    if (!body || !http_decode(r, r->params[0], &bid) ||
        !desk_open(&d, r, body->kind == JSON_OBJECT ? body : NULL))
        return;
    err = read_specs(&d, body, &many, &specs, &count);
    if (!err) {
        jids = arena_alloc(&r->arena, count * sizeof *jids);
        err = job_create(&d.call, bid, specs, count, jids);
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
    desk_close(&d, err);
}
