/*
 * Requests to the ensemble that a thread waits for: how they are sent and answered, and the reads.
 *
 * The synchronous functions of libzookeeper are not used: they wait for ever when their handle is
 * closed, and their buffers must be sized before the answer is known. A request lives on the stack
 * of its caller, who always waits for the answer. libzookeeper answers each request when its
 * connection breaks; those that it does not answer when it is closed are answered by
 * zk_calls_fail().
 *
 * A read whose connection broke is sent again on the next connection, until the deadline.
 */
#include "base/clock.h"
#include "keeper/jute.h"
#include "keeper/zookeeper/zookeeper_impl.h"

int zk_enter(struct zk *zk)
{
    pthread_mutex_lock(&zk->lock);
    int err = zk->ended;
    if (err)
        pthread_mutex_unlock(&zk->lock);
    else
        zk->callers++;
    return err;
}

void zk_leave(struct zk *zk)
{
    if (--zk->callers == 0 && zk->closing)
        pthread_cond_broadcast(&zk->changed);
    pthread_mutex_unlock(&zk->lock);
}

/* After this long without a connection, the session has expired or is about to. */
int64_t zk_deadline(const struct zk *zk)
{
    return clock_boot_ms() + zk->keeper.session.timeout_ms;
}

bool zk_wait(struct zk *zk, int64_t deadline_ms)
{
    if (clock_boot_ms() >= deadline_ms)
        return false;
    cond_wait_until(&zk->changed, &zk->lock, deadline_ms);
    return true;
}

/* Returns 0, the error that ended the session, or UNKNOWN at the deadline. */
int zk_wait_connected(struct zk *zk, int64_t deadline_ms)
{
    while (!zk->ended && zoo_state(zk->handle) != ZOO_CONNECTED_STATE)
        if (!zk_wait(zk, deadline_ms))
            return DROVER_UNKNOWN;
    return zk->ended;
}

void zk_call_start(struct zk *zk, struct zk_call *c)
{
    c->zk = zk;
    c->replies = 1;
    c->rc = ZOK;
    if (!c->finish)
        cond_init(&c->answered);
    TAILQ_INSERT_TAIL(&zk->calls, c, link);
    zk->in_flight++;
}

static void call_remove(struct zk_call *c)
{
    struct zk *zk = c->zk;
    TAILQ_REMOVE(&zk->calls, c, link);
    zk->in_flight--;
    if (zk->in_flight == ZK_IN_FLIGHT_MAX - 1 || (zk->in_flight == 0 && zk->closing))
        pthread_cond_broadcast(&zk->changed);
}

int zk_call_sent(struct zk_call *c, int rc)
{
    if (rc == ZOK)
        return 0;
    call_remove(c);
    if (!c->finish)
        pthread_cond_destroy(&c->answered);
    return c->zk->ended ? c->zk->ended : zk_err(rc);
}

static void call_reply(struct zk_call *c)
{
    if (--c->replies)
        return;
    call_remove(c);
    if (c->finish)
        c->finish(c);
    else
        pthread_cond_signal(&c->answered);
}

void zk_call_answer(struct zk_call *c, int rc)
{
    LOCKED(&c->zk->lock);
    c->rc = rc;
    call_reply(c);
}

int zk_call_wait(struct zk_call *c)
{
    while (c->replies)
        pthread_cond_wait(&c->answered, &c->zk->lock);
    pthread_cond_destroy(&c->answered);
    return c->rc;
}

void zk_calls_fail(struct zk *zk)
{
    struct zk_call *c;
    while ((c = TAILQ_FIRST(&zk->calls))) {
        c->rc = ZCLOSING;
        c->replies = 1;
        call_reply(c);
    }
}

/* Answers, on the reply thread. No other thread uses a request from its sending to its answer. */

static void answer(struct zk_request *r, int rc, const struct Stat *stat)
{
    if (rc == ZOK && stat)
        r->stat = zk_stat(stat);
    zk_call_answer(&r->call, rc);
}

static void on_data(int rc, const char *value, int len, const struct Stat *stat, const void *arg)
{
    struct zk_request *r = (struct zk_request *)arg;
    if (rc == ZOK) {
        r->data->len = 0;
        if (len > 0) /* -1: a node that was created without any data */
            buf_put(r->data, value, (size_t)len);
    }
    answer(r, rc, stat);
}

static void on_stat(int rc, const struct Stat *stat, const void *arg)
{
    answer((struct zk_request *)arg, rc, stat);
}

static void on_names(int rc, const struct String_vector *names, const struct Stat *stat,
                     const void *arg)
{
    struct zk_request *r = (struct zk_request *)arg;
    r->count = rc == ZOK && r->data ? (size_t)names->count : 0;
    for (size_t i = 0; i < r->count; i++)
        buf_put(r->data, names->data[i], strlen(names->data[i]) + 1);
    answer(r, rc, stat);
}

static void on_string(int rc, const char *value, const void *arg)
{
    (void)value;
    answer((struct zk_request *)arg, rc, NULL);
}

/* As acl.h has it. */
static void put_acl(struct buf *b, const struct ACL_vector *acl)
{
    b->len = 0;
    jute_put_i32(b, acl->count);
    for (int i = 0; i < acl->count; i++) {
        jute_put_i32(b, acl->data[i].perms);
        jute_put_bytes(b, str_of(acl->data[i].id.scheme));
        jute_put_bytes(b, str_of(acl->data[i].id.id));
    }
}

static void on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *arg)
{
    struct zk_request *r = (struct zk_request *)arg;
    int change = ZOO_PERM_WRITE | ZOO_PERM_CREATE | ZOO_PERM_DELETE | ZOO_PERM_ADMIN;
    for (int i = 0; rc == ZOK && i < acl->count; i++)
        if ((acl->data[i].perms & change) && strcmp(acl->data[i].id.scheme, "world") == 0)
            r->world_writable = true;
    if (rc == ZOK && r->data)
        put_acl(r->data, acl);
    answer(r, rc, stat);
}

static void on_nothing(int rc, const void *arg)
{
    answer((struct zk_request *)arg, rc, NULL);
}

/* Requests. */

static int create(struct zk *zk, struct zk_request *r)
{
    const char *data = r->content.p;
    int len = data ? (int)r->content.len : -1;
    if (!r->owner)
        return zoo_acreate(zk->handle, r->full, "", 0, zk->acl, r->flags, on_string, r);
    bool is_container = r->owner == KEEPER_CONTAINER;
    return zoo_acreate_ttl(zk->handle, r->full, data, len, zk->acl,
                           is_container ? ZOO_CONTAINER : ZOO_PERSISTENT_WITH_TTL,
                           is_container ? -1 : r->owner & KEEPER_TTL_MAX_MS, on_string, r);
}

static int hand_over(struct zk *zk, struct zk_request *r)
{
    void *id = (void *)r->watcher_id;
    switch (r->kind) {
    case ZK_GET:
        return zoo_aget(zk->handle, r->full, 0, on_data, r);
    case ZK_EXISTS:
        return zoo_awexists(zk->handle, r->full, r->watcher, id, on_stat, r);
    case ZK_CHILDREN:
        return zoo_awget_children2(zk->handle, r->full, r->watcher, id, on_names, r);
    case ZK_SYNC:
        return zoo_async(zk->handle, r->full, on_string, r);
    case ZK_GET_ACL:
        return zoo_aget_acl(zk->handle, r->full, on_acl, r);
    case ZK_SET_ACL:
        return zoo_aset_acl(zk->handle, r->full, -1, &r->acl, on_nothing, r);
    case ZK_CREATE:
        return create(zk, r);
    }
    return ZBADARGUMENTS;
}

int zk_request_send(struct zk *zk, struct zk_request *r)
{
    zk_call_start(zk, &r->call);
    return zk_call_sent(&r->call, hand_over(zk, r));
}

int zk_request(struct zk *zk, struct zk_request *r)
{
    int err;
    do {
        err = zk_wait_connected(zk, r->deadline_ms);
        if (!err)
            err = zk_request_send(zk, r);
        if (!err)
            err = zk_err(zk_call_wait(&r->call));
    } while (err == DROVER_UNKNOWN && clock_boot_ms() < r->deadline_ms);
    return r->kind == ZK_CREATE && err == DROVER_EXISTS ? 0 : err;
}

int zk_exists(struct zk *zk, const char *full, int64_t deadline_ms, struct keeper_stat *ret_stat)
{
    struct zk_request r = {.kind = ZK_EXISTS, .full = full, .deadline_ms = deadline_ms};
    TRY(zk_request(zk, &r));
    if (ret_stat)
        *ret_stat = r.stat;
    return 0;
}

int zk_make_node(struct zk *zk, const char *full, int64_t deadline_ms, int flags)
{
    return zk_request(
        zk, &(struct zk_request){
                .kind = ZK_CREATE, .full = full, .deadline_ms = deadline_ms, .flags = flags});
}

/* The user's reads: the path is the user's, the deadline that of the session. */
static int user_request(struct keeper *k, struct str path, struct zk_request *r)
{
    struct zk *zk = zk_of(k);
    CLEANUP(mem_free) char *full = zk_full_path(zk, path);
    TRY(zk_enter(zk));
    r->full = full;
    r->deadline_ms = zk_deadline(zk);
    int err = zk_request(zk, r);
    zk_leave(zk);
    return err;
}

int zk_get(struct keeper *k, struct str path, struct buf *ret_data, struct keeper_stat *ret_stat)
{
    struct zk_request r = {.kind = ret_data ? ZK_GET : ZK_EXISTS, .data = ret_data};
    TRY(user_request(k, path, &r));
    *ret_stat = r.stat;
    return 0;
}

int zk_children(struct keeper *k, struct str path, struct buf *ret_text, size_t *ret_count,
                struct keeper_stat *ret_stat)
{
    struct zk_request r = {.kind = ZK_CHILDREN, .data = ret_text};
    TRY(user_request(k, path, &r));
    *ret_count = r.count;
    *ret_stat = r.stat;
    return 0;
}

int zk_sync(struct keeper *k, struct str path)
{
    return user_request(k, path, &(struct zk_request){.kind = ZK_SYNC});
}

int zookeeper_world_writable(struct keeper *k, bool *ret_writable)
{
    struct zk_request r = {.kind = ZK_GET_ACL};
    TRY(user_request(k, STR("/"), &r));
    *ret_writable = r.world_writable;
    return 0;
}

/* The list of a node that this keeper has made, or another one with the same login. */
static bool is_own(const struct zk *zk, struct str acl)
{
    struct reader r = {acl.p, acl.len, false};
    int32_t count = jute_i32(&r), permissions = jute_i32(&r);
    struct str scheme = jute_bytes(&r), id = jute_bytes(&r);
    if (count != 1 || permissions != ZOO_PERM_ALL || r.bad)
        return false;
    if (!zk->user)
        return str_eq(scheme, STR("world"));
    size_t len = strlen(zk->user);
    return str_eq(scheme, STR("digest")) && id.len > len && !memcmp(id.p, zk->user, len) &&
           id.p[len] == ':';
}

int zookeeper_get_acl(struct keeper *k, const char *path, struct buf *ret_acl)
{
    struct zk_request r = {.kind = ZK_GET_ACL, .data = ret_acl};
    TRY(user_request(k, str_of(path), &r));
    if (is_own(zk_of(k), buf_str(ret_acl)))
        ret_acl->len = 0;
    return 0;
}

int zookeeper_set_acl(struct keeper *k, const char *path, struct str acl)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct reader in = {acl.p, acl.len, false};
    int32_t count = jute_i32(&in);
    if (count <= 0 || (size_t)count > acl.len)
        return DROVER_BAD_ACL;
    struct zk_request r = {.kind = ZK_SET_ACL};
    r.acl.data = arena_alloc(&a, (size_t)count * sizeof *r.acl.data);
    for (; r.acl.count < count && !in.bad; r.acl.count++) {
        struct ACL *entry = &r.acl.data[r.acl.count];
        entry->perms = jute_i32(&in);
        entry->id.scheme = arena_text(&a, jute_bytes(&in));
        entry->id.id = arena_text(&a, jute_bytes(&in));
    }
    return in.bad ? DROVER_BAD_ACL : user_request(k, str_of(path), &r);
}

int zookeeper_create_lasting(struct keeper *k, const char *path, struct str data, int64_t owner)
{
    struct zk_request r = {.kind = ZK_CREATE, .owner = owner, .content = data};
    return user_request(k, str_of(path), &r);
}
