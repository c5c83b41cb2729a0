/*
 * Removing items that ended long ago.
 *
 * How long ago is read from the status node, because its dates are texts of whoever wrote them.
 *
 * Each item is removed as batch_item_delete() does: an access item or a job in one transaction, a
 * batch in several, its jobs first and the batch in the last one. If that stops in between, the
 * batch is still there, in its final state, with fewer jobs, and the next purge removes the rest.
 */
#include "batch/tools.h"

struct batch_purging {
    struct batch_call c; /* with an arena that is emptied after each item */
    enum batch_kind_id kind;
    const struct batch_purge *o;
    struct batch_purged *result;
};

/* The report of a batch counts its jobs, so they stay until it was made. */
static int is_reported(struct batch_purging *p, const char *bid)
{
    const struct batch_store *r = p->c.store;
    struct batch_item b;
    int err = batch_item_read(&p->c, BATCH_KIND_BATCH, str_of(bid), &b);
    if (err)
        return err == DROVER_NO_NODE ? 1 : err;
    int state = b.status.state;
    return state == r->batch.failed || state == r->batch.completed || state == r->batch.deleted;
}

/* 1: it is to be removed; *ret_jobs: how many jobs go with it. */
static int is_due(struct batch_purging *p, struct str id, int64_t *ret_jobs)
{
    const struct batch_kind *kind = &p->c.store->kinds[p->kind];
    struct batch_census n = {.counts = {0}};
    struct keeper_stat stat;
    struct batch_item i;
    TRY(batch_node_exists(&p->c, &stat, "%s/%.*s/status", kind->dir, STR_ARGS(id)));
    if (stat.mtime_ms > p->o->before_ms)
        return 0;
    TRY(batch_item_read(&p->c, p->kind, id, &i));
    int state = i.status.state;
    if (!batch_machine_is_final(kind->machine, state) ||
        (p->o->state != BATCH_NO_STATE && state != p->o->state))
        return 0;
    *ret_jobs = 0;
    if (p->kind == BATCH_KIND_BATCH)
        TRY(batch_census(&p->c, i.id, &n));
    for (int l = 0; l < BATCH_LIST_COUNT; l++)
        *ret_jobs += n.counts[l];
    return p->kind == BATCH_KIND_JOB ? is_reported(p, i.bid) : 1;
}

/*
 * Another client may have changed the item, or removed it, or put so much into it that one
 * transaction cannot delete it. The others are removed all the same.
 */
static int purge_one(struct batch_purging *p, struct str id)
{
    struct batch_purged *result = p->result;
    int64_t jobs;
    int err = is_due(p, id, &jobs);
    if (err == 1 && result->removed >= p->o->limit) {
        result->more = true;
        return 0;
    }
    if (err == 1) {
        err = batch_item_delete(&p->c, p->kind, id);
        result->removed += !err;
        result->jobs += err ? 0 : jobs;
        result->locked += err == DROVER_LOCKED;
    }
    return batch_is_conflict(err) || err == DROVER_LOCKED || err == DROVER_DAMAGED ||
                   err == DROVER_NOT_ALLOWED || err == DROVER_TOO_BIG
               ? 0
               : err;
}

static int purge_dir(struct batch_purging *p, const char *dir)
{
    const struct batch_kind *kind = &p->c.store->kinds[p->kind];
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    TRY(batch_fail(&p->c, keeper_children(p->c.k, dir, &names, NULL)));
    for (size_t i = 0; i < names.count && !p->result->more; i++) {
        struct str name = str_of(names.names[i]);
        if (batch_entry_key(kind->prefix, kind->priority, name) < 0)
            continue;
        if (p->o->stop && p->o->stop(p->o->arg))
            return 0;
        TRY(purge_one(p, (struct str){name.p + name.len - BATCH_ID_LEN, BATCH_ID_LEN}));
        arena_reset(p->c.a);
    }
    return 0;
}

int batch_purge(struct batch_call *c, enum batch_kind_id id, const struct batch_purge *o,
                struct batch_purged *ret_purged)
{
    const struct batch_kind *kind = &c->store->kinds[id];
    CLEANUP(arena_release) struct arena a = {0};
    struct batch_purging p = {{c->store, c->k, &a, c->why}, id, o, ret_purged};
    *ret_purged = (struct batch_purged){.removed = 0};
    if (id != BATCH_KIND_JOB)
        return purge_dir(&p, kind->dir);
    for (int i = 0; i < kind->machine->count; i++)
        if (batch_machine_is_final(kind->machine, i))
            TRY(purge_dir(&p, kind->views[i].dir));
    return 0;
}
