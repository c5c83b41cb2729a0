/* Making, reading, listing and deleting jobs. */
#include "batch/job.h"

#include <ctype.h>
#include <stdlib.h>

#include "batch/batch.h"

static int check_id(struct call *c, struct str jid, char ret_jid[NAME_ID_LEN + 1])
{
    int64_t number = name_number(NAME_JOB, jid);

    if (number < 0)
        return DEPOT_FAIL(c, DROVER_NO_NODE, "there is no job '%.*s'",
                          (int)(jid.len < 100 ? jid.len : 100), jid.p);
    name_id(NAME_JOB, number, ret_jid);
    return 0;
}

/* Making. */

int job_read_spec(struct call *c, const struct json *v, struct job_spec *ret_spec)
{
    static const char *const MEMBERS[] = {"configuration", "identifiers",  "metadata", "inventory",
                                          "priority",      "space_needed", "session",  NULL};
    struct job_spec s = {.priority = JOB_PRIORITY_DEFAULT};
    int err;

    if (v->kind != JSON_OBJECT)
        return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "a job is an object with a 'configuration'");
    if ((err = json_only(v, MEMBERS, c->why)) < 0 ||
        (err = json_get_object(v, "configuration", &s.configuration, c->why)) < 0 ||
        (err = json_get_object(v, "identifiers", &s.identifiers, c->why)) < 0 ||
        (err = json_get_object(v, "metadata", &s.metadata, c->why)) < 0 ||
        (err = json_get_object(v, "inventory", &s.inventory, c->why)) < 0 ||
        (err = json_get_int(v, "priority", &s.priority, c->why)) < 0 ||
        (err = json_get_int(v, "space_needed", &s.space_needed, c->why)) < 0)
        return err;
    if (!s.configuration)
        return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "'configuration' is missing");
    if (s.priority < 0 || s.priority > NAME_PRIORITY_MAX)
        return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "a priority is 0 to %d", NAME_PRIORITY_MAX);
    if (s.space_needed < 0)
        return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "'space_needed' is negative");
    *ret_spec = s;
    return 0;
}

static struct str json_text(struct call *c, const struct json *v, struct str otherwise)
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

static void add_job(struct call *c, struct change *t, const char *bid, int64_t number,
                    const struct job_spec *s, struct str status, char *ret_jid)
{
    const struct machine *m = &c->depot->machines.job;

    name_id(NAME_JOB, number, ret_jid);
    change_create(t, NO_BYTES, 0, "/jobs/%s", ret_jid);
    change_create(t, str_of(bid), 0, "/jobs/%s/bid", ret_jid);
    change_create(t, json_text(c, s->configuration, STR("{}")), 0, "/jobs/%s/configuration",
                  ret_jid);
    change_create(t, status, 0, "/jobs/%s/status", ret_jid);
    change_create(t, str_of(arena_printf(c->a, "%d", (int)s->priority)), 0, "/jobs/%s/priority",
                  ret_jid);
    change_create(t, str_of(arena_printf(c->a, "%lld", (long long)s->space_needed)), 0,
                  "/jobs/%s/space_needed", ret_jid);
    change_create(t, json_text(c, s->identifiers, STR("{\"primary_id\":null,\"local_id\":[]}")), 0,
                  "/jobs/%s/identifiers", ret_jid);
    change_create(t, json_text(c, s->metadata, STR("{}")), 0, "/jobs/%s/metadata", ret_jid);
    if (s->inventory)
        change_create(t, json_text(c, s->inventory, STR("{}")), 0, "/jobs/%s/inventory", ret_jid);
    change_list_add(t, &c->depot->jobs[m->first], name_key_of((int)s->priority, number));
    change_create(t, NO_BYTES, 0, "/batches/%s/states/%s/%s", bid,
                  MACHINE_LISTS[m->states[m->first].list], ret_jid);
}

/* Jobs come into a batch until its report is due. */
static int check_open(struct call *c, struct change *t, const char *bid)
{
    const struct depot *r = c->depot;
    struct status s;
    int32_t version;
    int err = batch_read_status(c, bid, &s, &version);

    if (err)
        return err;
    if (s.state != r->batch.pending && s.state != r->batch.held && s.state != r->batch.processing)
        return DEPOT_FAIL(
            c, DROVER_NOT_ALLOWED,
            "batch %s is %s; jobs can be added while it is Pending, Held or Processing", bid,
            r->machines.batch.states[s.state].name);
    change_check(t, version, "/batches/%s/status", bid);
    return 0;
}

struct making {
    const char *bid;
    const struct job_spec *specs;
    size_t count;
    const struct job_extra *extra; /* NULL: none */
};

static int try_create(struct call *c, const struct making *g, char (*ret_jids)[NAME_ID_LEN + 1],
                      bool *ret_again)
{
    const struct machine *m = &c->depot->machines.job;
    struct status s = {.state = m->first,
                       .last_successful = MACHINE_NONE,
                       .modified = depot_now(c),
                       .is_job = true};
    struct str status = status_write(m, &s, c->a);
    struct change t = {.a = c->a};
    int64_t number;
    int32_t version;
    int moved, mark = -2, err = check_open(c, &t, g->bid);

    *ret_again = false;
    if (err)
        return err;
    err = depot_next_number(c, "/jobs", &number, &version);
    if (err)
        return depot_fail(c, err);
    change_set(&t, NO_BYTES, version, "/jobs");
    err = batch_count_change(c, &t, g->bid, 0, (int)g->count, &moved);
    if (err)
        return depot_fail(c, err);
    for (size_t i = 0; i < g->count; i++)
        add_job(c, &t, g->bid, number + (int64_t)i, &g->specs[i], status, ret_jids[i]);
    if (g->extra)
        mark = change_create(&t, str_of(ret_jids[0]), 0, "%s", g->extra->mark);
    if (g->extra && g->extra->remove)
        change_delete(&t, "%s", g->extra->remove);
    err = change_commit(&t, c->k, -1);
    if (err == DROVER_EXISTS && t.failed == mark)
        return depot_fail(c, err);
    *ret_again = depot_again(err);
    if (err == DROVER_TOO_BIG)
        return DEPOT_FAIL(c, err,
                          "too much for one transaction: make fewer jobs at once, or smaller");
    return err ? depot_fail(c, err) : 0;
}

static int create(struct call *c, struct str id, struct making *g,
                  char (*ret_jids)[NAME_ID_LEN + 1])
{
    const struct machine *m = &c->depot->machines.job;
    char bid[NAME_ID_LEN + 1];
    bool again = true;
    int err = batch_check_id(c, id, bid);

    if (err)
        return err;
    g->bid = bid;
    for (int i = 0; i < DEPOT_TRIES && again; i++) {
        pthread_mutex_lock(&c->depot->making);
        err = try_create(c, g, ret_jids, &again);
        pthread_mutex_unlock(&c->depot->making);
    }
    for (size_t i = 0; i < g->count && !err; i++)
        depot_tell(c,
                   &(struct depot_event){"job", ret_jids[i], bid, NULL, m->states[m->first].name});
    return err;
}

int job_create(struct call *c, struct str bid, const struct job_spec *specs, size_t count,
               char (*ret_jids)[NAME_ID_LEN + 1])
{
    struct making g = {.specs = specs, .count = count};

    return create(c, bid, &g, ret_jids);
}

int job_create_extra(struct call *c, struct str bid, const struct job_spec *spec,
                     const struct job_extra *extra, char ret_jid[NAME_ID_LEN + 1])
{
    struct making g = {.specs = spec, .count = 1, .extra = extra};

    return create(c, bid, &g, (char(*)[NAME_ID_LEN + 1]) ret_jid);
}

/* Reading. */

/* What a foreign client wrote for a number is input like the rest. */
static int read_priority(struct call *c, const char *jid, struct str text, int *ret_priority)
{
    int value = 0;

    for (size_t i = 0; i < text.len && i < 4; i++)
        value = isdigit((unsigned char)text.p[i]) ? value * 10 + text.p[i] - '0' : 1000;
    if (text.len == 0 || text.len > 3 || value > NAME_PRIORITY_MAX)
        return DEPOT_FAIL(c, DROVER_DAMAGED,
                          "job %s: its priority is '%.*s'; see 'drover batch fsck'", jid,
                          (int)(text.len < 20 ? text.len : 20), text.p);
    *ret_priority = value;
    return 0;
}

static int read_bid(struct call *c, struct job *j)
{
    struct str text;
    int err = depot_get(c, &text, NULL, "/jobs/%s/bid", j->id);
    int64_t number = err ? -1 : name_number(NAME_BATCH, text);

    if (err && err != DROVER_NO_NODE)
        return depot_fail(c, err);
    if (number < 0)
        return DEPOT_FAIL(c, DROVER_DAMAGED, "job %s names no batch; see 'drover batch fsck'",
                          j->id);
    name_id(NAME_BATCH, number, j->bid);
    return 0;
}

int job_brief(struct call *c, struct str id, struct job *ret_job)
{
    struct job j = {.batch_version = -1};
    struct keeper_stat stat;
    struct err_info why;
    struct str text;
    int err = check_id(c, id, j.id);

    if (err)
        return err;
    err = depot_get(c, &text, &stat, "/jobs/%s/status", j.id);
    if (err == DROVER_NO_NODE)
        return DEPOT_FAIL(c, err, "there is no job %s", j.id);
    if (err)
        return depot_fail(c, err);
    j.version = stat.version;
    if (status_read(&c->depot->machines.job, true, c->a, text, &j.status, &why))
        return DEPOT_FAIL(c, DROVER_DAMAGED, "job %s: %s", j.id, why.text);
    err = depot_get(c, &text, &stat, "/jobs/%s/priority", j.id);
    if (err)
        return err == DROVER_NO_NODE
                   ? DEPOT_FAIL(c, DROVER_DAMAGED,
                                "job %s has no priority; see 'drover batch fsck'", j.id)
                   : depot_fail(c, err);
    j.priority_version = stat.version;
    if ((err = read_priority(c, j.id, text, &j.priority)) || (err = read_bid(c, &j)))
        return err;
    *ret_job = j;
    return 0;
}

int job_get(struct call *c, struct str id, struct job *ret_job)
{
    static const struct {
        const char *node;
        size_t at;
    } FIELDS[] = {
        {"configuration", offsetof(struct job, configuration)},
        {"identifiers", offsetof(struct job, identifiers)},
        {"metadata", offsetof(struct job, metadata)},
        {"inventory", offsetof(struct job, inventory)},
        {"space_needed", offsetof(struct job, space_needed)},
    };
    struct keeper_stat stat;
    struct job j;
    int err = job_brief(c, id, &j);

    if (err)
        return err;
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS && !err; i++) {
        struct str *field = (struct str *)((char *)&j + FIELDS[i].at);

        err = depot_get(c, field, NULL, "/jobs/%s/%s", j.id, FIELDS[i].node);
        err = err == DROVER_NO_NODE ? 0 : err;
    }
    if (!err) {
        err = depot_exists(c, &stat, "/jobs/%s/lock", j.id);
        j.token = err ? 0 : stat.czxid;
        err = err == DROVER_NO_NODE ? 0 : err;
    }
    if (err)
        return depot_fail(c, err);
    *ret_job = j;
    return 0;
}

/* Listing. */

struct listing {
    const struct job_filter *f;
    struct job *jobs;
    size_t count, skipped, cap;
};

static bool has_profile(struct call *c, const struct job *j, struct str profile)
{
    const struct json *v = j->configuration.p ? json_parse(c->a, j->configuration, NULL) : NULL;
    struct str name = {0};

    json_get_text(v, "profile_name", &name, NULL);
    return str_eq(name, profile);
}

static int list_one(struct call *c, struct listing *l, struct str jid)
{
    struct job j;
    int err = job_get(c, jid, &j);

    if (err == DROVER_NO_NODE || err == DROVER_DAMAGED)
        return 0; /* it went meanwhile, or fsck names it */
    if (err)
        return err;
    if ((l->f->state != MACHINE_NONE && j.status.state != l->f->state) ||
        (l->f->bid.p && !str_eq(l->f->bid, str_of(j.bid))) ||
        (l->f->profile.p && !has_profile(c, &j, l->f->profile)))
        return 0;
    if (l->skipped < l->f->start) {
        l->skipped++;
        return 0;
    }
    if (l->count == l->cap) {
        struct job *more;

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
static int list_entries(struct call *c, struct listing *l, const struct keeper_names *names,
                        size_t prefix_len)
{
    bool blind = !l->f->bid.p && !l->f->profile.p;
    int err = 0;

    for (size_t i = 0; i < names->count && l->count < l->f->limit && !err; i++) {
        struct str name = str_of(names->names[i]);

        if (name.len != prefix_len + NAME_ID_LEN)
            continue;
        if (blind && l->skipped < l->f->start)
            l->skipped++;
        else
            err = list_one(c, l, (struct str){name.p + prefix_len, name.len - prefix_len});
    }
    return err;
}

int job_list(struct call *c, const struct job_filter *f, struct job **ret_jobs, size_t *ret_count)
{
    const struct machine *m = &c->depot->machines.job;
    struct listing l = {.f = f};
    struct keeper_names names;
    int err = 0;

    if (f->bid.p) {
        char bid[NAME_ID_LEN + 1];
        struct status s;
        int32_t version;

        if ((err = batch_check_id(c, f->bid, bid)) ||
            (err = batch_read_status(c, bid, &s, &version)))
            return err;
        for (int i = 0; i < MACHINE_LIST_COUNT && !err; i++) {
            err = depot_children(c, &names, NULL, "/batches/%s/states/%s", bid, MACHINE_LISTS[i]);
            err = err ? (err == DROVER_NO_NODE ? 0 : err) : list_entries(c, &l, &names, 0);
        }
    }
    for (int i = 0; i < m->count && !f->bid.p && !err; i++) {
        if (f->state != MACHINE_NONE && f->state != i)
            continue;
        err = depot_children(c, &names, NULL, "/jobs/states/%s", m->states[i].dir);
        err = err ? err : list_entries(c, &l, &names, 3);
    }
    if (err)
        return depot_fail(c, err);
    *ret_jobs = l.jobs;
    *ret_count = l.count;
    return 0;
}

/* Deleting. */

int job_delete_ops(struct call *c, struct change *t, const char *jid, const char *bid,
                   enum machine_list list)
{
    struct keeper_names names;
    struct job j;
    int err = job_brief(c, str_of(jid), &j), at;

    if (!err)
        err = depot_children(c, &names, NULL, "/jobs/%s", jid);
    if (!err)
        err = job_locate(c, jid, j.status.state, j.priority, &at);
    if (err)
        return err;
    change_check(t, j.version, "/jobs/%s/status", jid);
    for (size_t i = 0; i < names.count; i++) {
        if (strcmp(names.names[i], "lock") == 0)
            return DEPOT_FAIL(c, DROVER_LOCKED, "job %s is locked", jid);
        change_delete(t, "/jobs/%s/%s", jid, names.names[i]);
    }
    change_delete(t, "/jobs/%s", jid);
    if (at >= 0)
        change_list_remove(t, &c->depot->jobs[j.status.state],
                           name_key_of(at, name_number(NAME_JOB, str_of(jid))));
    change_delete(t, "/batches/%s/states/%s/%s", bid, MACHINE_LISTS[list], jid);
    return 0;
}

int job_delete(struct call *c, struct str id)
{
    const struct machine *m = &c->depot->machines.job;
    struct change t = {.a = c->a};
    struct job j;
    int err = job_brief(c, id, &j);

    if (err)
        return err;
    if (!machine_is_end(m, j.status.state))
        return DEPOT_FAIL(c, DROVER_NOT_ALLOWED, "job %s is %s; it can be deleted at an end", j.id,
                          m->states[j.status.state].name);
    err = job_delete_ops(c, &t, j.id, j.bid, m->states[j.status.state].list);
    if (err)
        return err;
    err = change_commit(&t, c->k, -1);
    return err ? depot_fail(c, err) : 0;
}
