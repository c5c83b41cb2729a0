/* Making, reading, finding and deleting batches. What moves them is in batch_move.c. */
#include "batch/batch.h"

#include <stdio.h>

#include "batch/job.h"

int batch_check_id(struct batch_call *c, struct str bid, char ret_bid[BATCH_ID_LEN + 1])
{
    int64_t number = batch_id_number(BATCH_ID_BATCH, bid);

    if (number < 0)
        return BATCH_FAIL(c, DROVER_NO_NODE, "there is no batch '%.*s'",
                          (int)(bid.len < 100 ? bid.len : 100), bid.p);
    batch_id(BATCH_ID_BATCH, number, ret_bid);
    return 0;
}

/* The UUID of a submission, checked. p NULL: it has none. */
static int read_uuid(struct batch_call *c, const struct json *submission, struct str *ret_uuid)
{
    struct str uuid = {0};
    int err = json_get_text(submission, "batchID", &uuid, c->why);

    if (err > 0)
        err = batch_name_check("batchID", uuid, c->why);
    if (!err)
        *ret_uuid = uuid;
    return err;
}

static struct str new_status(struct batch_call *c)
{
    struct batch_status s = {.state = c->store->machines.batch.first, .modified = batch_now(c)};

    return batch_status_write(&c->store->machines.batch, &s, c->a);
}

static int refuse_uuid(struct batch_call *c, struct str uuid)
{
    struct str bid = {0};

    batch_node_get(c, &bid, NULL, "/batch-uuids/%.*s", (int)uuid.len, uuid.p);
    return BATCH_FAIL(c, DROVER_EXISTS, "the batch '%.*s' is there already: %.*s", (int)uuid.len,
                      uuid.p, (int)bid.len, bid.p ? bid.p : "");
}

/* One try at making a batch. ret_again: another was faster, and a new try may do it. */
static int try_create(struct batch_call *c, struct str submission, struct str uuid, char *ret_bid,
                      bool *ret_again)
{
    struct batch_change t = {.a = c->a};
    int64_t number;
    int32_t version;
    int uuid_op = -2, err = batch_next_number(c, "/batches", &number, &version);

    *ret_again = false;
    if (err)
        return batch_fail(c, err);
    batch_id(BATCH_ID_BATCH, number, ret_bid);
    batch_change_set(&t, NO_BYTES, version, "/batches");
    if (uuid.p)
        uuid_op =
            batch_change_create(&t, str_of(ret_bid), 0, "/batch-uuids/%.*s", (int)uuid.len, uuid.p);
    batch_change_create(&t, NO_BYTES, 0, "/batches/%s", ret_bid);
    batch_change_create(&t, submission, 0, "/batches/%s/submission", ret_bid);
    batch_change_create(&t, new_status(c), 0, "/batches/%s/status", ret_bid);
    batch_change_create(&t, NO_BYTES, 0, "/batches/%s/states", ret_bid);
    for (int i = 0; i < BATCH_LIST_COUNT; i++)
        batch_change_create(&t, NO_BYTES, 0, "/batches/%s/states/%s", ret_bid, BATCH_LISTS[i]);
    batch_change_list_add(&t, &c->store->batches[c->store->machines.batch.first], number);
    err = batch_change_commit(&t, c->k, -1);
    if (err == DROVER_EXISTS && t.failed == uuid_op)
        return refuse_uuid(c, uuid);
    *ret_again = batch_is_conflict(err);
    return err ? batch_fail(c, err) : 0;
}

int batch_create(struct batch_call *c, const struct json *submission,
                 char ret_bid[BATCH_ID_LEN + 1])
{
    const struct batch_machine *m = &c->store->machines.batch;
    char bid[BATCH_ID_LEN + 1];
    struct str text, uuid = {0};
    struct buf b = {0};
    bool again = true;
    int err = read_uuid(c, submission, &uuid);

    if (err)
        return err;
    json_put(&b, submission);
    text = (struct str){arena_text(c->a, (struct str){b.p, b.len}), b.len};
    buf_release(&b);
    for (int i = 0; i < BATCH_TRIES && again; i++) {
        pthread_mutex_lock(&c->store->making);
        err = try_create(c, text, uuid, bid, &again);
        pthread_mutex_unlock(&c->store->making);
    }
    if (err)
        return err;
    memcpy(ret_bid, bid, sizeof bid);
    batch_publish(c, &(struct batch_event){"batch", bid, NULL, NULL, m->states[m->first].name});
    return 0;
}

int batch_find(struct batch_call *c, struct str uuid, char ret_bid[BATCH_ID_LEN + 1])
{
    struct str bid;
    int err = batch_name_check("the UUID", uuid, c->why);

    if (err)
        return err;
    err = batch_node_get(c, &bid, NULL, "/batch-uuids/%.*s", (int)uuid.len, uuid.p);
    if (err == DROVER_NO_NODE)
        return BATCH_FAIL(c, err, "there is no batch with the UUID '%.*s'", (int)uuid.len, uuid.p);
    return err ? batch_fail(c, err) : batch_check_id(c, bid, ret_bid);
}

int batch_read_status(struct batch_call *c, const char *bid, struct batch_status *ret_status,
                      int32_t *ret_version)
{
    struct keeper_stat stat;
    struct err_info why;
    struct str text;
    int err = batch_node_get(c, &text, &stat, "/batches/%s/status", bid);

    if (err == DROVER_NO_NODE)
        return BATCH_FAIL(c, err, "there is no batch %s", bid);
    if (err)
        return batch_fail(c, err);
    err = batch_status_read(&c->store->machines.batch, false, c->a, text, ret_status, &why);
    if (err)
        return BATCH_FAIL(c, err, "batch %s: %s", bid, why.text);
    *ret_version = stat.version;
    return 0;
}

/* A node that need not be there. */
static int optional(struct batch_call *c, struct str *ret_data, const char *bid, const char *node)
{
    int err = batch_node_get(c, ret_data, NULL, "/batches/%s/%s", bid, node);

    return err == DROVER_NO_NODE ? 0 : err;
}

int batch_get(struct batch_call *c, struct str id, struct batch *ret_batch)
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
    for (int i = 0; i < BATCH_LIST_COUNT && !err; i++) {
        err = batch_node_exists(c, &stat, "/batches/%s/states/%s", b.id, BATCH_LISTS[i]);
        b.counts[i] = err ? 0 : stat.child_count;
        err = err == DROVER_NO_NODE ? 0 : err;
    }
    if (!err) {
        err = batch_node_exists(c, &stat, "/batches/%s/lock", b.id);
        b.token = err ? 0 : stat.czxid;
        err = err == DROVER_NO_NODE ? 0 : err;
    }
    if (err)
        return batch_fail(c, err);
    *ret_batch = b;
    return 0;
}

int batch_list(struct batch_call *c, int state, int64_t after, size_t limit,
               struct batch **ret_batches, size_t *ret_count)
{
    const struct batch_machine *m = &c->store->machines.batch;
    struct keeper_names names;
    struct batch *list;
    size_t count = 0;
    int err = state == BATCH_NO_STATE || batch_machine_is_end(m, state)
                  ? batch_node_children(c, &names, NULL, "/batches")
                  : batch_node_children(c, &names, NULL, "/drover/batch/%s", m->states[state].dir);

    if (err)
        return batch_fail(c, err);
    list = arena_zalloc(c->a, (limit + 1) * sizeof *list);
    for (size_t i = 0; i < names.count && count < limit; i++) {
        if (batch_id_number(BATCH_ID_BATCH, str_of(names.names[i])) <= after)
            continue;
        err = batch_get(c, str_of(names.names[i]), &list[count]);
        if (err && err != DROVER_NO_NODE && err != DROVER_DAMAGED)
            return err;
        if (!err && (state == BATCH_NO_STATE || list[count].status.state == state))
            count++;
    }
    *ret_batches = list;
    *ret_count = count;
    return 0;
}

/* The jobs of a list, some at a time: a transaction for each lot. */
static int delete_jobs(struct batch_call *c, const char *bid, enum batch_list list)
{
    enum { LOT = 40 };
    struct keeper_names names;
    int err = batch_node_children(c, &names, NULL, "/batches/%s/states/%s", bid, BATCH_LISTS[list]);

    if (err)
        return err == DROVER_NO_NODE ? 0 : batch_fail(c, err);
    for (size_t i = 0; i < names.count && !err;) {
        struct batch_change t = {.a = c->a};

        for (size_t end = i + LOT; i < names.count && i < end && !err; i++)
            err = batch_job_delete_ops(c, &t, names.names[i], bid, list);
        if (!err)
            err = batch_change_commit(&t, c->k, -1);
    }
    if (err == DROVER_NOT_EMPTY || err == DROVER_EXISTS)
        return BATCH_FAIL(c, DROVER_LOCKED, "a job of batch %s is locked", bid);
    return err ? batch_fail(c, err) : 0;
}

/* Everything below a node, deepest first. What a batch has is few: its jobs are gone by now. */
static int delete_below(struct batch_call *c, struct batch_change *t, const char *path)
{
    struct keeper_names names;
    int err = batch_node_children(c, &names, NULL, "%s", path);

    for (size_t i = 0; !err && i < names.count; i++)
        err = delete_below(c, t, arena_printf(c->a, "%s/%s", path, names.names[i]));
    batch_change_delete(t, "%s", path);
    return err;
}

static int delete_nodes(struct batch_call *c, const char *bid, struct str submission)
{
    struct batch_change t = {.a = c->a};
    const struct json *v = submission.p ? json_parse(c->a, submission, NULL) : NULL;
    struct str uuid = {0}, holder = {0};
    int err;

    if (v && read_uuid(c, v, &uuid) == 0 && uuid.p) {
        err = batch_node_get(c, &holder, NULL, "/batch-uuids/%.*s", (int)uuid.len, uuid.p);
        if (err && err != DROVER_NO_NODE)
            return batch_fail(c, err);
        if (!err && str_eq(holder, str_of(bid)))
            batch_change_delete(&t, "/batch-uuids/%.*s", (int)uuid.len, uuid.p);
    }
    err = delete_below(c, &t, arena_printf(c->a, "/batches/%s", bid));
    if (!err)
        err = batch_change_commit(&t, c->k, -1);
    return err ? batch_fail(c, err) : 0;
}

int batch_delete(struct batch_call *c, struct str id)
{
    const struct batch_machine *m = &c->store->machines.batch;
    struct batch b;
    int err = batch_get(c, id, &b);

    if (err)
        return err;
    if (!batch_machine_is_end(m, b.status.state))
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED,
                          "batch %s is %s; it can be deleted when it is Completed or Deleted", b.id,
                          m->states[b.status.state].name);
    if (b.token)
        return BATCH_FAIL(c, DROVER_LOCKED, "batch %s is locked", b.id);
    for (int i = 0; i < BATCH_LIST_COUNT && !err; i++)
        err = delete_jobs(c, b.id, (enum batch_list)i);
    return err ? err : delete_nodes(c, b.id, b.submission);
}
