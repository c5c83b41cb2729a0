/* Creating jobs, the cache of jobs, moving them, and changing their fields. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"
#include "batch/item.h"

int batch_job_read_spec(struct batch_call *c, const struct json *v, struct batch_job_spec *ret_spec)
{
    static const char *const MEMBERS[] = {"configuration", "identifiers",  "metadata", "inventory",
                                          "priority",      "space_needed", "session",  NULL};
    struct batch_job_spec s = {.priority = BATCH_PRIORITY_DEFAULT};
    const struct json **const objects[] = {&s.configuration, &s.identifiers, &s.metadata,
                                           &s.inventory};

    if (v->kind != JSON_OBJECT)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "a job is an object with a 'configuration'");
    int err = json_only(v, MEMBERS, c->why);
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

struct str batch_identifiers_text(struct batch_call *c, const struct json *v)
{
    struct buf b = {0};
    json_open(&b, '{');
    json_each(member, v)
        if (member->kind != JSON_NULL) {
            json_key_str(&b, member->key);
            json_put(&b, member);
        }
    json_close(&b, '}');
    return arena_take(c->a, &b);
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
         s->identifiers ? batch_identifiers_text(c, s->identifiers) : STR("{\"local_id\":[]}")},
        {"metadata", batch_json_text(c, s->metadata, STR("{}"))},
        {"inventory", batch_json_text(c, s->inventory, (struct str){0})},
    };
    const struct batch_machine *m = j->kind->machine;

    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        if (nodes[i].data.p)
            batch_item_add_node(t, j, nodes[i].name, nodes[i].data);
    batch_txn_list_add(t, OP_ANY, &j->kind->views[m->first],
                       batch_key((int)s->priority, j->number));
    batch_txn_job_list(t, OP_ANY, bid, m->states[m->first].list, j->id, true);
}

/* Jobs can be added to a batch until its report is due. */
static int add_open_check(struct batch_call *c, struct batch_txn *t, struct batch_item *b)
{
    const struct batch_store *r = c->store;
    TRY(batch_item_read(c, BATCH_KIND_BATCH, str_of(b->id), b));
    int state = b->status.state;
    if (state != r->batch.pending && state != r->batch.held && state != r->batch.processing)
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED,
                          "batch %s is %.*s; jobs can be added to a batch that is Pending, Held or "
                          "Processing",
                          b->id, STR_ARGS(batch_status_name(&r->machines.batch, &b->status)));
    txn_check(&t->txn, OP_ANY, b->version, "/batches/%s/status", b->id);
    return 0;
}

static int add_jobs(struct batch_call *c, struct batch_txn *t, int64_t number, void *arg)
{
    struct batch_job_creation *new = arg;
    struct batch_item j = {.kind = &c->store->kinds[BATCH_KIND_JOB]};
    struct batch_status s = {.state = j.kind->machine->first, .modified = batch_now(c)};
    struct str status = batch_status_write(j.kind->machine, &s, c->a);
    int batch_to;
    TRY(add_open_check(c, t, &new->batch));
    TRY(batch_count_change(c, t, new->batch.id, 0, (int)new->count, &batch_to));
    if (j.kind->machine->states[s.state].list != BATCH_LIST_PROCESSING)
        TRY(batch_add_list(c, t, new->batch.id, j.kind->machine->states[s.state].list));
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

enum { CACHE_SIZE = 4096, DATE_LEN = 24 };

struct batch_job_cache {
    pthread_mutex_t lock;
    struct batch_cached_job {
        int64_t session;       /* that holds the lock; 0: the job is not locked */
        struct batch_item job; /* kind NULL: the slot is free */
        char modified[DATE_LEN];
    } slots[CACHE_SIZE];
};

struct batch_job_cache *batch_job_cache_new(void)
{
    struct batch_job_cache *cache = mem_zalloc(sizeof *cache);
    pthread_mutex_init(&cache->lock, NULL);
    return cache;
}

void batch_job_cache_free(struct batch_job_cache *cache)
{
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static int64_t session_of(struct batch_call *c, int64_t token)
{
    struct keeper_session session = {.id = 0};
    if (token)
        keeper_session(c->k, &session);
    return session.id;
}

/* A job with a message is not cached: a move that gives none keeps it. */
void batch_job_cache_put(struct batch_call *c, const struct batch_item *job)
{
    struct batch_job_cache *cache = c->store->job_cache;
    struct batch_cached_job *slot = &cache->slots[job->number % CACHE_SIZE];
    const struct batch_status *s = &job->status;
    if (!batch_status_is_plain(job->kind->machine, s) || s->modified.len > DATE_LEN) {
        batch_job_cache_drop(c, job->number);
        return;
    }
    int64_t session = session_of(c, job->token);
    LOCKED(&cache->lock);
    *slot = (struct batch_cached_job){session, *job};
    slot->job.status.json = NULL;
    slot->job.status.name = (struct str){0};
    if (s->message.p)
        slot->job.status.message = STR("");
    if (s->modified.len) /* a foreign client may have left it out */
        memcpy(slot->modified, s->modified.p, s->modified.len);
}

bool batch_job_cache_get(struct batch_call *c, int64_t number, int64_t token,
                         struct batch_item *ret_job)
{
    struct batch_job_cache *cache = c->store->job_cache;
    const struct batch_cached_job *slot = &cache->slots[number % CACHE_SIZE];
    int64_t session = session_of(c, token);
    LOCKED(&cache->lock);
    if (!slot->job.kind || slot->job.number != number || slot->job.token != token ||
        slot->session != session)
        return false;
    *ret_job = slot->job;
    ret_job->status.modified.p =
        arena_text(c->a, (struct str){slot->modified, slot->job.status.modified.len});
    return true;
}

void batch_job_cache_drop(struct batch_call *c, int64_t number)
{
    struct batch_job_cache *cache = c->store->job_cache;
    struct batch_cached_job *slot = &cache->slots[number % CACHE_SIZE];
    LOCKED(&cache->lock);
    if (slot->job.number == number)
        slot->job.kind = NULL;
}

/*
 * Moving jobs, and changing their fields.
 *
 * A job's entry is in the list of its state, under its priority. But the priority node may have
 * been set since (the specification lets a state change it), and then the entry still has the old
 * one. In that rare case the entry is searched under all hundred priorities.
 */

const char *batch_job_list(struct batch_call *c, const struct batch_status *s)
{
    const struct batch_kind *kind = &c->store->kinds[BATCH_KIND_JOB];
    return s->state != BATCH_NO_STATE
               ? kind->views[s->state].dir
               : arena_printf(c->a, "%s/%s", kind->lists, batch_name_lower(c->a, s->name));
}

/* No view has the list of a state that the machine does not know. */
void batch_job_entry(struct batch_call *c, struct batch_txn *t, const struct batch_item *j,
                     int priority, bool add)
{
    int64_t key = batch_key(priority, j->number);
    if (j->status.state != BATCH_NO_STATE) {
        struct batch_view *v = &j->kind->views[j->status.state];
        (add ? batch_txn_list_add : batch_txn_list_remove)(t, OP_ANY, v, key);
        return;
    }
    const char *path =
        arena_printf(c->a, "%s/%02d-%s", batch_job_list(c, &j->status), priority, j->id);
    if (add)
        txn_create(&t->txn, OP_ANY, NO_BYTES, 0, "%s", path);
    else
        txn_delete(&t->txn, OP_ANY, KEEPER_ANY_VERSION, "%s", path);
}

int batch_job_locate(struct batch_call *c, const struct batch_item *j, int *ret_entry)
{
    const char *dir = batch_job_list(c, &j->status);
    int entry = j->priority,
        err = batch_node_exists(c, NULL, "%s/%02d-%s", dir, j->priority, j->id);
    for (int i = 0; i <= BATCH_PRIORITY_MAX && err == DROVER_NO_NODE; i++) {
        err = batch_node_exists(c, NULL, "%s/%02d-%s", dir, i, j->id);
        entry = i;
    }
    if (err && err != DROVER_NO_NODE)
        return err;
    *ret_entry = err ? -1 : entry;
    return 0;
}

int batch_job_require_entry(struct batch_call *c, const struct batch_item *j, int *ret_entry)
{
    TRY(batch_job_locate(c, j, ret_entry));
    if (*ret_entry >= 0)
        return 0;
    return BATCH_FAIL(
        c, DROVER_DAMAGED,
        "job %s is %.*s but is not in the list of that state; see 'drover batch fsck'", j->id,
        STR_ARGS(batch_status_name(j->kind->machine, &j->status)));
}

/* The state of held jobs; BAD_ARGUMENT if the machine has none. */
static int held_state(struct batch_call *c, struct str *ret_name)
{
    const struct batch_machine *m = &c->store->machines.job;
    if (m->held == BATCH_NO_STATE)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "jobs of this pipeline cannot be held");
    *ret_name = str_of(m->states[m->held].name);
    return 0;
}

int batch_job_hold(struct batch_call *c, struct str id, struct str message)
{
    struct batch_move m = {.message = message, .priority = -1};
    TRY(held_state(c, &m.state));
    return batch_item_move(c, BATCH_KIND_JOB, id, &m, NULL);
}

int batch_job_release(struct batch_call *c, struct str id)
{
    struct batch_move m = {.state = STR("next"), .priority = -1};
    TRY(held_state(c, &m.from));
    return batch_item_move(c, BATCH_KIND_JOB, id, &m, NULL);
}

int batch_job_requeue(struct batch_call *c, struct str id, struct str state, struct str message)
{
    const struct batch_machine *machine = &c->store->machines.job;
    struct batch_move m = {.state = state.p ? state : str_of(machine->states[machine->first].name),
                           .message = message,
                           .only_failed = true,
                           .priority = -1};
    return batch_item_move(c, BATCH_KIND_JOB, id, &m, NULL);
}

int batch_job_release_profile(struct batch_call *c, struct str profile, int64_t *ret_count)
{
    struct batch_filter f = {
        .state = c->store->machines.job.held, .profile = profile, .limit = SIZE_MAX};
    struct batch_item *jobs;
    struct str held;
    size_t count;
    int64_t released = 0;
    TRY(held_state(c, &held));
    TRY(batch_item_list(c, BATCH_KIND_JOB, &f, &jobs, &count));
    for (size_t i = 0; i < count; i++) {
        int err = batch_job_release(c, str_of(jobs[i].id));
        if (err && err != DROVER_NOT_ALLOWED && err != DROVER_NO_NODE)
            return err;
        released += !err; /* else another client moved or deleted it */
    }
    *ret_count = released;
    return 0;
}

/* Reads a job to change what it has; with a token, the transaction insists on the lock. */
static int begin_change(struct batch_call *c, struct batch_txn *t, struct str id, int64_t token,
                        struct batch_item *ret_job)
{
    TRY(batch_item_read(c, BATCH_KIND_JOB, id, ret_job));
    return token ? batch_lock_guard(c, t, ret_job->path, token, KEEPER_ANY_VERSION, true) : 0;
}

/* The entry of the job moves with its priority. */
int batch_job_set_priority(struct batch_call *c, struct str id, int64_t priority, int64_t token)
{
    int err = DROVER_BAD_VERSION;

    if (priority < 0 || priority > BATCH_PRIORITY_MAX)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "'priority' must be 0 to %d", BATCH_PRIORITY_MAX);
    for (int i = 0; i < BATCH_TRIES && batch_is_conflict(err); i++) {
        struct batch_txn t = BATCH_TXN(c);
        struct batch_item j;
        int entry;

        TRY(begin_change(c, &t, id, token, &j));
        TRY(batch_job_require_entry(c, &j, &entry));
        txn_check(&t.txn, OP_ANY, j.version, "%s/status", j.path);
        txn_set(&t.txn, OP_STATUS, str_of(arena_printf(c->a, "%d", (int)priority)),
                j.priority_version, "%s/priority", j.path);
        if (entry != priority) {
            batch_job_entry(c, &t, &j, entry, false);
            batch_job_entry(c, &t, &j, (int)priority, true);
        }
        err = batch_txn_commit(c, &t, OP_STATUS);
    }
    return err;
}

int batch_job_set_field(struct batch_call *c, struct str id, const char *field, struct str text,
                        int64_t token)
{
    int err = DROVER_BAD_VERSION;
    for (int i = 0; i < BATCH_TRIES && batch_is_conflict(err); i++) {
        struct batch_txn t = BATCH_TXN(c);
        struct keeper_stat stat;
        struct batch_item j;

        TRY(begin_change(c, &t, id, token, &j));
        TRY(batch_node_stat(c, &stat, "%s/%s", j.path, field));
        if (token)
            txn_check(&t.txn, OP_ANY, j.version, "%s/status", j.path);
        if (!stat.czxid)
            batch_item_add_node(&t, &j, field, text);
        else
            txn_set(&t.txn, OP_ANY, text, KEEPER_ANY_VERSION, "/jobs/%s/%s", j.id, field);
        err = batch_txn_commit(c, &t, OP_ANY);
    }
    return err;
}
