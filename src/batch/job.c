/* Creating jobs. */
#include "batch/job.h"

#include "batch/batch.h"

int batch_job_read_spec(struct batch_call *c, const struct json *v, struct batch_job_spec *ret_spec)
{
    static const char *const MEMBERS[] = {"configuration", "identifiers",  "metadata", "inventory",
                                          "priority",      "space_needed", "session",  NULL};
    struct batch_job_spec s = {.priority = BATCH_PRIORITY_DEFAULT};
    const struct json **const objects[] = {&s.configuration, &s.identifiers, &s.metadata,
                                           &s.inventory};
    int err;

    if (v->kind != JSON_OBJECT)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "a job is an object with a 'configuration'");
    err = json_only(v, MEMBERS, c->why);
    for (int i = 0; i < 4 && err >= 0; i++)
        err = json_get_object(v, MEMBERS[i], objects[i], c->why);
    if (err < 0 || (err = json_get_int(v, "priority", &s.priority, c->why)) < 0 ||
        (err = json_get_int(v, "space_needed", &s.space_needed, c->why)) < 0)
        return err;
    if (!s.configuration)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "'configuration' is missing");
    if (s.priority < 0 || s.priority > BATCH_PRIORITY_MAX)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "'priority' must be 0 to %d", BATCH_PRIORITY_MAX);
    if (s.space_needed < 0)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "'space_needed' is negative");
    *ret_spec = s;
    return 0;
}

struct batch_job_creation {
    struct batch_item batch;
    const struct batch_job_spec *specs;
    size_t count;
    const struct batch_job_extra *extra; /* NULL: none */
    char (*jids)[BATCH_ID_LEN + 1];
};

static void add_job(struct batch_call *c, struct batch_txn *t, const char *bid,
                    const struct batch_item *j, const struct batch_job_spec *s, struct str status)
{
    const struct {
        const char *name;
        struct str data;
    } nodes[] = {
        {NULL, NO_BYTES},
        {"bid", str_of(bid)},
        {"configuration", batch_json_text(c, s->configuration, STR("{}"))},
        {"status", status},
        {"priority", str_of(arena_printf(c->a, "%d", (int)s->priority))},
        {"space_needed", str_of(arena_printf(c->a, "%lld", (long long)s->space_needed))},
        {"identifiers",
         batch_json_text(c, s->identifiers, STR("{\"primary_id\":null,\"local_id\":[]}"))},
        {"metadata", batch_json_text(c, s->metadata, STR("{}"))},
        {"inventory", batch_json_text(c, s->inventory, (struct str){0})},
    };
    const struct batch_machine *m = j->kind->machine;

    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        if (nodes[i].data.p)
            batch_item_add_node(t, j, nodes[i].name, nodes[i].data);
    batch_txn_list_add(t, OP_ANY, &j->kind->views[m->first],
                       batch_key((int)s->priority, j->number));
    txn_create(&t->txn, OP_ANY, NO_BYTES, 0, "/batches/%s/states/%s/%s", bid,
               BATCH_LISTS[m->states[m->first].list], j->id);
}

/* Jobs can be added to a batch until its report is due. */
static int add_open_check(struct batch_call *c, struct batch_txn *t, struct batch_item *b)
{
    const struct batch_store *r = c->store;
    TRY(batch_item_read(c, BATCH_KIND_BATCH, str_of(b->id), b));
    int state = b->status.state;
    if (state != r->batch.pending && state != r->batch.held && state != r->batch.processing)
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED,
                          "batch %s is %s; jobs can be added to a batch that is Pending, Held or "
                          "Processing",
                          b->id, r->machines.batch.states[state].name);
    txn_check(&t->txn, OP_ANY, b->version, "/batches/%s/status", b->id);
    return 0;
}

static int add_jobs(struct batch_call *c, struct batch_txn *t, int64_t number, void *arg)
{
    struct batch_job_creation *new = arg;
    struct batch_item j = {.kind = &c->store->kinds[BATCH_KIND_JOB]};
    struct batch_status s = {.state = j.kind->machine->first,
                             .last_successful = BATCH_NO_STATE,
                             .modified = batch_now(c)};
    struct str status = batch_status_write(j.kind->machine, &s, c->a);
    int batch_to, err = add_open_check(c, t, &new->batch);

    if (err)
        return err;
    err = batch_count_change(c, t, new->batch.id, 0, (int)new->count, &batch_to);
    if (err)
        return batch_fail(c, err);
    for (size_t i = 0; i < new->count; i++) {
        batch_item_init(&j, j.kind, number + (int64_t)i);
        memcpy(new->jids[i], j.id, sizeof j.id);
        add_job(c, t, new->batch.id, &j, &new->specs[i], status);
    }
    if (new->extra)
        txn_create(&t->txn, OP_UNIQUE, str_of(new->jids[0]), 0, "%s", new->extra->mark);
    if (new->extra &&new->extra->remove)
        txn_delete(&t->txn, OP_ANY, KEEPER_ANY_VERSION, "%s", new->extra->remove);
    return 0;
}

int batch_job_create(struct batch_call *c, struct str bid, const struct batch_job_spec *specs,
                     size_t count, const struct batch_job_extra *extra,
                     char (*ret_jids)[BATCH_ID_LEN + 1])
{
    struct batch_job_creation new = {
        .specs = specs, .count = count, .extra = extra, .jids = ret_jids};
    struct batch_item j = {.kind = &c->store->kinds[BATCH_KIND_JOB]};
    int err = batch_item_name(c, BATCH_KIND_BATCH, bid, &new.batch);

    if (!err)
        err = batch_item_create(c, BATCH_KIND_JOB, add_jobs, &new, &j.number);
    if (err == DROVER_TOO_BIG)
        return BATCH_FAIL(c, err,
                          "too much for one transaction: create fewer jobs at once, or smaller "
                          "ones");
    memcpy(j.bid, new.batch.id, sizeof j.bid);
    for (size_t i = 0; i < count && !err; i++) {
        memcpy(j.id, ret_jids[i], sizeof j.id);
        batch_publish(c, &j, BATCH_NO_STATE, j.kind->machine->first);
    }
    return err;
}
