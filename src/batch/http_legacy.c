/* /v1/legacy */
#include <stdio.h>
#include <time.h>

#include "batch/legacy.h"
#include "batch/server.h"

static void put_record(void *arg, const struct batch_legacy *r, struct str imported, int err)
{
    struct batch_request *d = arg;
    struct buf *b = &d->out;
    time_t seconds = r->time_ms / 1000;
    char time[32] = "";
    struct tm tm;

    if (err == DROVER_BAD_ARGUMENT)
        return; /* not a record */
    json_open(b, '{');
    json_key(b, "name");
    json_put_text(b, r->name);
    if (err) {
        json_key(b, "status");
        json_put_text(b, STR("damaged"));
        json_close(b, '}');
        return;
    }
    if (gmtime_r(&seconds, &tm))
        strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &tm);
    json_key(b, "status");
    json_put_text(b, str_of(batch_legacy_status(d->call.a, r->status)));
    json_key(b, "priority");
    json_put_int(b, batch_legacy_priority(r));
    json_key(b, "number");
    json_put_int(b, r->number);
    json_key(b, "time");
    json_put_text(b, str_of(time));
    json_key(b, "payload");
    json_put_text(b, str_of(batch_legacy_payload(r->kind)));
    json_key(b, "configuration");
    json_put_raw(b, batch_legacy_configuration(d->call.a, r));
    json_key(b, "imported");
    if (imported.p)
        json_put_text(b, imported);
    else
        json_put_null(b);
    json_close(b, '}');
}

void get_legacy(struct http_request *r)
{
    struct str path = STR("/ingest");
    struct batch_request d;
    int err;

    http_query(r, "path", &path);
    if (!batch_request_open(&d, r, NULL))
        return;
    json_open(&d.out, '{');
    json_key(&d.out, "records");
    json_open(&d.out, '[');
    err = batch_legacy_list(&d.call, path, put_record, &d);
    json_close(&d.out, ']');
    json_close(&d.out, '}');
    batch_request_close(&d, err);
}

static void put_jid(void *arg, const char *jid)
{
    json_put_text(arg, str_of(jid));
}

void post_legacy(struct http_request *r)
{
    static const char *const members[] = {"path", "batch", "all", "delete", NULL};
    const struct json *body = batch_request_body(r, members);
    struct batch_legacy_import in = {.path = STR("/ingest")};
    struct batch_request d;
    int err;

    if (!body || !batch_request_text(r, body, "path", &in.path) ||
        !batch_request_text(r, body, "batch", &in.batch) ||
        !batch_request_bool(r, body, "all", &in.all) ||
        !batch_request_bool(r, body, "delete", &in.remove) || !batch_request_open(&d, r, NULL))
        return;
    json_open(&d.out, '{');
    json_key(&d.out, "jobs");
    json_open(&d.out, '[');
    err = batch_legacy_import(&d.call, &in, put_jid, &d.out);
    json_close(&d.out, ']');
    json_close(&d.out, '}');
    batch_request_close(&d, err);
}
