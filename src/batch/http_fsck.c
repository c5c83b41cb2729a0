/* POST /v1/batches/fsck {"repair"} */
#include "batch/repair.h"
#include "batch/server.h"

static void put_finding(void *arg, const struct batch_finding *f)
{
    struct buf *b = arg;

    json_open(b, '{');
    json_key(b, "id");
    json_put_text(b, str_of(f->id));
    json_key(b, "problem");
    json_put_text(b, str_of(f->problem));
    json_key(b, "repaired");
    json_put_bool(b, f->repaired);
    json_close(b, '}');
}

void post_fsck(struct http_request *r)
{
    static const char *const members[] = {"repair", NULL};
    const struct json *body = batch_request_body(r, members);
    struct batch_repair_totals totals;
    bool repair = false;
    struct batch_request d;
    int err;

    if (!body || !batch_request_bool(r, body, "repair", &repair) ||
        !batch_request_open(&d, r, NULL))
        return;
    json_open(&d.out, '{');
    json_key(&d.out, "findings");
    json_open(&d.out, '[');
    err = batch_repair_run(&d.call, repair, put_finding, &d.out, &totals);
    json_close(&d.out, ']');
    if (!err) {
        json_key(&d.out, "jobs");
        json_put_int(&d.out, totals.jobs);
        json_key(&d.out, "batches");
        json_put_int(&d.out, totals.batches);
        json_key(&d.out, "repaired");
        json_put_int(&d.out, totals.repaired);
    }
    json_close(&d.out, '}');
    batch_request_close(&d, err);
}
