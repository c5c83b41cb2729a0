/* POST /v1/batches/fsck {"repair"} */
#include "batch/hall.h"
#include "batch/mend.h"

static void put_finding(void *arg, const struct mend_finding *f)
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
    const struct json *body = desk_body(r, members);
    struct mend_totals totals;
    bool repair = false;
    struct desk d;
    int err;

    if (!body || !desk_bool(r, body, "repair", &repair) || !desk_open(&d, r, NULL))
        return;
    json_open(&d.out, '{');
    json_key(&d.out, "findings");
    json_open(&d.out, '[');
    err = mend_run(&d.call, repair, put_finding, &d.out, &totals);
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
    desk_close(&d, err);
}
