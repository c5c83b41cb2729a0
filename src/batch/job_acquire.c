/*
 * Acquiring jobs: the lowest PP-JID of a state that nobody holds.
 *
 * The view of the list says which to try; the transaction that makes the lock also makes sure that the
 * entry is there, that the status is the one that was read, and that the batch has not been held since.
 * What is locked is parked and tried again later. What belongs to a collection or a batch that is held is
 * blocked until that is lifted: the collections are read for each acquire, the held batches are a list of
 * their own, /drover/batch/held. So each entry is tried once, however many stand at the front that cannot
 * be had, and an acquire costs the same whatever the list holds.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "batch/batch.h"
#include "batch/job.h"
#include "batch/lock.h"

#include <stdlib.h>

/* What was held when an acquire began. */
struct batch_holds {
    struct keeper_names collections;
    uint32_t generation; /* of the collections */
};

/* A profile belongs to the collection of the same name, or of that name before "_content". */
bool batch_job_is_held(struct batch_call *c, struct str configuration,
                       const struct keeper_names *names)
{
    const struct json *v = json_parse(c->a, configuration, NULL);
    struct str profile = {0}, suffix = STR("_content");
    char *flat;

    if (json_get_text(v, "profile_name", &profile, NULL) <= 0)
        return false;
    flat = arena_alloc(c->a, profile.len + 1);
    batch_name_flatten(profile, flat);
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

/* Under the depot's lock: whether other collections are held than the last time. */
static bool replace_held(struct batch_store *r, struct str names)
{
    if (r->held_collections && str_eq(str_of(r->held_collections), names))
        return false;
    free(r->held_collections);
    r->held_collections = mem_dup(names.p ? names.p : "", names.len);
    return true;
}

static int read_holds(struct batch_call *c, struct batch_holds *ret)
{
    struct batch_store *r = c->store;
    struct buf b = {0};
    int err = batch_node_children(c, &ret->collections, NULL, "/locks/collections");

    if (err)
        return batch_fail(c, err);
    for (size_t i = 0; i < ret->collections.count; i++)
        buf_printf(&b, "%s\n", ret->collections.names[i]);
    pthread_mutex_lock(&r->lock);
    r->collections_generation += replace_held(r, (struct str){b.p, b.len});
    ret->generation = r->collections_generation;
    pthread_mutex_unlock(&r->lock);
    buf_release(&b);
    return 0;
}

static uint32_t collections_generation(struct batch_store *r)
{
    uint32_t generation;

    pthread_mutex_lock(&r->lock);
    generation = r->collections_generation;
    pthread_mutex_unlock(&r->lock);
    return generation;
}

/*
 * What blocks an entry: the number of a batch, or, below 0, that the collections were of a generation.
 * When they change, whoever was blocked by one of them is tried again.
 */
static int64_t by_collection(uint32_t generation)
{
    return -1 - (int64_t)generation;
}

static bool is_lifted(void *arg, int64_t block)
{
    struct batch_store *r = arg;

    return block < 0 ? block != by_collection(collections_generation(r))
                     : !batch_view_has(&r->batches[r->batch.held], block);
}

static int lift_blocks(struct batch_call *c, struct batch_view *v, const struct batch_holds *h)
{
    struct batch_view *held = &c->store->batches[c->store->batch.held];
    int err = batch_view_has_blocked(v) ? batch_view_refresh(held, c->k, clock_boot_ms()) : 0;

    if (err)
        return batch_fail(c, err);
    batch_view_unblock(v, batch_view_gone(held) + h->generation, is_lifted, c->store);
    return 0;
}

/*
 * Blocks an entry. When what blocks it went meanwhile, nobody may look at the blocks again: so it is
 * made sure of afterwards. A batch that is held and not in the list of those is a foreign client's.
 */
static void block(struct batch_call *c, struct batch_view *v, int64_t key, int64_t by)
{
    struct batch_view *held = &c->store->batches[c->store->batch.held];

    if (by >= 0 && (batch_view_refresh(held, c->k, clock_boot_ms()) || !batch_view_has(held, by))) {
        batch_view_park(v, key, clock_boot_ms());
        return;
    }
    batch_view_block(v, key, by);
    if (is_lifted(c->store, by))
        batch_view_free(v, key);
}

enum hold { HOLD_NONE, HOLD_BATCH, HOLD_COLLECTION, HOLD_DAMAGE };

/* Its version is remembered, for the transaction to insist on it. */
static int find_batch_hold(struct batch_call *c, struct batch_job *j)
{
    const struct batch_store *r = c->store;
    struct batch_status s;
    int32_t version;
    int err = batch_read_status(c, j->bid, &s, &version);

    if (err)
        return err == DROVER_NO_NODE || err == DROVER_DAMAGED ? HOLD_DAMAGE : err;
    if (s.state == r->batch.held)
        return HOLD_BATCH;
    if (s.state == r->batch.deleted)
        return HOLD_DAMAGE;
    j->batch_version = version;
    return HOLD_NONE;
}

/* An enum hold, or an error: whether somebody does not want it to be worked on now. */
static int find_hold(struct batch_call *c, struct batch_job *j,
                     const struct keeper_names *collections)
{
    struct str configuration;
    int err = j->batch_version < 0 ? find_batch_hold(c, j) : HOLD_NONE;

    if (err != HOLD_NONE || !collections->count)
        return err;
    err = batch_node_get(c, &configuration, NULL, "/jobs/%s/configuration", j->id);
    if (err)
        return err == DROVER_NO_NODE ? HOLD_NONE : err;
    return batch_job_is_held(c, configuration, collections) ? HOLD_COLLECTION : HOLD_NONE;
}

/* Another moved it since the list was read; or a foreign client left the entry behind. */
static int put_aside(struct batch_call *c, struct batch_view *v, int64_t key, const char *entry)
{
    int err = batch_node_exists(c, NULL, "%s/%s", v->dir, entry);

    if (err == DROVER_NO_NODE)
        batch_view_forget(v, key);
    else
        batch_view_park(v, key, clock_boot_ms());
    return err && err != DROVER_NO_NODE ? batch_fail(c, err) : 0;
}

static int take(struct batch_call *c, struct batch_view *v, int64_t key, const char *entry,
                struct batch_job *j)
{
    struct batch_change t = {.a = c->a};
    int err, standing;

    batch_change_set(&t, batch_status_write(&c->store->machines.job, &j->status, c->a), j->version,
                     "/jobs/%s/status", j->id);
    batch_change_create(&t, NO_BYTES, KEEPER_EPHEMERAL, "/jobs/%s/lock", j->id);
    standing = batch_change_check(&t, KEEPER_ANY_VERSION, "%s/%s", v->dir, entry);
    batch_change_check(&t, j->batch_version, "/batches/%s/status", j->bid);
    batch_change_set(&t, NO_BYTES, LOCK_VERSION - 1, "/jobs/%s/lock", j->id);
    err = batch_lock_commit(c, &t, 0, 1, &j->token);
    if (err == DROVER_NO_NODE && t.failed == standing)
        batch_view_forget(v, key);
    else
        batch_view_park(v, key, clock_boot_ms());
    if (err) {
        batch_job_cache_forget(&c->store->job_cache, key % BATCH_ID_COUNT);
        return batch_is_conflict(err) ? 0 : batch_fail(c, err);
    }
    j->version++;
    batch_job_remember(c, j);
    return 1;
}

/* 1: taken. 0: not this one, which is parked, blocked or forgotten. */
static int try_known(struct batch_call *c, struct batch_view *v, int64_t key, const char *entry,
                     const struct batch_holds *h, struct batch_job *j)
{
    int err = find_hold(c, j, &h->collections);

    if (err == HOLD_NONE)
        return take(c, v, key, entry, j);
    if (err == HOLD_BATCH)
        block(c, v, key, batch_id_number(BATCH_ID_BATCH, str_of(j->bid)));
    else if (err == HOLD_COLLECTION)
        block(c, v, key, by_collection(h->generation));
    else
        batch_view_park(v, key, clock_boot_ms());
    return err < 0 ? batch_fail(c, err) : 0;
}

/* The same. What is remembered is tried first, and if that was out of date, what the tree says. */
static int try_job(struct batch_call *c, int state, int64_t key, const struct batch_holds *h,
                   struct batch_job *j)
{
    struct batch_view *v = &c->store->jobs[state];
    int64_t number = key % BATCH_ID_COUNT;
    char jid[BATCH_ID_LEN + 1], entry[BATCH_ENTRY_LEN + 1] = "";
    int err, got;

    batch_id(BATCH_ID_JOB, number, jid);
    batch_entry(BATCH_ID_JOB, true, key, entry);
    if (batch_job_recall(c, number, 0, j) && j->status.state == state) {
        got = try_known(c, v, key, entry, h, j);
        if (got || batch_job_recall(c, number, 0, j))
            return got;
    }
    err = batch_job_brief(c, str_of(jid), j);
    if (err == DROVER_NO_NODE || err == DROVER_DAMAGED || (!err && j->status.state != state))
        return put_aside(c, v, key, entry);
    return err ? batch_fail(c, err) : try_known(c, v, key, entry, h, j);
}

int batch_job_acquire(struct batch_call *c, int state, struct batch_job *ret_job)
{
    const struct batch_machine *m = &c->store->machines.job;
    struct batch_view *v = &c->store->jobs[state];
    struct batch_view_walk walk = {0};
    struct batch_holds holds;
    struct batch_job j;
    int64_t key;
    int got;

    if (batch_machine_is_end(m, state) || state == m->held)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "jobs that are %s wait for nobody",
                          m->states[state].name);
    got = batch_lock_queue(c, "ingest");
    if (got)
        return got < 0 ? got : 0;
    if ((got = read_holds(c, &holds)) < 0 || (got = lift_blocks(c, v, &holds)) < 0)
        return got;
    while ((got = batch_view_next(v, c->k, clock_boot_ms(), &walk, &key)) == 1) {
        got = try_job(c, state, key, &holds, &j);
        if (got < 0)
            return got;
        if (got) {
            *ret_job = j;
            return 1;
        }
    }
    if (got == DROVER_TOO_BIG)
        return BATCH_FAIL(c, got,
                          "the list of jobs that are %s is too long to be read from this keeper",
                          m->states[state].name);
    return got < 0 ? batch_fail(c, got) : 0;
}
