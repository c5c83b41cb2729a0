/* Batches and jobs of the public interface: a store on a keeper, an arena for each call. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "batch/item.h"
#include "client/keeper_library.h"

_Static_assert((int)DROVER_BATCH_ID_SIZE == BATCH_ID_LEN + 1, "the header says how long an id is");

struct drover_batches {
    struct keeper *k;
    struct batch_store *store;
    struct batch_machines machines;
    struct arena arena; /* of the machines */
};

/* The scope of one call: end() frees it and copies the error message. */
struct library_call {
    struct batch_call c;
    struct arena a;
    struct err_info why;
};

static struct batch_call *begin(struct library_call *v, const struct drover_batches *b)
{
    *v = (struct library_call){.why = {""}};
    v->c = (struct batch_call){b->store, b->k, &v->a, &v->why};
    return &v->c;
}

static int end(struct library_call *v, int err, struct drover_error *ret_error)
{
    if (err < 0 && ret_error)
        snprintf(ret_error->text, sizeof ret_error->text, "%s",
                 v->why.text[0] ? v->why.text : drover_err_message(err));
    arena_release(&v->a);
    return err;
}

int drover_batches_open(struct drover_keeper *k, const char *pipeline,
                        struct drover_batches **ret_batches, struct drover_error *ret_error)
{
    struct drover_batches *b = mem_zalloc(sizeof *b);
    struct batch_store_options o = {.machines = &b->machines};
    struct library_call v = {.why = {""}};
    int err = 0;

    b->k = drover_keeper_inside(k);
    b->machines = BATCH_MACHINES_BUILT_IN;
    if (pipeline)
        err = batch_machines_load(&b->arena, str_of(pipeline), &b->machines, &v.why);
    if (!err) {
        b->store = batch_store_open(&o);
        err = batch_store_init(begin(&v, b));
    }
    if (err)
        drover_batches_close(b);
    else
        *ret_batches = b;
    return end(&v, err, ret_error);
}

void drover_batches_close(struct drover_batches *b)
{
    if (b->store)
        batch_store_close(b->store);
    arena_release(&b->arena);
    free(b);
}

/* Parses JSON of the caller; NULL: it is not an object, and c->why says what is wrong. */
static const struct json *read_object(struct batch_call *c, const char *text, const char *what)
{
    const struct json *v = json_parse(c->a, str_of(text), c->why);

    if (v && v->kind != JSON_OBJECT) {
        err_set(c->why, DROVER_BAD_ARGUMENT, "%s is not an object", what);
        return NULL;
    }
    return v;
}

int drover_batch_create(struct drover_batches *b, const char *submission,
                        char ret_bid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error)
{
    struct library_call v;
    struct batch_call *c = begin(&v, b);
    const struct json *json = read_object(c, submission, "a submission");

    return end(&v, json ? batch_create(c, json, ret_bid) : DROVER_BAD_ARGUMENT, ret_error);
}

int drover_batch_find(struct drover_batches *b, const char *uuid,
                      char ret_bid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error)
{
    struct library_call v;

    return end(&v, batch_find(begin(&v, b), str_of(uuid), ret_bid), ret_error);
}

int drover_batch_acquire(struct drover_batches *b, const char *state,
                         char ret_bid[DROVER_BATCH_ID_SIZE], int64_t *ret_token,
                         struct drover_error *ret_error)
{
    struct library_call v;
    struct batch_call *c = begin(&v, b);
    struct batch_item batch;
    int got = batch_machine_named(&b->machines.batch, str_of(state), c->why);

    if (got >= 0)
        got = batch_item_acquire(c, BATCH_KIND_BATCH, got, &batch);
    if (got == 1) {
        memcpy(ret_bid, batch.id, sizeof batch.id);
        *ret_token = batch.token;
    }
    return end(&v, got, ret_error);
}

int drover_batch_move(struct drover_batches *b, const char *bid, const char *state, int64_t token,
                      struct drover_error *ret_error)
{
    struct batch_move m = {.state = str_of(state), .token = token};
    struct library_call v;
    int became;

    return end(&v, batch_item_move(begin(&v, b), BATCH_KIND_BATCH, str_of(bid), &m, &became),
               ret_error);
}

int drover_batch_state(struct drover_batches *b, const char *bid, const char **ret_state,
                       struct drover_error *ret_error)
{
    struct batch_item batch;
    struct library_call v;
    int err = batch_item_get(begin(&v, b), BATCH_KIND_BATCH, str_of(bid), &batch);

    if (!err)
        *ret_state = b->machines.batch.states[batch.status.state].name;
    return end(&v, err, ret_error);
}

int drover_job_create(struct drover_batches *b, const char *bid, const char *job,
                      char ret_jid[DROVER_BATCH_ID_SIZE], struct drover_error *ret_error)
{
    char jids[1][BATCH_ID_LEN + 1];
    struct batch_job_spec spec;
    struct library_call v;
    struct batch_call *c = begin(&v, b);
    const struct json *json = read_object(c, job, "a job");
    int err = json ? batch_job_read_spec(c, json, &spec) : DROVER_BAD_ARGUMENT;

    if (!err)
        err = batch_job_create(c, str_of(bid), &spec, 1, NULL, jids);
    if (!err)
        memcpy(ret_jid, jids[0], sizeof jids[0]);
    return end(&v, err, ret_error);
}

int drover_job_acquire(struct drover_batches *b, const char *state, struct drover_job *ret_job,
                       struct drover_error *ret_error)
{
    struct batch_item job;
    struct library_call v;
    struct batch_call *c = begin(&v, b);
    int got = batch_machine_named(&b->machines.job, str_of(state), c->why);

    if (got >= 0)
        got = batch_item_acquire(c, BATCH_KIND_JOB, got, &job);
    if (got == 1) {
        memcpy(ret_job->id, job.id, sizeof ret_job->id);
        memcpy(ret_job->batch, job.bid, sizeof ret_job->batch);
        ret_job->priority = job.priority;
        ret_job->token = job.token;
    }
    return end(&v, got, ret_error);
}

int drover_job_move(struct drover_batches *b, const char *jid, const struct drover_job_move *m,
                    struct drover_error *ret_error)
{
    struct batch_move move = {.state = str_of(m->state ? m->state : ""),
                              .priority = m->priority,
                              .token = m->token,
                              .keep = m->keep != 0};
    struct library_call v;
    int became;

    if (m->message)
        move.message = str_of(m->message);
    return end(&v, batch_item_move(begin(&v, b), BATCH_KIND_JOB, str_of(jid), &move, &became),
               ret_error);
}

int drover_job_state(struct drover_batches *b, const char *jid, const char **ret_state,
                     struct drover_error *ret_error)
{
    struct batch_item job;
    struct library_call v;
    int err = batch_item_read(begin(&v, b), BATCH_KIND_JOB, str_of(jid), &job);

    if (!err)
        *ret_state = b->machines.job.states[job.status.state].name;
    return end(&v, err, ret_error);
}
