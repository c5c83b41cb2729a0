/* Creating batches, jobs and access items, and holding batches, over HTTP. */
#include "batch/batch.h"
#include "batch/job.h"
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

/* POST .../hold and .../release; the body is optional. */
static void change_held(struct http_request *r, bool hold)
{
    static const char *const members[] = {"message", "token", "session", NULL};
    const struct json *body = r->body.len ? batch_request_body(r, members) : NULL;
    struct batch_move m = {.state = hold ? STR("Held") : STR("Pending")};
    struct batch_item batch;
    struct str bid;
    struct batch_request d;
    int err;

    if ((r->body.len && !body) || !http_decode(r, r->params[0], &bid) ||
        !batch_request_text(r, body, "message", &m.message) ||
        !batch_request_int(r, body, "token", &m.token) || !batch_request_open(&d, r, body))
        return;
    err = batch_item_get(&d.call, BATCH_KIND_BATCH, bid, &batch);
    if (!err && !hold && batch.status.state != d.call.store->batch.held)
        err = err_set(&d.why, DROVER_NOT_ALLOWED, "batch %s is %s, not Held", batch.id,
                      d.call.store->machines.batch.states[batch.status.state].name);
    if (err)
        batch_request_close(&d, err);
    else
        batch_request_move(&d, BATCH_KIND_BATCH, bid, &m);
}

void hold_batch(struct http_request *r)
{
    change_held(r, true);
}

void release_batch(struct http_request *r)
{
    change_held(r, false);
}

/* The body is one job, or a list of them. */
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
        return err_set(&d->why, DROVER_BAD_ARGUMENT, "'jobs' must be a list that is not empty");
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
        err = batch_job_create(&d.call, bid, specs, count, NULL, jids);
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

void post_access(struct http_request *r)
{
    const struct json *body = http_json(r), *data;
    char id[BATCH_ID_LEN + 1];
    enum batch_kind_id kind;
    struct batch_request d;
    struct str queue;
    int err;

    if (!body)
        return;
    data = json_get(body, "token");
    if (!data || data->kind != JSON_OBJECT)
        data = body; /* the fields of the specification, of which "token" is one */
    if (data->kind != JSON_OBJECT) {
        http_reply_error(r, 400, "the body must be an object");
        return;
    }
    if (!http_decode(r, r->params[0], &queue) || !batch_request_open(&d, r, NULL))
        return;
    err = batch_access_kind(&d.call, queue, &kind);
    if (!err)
        err = batch_access_create(&d.call, kind, data, id);
    if (!err)
        buf_printf(&d.out, "{\"access\":\"%s\"}", id);
    batch_request_close(&d, err);
}
