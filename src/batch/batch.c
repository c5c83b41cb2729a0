/* Making, reading, finding and deleting batches. What moves them is in batch_move.c. */
#include "batch/batch.h"

#include <stdio.h>

#include "batch/job.h"

int batch_check_id(struct call *c, struct str bid, char ret_bid[NAME_ID_LEN + 1])
{
    int64_t number = name_number(NAME_BATCH, bid);

    if (number < 0)
        return DEPOT_FAIL(c, DROVER_NO_NODE, "there is no batch '%.*s'",
                          (int)(bid.len < 100 ? bid.len : 100), bid.p);
    name_id(NAME_BATCH, number, ret_bid);
    return 0;
}

/* The UUID of a submission, checked. p NULL: it has none. */
static int read_uuid(struct call *c, const struct json *submission, struct str *ret_uuid)
{
    struct str uuid = {0};
    int err = json_get_text(submission, "batchID", &uuid, c->why);

    if (err > 0)
        err = name_check("batchID", uuid, c->why);
    if (!err)
        *ret_uuid = uuid;
    return err;
}

static struct str new_status(struct call *c)
{
    struct status s = {.state = c->depot->machines.batch.first, .modified = depot_now(c)};

    return status_write(&c->depot->machines.batch, &s, c->a);
}

static int refuse_uuid(struct call *c, struct str uuid)
{
    struct str bid = {0};

    depot_get(c, &bid, NULL, "/batch-uuids/%.*s", (int)uuid.len, uuid.p);
    return DEPOT_FAIL(c, DROVER_EXISTS, "the batch '%.*s' is there already: %.*s", (int)uuid.len,
                      uuid.p, (int)bid.len, bid.p ? bid.p : "");
}

/* One try at making a batch. ret_again: another was faster, and a new try may do it. */
static int try_create(struct call *c, struct str submission, struct str uuid, char *ret_bid,
                      bool *ret_again)
{
    struct change t = {.a = c->a};
    int64_t number;
    int32_t version;
    int uuid_op = -2, err = depot_next_number(c, "/batches", &number, &version);

    *ret_again = false;
    if (err)
        return depot_fail(c, err);
    name_id(NAME_BATCH, number, ret_bid);
    change_set(&t, NO_BYTES, version, "/batches");
    if (uuid.p)
        uuid_op = change_create(&t, str_of(ret_bid), 0, "/batch-uuids/%.*s", (int)uuid.len, uuid.p);
    change_create(&t, NO_BYTES, 0, "/batches/%s", ret_bid);
    change_create(&t, submission, 0, "/batches/%s/submission", ret_bid);
    change_create(&t, new_status(c), 0, "/batches/%s/status", ret_bid);
    change_create(&t, NO_BYTES, 0, "/batches/%s/states", ret_bid);
    for (int i = 0; i < MACHINE_LIST_COUNT; i++)
        change_create(&t, NO_BYTES, 0, "/batches/%s/states/%s", ret_bid, MACHINE_LISTS[i]);
    change_list_add(&t, &c->depot->batches[c->depot->machines.batch.first], number);
    err = change_commit(&t, c->k, -1);
    if (err == DROVER_EXISTS && t.failed == uuid_op)
        return refuse_uuid(c, uuid);
    *ret_again = depot_again(err);
    return err ? depot_fail(c, err) : 0;
}

int batch_create(struct call *c, const struct json *submission, char ret_bid[NAME_ID_LEN + 1])
{
    const struct machine *m = &c->depot->machines.batch;
    char bid[NAME_ID_LEN + 1];
    struct str text, uuid = {0};
    struct buf b = {0};
    bool again = true;
    int err = read_uuid(c, submission, &uuid);

    if (err)
        return err;
    json_put(&b, submission);
    text = (struct str){arena_text(c->a, (struct str){b.p, b.len}), b.len};
    buf_release(&b);
    for (int i = 0; i < DEPOT_TRIES && again; i++) {
        pthread_mutex_lock(&c->depot->making);
        err = try_create(c, text, uuid, bid, &again);
        pthread_mutex_unlock(&c->depot->making);
    }
    if (err)
        return err;
    memcpy(ret_bid, bid, sizeof bid);
    depot_tell(c, &(struct depot_event){"batch", bid, NULL, NULL, m->states[m->first].name});
    return 0;
}

int batch_find(struct call *c, struct str uuid, char ret_bid[NAME_ID_LEN + 1])
{
    struct str bid;
    int err = name_check("the UUID", uuid, c->why);

    if (err)
        return err;
    err = depot_get(c, &bid, NULL, "/batch-uuids/%.*s", (int)uuid.len, uuid.p);
    if (err == DROVER_NO_NODE)
        return DEPOT_FAIL(c, err, "there is no batch with the UUID '%.*s'", (int)uuid.len, uuid.p);
    return err ? depot_fail(c, err) : batch_check_id(c, bid, ret_bid);
}

int batch_read_status(struct call *c, const char *bid, struct status *ret_status,
                      int32_t *ret_version)
{
    struct keeper_stat stat;
    struct err_info why;
    struct str text;
    int err = depot_get(c, &text, &stat, "/batches/%s/status", bid);

    if (err == DROVER_NO_NODE)
        return DEPOT_FAIL(c, err, "there is no batch %s", bid);
    if (err)
        return depot_fail(c, err);
    err = status_read(&c->depot->machines.batch, false, c->a, text, ret_status, &why);
    if (err)
        return DEPOT_FAIL(c, err, "batch %s: %s", bid, why.text);
    *ret_version = stat.version;
    return 0;
}

/* A node that need not be there. */
static int optional(struct call *c, struct str *ret_data, const char *bid, const char *node)
{
    int err = depot_get(c, ret_data, NULL, "/batches/%s/%s", bid, node);

    return err == DROVER_NO_NODE ? 0 : err;
}

int batch_get(struct call *c, struct str id, struct batch *ret_batch)
{
    struct batch b = {.token = 0};
    struct keeper_stat stat;
    int err = batch_check_id(c, id, b.id);

    if (!err)
        err = batch_read_status(c, b.id, &b.status, &b.version);
    if (err)
        return err;
    err = optional(c, &b.submission, b.id, "submission");
    if (!err)
        err = optional(c, &b.report, b.id, "status-report");
    for (int i = 0; i < MACHINE_LIST_COUNT && !err; i++) {
        err = depot_exists(c, &stat, "/batches/%s/states/%s", b.id, MACHINE_LISTS[i]);
        b.counts[i] = err ? 0 : stat.child_count;
        err = err == DROVER_NO_NODE ? 0 : err;
    }
    if (!err) {
        err = depot_exists(c, &stat, "/batches/%s/lock", b.id);
        b.token = err ? 0 : stat.czxid;
        err = err == DROVER_NO_NODE ? 0 : err;
    }
    if (err)
        return depot_fail(c, err);
    *ret_batch = b;
    return 0;
}

int batch_list(struct call *c, int state, int64_t after, size_t limit, struct batch **ret_batches,
               size_t *ret_count)
{
    const struct machine *m = &c->depot->machines.batch;
    struct keeper_names names;
    struct batch *list;
    size_t count = 0;
    int err = state == MACHINE_NONE || machine_is_end(m, state)
                  ? depot_children(c, &names, NULL, "/batches")
                  : depot_children(c, &names, NULL, "/drover/batch/%s", m->states[state].dir);

    if (err)
        return depot_fail(c, err);
    list = arena_zalloc(c->a, (limit + 1) * sizeof *list);
    for (size_t i = 0; i < names.count && count < limit; i++) {
        if (name_number(NAME_BATCH, str_of(names.names[i])) <= after)
            continue;
        err = batch_get(c, str_of(names.names[i]), &list[count]);
        if (err && err != DROVER_NO_NODE && err != DROVER_DAMAGED)
            return err;
        if (!err && (state == MACHINE_NONE || list[count].status.state == state))
            count++;
    }
    *ret_batches = list;
    *ret_count = count;
    return 0;
}

/* The jobs of a list, some at a time: a transaction for each lot. */
static int delete_jobs(struct call *c, const char *bid, enum machine_list list)
{
    enum { LOT = 40 };
    struct keeper_names names;
    int err = depot_children(c, &names, NULL, "/batches/%s/states/%s", bid, MACHINE_LISTS[list]);

    if (err)
        return err == DROVER_NO_NODE ? 0 : depot_fail(c, err);
    for (size_t i = 0; i < names.count && !err;) {
        struct change t = {.a = c->a};

        for (size_t end = i + LOT; i < names.count && i < end && !err; i++)
            err = job_delete_ops(c, &t, names.names[i], bid, list);
        if (!err)
            err = change_commit(&t, c->k, -1);
    }
    if (err == DROVER_NOT_EMPTY || err == DROVER_EXISTS)
        return DEPOT_FAIL(c, DROVER_LOCKED, "a job of batch %s is locked", bid);
    return err ? depot_fail(c, err) : 0;
}

/* Everything below a node, deepest first. What a batch has is few: its jobs are gone by now. */
static int delete_below(struct call *c, struct change *t, const char *path)
{
    struct keeper_names names;
    int err = depot_children(c, &names, NULL, "%s", path);

    for (size_t i = 0; !err && i < names.count; i++)
        err = delete_below(c, t, arena_printf(c->a, "%s/%s", path, names.names[i]));
    change_delete(t, "%s", path);
    return err;
}

static int delete_nodes(struct call *c, const char *bid, struct str submission)
{
    struct change t = {.a = c->a};
    const struct json *v = submission.p ? json_parse(c->a, submission, NULL) : NULL;
    struct str uuid = {0}, holder = {0};
    int err;

    if (v && read_uuid(c, v, &uuid) == 0 && uuid.p) {
        err = depot_get(c, &holder, NULL, "/batch-uuids/%.*s", (int)uuid.len, uuid.p);
        if (err && err != DROVER_NO_NODE)
            return depot_fail(c, err);
        if (!err && str_eq(holder, str_of(bid)))
            change_delete(&t, "/batch-uuids/%.*s", (int)uuid.len, uuid.p);
    }
    err = delete_below(c, &t, arena_printf(c->a, "/batches/%s", bid));
    if (!err)
        err = change_commit(&t, c->k, -1);
    return err ? depot_fail(c, err) : 0;
}

int batch_delete(struct call *c, struct str id)
{
    const struct machine *m = &c->depot->machines.batch;
    struct batch b;
    int err = batch_get(c, id, &b);

    if (err)
        return err;
    if (!machine_is_end(m, b.status.state))
        return DEPOT_FAIL(c, DROVER_NOT_ALLOWED,
                          "batch %s is %s; it can be deleted when it is Completed or Deleted", b.id,
                          m->states[b.status.state].name);
    if (b.token)
        return DEPOT_FAIL(c, DROVER_LOCKED, "batch %s is locked", b.id);
    for (int i = 0; i < MACHINE_LIST_COUNT && !err; i++)
        err = delete_jobs(c, b.id, (enum machine_list)i);
    return err ? err : delete_nodes(c, b.id, b.submission);
}
