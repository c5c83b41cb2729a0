/* /v1/jobs */
#include "batch/format.h"
#include "batch/server.h"

static int find_state(struct batch_request *d, struct str name)
{
    return batch_machine_named(&d->call.store->machines.job, name, &d->why);
}

void get_jobs(struct http_request *r)
{
    struct batch_job_filter f = {.state = BATCH_NO_STATE};
    int64_t start = 0, limit = BATCH_LIST_DEFAULT;
    struct str state = {0};
    struct batch_job *jobs = NULL;
    struct batch_request d;
    size_t count = 0;
    int err = 0;

    if (http_query_number(r, "start", &start) < 0 || http_query_number(r, "limit", &limit) < 0)
        return;
    http_query(r, "state", &state);
    http_query(r, "batch", &f.bid);
    http_query(r, "profile", &f.profile);
    if (!batch_request_open(&d, r, NULL))
        return;
    f.start = (size_t)start;
    f.limit = (size_t)(limit > BATCH_LIST_MAX ? BATCH_LIST_MAX : limit);
    if (state.p)
        err = f.state = find_state(&d, state);
    if (err >= 0)
        err = batch_job_list(&d.call, &f, &jobs, &count);
    json_open(&d.out, '{');
    json_key(&d.out, "jobs");
    json_open(&d.out, '[');
    for (size_t i = 0; i < count; i++)
        batch_format_job(&d.out, &d.call, &jobs[i]);
    json_close(&d.out, ']');
    json_close(&d.out, '}');
    batch_request_close(&d, err);
}

/* A job of which only the head was read, with all that it has. */
static int put_acquired(struct batch_request *d, const struct batch_job *acquired)
{
    struct batch_job job;
    int err = batch_job_get(&d->call, str_of(acquired->id), &job);

    if (err)
        return err;
    json_open(&d->out, '{');
    json_key(&d->out, "job");
    batch_format_job(&d->out, &d->call, &job);
    json_key(&d->out, "token");
    json_put_int(&d->out, acquired->token);
    json_close(&d->out, '}');
    return 0;
}

void acquire_job(struct http_request *r)
{
    static const char *const members[] = {"session", "state", "wait", NULL};
    const struct json *body = batch_request_body(r, members);
    struct batch_server *h = r->arg;
    uint64_t seen = http_topic_seen(&h->topic);
    struct str name = {0};
    int64_t wait_ms;
    struct batch_job job;
    struct batch_request d;
    int got;

    if (!body || !batch_request_text(r, body, "state", &name) ||
        !batch_request_int(r, body, "wait", &wait_ms))
        return;
    if (!name.p) {
        http_reply_error(r, 400, "'state' is missing");
        return;
    }
    if (!batch_request_open_session(&d, r, body))
        return;
    got = find_state(&d, name);
    if (got >= 0)
        got = batch_job_acquire(&d.call, got, &job);
    if (got == 0) {
        wait_ms = batch_request_wait_ms(h, body);
        batch_request_leave(&d);
        if (wait_ms <= 0 || !http_wait(r, &h->topic, seen, wait_ms))
            http_reply(r, 200, STR("{\"job\":null}"));
        return;
    }
    batch_request_close(&d, got < 0 ? got : put_acquired(&d, &job));
}

static int put_job(struct batch_request *d, struct str jid)
{
    struct batch_job job;
    int err = batch_job_get(&d->call, jid, &job);

    if (err)
        return err;
    json_open(&d->out, '{');
    json_key(&d->out, "job");
    batch_format_job(&d->out, &d->call, &job);
    json_close(&d->out, '}');
    return 0;
}

void get_job(struct http_request *r)
{
    struct str jid;
    struct batch_request d;

    if (http_decode(r, r->params[0], &jid) && batch_request_open(&d, r, NULL))
        batch_request_close(&d, put_job(&d, jid));
}

void delete_job(struct http_request *r)
{
    struct str jid;
    struct batch_request d;
    int err;

    if (!http_decode(r, r->params[0], &jid) || !batch_request_open(&d, r, NULL))
        return;
    err = batch_job_delete(&d.call, jid);
    buf_printf(&d.out, "{}");
    batch_request_close(&d, err);
}

static void put_state(struct batch_request *d, struct str jid, const char *state)
{
    json_open(&d->out, '{');
    json_key(&d->out, "job");
    json_put_text(&d->out, jid);
    json_key(&d->out, "state");
    json_put_text(&d->out, str_of(state));
    json_close(&d->out, '}');
}

void put_job_state(struct http_request *r)
{
    static const char *const members[] = {"state",   "message", "priority", "token",
                                          "session", "keep",    NULL};
    const struct json *body = batch_request_body(r, members);
    struct batch_job_move m = {.priority = -1};
    struct str jid;
    struct batch_request d;
    int state, err;

    if (!body || !http_decode(r, r->params[0], &jid) ||
        !batch_request_text(r, body, "state", &m.state) ||
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
        m.priority = -2; /* it was said, and is wrong */
    if (!batch_request_open(&d, r, body))
        return;
    err = batch_job_move(&d.call, jid, &m, &state);
    if (!err)
        put_state(&d, jid, d.call.store->machines.job.states[state].name);
    batch_request_close(&d, err);
}

/*
 * The value of PUT /v1/jobs/JID/FIELD: the member of that name, or "value", or, for what is an object,
 * the body itself.
 */
static const struct json *field_value(const struct json *body, const char *field)
{
    const struct json *v = json_get(body, field);

    if (!v)
        v = json_get(body, "value");
    return v ? v : body;
}

static int set_number(struct batch_request *d, struct str jid, const char *field,
                      const struct json *v, int64_t token)
{
    if (v->kind != JSON_INT)
        return err_set(&d->why, DROVER_BAD_ARGUMENT, "'%s' must be a whole number", field);
    if (strcmp(field, "priority") == 0)
        return batch_job_set_priority(&d->call, jid, v->number, token);
    if (v->number < 0)
        return err_set(&d->why, DROVER_BAD_ARGUMENT, "'%s' is negative", field);
    return batch_job_set_field(
        &d->call, jid, field, str_of(arena_printf(d->call.a, "%lld", (long long)v->number)), token);
}

static int set_object(struct batch_request *d, struct str jid, const char *field,
                      const struct json *v, int64_t token)
{
    struct buf b = {0};
    int err;

    if (v->kind != JSON_OBJECT)
        return err_set(&d->why, DROVER_BAD_ARGUMENT, "'%s' must be an object", field);
    json_put(&b, v);
    err = batch_job_set_field(&d->call, jid, field, (struct str){b.p, b.len}, token);
    buf_release(&b);
    return err;
}

void put_job_field(struct http_request *r)
{
    static const struct {
        const char *word, *field;
        int (*set)(struct batch_request *d, struct str jid, const char *field, const struct json *v,
                   int64_t token);
    } FIELDS[] = {
        {"priority", "priority", set_number},  {"space_needed", "space_needed", set_number},
        {"space", "space_needed", set_number}, {"identifiers", "identifiers", set_object},
        {"metadata", "metadata", set_object},  {"inventory", "inventory", set_object},
    };
    const struct json *body = http_json(r);
    bool object = body && body->kind == JSON_OBJECT;
    struct str jid, word;
    int64_t token = 0;
    struct batch_request d;
    size_t i = 0;
    int err;

    if (!body || !http_decode(r, r->params[0], &jid) || !http_decode(r, r->params[1], &word) ||
        !batch_request_int(r, object ? body : NULL, "token", &token))
        return;
    while (i < sizeof FIELDS / sizeof *FIELDS && !str_eq(word, str_of(FIELDS[i].word)))
        i++;
    if (i == sizeof FIELDS / sizeof *FIELDS) {
        http_reply_errorf(r, 404, "a job has no field '%.*s' that can be set", (int)word.len,
                          word.p);
        return;
    }
    if (!batch_request_open(&d, r, object ? body : NULL))
        return;
    err =
        FIELDS[i].set(&d, jid, FIELDS[i].field,
                      field_value(body, object && json_get(body, FIELDS[i].word) ? FIELDS[i].word
                                                                                 : FIELDS[i].field),
                      token);
    if (!err)
        err = put_job(&d, jid);
    batch_request_close(&d, err);
}

void post_job_verb(struct http_request *r)
{
    static const char *const members[] = {"message", "state", "session", NULL};
    const struct json *body = r->body.len ? batch_request_body(r, members) : NULL;
    struct str jid, verb = {0}, message = {0}, state = {0};
    struct batch_request d;
    int err;

    if ((r->body.len && !body) || !http_decode(r, r->params[0], &jid) ||
        !http_decode(r, r->params[1], &verb) || !batch_request_text(r, body, "message", &message) ||
        !batch_request_text(r, body, "state", &state))
        return;
    if (!str_eq(verb, STR("hold")) && !str_eq(verb, STR("release")) &&
        !str_eq(verb, STR("requeue"))) {
        http_reply_error(r, 404, "what can be done with a job is hold, release and requeue");
        return;
    }
    if (!batch_request_open(&d, r, body))
        return;
    if (str_eq(verb, STR("hold")))
        err = batch_job_hold(&d.call, jid, message);
    else if (str_eq(verb, STR("release")))
        err = batch_job_release(&d.call, jid);
    else
        err = batch_job_requeue(&d.call, jid, state, message);
    if (!err)
        err = put_job(&d, jid);
    batch_request_close(&d, err);
}

void release_jobs(struct http_request *r)
{
    static const char *const members[] = {"profile", NULL};
    const struct json *body = batch_request_body(r, members);
    struct str profile = {0};
    int64_t count;
    struct batch_request d;
    int err;

    if (!body || !batch_request_text(r, body, "profile", &profile))
        return;
    if (!profile.p) {
        http_reply_error(r, 400, "'profile' is missing");
        return;
    }
    if (!batch_request_open(&d, r, body))
        return;
    err = batch_job_release_profile(&d.call, profile, &count);
    if (!err)
        buf_printf(&d.out, "{\"released\":%lld}", (long long)count);
    batch_request_close(&d, err);
}
