/* /v1/locks */
#include "batch/server.h"

/* The kind of a name. */
static int find_kind(struct batch_request *d)
{
    struct str name = d->in->kind;
    for (int i = 0; i < BATCH_LOCK_KINDS; i++)
        if (str_eq(name, str_of(BATCH_LOCK_DIRS[i])))
            return i;
    return err_set(&d->why, DROVER_NO_NODE,
                   "there is no kind of lock '%.*s'; the kinds are queue, storage, inventory and "
                   "collections, and for breaking also jobs and batches",
                   (int)(name.len < 100 ? name.len : 100), name.p);
}

static void put_lock_json(struct buf *b, const struct batch_lock *lock)
{
    json_open(b, '{');
    json_member_text(b, "kind", str_of(BATCH_LOCK_DIRS[lock->kind]));
    json_member_text(b, "name", lock->name);
    json_member_text(b, "node", lock->node);
    json_member_text(b, "who", lock->who);
    json_member_text(b, "when", lock->when);
    json_member_int(b, "age", lock->age_ms);
    json_member_bool(b, "ephemeral", lock->ephemeral);
    json_member_int(b, "token", lock->token);
    json_close(b, '}');
}

/* Of one kind, or of all. */
BATCH_HANDLER(get_locks)
{
    int first = d->in->kind.p ? find_kind(d) : 0,
        last = d->in->kind.p ? first : BATCH_LOCK_KINDS - 1;

    if (first < 0)
        return first;
    batch_request_open_list(d, "locks");
    for (int kind = first; kind <= last; kind++) {
        struct batch_lock *locks;
        size_t count;

        TRY(batch_lock_list(&d->call, (enum batch_lock_kind)kind, &locks, &count));
        for (size_t i = 0; i < count; i++)
            put_lock_json(&d->out, &locks[i]);
    }
    return batch_request_close_list(d);
}

static int put_one(struct batch_request *d, const struct batch_lock *lock)
{
    json_open(&d->out, '{');
    json_key(&d->out, "lock");
    put_lock_json(&d->out, lock);
    json_member_int(&d->out, "token", lock->token);
    json_close(&d->out, '}');
    return 0;
}

BATCH_HANDLER(get_lock)
{
    struct batch_lock lock;
    int kind = find_kind(d);
    if (kind < 0)
        return kind;
    TRY(batch_lock_get(&d->call, (enum batch_lock_kind)kind, d->in->name, &lock));
    return put_one(d, &lock);
}

BATCH_HANDLER(put_lock)
{
    struct batch_lock lock;
    int kind = find_kind(d);
    if (kind < 0)
        return kind;
    if (batch_lock_is_ephemeral((enum batch_lock_kind)kind) && !d->in->session.p)
        return err_set(&d->why, DROVER_BAD_ARGUMENT,
                       "'session' is missing: open one with POST /v1/sessions");
    TRY(batch_lock_take(&d->call, (enum batch_lock_kind)kind, d->in->name, d->in->who, &lock));
    return put_one(d, &lock);
}

/* Also for the locks of jobs and batches. */
BATCH_HANDLER(delete_lock)
{
    const struct batch_in *in = d->in;
    bool jobs = str_eq(in->kind, STR("jobs")) || str_eq(in->kind, STR("job")),
         batches = str_eq(in->kind, STR("batches")) || str_eq(in->kind, STR("batch"));
    int kind = jobs || batches ? 0 : find_kind(d);
    if (kind < 0)
        return kind;
    if (!in->token && !in->force &&
        (jobs || batches || batch_lock_is_ephemeral((enum batch_lock_kind)kind)))
        return err_set(&d->why, DROVER_BAD_ARGUMENT,
                       "this lock belongs to a worker: give its token, or force to break it");
    if (!jobs && !batches)
        return batch_lock_release(&d->call, (enum batch_lock_kind)kind, in->name, in->token);
    return batch_item_unlock(&d->call, jobs ? BATCH_KIND_JOB : BATCH_KIND_BATCH, in->name,
                             in->token);
}
