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

static void on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *arg)
{
    struct zk_request *r = (struct zk_request *)arg;
    int change = ZOO_PERM_WRITE | ZOO_PERM_CREATE | ZOO_PERM_DELETE | ZOO_PERM_ADMIN;
    for (int i = 0; rc == ZOK && i < acl->count; i++)
        if ((acl->data[i].perms & change) && strcmp(acl->data[i].id.scheme, "world") == 0)
            r->world_writable = true;
    answer(r, rc, stat);
}

/* Requests. */

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
    case ZK_CREATE:
        return zoo_acreate(zk->handle, r->full, "", 0, zk->acl, r->flags, on_string, r);
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
