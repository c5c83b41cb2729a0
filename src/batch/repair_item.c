/*
 * Batches and access items, and items of any kind that are not whole.
 *
 * An item that has no status: was it being created, or deleted? The library of the specification
 * creates an item in the order
 *
 *     batch     node, /batch-uuids/UUID, submission, status; later states
 *     job       node, lock, bid, priority, space_needed, configuration, ..., status, its entries
 *     access    node, token, status
 *
 * and deletes the entries of a job, then the UUID of a batch, then the nodes below the item in any
 * order. So a batch that has `states`, or a UUID that does not lead to it, was being deleted; so
 * was a job whose batch is gone or final. Where that does not decide, the stat of the item does:
 * its cversion counts creations and deletions of children, and exceeds the number of children by
 * two for each node that was deleted, locks included.
 */
#include <poll.h>

#include "base/clock.h"
#include "base/mem.h"
#include "batch/repair.h"

struct batch_remains {
    struct batch_kind *kind;
    struct batch_item item;    /* without a status */
    const char *where;         /* for people */
    struct keeper_names names; /* of its nodes */
    struct keeper_stat stat;
};

enum origin { CREATED, DELETED, UNCLEAR };

void batch_repair_wait(int ms)
{
    if (ms)
        poll(NULL, 0, ms);
}

static bool has(const struct batch_remains *r, const char *name)
{
    for (size_t i = 0; i < r->names.count; i++)
        if (strcmp(r->names.names[i], name) == 0)
            return true;
    return false;
}

/* How many of its nodes, counting locks, were deleted. */
static int64_t deletions(const struct batch_remains *r)
{
    return ((int64_t)r->stat.cversion - r->stat.child_count) / 2;
}

/* Removes what is left of an item, and its entries. */
static int remove_rest(struct batch_repair *f, const struct batch_remains *r, const char *why)
{
    const struct batch_place *places;
    struct batch_txn t = BATCH_TXN(f->c);
    size_t count =
        r->kind->id == BATCH_KIND_JOB ? batch_repair_places(f, r->item.number, &places) : 0;
    for (size_t i = 0; i < count; i++)
        batch_repair_leave(f, &t, &places[i], -1);
    TRY(batch_item_add_deletion(f->c, &t, r->item.path));
    batch_repair_report(f, batch_repair_commit(f, &t), r->where, "%s", why);
    return 0;
}

/* Batches and access items. */

/* Whether a list of the batch names a job that exists. */
static int has_jobs(struct batch_call *c, const char *bid, bool *ret_has)
{
    *ret_has = false;
    for (int l = 0; l < BATCH_LIST_COUNT && !*ret_has; l++) {
        struct keeper_names jobs = {0};
        TRY(batch_optional(
            batch_node_children(c, &jobs, NULL, "/batches/%s/states/%s", bid, BATCH_LISTS[l])));
        for (size_t i = 0; i < jobs.count && !*ret_has; i++) {
            struct keeper_stat stat;
            TRY(batch_node_stat(c, &stat, "/jobs/%s", jobs.names[i]));
            *ret_has = stat.czxid != 0;
        }
    }
    return 0;
}

static int origin_of_batch(struct batch_call *c, const struct batch_remains *r,
                           enum origin *ret_origin)
{
    struct str submission = {0}, uuid = {0}, holder = {0};
    if (has(r, "states")) {
        *ret_origin = DELETED;
        return 0;
    }
    TRY(batch_optional(batch_node_get(c, &submission, NULL, "%s/submission", r->item.path)));
    const struct json *v = submission.p ? json_parse(c->a, submission, NULL) : NULL;
    json_get_text(v, "batchID", &uuid, NULL);
    if (uuid.p && uuid.len && batch_name_check("the UUID", uuid, c->why) == 0) {
        TRY(batch_optional(batch_node_get(c, &holder, NULL, "/batch-uuids/%.*s", STR_ARGS(uuid))));
        *ret_origin = holder.p && str_eq(holder, str_of(r->item.id)) ? CREATED : DELETED;
        return 0;
    }
    *ret_origin = !has(r, "submission") || deletions(r) == 0 ? CREATED : UNCLEAR;
    return 0;
}

/* Gives it the status with which it would have been created, or removes it. */
static int repair_other(struct batch_repair *f, struct batch_remains *r)
{
    struct batch_call *c = f->c;
    enum origin origin = deletions(r) ? DELETED : CREATED;
    struct batch_txn t = BATCH_TXN(c);
    bool jobs = false;
    if (r->kind->id == BATCH_KIND_BATCH) {
        TRY(origin_of_batch(c, r, &origin));
        TRY(has_jobs(c, r->item.id, &jobs));
    }
    if (jobs || origin == UNCLEAR) {
        batch_repair_report(f, false, r->where,
                            jobs
                                ? "it has no status, but jobs"
                                : "it has no status: its creation or its deletion was interrupted");
        return 0;
    }
    if (origin == DELETED)
        return remove_rest(f, r, "its deletion was interrupted");
    if (!has(r, r->kind->nodes[0]))
        return remove_rest(f, r, "its creation was interrupted before it had any data");
    struct batch_status s = {.state = r->kind->machine->first, .modified = batch_now(c)};
    batch_item_add_node(&t, &r->item, "status", batch_status_write(r->kind->machine, &s, c->a));
    TRY(batch_index_move(c, &t, &r->item, BATCH_NO_STATE, s.state));
    batch_repair_report(f, batch_repair_commit(f, &t), r->where,
                        "its creation was interrupted before it had a status");
    return 0;
}

/* Jobs. */

/* Adds the nodes that the job still needs, and its entries as a failed one. */
static int add_failed_job(struct batch_call *c, struct batch_txn *t, struct batch_remains *r,
                          int state)
{
    const struct batch_machine *m = r->kind->machine;
    struct batch_status s = {
        .state = state, .modified = batch_now(c), .message = STR("its creation was interrupted")};
    int priority = BATCH_PRIORITY_DEFAULT;
    if (has(r, "priority")) {
        TRY(batch_item_read_priority(c, &r->item));
        priority = r->item.priority;
    } else {
        batch_item_add_node(t, &r->item, "priority", str_of(arena_printf(c->a, "%d", priority)));
    }
    if (!has(r, "space_needed"))
        batch_item_add_node(t, &r->item, "space_needed", STR("0"));
    if (!has(r, "configuration"))
        batch_item_add_node(t, &r->item, "configuration", STR("{}"));
    batch_item_add_node(t, &r->item, "status", batch_status_write(m, &s, c->a));
    batch_txn_list_add(t, OP_ANY, &r->kind->views[state], batch_key(priority, r->item.number));
    TRY(batch_add_list(c, t, r->item.bid, m->states[state].list));
    batch_txn_job_list(t, OP_ANY, r->item.bid, m->states[state].list, r->item.id, true);
    return 0;
}

/* A job of a batch that has others. Whether it is whole nobody knows, so a person decides. */
static int fail_job(struct batch_repair *f, struct batch_remains *r)
{
    const struct batch_machine *m = r->kind->machine;
    struct batch_txn t = BATCH_TXN(f->c);
    int state = m->states[m->first].fail;
    int err = state == BATCH_NO_STATE ? DROVER_DAMAGED : add_failed_job(f->c, &t, r, state);
    if (err && err != DROVER_DAMAGED)
        return err;
    batch_repair_report(f, !err && batch_repair_commit(f, &t), r->where,
                        "its creation was interrupted before it had a status");
    return 0;
}

static int repair_job(struct batch_repair *f, struct batch_remains *r)
{
    enum { LOCK_OF_CREATOR = 1 };
    struct batch_call *c = f->c;
    struct batch_item b;
    bool jobs;
    if (!has(r, "bid"))
        return remove_rest(f, r,
                           deletions(r) > LOCK_OF_CREATOR
                               ? "its deletion was interrupted"
                               : "its creation was interrupted before it had a batch");
    int err = batch_item_read_bid(c, &r->item);
    if (err == DROVER_DAMAGED)
        batch_repair_report(f, false, r->where, "it has no status, and %s", c->why->text);
    if (err)
        return err == DROVER_DAMAGED ? 0 : err;
    err = batch_item_get(c, BATCH_KIND_BATCH, str_of(r->item.bid), &b);
    if (err && err != DROVER_NO_NODE && err != DROVER_DAMAGED)
        return err;
    if (err == DROVER_NO_NODE || deletions(r) > LOCK_OF_CREATOR ||
        (!err && batch_machine_is_final(b.kind->machine, b.status.state)))
        return remove_rest(f, r, "its deletion was interrupted");
    if (err || b.token) {
        batch_repair_report(f, false, r->where, "it has no status (its batch is %s)",
                            err ? "damaged" : "locked: in use");
        return 0;
    }
    TRY(has_jobs(c, b.id, &jobs));
    return jobs ? fail_job(f, r)
                : remove_rest(f, r, "its creation was interrupted, and its batch has no jobs");
}

/* Any kind. */

/* A final item whose other nodes are missing: they are created before the status. */
static bool is_half_deleted(struct batch_call *c, const struct batch_remains *r)
{
    struct batch_status s;
    struct err_info why;
    struct str text;
    return r->kind->id == BATCH_KIND_JOB && (!has(r, "bid") || !has(r, "priority")) &&
           batch_node_get(c, &text, NULL, "%s/status", r->item.path) == 0 &&
           batch_status_read(r->kind->machine, c->a, text, &s, &why) == 0 &&
           batch_machine_is_final(r->kind->machine, s.state);
}

int batch_repair_incomplete(struct batch_repair *f, struct batch_kind *kind, const char *id,
                            int damage)
{
    struct batch_call *c = f->c;
    const char *said = arena_text(c->a, str_of(c->why->text));
    struct batch_remains r = {.kind = kind};
    TRY(batch_item_name(c, kind->id, str_of(id), &r.item));
    r.where = kind->id < BATCH_KIND_SMALL ? r.item.id : r.item.path;
    int err = batch_node_children(c, &r.names, &r.stat, "%s", r.item.path);
    if (err)
        return batch_optional(err);
    if (damage == DROVER_DAMAGED && (has(&r, "lock") || !is_half_deleted(c, &r))) {
        batch_repair_report(f, false, r.where, "%s", said);
        return 0;
    }
    if (damage == DROVER_DAMAGED)
        return remove_rest(f, &r, "its deletion was interrupted");
    if (has(&r, "status") || has(&r, "lock") || /* it has one meanwhile, or its client is at work */
        clock_wall_ms() - r.stat.ctime_ms < f->o.age_ms)
        return 0;
    return kind->id == BATCH_KIND_JOB ? repair_job(f, &r) : repair_other(f, &r);
}

/* Adds that an item is in the list of its state and in no other. */
static int add_index_repair(struct batch_repair *f, struct batch_txn *t,
                            const struct batch_item *item)
{
    const struct batch_machine *m = item->kind->machine;
    struct batch_view *views = item->kind->views;
    struct keeper_stat stat;
    for (int i = 0; i < m->count; i++) {
        if (batch_machine_is_final(m, i))
            continue;
        TRY(batch_node_stat(f->c, &stat, "%s/%s", views[i].dir, item->id));
        if (stat.czxid && i != item->status.state)
            batch_txn_list_remove(t, OP_ANY, &views[i], item->number);
        else if (!stat.czxid && i == item->status.state)
            batch_txn_list_add(t, OP_ANY, &views[i], item->number);
    }
    return 0;
}

/*
 * An item that moved between the reading of its status and of the lists is not reported, nor is one
 * that was just created.
 */
static int check_index(struct batch_repair *f, const struct batch_item *i)
{
    const char *status = arena_printf(f->c->a, "%s/status", i->path);
    struct batch_txn t;
    struct keeper_stat stat;
    for (int n = 0; n < 2; n++) {
        t = BATCH_TXN(f->c);
        txn_check(&t.txn, OP_ANY, i->version, "%s", status);
        int err = add_index_repair(f, &t, i);
        if (err || t.txn.count == 1)
            return err;
        if (n == 0)
            TRY(batch_index_refresh(f->c, i->kind->id, true));
    }
    if (batch_node_exists(f->c, &stat, "%s", status) == 0 && stat.version == i->version)
        batch_repair_report(f, batch_repair_commit(f, &t), i->id,
                            "it is %s but is not in that list below /drover, or also in another",
                            i->kind->machine->states[i->status.state].name);
    return 0;
}

/* A batch that was taken, has no jobs, and that nobody works on. */
static int check_taken(struct batch_repair *f, const struct batch_item *b)
{
    const struct batch_store *r = f->c->store;
    struct batch_txn t = BATCH_TXN(f->c);
    struct keeper_stat status;
    int state = b->status.state;
    if (b->token || (state != r->batch.pending && state != r->batch.processing))
        return 0;
    if (state == r->batch.pending) {
        int err = batch_add_untaken(f->c, &t, b->id);
        if (err <= 0)
            return err;
    }
    TRY(batch_node_stat(f->c, &status, "%s/status", b->path));
    if (state == r->batch.processing && clock_wall_ms() - status.mtime_ms < f->o.age_ms)
        return 0;
    int untaken = f->o.repair ? batch_untake(f->c, b->id, state) : 0;
    if (f->o.repair && !untaken) /* another was faster */
        return 0;
    batch_repair_report(f, untaken == 1, b->id,
                        state == r->batch.pending
                            ? "it is Pending, but has 'states': others do not take it"
                            : "it is Processing, but has no jobs and no lock: its worker died");
    return 0;
}

/* A batch that others would take although it is not Pending. */
static int check_states(struct batch_repair *f, const struct batch_item *b)
{
    struct batch_txn t = BATCH_TXN(f->c);
    if (b->status.state == f->c->store->batch.pending)
        return 0;
    txn_check(&t.txn, OP_ANY, b->version, "%s/status", b->path);
    TRY(batch_add_states(f->c, &t, b->id));
    if (t.txn.count > 1)
        batch_repair_report(f, batch_repair_commit(f, &t), b->id,
                            "it is %s, but has no 'states': others take it as pending",
                            b->kind->machine->states[b->status.state].name);
    return 0;
}

static int check_batch(struct batch_repair *f, const struct batch_item *b)
{
    const struct batch_store *r = f->c->store;
    int64_t ended = b->counts[BATCH_LIST_FAILED] + b->counts[BATCH_LIST_COMPLETED] +
                    b->counts[BATCH_LIST_DELETED];
    struct batch_census n;
    TRY(check_states(f, b));
    if (b->counts[BATCH_LIST_PROCESSING])
        return 0;
    if (!ended)
        return check_taken(f, b);
    if (b->token || (b->status.state != r->batch.processing && b->status.state != r->batch.pending))
        return 0;
    TRY(batch_census(f->c, b->id, &n));
    mem_grow(f->ended, f->ended_count, f->ended_cap);
    f->ended[f->ended_count++] = (struct batch_ended){b->number, n.processing.pzxid};
    return 0;
}

/* Those whose lists have not changed meanwhile, and that nobody has moved. */
void batch_repair_ended(struct batch_repair *f)
{
    const struct batch_store *r = f->c->store;
    struct batch_census n;
    struct batch_item b;
    char bid[BATCH_ID_LEN + 1];
    if (f->ended_count)
        batch_repair_wait(f->o.repair ? f->o.wait_ms : 2 * f->o.wait_ms);
    for (size_t i = 0; i < f->ended_count; i++, arena_reset(f->c->a)) {
        batch_id(BATCH_ID_BATCH, f->ended[i].batch, bid);
        if (batch_item_read(f->c, BATCH_KIND_BATCH, str_of(bid), &b) ||
            (b.status.state != r->batch.processing && b.status.state != r->batch.pending) ||
            batch_census(f->c, bid, &n) || n.processing.pzxid != f->ended[i].pzxid)
            continue;
        int settled = f->o.repair ? batch_settle(f->c, bid) : 0;
        if (f->o.repair && (!settled || batch_is_conflict(settled)))
            continue; /* another was faster, or has locked it */
        batch_repair_report(f, settled == 1, bid, "all its jobs have ended, but it is still %s",
                            r->machines.batch.states[b.status.state].name);
    }
}

int batch_repair_item(struct batch_repair *f, const char *id, int64_t number, void *arg)
{
    struct batch_kind *kind = arg;
    struct batch_call *c = f->c;
    struct batch_item i;
    bool jobs = false;
    arena_reset(c->a);
    int err = batch_item_get(c, kind->id, str_of(id), &i);
    (void)number;
    if (err == DROVER_NO_NODE || err == DROVER_DAMAGED)
        return batch_repair_incomplete(f, kind, id, err);
    TRY(err);
    if (i.status.state == BATCH_NO_STATE) /* left to whoever knows it */
        return 0;
    if (batch_machine_is_final(kind->machine, i.status.state) && !i.nodes[0].p && !i.token) {
        struct batch_remains r = {.kind = kind, .item = i, .where = id};
        if (kind->id == BATCH_KIND_BATCH)
            TRY(has_jobs(c, id, &jobs));
        return jobs ? 0 : remove_rest(f, &r, "its deletion was interrupted");
    }
    TRY(check_index(f, &i));
    return kind->id == BATCH_KIND_BATCH ? check_batch(f, &i) : 0;
}
