/* /v1/locks */
#include "batch/server.h"

/* The kind of a name. */
static int find_kind(struct batch_request *d, struct str name)
{
    for (int i = 0; i < BATCH_LOCK_KINDS; i++)
        if (str_eq(name, str_of(BATCH_LOCK_DIRS[i])))
            return i;
    return err_set(&d->why, DROVER_NO_NODE,
                   "there is no kind of lock '%.*s'; the kinds are queue, storage, inventory and "
                   "collections, and for breaking also jobs and batches",
                   (int)(name.len < 100 ? name.len : 100), name.p);
}

static int put_kind(struct batch_request *d, enum batch_lock_kind kind)
{
    struct batch_lock *locks;
    size_t count;
    int err = batch_lock_list(&d->call, kind, &locks, &count);

    for (size_t i = 0; !err && i < count; i++)
        batch_format_lock(&d->out, &locks[i]);
    return err;
}

static void put_locks(struct batch_request *d, int first, int last)
{
    int err = 0;

    json_open(&d->out, '{');
    json_key(&d->out, "locks");
    json_open(&d->out, '[');
    for (int i = first; i <= last && !err; i++)
        err = put_kind(d, (enum batch_lock_kind)i);
    json_close(&d->out, ']');
    json_close(&d->out, '}');
    batch_request_close(d, err);
}

void get_locks(struct http_request *r)
{
    struct batch_request d;

    if (batch_request_open(&d, r, NULL))
        put_locks(&d, 0, BATCH_LOCK_KINDS - 1);
}

void get_lock_kind(struct http_request *r)
{
    struct str name;
    struct batch_request d;
    int kind;

    if (!http_decode(r, r->params[0], &name) || !batch_request_open(&d, r, NULL))
        return;
    kind = find_kind(&d, name);
    if (kind < 0)
        batch_request_close(&d, kind);
    else
        put_locks(&d, kind, kind);
}

static void put_one(struct batch_request *d, const struct batch_lock *lock)
{
    json_open(&d->out, '{');
    json_key(&d->out, "lock");
    batch_format_lock(&d->out, lock);
    json_key(&d->out, "token");
    json_put_int(&d->out, lock->token);
    json_close(&d->out, '}');
}

void get_lock(struct http_request *r)
{
    struct str kind_name, name;
    struct batch_lock lock;
    struct batch_request d;
    int err;

    if (!http_decode(r, r->params[0], &kind_name) || !http_decode(r, r->params[1], &name) ||
        !batch_request_open(&d, r, NULL))
        return;
    err = find_kind(&d, kind_name);
    if (err >= 0)
        err = batch_lock_get(&d.call, (enum batch_lock_kind)err, name, &lock);
    if (!err)
        put_one(&d, &lock);
    batch_request_close(&d, err);
}

void put_lock(struct http_request *r)
{
    static const char *const members[] = {"session", "who", NULL};
    const struct json *body = r->body.len ? batch_request_body(r, members) : NULL;
    struct str kind_name, name, who = {0};
    struct batch_lock lock;
    struct batch_request d;
    bool object;
    int err;

    if ((r->body.len && !body) || !http_decode(r, r->params[0], &kind_name) ||
        !http_decode(r, r->params[1], &name) || !batch_request_text(r, body, "who", &who))
        return;
    object = str_eq(kind_name, STR("storage")) || str_eq(kind_name, STR("inventory"));
    if (object ? !batch_request_open_session(&d, r, body) : !batch_request_open(&d, r, body))
        return;
    err = find_kind(&d, kind_name);
    if (err >= 0)
        err = batch_lock_take(&d.call, (enum batch_lock_kind)err, name, who, &lock);
    if (!err)
        put_one(&d, &lock);
    batch_request_close(&d, err);
}

/* Also for the locks of jobs and batches. */
static int release(struct batch_request *d, struct str kind_name, struct str name, int64_t token,
                   bool force)
{
    bool jobs = str_eq(kind_name, STR("jobs")) || str_eq(kind_name, STR("job")),
         batches = str_eq(kind_name, STR("batches")) || str_eq(kind_name, STR("batch"));
    int kind = 0;

    if (!jobs && !batches)
        kind = find_kind(d, kind_name);
    if (kind < 0)
        return kind;
    if (!token && !force &&
        (jobs || batches || batch_lock_is_ephemeral((enum batch_lock_kind)kind)))
        return err_set(&d->why, DROVER_BAD_ARGUMENT,
                       "this lock belongs to a worker: give its token, or force to break it");
    if (!jobs && !batches)
        return batch_lock_release(&d->call, (enum batch_lock_kind)kind, name, token);
    return batch_item_unlock(&d->call, jobs ? BATCH_KIND_JOB : BATCH_KIND_BATCH, name, token);
}

void delete_lock(struct http_request *r)
{
    static const char *const members[] = {"session", "token", "force", NULL};
    const struct json *body = r->body.len ? batch_request_body(r, members) : NULL;
    struct str kind_name, name, word = {0};
    int64_t token = 0;
    bool force = false;
    struct batch_request d;
    int err;

    if ((r->body.len && !body) || http_query_number(r, "token", &token) < 0 ||
        !batch_request_int(r, body, "token", &token) ||
        !batch_request_bool(r, body, "force", &force) ||
        !http_decode(r, r->params[0], &kind_name) || !http_decode(r, r->params[1], &name))
        return;
    if (http_query(r, "force", &word))
        force = str_eq(word, STR("1")) || str_eq(word, STR("true")) || str_eq(word, STR("yes"));
    if (!batch_request_open(&d, r, body))
        return;
    err = release(&d, kind_name, name, token, force);
    buf_printf(&d.out, "{}");
    batch_request_close(&d, err);
}
