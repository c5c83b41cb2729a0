/*
 * Acquiring jobs: the lowest PP-JID of a state that nobody holds.
 *
 * The view of the list says which to try; the transaction that makes the lock also makes sure that the
 * entry is there and that the status is the one that was read. What is locked, or belongs to a
 * collection or a batch that is held, is parked and tried again later, or at once when this process
 * sees the reason go. So an acquire costs the same whatever the list holds.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "batch/batch.h"
#include "batch/job.h"
#include "batch/lock.h"

#include <stdlib.h>

/*
 * Entries of jobs that are held, locked or not there at all, which one acquire looks at; whoever asks
 * again goes on after them.
 */
enum { JOB_TRIES_MAX = 1000 };

/* A profile belongs to the collection of the same name, or of that name before "_content". */
bool job_is_held(struct call *c, struct str configuration, const struct keeper_names *names)
{
    const struct json *v = json_parse(c->a, configuration, NULL);
    struct str profile = {0}, suffix = STR("_content");
    char *flat;

    if (json_get_text(v, "profile_name", &profile, NULL) <= 0)
        return false;
    flat = arena_alloc(c->a, profile.len + 1);
    name_flatten(profile, flat);
    for (size_t i = 0; i < names->count; i++) {
        struct str name = str_of(names->names[i]);

        if (str_eq(name, profile) || str_eq(name, str_of(flat)))
            return true;
        if (profile.len == name.len + suffix.len && str_starts(str_of(flat), name) &&
            memcmp(flat + name.len, suffix.p, suffix.len) == 0)
            return true;
    }
    return false;
}

/* When other collections are held than the last time, what was parked for it is tried again. */
static void compare_held(struct depot *r, const struct keeper_names *names)
{
    struct buf b = {0};
    bool changed;

    for (size_t i = 0; i < names->count; i++)
        buf_printf(&b, "%s\n", names->names[i]);
    pthread_mutex_lock(&r->lock);
    changed = strcmp(r->held_collections ? r->held_collections : "", buf_text(&b)) != 0;
    if (changed) {
        free(r->held_collections);
        r->held_collections = mem_dup(b.p, b.len);
    }
    pthread_mutex_unlock(&r->lock);
    buf_release(&b);
    for (int i = 0; i < r->machines.job.count && changed; i++)
        view_free_all(&r->jobs[i]);
}

/* 1: somebody does not want it to be worked on now. */
static int is_held(struct call *c, const struct job *j, const struct keeper_names *collections)
{
    const struct depot *r = c->depot;
    struct str configuration;
    struct status s;
    int32_t version;
    int err = batch_read_status(c, j->bid, &s, &version);

    if (err)
        return err == DROVER_NO_NODE || err == DROVER_DAMAGED ? 1 : err;
    if (s.state == r->batch.held || s.state == r->batch.deleted)
        return 1;
    if (!collections->count)
        return 0;
    err = depot_get(c, &configuration, NULL, "/jobs/%s/configuration", j->id);
    if (err)
        return err == DROVER_NO_NODE ? 0 : err;
    return job_is_held(c, configuration, collections);
}

/* 1: taken. 0: not this one, which is parked or forgotten. */
static int try_job(struct call *c, int state, int64_t key, const struct keeper_names *collections,
                   struct job *j)
{
    struct view *v = &c->depot->jobs[state];
    char jid[NAME_ID_LEN + 1], entry[NAME_ENTRY_LEN + 1];
    struct change t = {.a = c->a};
    int err;

    name_id(NAME_JOB, key % NAME_SEQUENCES, jid);
    name_entry(NAME_JOB, true, key, entry);
    err = job_brief(c, str_of(jid), j);
    if (err == DROVER_NO_NODE || err == DROVER_DAMAGED || (!err && j->status.state != state)) {
        view_forget(v, key);
        return 0;
    }
    if (!err)
        err = is_held(c, j, collections);
    if (err) {
        view_park(v, key, clock_boot_ms());
        return err > 0 ? 0 : depot_fail(c, err);
    }
    change_set(&t, status_write(&c->depot->machines.job, &j->status, c->a), j->version,
               "/jobs/%s/status", jid);
    change_create(&t, NO_BYTES, KEEPER_EPHEMERAL, "/jobs/%s/lock", jid);
    change_check(&t, KEEPER_ANY_VERSION, "%s/%s", v->dir, entry);
    err = lock_commit(c, &t, 0, 1, &j->token);
    if (err == DROVER_NO_NODE)
        view_forget(v, key);
    else
        view_park(v, key, clock_boot_ms());
    if (err)
        return depot_again(err) ? 0 : depot_fail(c, err);
    j->version++;
    job_remember(c, j);
    return 1;
}

int job_acquire(struct call *c, int state, struct job *ret_job)
{
    const struct machine *m = &c->depot->machines.job;
    struct view *v = &c->depot->jobs[state];
    struct keeper_names collections;
    struct job j;
    int64_t key;
    int got, tries = 0;

    if (machine_is_end(m, state) || state == m->held)
        return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "jobs that are %s wait for nobody",
                          m->states[state].name);
    got = lock_queue(c, "ingest");
    if (got)
        return got < 0 ? got : 0;
    got = depot_children(c, &collections, NULL, "/locks/collections");
    if (got)
        return depot_fail(c, got);
    compare_held(c->depot, &collections);
    while (tries++ < JOB_TRIES_MAX && (got = view_next(v, c->k, clock_boot_ms(), &key)) == 1) {
        got = try_job(c, state, key, &collections, &j);
        if (got < 0)
            return got;
        if (got) {
            *ret_job = j;
            return 1;
        }
    }
    if (tries > JOB_TRIES_MAX)
        return 0;
    if (got == DROVER_TOO_BIG)
        return DEPOT_FAIL(c, got,
                          "the list of jobs that are %s is too long to be read from this keeper",
                          m->states[state].name);
    return got < 0 ? depot_fail(c, got) : 0;
}
