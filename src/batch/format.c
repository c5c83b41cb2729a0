#include "batch/format.h"

static void put_node(struct buf *b, struct batch_call *c, const char *name, struct str data)
{
    const struct json *v = data.p ? json_parse(c->a, data, NULL) : NULL;

    json_key(b, name);
    if (v)
        json_put(b, v);
    else if (data.p)
        json_put_text(b, data);
    else
        json_put_null(b);
}

static void put_text(struct buf *b, const char *name, struct str text)
{
    json_key(b, name);
    if (text.p)
        json_put_text(b, text);
    else
        json_put_null(b);
}

static void put_head(struct buf *b, const char *id, const struct batch_machine *m,
                     const struct batch_status *s)
{
    put_text(b, "id", str_of(id));
    put_text(b, "state", str_of(m->states[s->state].name));
    json_key(b, "status");
    json_put(b, s->json);
}

static void put_locked(struct buf *b, int64_t token)
{
    json_key(b, "locked");
    json_put_bool(b, token != 0);
}

void batch_format(struct buf *b, struct batch_call *c, const struct batch *batch)
{
    json_open(b, '{');
    put_head(b, batch->id, &c->store->machines.batch, &batch->status);
    put_locked(b, batch->token);
    put_node(b, c, "submission", batch->submission);
    put_node(b, c, "status-report", batch->report);
    json_key(b, "states");
    json_open(b, '{');
    for (int i = 0; i < BATCH_LIST_COUNT; i++) {
        json_key(b, BATCH_LISTS[i]);
        json_put_int(b, batch->counts[i]);
    }
    json_close(b, '}');
    json_close(b, '}');
}

void batch_format_job(struct buf *b, struct batch_call *c, const struct batch_job *job)
{
    json_open(b, '{');
    put_head(b, job->id, &c->store->machines.job, &job->status);
    put_text(b, "batch", str_of(job->bid));
    json_key(b, "priority");
    json_put_int(b, job->priority);
    put_locked(b, job->token);
    put_node(b, c, "configuration", job->configuration);
    put_node(b, c, "identifiers", job->identifiers);
    put_node(b, c, "metadata", job->metadata);
    put_node(b, c, "inventory", job->inventory);
    put_node(b, c, "space_needed", job->space_needed);
    json_close(b, '}');
}

void batch_format_access(struct buf *b, struct batch_call *c, const struct batch_access *access)
{
    json_open(b, '{');
    put_head(b, access->id, &c->store->machines.access, &access->status);
    put_text(b, "queue", str_of(ACCESS_DIRS[access->size]));
    put_locked(b, access->token);
    put_node(b, c, "token", access->data);
    json_close(b, '}');
}

void batch_format_lock(struct buf *b, const struct batch_lock *lock)
{
    json_open(b, '{');
    put_text(b, "kind", str_of(LOCK_DIRS[lock->kind]));
    put_text(b, "name", lock->name);
    put_text(b, "node", lock->node);
    put_text(b, "who", lock->who);
    put_text(b, "when", lock->when);
    json_key(b, "age");
    json_put_int(b, lock->age_ms);
    json_key(b, "ephemeral");
    json_put_bool(b, lock->ephemeral);
    json_key(b, "token");
    json_put_int(b, lock->token);
    json_close(b, '}');
}
