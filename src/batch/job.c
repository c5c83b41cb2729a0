/* Making, reading, listing and deleting jobs. */
#include "batch/job.h"

#include <ctype.h>
#include <stdlib.h>

#include "batch/batch.h"

static int check_id(struct batch_call *c, struct str jid, char ret_jid[BATCH_ID_LEN + 1])
{
    int64_t number = batch_id_number(BATCH_ID_JOB, jid);

    if (number < 0)
        return BATCH_FAIL(c, DROVER_NO_NODE, "there is no job '%.*s'",
                          (int)(jid.len < 100 ? jid.len : 100), jid.p);
    batch_id(BATCH_ID_JOB, number, ret_jid);
    return 0;
}

/* Making. */

int batch_job_read_spec(struct batch_call *c, const struct json *v, struct batch_job_spec *ret_spec)
{
    static const char *const MEMBERS[] = {"configuration", "identifiers",  "metadata", "inventory",
                                          "priority",      "space_needed", "session",  NULL};
    struct batch_job_spec s = {.priority = JOB_PRIORITY_DEFAULT};
    int err;

    if (v->kind != JSON_OBJECT)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "a job is an object with a 'configuration'");
    if ((err = json_only(v, MEMBERS, c->why)) < 0 ||
        (err = json_get_object(v, "configuration", &s.configuration, c->why)) < 0 ||
        (err = json_get_object(v, "identifiers", &s.identifiers, c->why)) < 0 ||
        (err = json_get_object(v, "metadata", &s.metadata, c->why)) < 0 ||
        (err = json_get_object(v, "inventory", &s.inventory, c->why)) < 0 ||
        (err = json_get_int(v, "priority", &s.priority, c->why)) < 0 ||
        (err = json_get_int(v, "space_needed", &s.space_needed, c->why)) < 0)
        return err;
    if (!s.configuration)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "'configuration' is missing");
    if (s.priority < 0 || s.priority > BATCH_PRIORITY_MAX)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "a priority is 0 to %d", BATCH_PRIORITY_MAX);
    if (s.space_needed < 0)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "'space_needed' is negative");
    *ret_spec = s;
    return 0;
}

static struct str json_text(struct batch_call *c, const struct json *v, struct str otherwise)
{
    struct buf b = {0};
    struct str text;

    if (!v)
        return otherwise;
    json_put(&b, v);
    text = (struct str){arena_text(c->a, (struct str){b.p, b.len}), b.len};
    buf_release(&b);
    return text;
}

static void add_job(struct batch_call *c, struct batch_change *t, const char *bid, int64_t number,
                    const struct batch_job_spec *s, struct str status, char *ret_jid)
{
    const struct batch_machine *m = &c->store->machines.job;

    batch_id(BATCH_ID_JOB, number, ret_jid);
    batch_change_create(t, NO_BYTES, 0, "/jobs/%s", ret_jid);
    batch_change_create(t, str_of(bid), 0, "/jobs/%s/bid", ret_jid);
    batch_change_create(t, json_text(c, s->configuration, STR("{}")), 0, "/jobs/%s/configuration",
                        ret_jid);
    batch_change_create(t, status, 0, "/jobs/%s/status", ret_jid);
    batch_change_create(t, str_of(arena_printf(c->a, "%d", (int)s->priority)), 0,
                        "/jobs/%s/priority", ret_jid);
    batch_change_create(t, str_of(arena_printf(c->a, "%lld", (long long)s->space_needed)), 0,
                        "/jobs/%s/space_needed", ret_jid);
    batch_change_create(t,
                        json_text(c, s->identifiers, STR("{\"primary_id\":null,\"local_id\":[]}")),
                        0, "/jobs/%s/identifiers", ret_jid);
    batch_change_create(t, json_text(c, s->metadata, STR("{}")), 0, "/jobs/%s/metadata", ret_jid);
    if (s->inventory)
        batch_change_create(t, json_text(c, s->inventory, STR("{}")), 0, "/jobs/%s/inventory",
                            ret_jid);
    batch_change_list_add(t, &c->store->jobs[m->first], batch_key((int)s->priority, number));
    batch_change_create(t, NO_BYTES, 0, "/batches/%s/states/%s/%s", bid,
                        BATCH_LISTS[m->states[m->first].list], ret_jid);
}

/* Jobs come into a batch until its report is due. */
static int check_open(struct batch_call *c, struct batch_change *t, const char *bid)
{
    const struct batch_store *r = c->store;
    struct batch_status s;
    int32_t version;
    int err = batch_read_status(c, bid, &s, &version);

    if (err)
        return err;
    if (s.state != r->batch.pending && s.state != r->batch.held && s.state != r->batch.processing)
        return BATCH_FAIL(
            c, DROVER_NOT_ALLOWED,
            "batch %s is %s; jobs can be added while it is Pending, Held or Processing", bid,
            r->machines.batch.states[s.state].name);
    batch_change_check(t, version, "/batches/%s/status", bid);
    return 0;
}

struct batch_job_creation {
    const char *bid;
    const struct batch_job_spec *specs;
    size_t count;
    const struct batch_job_extra *extra; /* NULL: none */
};

static int try_create(struct batch_call *c, const struct batch_job_creation *g,
                      char (*ret_jids)[BATCH_ID_LEN + 1], bool *ret_again)
{
    const struct batch_machine *m = &c->store->machines.job;
    struct batch_status s = {.state = m->first,
                             .last_successful = BATCH_NO_STATE,
                             .modified = batch_now(c),
                             .is_job = true};
    struct str status = batch_status_write(m, &s, c->a);
    struct batch_change t = {.a = c->a};
    int64_t number;
    int32_t version;
    int moved, mark = -2, err = check_open(c, &t, g->bid);

    *ret_again = false;
    if (err)
        return err;
    err = batch_next_number(c, "/jobs", &number, &version);
    if (err)
        return batch_fail(c, err);
    batch_change_set(&t, NO_BYTES, version, "/jobs");
    err = batch_count_change(c, &t, g->bid, 0, (int)g->count, &moved);
    if (err)
        return batch_fail(c, err);
    for (size_t i = 0; i < g->count; i++)
        add_job(c, &t, g->bid, number + (int64_t)i, &g->specs[i], status, ret_jids[i]);
    if (g->extra)
        mark = batch_change_create(&t, str_of(ret_jids[0]), 0, "%s", g->extra->mark);
    if (g->extra && g->extra->remove)
        batch_change_delete(&t, "%s", g->extra->remove);
    err = batch_change_commit(&t, c->k, -1);
    if (err == DROVER_EXISTS && t.failed == mark)
        return batch_fail(c, err);
    *ret_again = batch_is_conflict(err);
    if (err == DROVER_TOO_BIG)
        return BATCH_FAIL(c, err,
                          "too much for one transaction: make fewer jobs at once, or smaller");
    return err ? batch_fail(c, err) : 0;
}

static int create(struct batch_call *c, struct str id, struct batch_job_creation *g,
                  char (*ret_jids)[BATCH_ID_LEN + 1])
{
    const struct batch_machine *m = &c->store->machines.job;
    char bid[BATCH_ID_LEN + 1];
    bool again = true;
    int err = batch_check_id(c, id, bid);

    if (err)
        return err;
    g->bid = bid;
    for (int i = 0; i < BATCH_TRIES && again; i++) {
        pthread_mutex_lock(&c->store->making);
        err = try_create(c, g, ret_jids, &again);
        pthread_mutex_unlock(&c->store->making);
    }
    for (size_t i = 0; i < g->count && !err; i++)
        batch_publish(
            c, &(struct batch_event){"job", ret_jids[i], bid, NULL, m->states[m->first].name});
    return err;
}

int batch_job_create(struct batch_call *c, struct str bid, const struct batch_job_spec *specs,
                     size_t count, char (*ret_jids)[BATCH_ID_LEN + 1])
{
    struct batch_job_creation g = {.specs = specs, .count = count};

    return create(c, bid, &g, ret_jids);
}

int batch_job_create_extra(struct batch_call *c, struct str bid, const struct batch_job_spec *spec,
                           const struct batch_job_extra *extra, char ret_jid[BATCH_ID_LEN + 1])
{
    struct batch_job_creation g = {.specs = spec, .count = 1, .extra = extra};

    return create(c, bid, &g, (char(*)[BATCH_ID_LEN + 1]) ret_jid);
}

/* Reading. */

/* What a foreign client wrote for a number is input like the rest. */
static int read_priority(struct batch_call *c, const char *jid, struct str text, int *ret_priority)
{
    int value = 0;

    for (size_t i = 0; i < text.len && i < 4; i++)
        value = isdigit((unsigned char)text.p[i]) ? value * 10 + text.p[i] - '0' : 1000;
    if (text.len == 0 || text.len > 3 || value > BATCH_PRIORITY_MAX)
        return BATCH_FAIL(c, DROVER_DAMAGED,
                          "job %s: its priority is '%.*s'; see 'drover batch fsck'", jid,
                          (int)(text.len < 20 ? text.len : 20), text.p);
    *ret_priority = value;
    return 0;
}

static int read_bid(struct batch_call *c, struct batch_job *j)
{
    struct str text;
    int err = batch_node_get(c, &text, NULL, "/jobs/%s/bid", j->id);
    int64_t number = err ? -1 : batch_id_number(BATCH_ID_BATCH, text);

    if (err && err != DROVER_NO_NODE)
        return batch_fail(c, err);
    if (number < 0)
        return BATCH_FAIL(c, DROVER_DAMAGED, "job %s names no batch; see 'drover batch fsck'",
                          j->id);
    batch_id(BATCH_ID_BATCH, number, j->bid);
    return 0;
}

int batch_job_brief(struct batch_call *c, struct str id, struct batch_job *ret_job)
{
    struct batch_job j = {.batch_version = -1};
    struct keeper_stat stat;
    struct err_info why;
    struct str text;
    int err = check_id(c, id, j.id);

    if (err)
        return err;
    err = batch_node_get(c, &text, &stat, "/jobs/%s/status", j.id);
    if (err == DROVER_NO_NODE)
        return BATCH_FAIL(c, err, "there is no job %s", j.id);
    if (err)
        return batch_fail(c, err);
    j.version = stat.version;
    if (batch_status_read(&c->store->machines.job, true, c->a, text, &j.status, &why))
        return BATCH_FAIL(c, DROVER_DAMAGED, "job %s: %s", j.id, why.text);
    err = batch_node_get(c, &text, &stat, "/jobs/%s/priority", j.id);
    if (err)
        return err == DROVER_NO_NODE
                   ? BATCH_FAIL(c, DROVER_DAMAGED,
                                "job %s has no priority; see 'drover batch fsck'", j.id)
                   : batch_fail(c, err);
    j.priority_version = stat.version;
    if ((err = read_priority(c, j.id, text, &j.priority)) || (err = read_bid(c, &j)))
        return err;
    *ret_job = j;
    return 0;
}

int batch_job_get(struct batch_call *c, struct str id, struct batch_job *ret_job)
{
    static const struct {
        const char *node;
        size_t at;
    } FIELDS[] = {
        {"configuration", offsetof(struct batch_job, configuration)},
        {"identifiers", offsetof(struct batch_job, identifiers)},
        {"metadata", offsetof(struct batch_job, metadata)},
        {"inventory", offsetof(struct batch_job, inventory)},
        {"space_needed", offsetof(struct batch_job, space_needed)},
    };
    struct keeper_stat stat;
    struct batch_job j;
    int err = batch_job_brief(c, id, &j);

    if (err)
        return err;
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS && !err; i++) {
        struct str *field = (struct str *)((char *)&j + FIELDS[i].at);

        err = batch_node_get(c, field, NULL, "/jobs/%s/%s", j.id, FIELDS[i].node);
        err = err == DROVER_NO_NODE ? 0 : err;
    }
    if (!err) {
        err = batch_node_exists(c, &stat, "/jobs/%s/lock", j.id);
        j.token = err ? 0 : stat.czxid;
        err = err == DROVER_NO_NODE ? 0 : err;
    }
    if (err)
        return batch_fail(c, err);
    *ret_job = j;
    return 0;
}

/* Listing. */

struct batch_job_listing {
    const struct batch_job_filter *f;
    struct batch_job *jobs;
    size_t count, skipped, cap;
};

static bool has_profile(struct batch_call *c, const struct batch_job *j, struct str profile)
{
    const struct json *v = j->configuration.p ? json_parse(c->a, j->configuration, NULL) : NULL;
    struct str name = {0};

    json_get_text(v, "profile_name", &name, NULL);
    return str_eq(name, profile);
}

static int list_one(struct batch_call *c, struct batch_job_listing *l, struct str jid)
{
    struct batch_job j;
    int err = batch_job_get(c, jid, &j);

    if (err == DROVER_NO_NODE || err == DROVER_DAMAGED)
        return 0; /* it went meanwhile, or fsck names it */
    if (err)
        return err;
    if ((l->f->state != BATCH_NO_STATE && j.status.state != l->f->state) ||
        (l->f->bid.p && !str_eq(l->f->bid, str_of(j.bid))) ||
        (l->f->profile.p && !has_profile(c, &j, l->f->profile)))
        return 0;
    if (l->skipped < l->f->start) {
        l->skipped++;
        return 0;
    }
    if (l->count == l->cap) {
        struct batch_job *more;

        l->cap = l->cap ? 2 * l->cap : 64;
        more = arena_alloc(c->a, l->cap * sizeof *more);
        if (l->count)
            memcpy(more, l->jobs, l->count * sizeof *more);
        l->jobs = more;
    }
    l->jobs[l->count++] = j;
    return 0;
}

/* Entries that need no look inside are skipped by their number alone. */
static int list_entries(struct batch_call *c, struct batch_job_listing *l,
                        const struct keeper_names *names, size_t prefix_len)
{
    bool blind = !l->f->bid.p && !l->f->profile.p;
    int err = 0;

    for (size_t i = 0; i < names->count && l->count < l->f->limit && !err; i++) {
        struct str name = str_of(names->names[i]);

        if (name.len != prefix_len + BATCH_ID_LEN)
            continue;
        if (blind && l->skipped < l->f->start)
            l->skipped++;
        else
            err = list_one(c, l, (struct str){name.p + prefix_len, name.len - prefix_len});
    }
    return err;
}

int batch_job_list(struct batch_call *c, const struct batch_job_filter *f,
                   struct batch_job **ret_jobs, size_t *ret_count)
{
    const struct batch_machine *m = &c->store->machines.job;
    struct batch_job_listing l = {.f = f};
    struct keeper_names names;
    int err = 0;

    if (f->bid.p) {
        char bid[BATCH_ID_LEN + 1];
        struct batch_status s;
        int32_t version;

        if ((err = batch_check_id(c, f->bid, bid)) ||
            (err = batch_read_status(c, bid, &s, &version)))
            return err;
        for (int i = 0; i < BATCH_LIST_COUNT && !err; i++) {
            err =
                batch_node_children(c, &names, NULL, "/batches/%s/states/%s", bid, BATCH_LISTS[i]);
            err = err ? (err == DROVER_NO_NODE ? 0 : err) : list_entries(c, &l, &names, 0);
        }
    }
    for (int i = 0; i < m->count && !f->bid.p && !err; i++) {
        if (f->state != BATCH_NO_STATE && f->state != i)
            continue;
        err = batch_node_children(c, &names, NULL, "/jobs/states/%s", m->states[i].dir);
        err = err ? err : list_entries(c, &l, &names, 3);
    }
    if (err)
        return batch_fail(c, err);
    *ret_jobs = l.jobs;
    *ret_count = l.count;
    return 0;
}

/* Deleting. */

int batch_job_delete_ops(struct batch_call *c, struct batch_change *t, const char *jid,
                         const char *bid, enum batch_list list)
{
    struct keeper_names names;
    struct batch_job j;
    int err = batch_job_brief(c, str_of(jid), &j), at;

    if (!err)
        err = batch_node_children(c, &names, NULL, "/jobs/%s", jid);
    if (!err)
        err = batch_job_locate(c, jid, j.status.state, j.priority, &at);
    if (err)
        return err;
    batch_change_check(t, j.version, "/jobs/%s/status", jid);
    for (size_t i = 0; i < names.count; i++) {
        if (strcmp(names.names[i], "lock") == 0)
            return BATCH_FAIL(c, DROVER_LOCKED, "job %s is locked", jid);
        batch_change_delete(t, "/jobs/%s/%s", jid, names.names[i]);
    }
    batch_change_delete(t, "/jobs/%s", jid);
    if (at >= 0)
        batch_change_list_remove(t, &c->store->jobs[j.status.state],
                                 batch_key(at, batch_id_number(BATCH_ID_JOB, str_of(jid))));
    batch_change_delete(t, "/batches/%s/states/%s/%s", bid, BATCH_LISTS[list], jid);
    return 0;
}

int batch_job_delete(struct batch_call *c, struct str id)
{
    const struct batch_machine *m = &c->store->machines.job;
    struct batch_change t = {.a = c->a};
    struct batch_job j;
    int err = batch_job_brief(c, id, &j);

    if (err)
        return err;
    if (!batch_machine_is_end(m, j.status.state))
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED, "job %s is %s; it can be deleted at an end", j.id,
                          m->states[j.status.state].name);
    err = batch_job_delete_ops(c, &t, j.id, j.bid, m->states[j.status.state].list);
    if (err)
        return err;
    err = batch_change_commit(&t, c->k, -1);
    return err ? batch_fail(c, err) : 0;
}
