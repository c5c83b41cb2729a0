/* Batches and jobs of the public interface: a store on a keeper, an arena for each call. */
#include <pthread.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "batch/tools.h"
#include "client/keeper_library.h"

_Static_assert((int)DROVER_BATCH_ID_SIZE == BATCH_ID_LEN + 1, "the header says how long an id is");

struct drover_batches {
    struct keeper *k;
    struct batch_store *store;
    struct batch_machines machines;
    pthread_mutex_t lock; /* guards: */
    struct arena arena;   /* of the machines, and of names */
    struct batch_name {
        const char *text;
        struct batch_name *next;
    } * names; /* of states that the machines do not know */
};

static int open_store(struct drover_batches *b, const char *pipeline, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    if (pipeline)
        TRY(batch_machines_load(&b->arena, str_of(pipeline), &b->machines, e));
    b->store = batch_store_open(&(struct batch_store_options){.machines = &b->machines});
    return batch_store_init(&(struct batch_call){b->store, b->k, &a, e});
}

int drover_batches_open(struct drover_keeper *k, const char *pipeline,
                        struct drover_batches **ret_batches, struct drover_error *ret_error)
{
    struct drover_batches *b = mem_alloc(sizeof *b);
    *b = (struct drover_batches){.k = k->keeper, .machines = BATCH_MACHINES_BUILT_IN};
    pthread_mutex_init(&b->lock, NULL);
    int err = open_store(b, pipeline, ret_error);
    if (err)
        drover_batches_close(b);
    else
        *ret_batches = b;
    return err;
}

void drover_batches_close(struct drover_batches *b)
{
    if (b->store)
        batch_store_close(b->store);
    pthread_mutex_destroy(&b->lock);
    arena_release(&b->arena);
    free(b);
}

/* Parses JSON of the caller, which must be an object. */
static int read_object(struct batch_call *c, const char *text, const char *what,
                       const struct json **ret_object)
{
    const struct json *v = json_parse(c->a, str_of(text), c->why);
    if (v && v->kind != JSON_OBJECT)
        return err_set(c->why, DROVER_BAD_ARGUMENT, "%s is not an object", what);
    *ret_object = v;
    return v ? 0 : DROVER_BAD_ARGUMENT;
}

/* 1: ret_item is the next one in a state, locked; 0: there is none. */
static int acquire(struct drover_batches *b, enum batch_kind_id kind, const char *state,
                   struct batch_item *ret_item, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct batch_call c = {b->store, b->k, &a, e};
    int found = batch_machine_named(b->store->kinds[kind].machine, str_of(state), e);
    return found < 0 ? found : batch_item_acquire(&c, kind, found, ret_item);
}

static int move(struct drover_batches *b, enum batch_kind_id kind, const char *id,
                const struct batch_move *m, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct batch_call c = {b->store, b->k, &a, e};
    int became;
    return batch_item_move(&c, kind, str_of(id), m, &became);
}

/* A name of a state that stays; each is stored once. */
static const char *keep_name(struct drover_batches *b, struct str text)
{
    LOCKED(&b->lock);
    struct batch_name *n = b->names;
    while (n && !str_eq(str_of(n->text), text))
        n = n->next;
    if (!n) {
        n = arena_alloc(&b->arena, sizeof *n);
        *n = (struct batch_name){arena_text(&b->arena, text), b->names};
        b->names = n;
    }
    return n->text;
}

static int read_state(struct drover_batches *b, enum batch_kind_id kind, const char *id,
                      const char **ret_state, struct err_info *e)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct batch_call c = {b->store, b->k, &a, e};
    struct batch_item item;
    TRY(batch_item_read(&c, kind, str_of(id), &item));
    *ret_state = item.status.state == BATCH_NO_STATE
                     ? keep_name(b, item.status.name)
                     : item.kind->machine->states[item.status.state].name;
    return 0;
}

/* Batches. */

int drover_batch_create(struct drover_batches *b, const char *submission,
                        char ret_bid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct batch_call c = {b->store, b->k, &a, ret_error};
    const struct json *json;
    TRY(read_object(&c, submission, "a submission", &json));
    return batch_item_new(&c, BATCH_KIND_BATCH, json, ret_bid);
}

int drover_batch_find(struct drover_batches *b, const char *uuid,
                      char ret_bid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct batch_call c = {b->store, b->k, &a, ret_error};
    return batch_find(&c, str_of(uuid), ret_bid);
}

int drover_batch_acquire(struct drover_batches *b, const char *state,
                         char ret_bid[DROVER_BATCH_ID_SIZE], int64_t *ret_token,
                         struct drover_error *ret_error)
{
    struct batch_item batch;
    int got = acquire(b, BATCH_KIND_BATCH, state, &batch, ret_error);
    if (got == 1) {
        memcpy(ret_bid, batch.id, sizeof batch.id);
        *ret_token = batch.token;
    }
    return got;
}

int drover_batch_move(struct drover_batches *b, const char *bid, const char *state, int64_t token,
                      struct drover_error *ret_error)
{
    struct batch_move m = {.state = str_of(state), .token = token};
    return move(b, BATCH_KIND_BATCH, bid, &m, ret_error);
}

int drover_batch_state(struct drover_batches *b, const char *bid, const char **ret_state,
                       struct drover_error *ret_error)
{
    return read_state(b, BATCH_KIND_BATCH, bid, ret_state, ret_error);
}

int64_t drover_batch_purge(struct drover_batches *b, int64_t age_ms, struct drover_error *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct batch_call c = {b->store, b->k, &a, ret_error};
    struct batch_purge o = {
        .state = BATCH_NO_STATE, .before_ms = clock_wall_ms() - age_ms, .limit = INT64_MAX};
    struct batch_purged purged;
    if (age_ms < 0)
        return BATCH_FAIL(&c, DROVER_BAD_ARGUMENT, "the age is negative");
    int err = batch_purge(&c, BATCH_KIND_BATCH, &o, &purged);
    return err ? err : purged.removed;
}

/* Jobs. */

int drover_job_create(struct drover_batches *b, const char *bid, const char *job,
                      char ret_jid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct batch_call c = {b->store, b->k, &a, ret_error};
    struct batch_job_spec spec;
    const struct json *json;
    char jids[1][BATCH_ID_LEN + 1];
    TRY(read_object(&c, job, "a job", &json));
    TRY(batch_job_read_spec(&c, json, &spec));
    TRY(batch_job_create(&c, str_of(bid), &spec, 1, NULL, jids));
    memcpy(ret_jid, jids[0], sizeof jids[0]);
    return 0;
}

int drover_job_acquire(struct drover_batches *b, const char *state, struct drover_job *ret_job,
                       struct drover_error *ret_error)
{
    struct batch_item job;
    int got = acquire(b, BATCH_KIND_JOB, state, &job, ret_error);
    if (got == 1) {
        memcpy(ret_job->id, job.id, sizeof ret_job->id);
        memcpy(ret_job->batch, job.bid, sizeof ret_job->batch);
        ret_job->priority = job.priority;
        ret_job->token = job.token;
    }
    return got;
}

int drover_job_move(struct drover_batches *b, const char *jid, const struct drover_job_move *m,
                    struct drover_error *ret_error)
{
    struct batch_move job_move = {.state = str_of(m->state ? m->state : ""),
                                  .priority = m->priority,
                                  .token = m->token,
                                  .keep = m->keep != 0,
                                  .message = m->message ? str_of(m->message) : (struct str){0}};
    return move(b, BATCH_KIND_JOB, jid, &job_move, ret_error);
}

int drover_job_state(struct drover_batches *b, const char *jid, const char **ret_state,
                     struct drover_error *ret_error)
{
    return read_state(b, BATCH_KIND_JOB, jid, ret_state, ret_error);
}

int64_t drover_job_count(struct drover_batches *b, const char *state,
                         struct drover_error *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct batch_call c = {b->store, b->k, &a, ret_error};
    struct batch_counts counts;
    TRY(batch_item_count(&c, BATCH_KIND_JOB, &counts));
    if (!state)
        return counts.total;
    int known = batch_machine_find(&b->store->machines.job, str_of(state));
    if (known != BATCH_NO_STATE)
        return counts.known[known];
    for (const struct batch_unknown_count *u = counts.unknown; u; u = u->next)
        if (u->name.len == strlen(state) && strncasecmp(u->name.p, state, u->name.len) == 0)
            return u->count;
    return 0;
}
