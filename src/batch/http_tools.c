/* Tools for admins over HTTP: legacy records, fsck, the state machines. */
#include <stdio.h>
#include <time.h>

#include "batch/legacy.h"
#include "batch/repair.h"
#include "batch/server.h"

static int put_record(void *arg, const struct batch_legacy *r, struct str imported, int err)
{
    struct batch_request *d = arg;
    struct buf *b = &d->out;
    time_t seconds = r->time_ms / 1000;
    char time[32] = "";
    struct tm tm;

    if (err == DROVER_BAD_ARGUMENT)
        return 0; /* not a record */
    json_open(b, '{');
    json_member_text(b, "name", r->name);
    if (err) {
        json_member_text(b, "status", STR("damaged"));
        json_close(b, '}');
        return 0;
    }
    if (gmtime_r(&seconds, &tm))
        strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &tm);
    json_member_text(b, "status", str_of(batch_legacy_status(d->call.a, r->status)));
    json_member_int(b, "priority", batch_legacy_priority(r));
    json_member_int(b, "number", r->number);
    json_member_text(b, "time", str_of(time));
    json_member_text(b, "payload", str_of(batch_legacy_payload(r->kind)));
    json_member_raw(b, "configuration", batch_legacy_configuration(d->call.a, r));
    json_member_text(b, "imported", imported);
    json_close(b, '}');
    return 0;
}

BATCH_HANDLER(get_legacy)
{
    batch_request_open_list(d, "records");
    TRY(batch_legacy_list(&d->call, d->in->path.p ? d->in->path : STR("/ingest"), put_record, d));
    return batch_request_close_list(d);
}

static void put_jid(void *arg, const char *jid)
{
    json_put_text(arg, str_of(jid));
}

BATCH_HANDLER(post_legacy)
{
    const struct batch_in *in = d->in;
    struct batch_legacy_import import = {.path = in->path.p ? in->path : STR("/ingest"),
                                         .batch = in->batch,
                                         .all = in->all,
                                         .remove = in->remove};
    batch_request_open_list(d, "jobs");
    TRY(batch_legacy_import(&d->call, &import, put_jid, &d->out));
    return batch_request_close_list(d);
}

/* POST /v1/batches/fsck */

static void put_finding(void *arg, const struct batch_finding *f)
{
    struct buf *b = arg;
    json_open(b, '{');
    json_member_text(b, "id", str_of(f->id));
    json_member_text(b, "problem", str_of(f->problem));
    json_member_bool(b, "repaired", f->repaired);
    json_close(b, '}');
}

BATCH_HANDLER(post_fsck)
{
    struct batch_repair_totals totals;
    batch_request_open_list(d, "findings");
    TRY(batch_repair_run(&d->call, d->in->repair, put_finding, &d->out, &totals));
    json_close(&d->out, ']');
    json_member_int(&d->out, "jobs", totals.jobs);
    json_member_int(&d->out, "batches", totals.batches);
    json_member_int(&d->out, "repaired", totals.repaired);
    json_close(&d->out, '}');
    return 0;
}

/* GET /v1/machines: the states, for consoles and commands that do not know the site's pipeline. */

static void put_state(struct buf *b, const struct batch_machine *m, int state)
{
    const struct batch_machine_state *s = &m->states[state];
    json_open(b, '{');
    json_member_text(b, "name", str_of(s->name));
    json_member_open(b, "to", '[');
    for (int to = 0; to < m->count; to++)
        if (batch_machine_allows(m, state, to))
            json_put_text(b, str_of(m->states[to].name));
    json_close(b, ']');
    for (int i = 0; i < 2; i++) {
        int to = i ? s->fail : s->success;
        if (to == BATCH_NO_STATE)
            continue;
        json_member_text(b, i ? "fail" : "success", str_of(m->states[to].name));
    }
    json_member_bool(b, "end", batch_machine_is_final(m, state));
    json_member_text(b, "batch", str_of(BATCH_LISTS[s->list]));
    json_close(b, '}');
}

static void put_machine(struct buf *b, const char *key, const struct batch_machine *m)
{
    json_member_open(b, key, '{');
    json_member_text(b, "first", str_of(m->states[m->first].name));
    json_member_open(b, "states", '[');
    for (int i = 0; i < m->count; i++)
        put_state(b, m, i);
    json_close(b, ']');
    json_close(b, '}');
}

void get_machines(struct http_request *r)
{
    const struct batch_server *h = r->arg;
    CLEANUP(buf_release) struct buf b = {0};
    json_open(&b, '{');
    put_machine(&b, "batch", &h->machines.batch);
    put_machine(&b, "job", &h->machines.job);
    put_machine(&b, "access", &h->machines.access);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}
