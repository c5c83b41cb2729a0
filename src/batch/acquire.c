/*
 * Acquiring: locking the first item of a state that is not locked.
 *
 * The view of the state's list says which item to try. The transaction that creates the lock also
 * checks that the status is the one that was read and, for a job, that its entry is in the list and
 * that its batch has not been held since.
 *
 * Holds are the locks of queues and collections, by name. What Drover locks sets the parent of the
 * lock, and the transaction checks its version. A foreign client only creates the lock, which no
 * transaction can check. So the parents are looked at after the transaction: if their children have
 * changed and the item is held now, it is unlocked again before anybody has seen it. Nothing is
 * read before the transaction while the process knows of no hold; the look afterwards says whether
 * it knew right.
 *
 * An item that is locked is parked and tried again later. A job whose collection or batch is held
 * is blocked until that ends. The held batches are a list of their own, /drover/batch/held. So each
 * entry is tried once, however many unavailable ones are at the front, and an acquire costs the
 * same for any length of the list.
 */
#include "base/clock.h"
#include "base/thread.h"
#include "batch/item.h"

/* The holds of an acquire. */
struct batch_holds {
    struct batch_hold_list lists[BATCH_HOLD_LISTS];
    struct keeper_names collections;
};

static const char *const HOLD_PARENTS[BATCH_HOLD_LISTS] = {"/locks/queue", "/locks/collections"};

/* Returned internally: the holds have changed, read them again. */
enum { HOLDS_CHANGED = 2 };

/* A profile belongs to the collection of the same name, or of that name before "_content". */
static bool is_held(struct batch_call *c, struct str configuration,
                    const struct keeper_names *collections)
{
    const struct json *v = json_parse(c->a, configuration, NULL);
    struct str profile = {0}, suffix = STR("_content");
    if (json_get_text(v, "profile_name", &profile, NULL) <= 0)
        return false;
    char *text = arena_alloc(c->a, profile.len + 1);
    batch_name_flatten(profile, text);
    struct str flat = str_of(text);
    for (size_t i = 0; i < collections->count; i++) {
        struct str name = str_of(collections->names[i]);
        if (str_eq(name, profile) || str_eq(name, flat))
            return true;
        if (flat.len == name.len + suffix.len && str_starts(flat, name) &&
            memcmp(flat.p + name.len, suffix.p, suffix.len) == 0)
            return true;
    }
    return false;
}

/* Only jobs belong to collections. */
static int hold_list_count(const struct batch_kind *kind)
{
    return kind->id == BATCH_KIND_JOB ? BATCH_HOLD_LISTS : BATCH_HOLD_QUEUES + 1;
}

/* One parent and its children; without a read if the process knows that there are none. */
static int read_hold_list(struct batch_call *c, enum batch_hold_list_id id,
                          struct batch_hold_list *ret, struct keeper_names *ret_names)
{
    struct batch_store *r = c->store;
    struct keeper_stat stat;
    *ret_names = (struct keeper_names){0};
    pthread_mutex_lock(&r->lock);
    *ret = r->holds[id];
    pthread_mutex_unlock(&r->lock);
    if (ret->known_empty)
        return 0;
    TRY(batch_node_children(c, ret_names, &stat, "%s", HOLD_PARENTS[id]));
    *ret = (struct batch_hold_list){!ret_names->count, stat.version, (uint32_t)stat.cversion,
                                    stat.pzxid};
    LOCKED(&r->lock);
    r->holds[id] = *ret;
    return 0;
}

/* The next acquire reads the holds. */
static void forget_holds(struct batch_call *c)
{
    LOCKED(&c->store->lock);
    for (int i = 0; i < BATCH_HOLD_LISTS; i++)
        c->store->holds[i].known_empty = false;
}

/* 1: the queue of that kind is locked. */
static int read_holds(struct batch_call *c, const struct batch_kind *kind, struct batch_holds *ret)
{
    struct keeper_names queues;
    TRY(read_hold_list(c, BATCH_HOLD_QUEUES, &ret->lists[BATCH_HOLD_QUEUES], &queues));
    for (size_t i = 0; i < queues.count; i++)
        if (strcmp(queues.names[i], kind->queue) == 0)
            return 1;
    return kind->id == BATCH_KIND_JOB
               ? read_hold_list(c, BATCH_HOLD_COLLECTIONS, &ret->lists[BATCH_HOLD_COLLECTIONS],
                                &ret->collections)
               : 0;
}

static uint32_t generation_of(const struct batch_holds *h)
{
    return h->lists[BATCH_HOLD_COLLECTIONS].cversion;
}

/* The reason of a block: an even number for a batch, an odd one for a generation of collections. */
static int64_t by_batch(int64_t number)
{
    return 2 * number;
}

static int64_t by_collection(uint32_t generation)
{
    return 2 * (int64_t)generation + 1;
}

static struct batch_view *held_batches(struct batch_store *r)
{
    return &r->kinds[BATCH_KIND_BATCH].views[r->batch.held];
}

static bool is_lifted(void *arg, int64_t block)
{
    struct batch_store *r = arg;
    if (block % 2 == 0)
        return !batch_view_has(held_batches(r), block / 2);
    pthread_mutex_lock(&r->lock);
    uint32_t generation = r->holds[BATCH_HOLD_COLLECTIONS].cversion;
    pthread_mutex_unlock(&r->lock);
    return block != by_collection(generation);
}

/* Frees blocked jobs, if a batch was released or a collection was locked or unlocked since. */
static int lift_blocks(struct batch_call *c, struct batch_kind *jobs, int state,
                       const struct batch_holds *h)
{
    struct list_view *held = held_batches(c->store)->list, *list = jobs->views[state].list;
    if (!list_view_counts(list).blocked)
        return 0;
    TRY(batch_fail(c, list_view_refresh(held, c->k, false)));
    uint32_t generation = list_view_counts(held).removed + generation_of(h);
    pthread_mutex_lock(&c->store->lock);
    bool seen = jobs->blocks_seen[state] == generation;
    jobs->blocks_seen[state] = generation;
    pthread_mutex_unlock(&c->store->lock);
    if (!seen)
        list_view_unblock_if(list, is_lifted, c->store);
    return 0;
}

/*
 * Blocks an entry. If the hold ended meanwhile, nobody would look at the blocks again, so this
 * checks once more afterwards. A held batch that is not in the list was held by a foreign client.
 */
static void block(struct batch_call *c, struct list_view *v, struct str entry, int64_t by)
{
    struct batch_view *held = held_batches(c->store);
    if (by % 2 == 0 &&
        (list_view_refresh(held->list, c->k, false) || !batch_view_has(held, by / 2))) {
        list_view_park(v, entry, clock_boot_ms());
        return;
    }
    list_view_block(v, entry, by);
    if (is_lifted(c->store, by))
        list_view_release(v, entry, NULL);
}

enum hold { HOLD_NONE, HOLD_BATCH, HOLD_COLLECTION, HOLD_DAMAGE };

/* Reads the batch of a job; the transaction insists on its version. */
static int find_batch_hold(struct batch_call *c, struct batch_item *j)
{
    const struct batch_store *r = c->store;
    struct batch_item b;
    int err = batch_item_read(c, BATCH_KIND_BATCH, str_of(j->bid), &b);
    if (err)
        return err == DROVER_NO_NODE || err == DROVER_DAMAGED ? HOLD_DAMAGE : err;
    if (b.status.state == r->batch.held)
        return HOLD_BATCH;
    if (b.status.state == r->batch.deleted)
        return HOLD_DAMAGE;
    j->batch_version = b.version;
    return HOLD_NONE;
}

/* An enum hold, or an error. */
static int find_hold(struct batch_call *c, struct batch_item *j, const struct batch_holds *h)
{
    struct str configuration;
    int err = j->batch_version < 0 ? find_batch_hold(c, j) : HOLD_NONE;
    if (err != HOLD_NONE || !h->collections.count)
        return err;
    err = batch_node_get(c, &configuration, NULL, "/jobs/%s/configuration", j->id);
    if (err)
        return err == DROVER_NO_NODE ? HOLD_NONE : err;
    return is_held(c, configuration, &h->collections) ? HOLD_COLLECTION : HOLD_NONE;
}

/* If the connection broke, reads whether the lock is ours. Sets the token and the new version. */
static int commit_lock(struct batch_call *c, struct batch_txn *t, struct batch_item *i)
{
    struct keeper_session session;
    TRY(batch_txn_commit(c, t, OP_STATUS));
    struct keeper_stat stat = *txn_stat(&t->txn, OP_LOCK);
    if (!stat.czxid) { /* the outcome was unknown */
        keeper_session(c->k, &session);
        int err = batch_node_exists(c, &stat, "%s/lock", i->path);
        if (err)
            return err == DROVER_NO_NODE ? DROVER_BAD_VERSION : err;
        if (stat.ephemeral_owner != session.id)
            return DROVER_EXISTS;
    }
    i->token = stat.czxid;
    i->version++;
    return 0;
}

/* Locks an item. entry: that of a job; h may be NULL. ret_failed: the operation that failed. */
static int lock_item(struct batch_call *c, struct batch_item *i, const char *entry,
                     const struct batch_holds *h, int *ret_failed)
{
    struct batch_txn t = BATCH_TXN(c);
    *ret_failed = OP_ANY;
    struct str status = i->status.json /* exactly as it was read */
                            ? i->status.json->raw
                            : batch_status_write(i->kind->machine, &i->status, c->a);
    txn_set(&t.txn, OP_STATUS, status, i->version, "%s/status", i->path);
    txn_create(&t.txn, OP_LOCK, NO_BYTES, KEEPER_EPHEMERAL, "%s/lock", i->path);
    if (i->kind->id == BATCH_KIND_BATCH && i->status.state == c->store->batch.pending)
        TRY(batch_add_states(c, &t, i->id));
    if (entry) {
        txn_check(&t.txn, OP_ENTRY, KEEPER_ANY_VERSION, "%s/%s",
                  i->kind->views[i->status.state].dir, entry);
        txn_check(&t.txn, OP_ANY, i->batch_version, "/batches/%s/status", i->bid);
        txn_set(&t.txn, OP_ANY, NO_BYTES, BATCH_LOCK_VERSION - 1, "%s/lock", i->path);
    }
    for (int l = 0; h && l < hold_list_count(i->kind); l++)
        txn_check(&t.txn, OP_HOLDS, h->lists[l].version, "%s", HOLD_PARENTS[l]);
    int err = commit_lock(c, &t, i);
    *ret_failed = t.txn.failed;
    return err;
}

int batch_item_lock(struct batch_call *c, struct batch_item *i)
{
    int failed;
    return lock_item(c, i, NULL, NULL, &failed);
}

/*
 * Looks at the holds again, for an item that was locked. 1: it is held. An error leaves the item
 * locked, as a lost answer to the transaction does: only the end of the session is sure to unlock.
 */
static int is_held_meanwhile(struct batch_call *c, struct batch_item *i,
                             const struct batch_holds *h)
{
    struct batch_holds now = {.collections = {0}};
    struct keeper_stat stat;
    bool changed = false;
    for (int l = 0; l < hold_list_count(i->kind); l++) {
        TRY(batch_node_exists(c, &stat, "%s", HOLD_PARENTS[l]));
        changed |= stat.pzxid != h->lists[l].pzxid;
    }
    if (!changed)
        return 0;
    forget_holds(c);
    int held = read_holds(c, i->kind, &now);
    if (held || i->kind->id != BATCH_KIND_JOB)
        return held;
    held = find_hold(c, i, &now);
    return held < 0 ? held : held == HOLD_COLLECTION;
}

/* 1: locked. 0: not available; its entry is parked or removed. Or HOLDS_CHANGED. */
static int take(struct batch_call *c, struct list_view *v, struct str entry,
                const struct batch_holds *h, struct batch_item *i)
{
    bool job = i->kind->id == BATCH_KIND_JOB;
    int failed, err = lock_item(c, i, job ? entry.p : NULL, h, &failed);
    if (err && failed == OP_HOLDS) {
        forget_holds(c);
        list_view_release(v, entry, NULL);
        return batch_is_conflict(err) ? HOLDS_CHANGED : err;
    }
    if (err == DROVER_NO_NODE && failed == OP_ENTRY)
        list_view_remove(v, entry);
    else
        list_view_park(v, entry, clock_boot_ms());
    if (job && err)
        batch_job_cache_drop(c, i->number);
    else if (job)
        batch_job_cache_put(c, i);
    if (err)
        return batch_is_conflict(err) ? 0 : err;
    int held = is_held_meanwhile(c, i, h);
    if (held <= 0)
        return held ? held : 1;
    err = batch_item_unlock(c, i->kind->id, str_of(i->id), i->token); /* makes it available */
    return err ? err : HOLDS_CHANGED;
}

/* The same for a job that may be held. */
static int take_job(struct batch_call *c, struct list_view *v, struct str entry,
                    const struct batch_holds *h, struct batch_item *j)
{
    int err = find_hold(c, j, h);
    if (err == HOLD_NONE)
        return take(c, v, entry, h, j);
    if (err == HOLD_BATCH)
        block(c, v, entry, by_batch(batch_id_number(BATCH_ID_BATCH, str_of(j->bid))));
    else if (err == HOLD_COLLECTION)
        block(c, v, entry, by_collection(generation_of(h)));
    else
        list_view_park(v, entry, clock_boot_ms());
    return err < 0 ? batch_fail(c, err) : 0;
}

/*
 * Its item is not in that state: another client moved it, or left the entry behind. Batches and
 * access items are indexed where they are now.
 */
static int put_aside(struct batch_call *c, struct batch_kind *kind, int state, struct str entry,
                     int64_t number)
{
    const struct batch_view *v = &kind->views[state];
    int err = DROVER_NO_NODE;
    if (kind->priority) {
        err = batch_node_exists(c, NULL, "%s/%s", v->dir, entry.p);
    } else {
        int corrected = batch_index_correct(c, kind, number, state);
        if (corrected < 0 && !batch_is_conflict(corrected))
            return corrected;
    }
    if (err == DROVER_NO_NODE)
        list_view_remove(v->list, entry);
    else
        list_view_park(v->list, entry, clock_boot_ms());
    return batch_optional(err);
}

/* Tries one entry: a job first as it is cached, then, if that is stale, as it is in the tree. */
static int try_entry(struct batch_call *c, struct batch_kind *kind, int state,
                     const struct list_item *found, const struct batch_holds *h,
                     struct batch_item *i)
{
    struct batch_view *v = &kind->views[state];
    bool job = kind->id == BATCH_KIND_JOB;
    int64_t number = found->order % BATCH_ID_COUNT;
    struct str entry = found->name, id = {entry.p + entry.len - BATCH_ID_LEN, BATCH_ID_LEN};
    if (job && batch_job_cache_get(c, number, 0, i) && i->status.state == state) {
        int got = take_job(c, v->list, entry, h, i);
        if (got || batch_job_cache_get(c, number, 0, i))
            return got;
    }
    int err = batch_item_read(c, kind->id, id, i);
    if (err == DROVER_NO_NODE || err == DROVER_DAMAGED || (!err && i->status.state != state))
        return put_aside(c, kind, state, entry, number);
    if (err) {
        list_view_park(v->list, entry, clock_boot_ms());
        return err;
    }
    return job ? take_job(c, v->list, entry, h, i) : take(c, v->list, entry, h, i);
}

static int acquire_in(struct batch_call *c, struct batch_kind *kind, int state,
                      const struct batch_holds *h, struct batch_item *ret_item)
{
    struct list_view *list = kind->views[state].list;
    uint32_t retried = 0;
    struct str group = BATCH_VIEW_GROUP;
    struct list_item found;
    int err;
    while ((err = list_view_refresh(list, c->k, false)) == 0 &&
           list_view_take(list, c->a, &group, 1, clock_boot_ms(), &retried, &found)) {
        int got = try_entry(c, kind, state, &found, h, ret_item);
        if (got)
            return got;
    }
    if (err == DROVER_TOO_BIG)
        return BATCH_FAIL(c, err, "the list of %s items is too long to be read from this keeper",
                          kind->machine->states[state].name);
    return batch_fail(c, err);
}

static int check_state(struct batch_call *c, const struct batch_kind *kind, int state)
{
    const struct batch_store *r = c->store;
    const struct batch_machine *m = kind->machine;
    if (kind->id == BATCH_KIND_JOB && (batch_machine_is_final(m, state) || state == m->held))
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "%s jobs cannot be acquired",
                          m->states[state].name);
    if (kind->id == BATCH_KIND_BATCH && state != r->batch.pending && state != r->batch.reporting &&
        state != r->batch.update_reporting)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT,
                          "a batch is acquired for pending, reporting or updatereporting");
    return 0;
}

static int try_acquire(struct batch_call *c, struct batch_kind *kind, int state,
                       struct batch_item *ret_item)
{
    const struct batch_machine *m = kind->machine;
    struct batch_holds h = {.collections = {0}};
    int got = read_holds(c, kind, &h);
    if (got)
        return got < 0 ? got : 0;
    got = kind->id == BATCH_KIND_JOB ? lift_blocks(c, kind, state, &h)
                                     : batch_index_refresh(c, kind->id, false);
    if (got < 0)
        return got;
    if (state != BATCH_NO_STATE)
        return acquire_in(c, kind, state, &h, ret_item);
    for (int i = 0; i < m->count && !got; i++)
        if (batch_item_is_acquired(kind, i))
            got = acquire_in(c, kind, i, &h, ret_item);
    return got;
}

int batch_item_acquire(struct batch_call *c, enum batch_kind_id id, int state,
                       struct batch_item *ret_item)
{
    struct batch_kind *kind = &c->store->kinds[id];
    TRY(check_state(c, kind, state));
    for (int i = 0; i < BATCH_TRIES; i++) {
        int got = try_acquire(c, kind, state, ret_item);
        if (got != HOLDS_CHANGED)
            return got;
    }
    return batch_fail(c, DROVER_BAD_VERSION);
}
