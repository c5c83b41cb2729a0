/* What only jobs have over HTTP. */
#include "batch/job.h"
#include "batch/server.h"

/*
 * The value of PUT /v1/jobs/JID/FIELD: the member of that name, or "value", or, for what is an
 * object, the body itself.
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
        err = batch_request_put_item(&d, BATCH_KIND_JOB, jid);
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
        http_reply_error(r, 404, "the verbs of a job are hold, release and requeue");
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
        err = batch_request_put_item(&d, BATCH_KIND_JOB, jid);
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
