/* /v1/locks and /v1/access */
#include "batch/format.h"
#include "batch/server.h"

/* A kind by name, or what is wrong with it. */
static int find_kind(struct batch_request *d, struct str name)
{
    for (int i = 0; i < LOCK_KINDS; i++)
        if (str_eq(name, str_of(LOCK_DIRS[i])))
            return i;
    return err_set(&d->why, DROVER_NO_NODE,
                   "there is no kind of lock '%.*s'; there are queue, storage, inventory and "
                   "collections, and for breaking jobs and batches",
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
        put_locks(&d, 0, LOCK_KINDS - 1);
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

/* The locks of jobs and batches can be given back and broken here too. */
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
    if (!token && !force && (jobs || batches || kind == LOCK_STORAGE || kind == LOCK_INVENTORY))
        return err_set(&d->why, DROVER_BAD_ARGUMENT,
                       "this lock belongs to a worker: say its token, or force to break it");
    if (!jobs && !batches)
        return batch_lock_release(&d->call, (enum batch_lock_kind)kind, name, token);
    if (batch_id_number(jobs ? BATCH_ID_JOB : BATCH_ID_BATCH, name) < 0)
        return err_set(&d->why, DROVER_NO_NODE, "there is no such %s", jobs ? "job" : "batch");
    return batch_lock_drop(&d->call, jobs ? "jobs" : "batches", arena_text(d->call.a, name), token);
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

/* Access. */

static bool open_access(struct batch_request *d, struct http_request *r, const struct json *body,
                        bool session, enum batch_access_size *ret_size)
{
    struct str name;
    int err;

    if (!http_decode(r, r->params[0], &name) ||
        (session ? !batch_request_open_session(d, r, body) : !batch_request_open(d, r, body)))
        return false;
    err = batch_access_find_size(&d->call, name, ret_size);
    if (err)
        batch_request_close(d, err);
    return !err;
}

void post_access(struct http_request *r)
{
    const struct json *body = http_json(r), *data;
    char id[BATCH_ID_LEN + 1];
    enum batch_access_size size;
    struct batch_request d;
    int err;

    if (!body)
        return;
    data = json_get(body, "token");
    if (!data || data->kind != JSON_OBJECT)
        data = body; /* the document's fields themselves, of which "token" is one */
    if (data->kind != JSON_OBJECT) {
        http_reply_error(r, 400, "the body must be an object");
        return;
    }
    if (!open_access(&d, r, NULL, false, &size))
        return;
    err = batch_access_create(&d.call, size, data, id);
    if (!err)
        buf_printf(&d.out, "{\"access\":\"%s\"}", id);
    batch_request_close(&d, err);
}

void get_access_list(struct http_request *r)
{
    struct batch_access *list = NULL;
    enum batch_access_size size;
    struct str name = {0};
    struct batch_request d;
    size_t count = 0;
    int state = BATCH_NO_STATE, err = 0;

    if (!open_access(&d, r, NULL, false, &size))
        return;
    if (http_query(r, "state", &name)) {
        state = batch_machine_named(&d.call.store->machines.access, name, &d.why);
        err = state < 0 ? state : 0;
    }
    if (!err)
        err = batch_access_list(&d.call, size, state, &list, &count);
    json_open(&d.out, '{');
    json_key(&d.out, "access");
    json_open(&d.out, '[');
    for (size_t i = 0; i < count; i++)
        batch_format_access(&d.out, &d.call, &list[i]);
    json_close(&d.out, ']');
    json_close(&d.out, '}');
    batch_request_close(&d, err);
}

static void put_access(struct batch_request *d, const struct batch_access *a, bool token)
{
    json_open(&d->out, '{');
    json_key(&d->out, "access");
    batch_format_access(&d->out, &d->call, a);
    if (token) {
        json_key(&d->out, "token");
        json_put_int(&d->out, a->token);
    }
    json_close(&d->out, '}');
}

void acquire_access(struct http_request *r)
{
    static const char *const members[] = {"session", "wait", NULL};
    const struct json *body = batch_request_body(r, members);
    struct batch_server *h = r->arg;
    uint64_t seen = http_topic_seen(&h->topic);
    enum batch_access_size size;
    int64_t wait_ms;
    struct batch_access a;
    struct batch_request d;
    int got;

    if (!body || !batch_request_int(r, body, "wait", &wait_ms) ||
        !open_access(&d, r, body, true, &size))
        return;
    got = batch_access_acquire(&d.call, size, &a);
    if (got == 0) {
        wait_ms = batch_request_wait_ms(h, body);
        batch_request_leave(&d);
        if (wait_ms <= 0 || !http_wait(r, &h->topic, seen, wait_ms))
            http_reply(r, 200, STR("{\"access\":null}"));
        return;
    }
    if (got > 0)
        put_access(&d, &a, true);
    batch_request_close(&d, got);
}

void get_access(struct http_request *r)
{
    enum batch_access_size size;
    struct batch_access a;
    struct str id;
    struct batch_request d;
    int err;

    if (!http_decode(r, r->params[1], &id) || !open_access(&d, r, NULL, false, &size))
        return;
    err = batch_access_get(&d.call, size, id, &a);
    if (!err)
        put_access(&d, &a, false);
    batch_request_close(&d, err);
}

void delete_access(struct http_request *r)
{
    enum batch_access_size size;
    struct str id;
    struct batch_request d;
    int err;

    if (!http_decode(r, r->params[1], &id) || !open_access(&d, r, NULL, false, &size))
        return;
    err = batch_access_delete(&d.call, size, id);
    buf_printf(&d.out, "{}");
    batch_request_close(&d, err);
}

void put_access_state(struct http_request *r)
{
    static const char *const members[] = {"state", "message", "token", "session", NULL};
    const struct json *body = batch_request_body(r, members);
    struct str id, state = {0}, message = {0};
    enum batch_access_size size;
    int64_t token = 0;
    struct batch_request d;
    int to, err;

    if (!body || !http_decode(r, r->params[1], &id) ||
        !batch_request_text(r, body, "state", &state) ||
        !batch_request_text(r, body, "message", &message) ||
        !batch_request_int(r, body, "token", &token))
        return;
    if (!state.p) {
        http_reply_error(r, 400, "'state' is missing");
        return;
    }
    if (!open_access(&d, r, body, false, &size))
        return;
    err = batch_access_move(&d.call, size, id, state, message, token, &to);
    if (!err) {
        json_open(&d.out, '{');
        json_key(&d.out, "access");
        json_put_text(&d.out, id);
        json_key(&d.out, "state");
        json_put_text(&d.out, str_of(d.call.store->machines.access.states[to].name));
        json_close(&d.out, '}');
    }
    batch_request_close(&d, err);
}
