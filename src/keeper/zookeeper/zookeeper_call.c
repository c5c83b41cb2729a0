/*
 * Requests to the ensemble that somebody waits for: how they are sent and answered, and the reads.
 *
 * The synchronous functions of libzookeeper are not used: they would wait for ever when a handle is
 * closed under them, and their buffers must be sized before the answer is known. A request lives on
 * the stack of its caller, who always waits for the answer; libzookeeper answers each when its
 * connection breaks, and what it forgets when it is closed is answered by zk_calls_fail().
 *
 * A read whose connection broke is sent again on the next one, until the deadline.
 */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "keeper/zookeeper/zookeeper_impl.h"

int zk_enter(struct zk *zk)
{
    zk_lock(zk);
    if (zk->over) {
        int err = zk->over;

        zk_unlock(zk);
        return err;
    }
    zk->callers++;
    return 0;
}

void zk_leave(struct zk *zk)
{
    if (--zk->callers == 0 && zk->closing)
        pthread_cond_broadcast(&zk->changed);
    zk_unlock(zk);
}

/* Without a connection for that long, the session is over or about to be. */
int64_t zk_deadline(const struct zk *zk)
{
    return clock_boot_ms() + zk->session.timeout_ms;
}

void zk_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

bool zk_wait(struct zk *zk, pthread_cond_t *c, int64_t deadline_ms)
{
    int64_t left_ms = deadline_ms - clock_boot_ms();
    struct timespec until;

    if (left_ms <= 0)
        return false;
    zk_wake(zk);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += left_ms / 1000;
    until.tv_nsec += left_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(c, &zk->lock, &until);
    return true;
}

/* Returns 0, what ended the session, or UNKNOWN when the time is over. */
int zk_wait_connected(struct zk *zk, int64_t deadline_ms)
{
    while (!zk->over && zoo_state(zk->handle) != ZOO_CONNECTED_STATE) {
        if (!zk_wait(zk, &zk->changed, deadline_ms))
            return DROVER_UNKNOWN;
    }
    return zk->over;
}

void zk_call_start(struct zk *zk, struct zk_call *c)
{
    c->zk = zk;
    c->replies = 1;
    c->rc = ZOK;
    c->done = false;
    if (!c->finish)
        zk_cond_init(&c->answered);
    TAILQ_INSERT_TAIL(&zk->calls, c, link);
    zk->in_flight++;
}

static void call_remove(struct zk_call *c)
{
    struct zk *zk = c->zk;

    TAILQ_REMOVE(&zk->calls, c, link);
    zk->in_flight--;
    if (zk->in_flight == ZK_IN_FLIGHT_MAX - 1)
        pthread_cond_broadcast(&zk->room);
    if (zk->in_flight == 0 && zk->closing)
        pthread_cond_broadcast(&zk->changed);
}

void zk_call_cancel(struct zk_call *c)
{
    call_remove(c);
    if (!c->finish)
        pthread_cond_destroy(&c->answered);
}

void zk_call_reply(struct zk_call *c)
{
    if (--c->replies)
        return;
    call_remove(c);
    c->done = true;
    if (c->finish)
        c->finish(c);
    else
        pthread_cond_signal(&c->answered);
}

int zk_call_wait(struct zk_call *c)
{
    zk_wake(c->zk);
    while (!c->done)
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
        zk_call_reply(c);
    }
}

/* A read, or a creation that may be repeated. What is asked for is not NULL. */
struct read {
    struct zk_call call;
    const char *full;
    int64_t deadline_ms;
    int flags; /* of a creation */
    struct buf *data, *text;
    size_t count; /* of names in text */
    struct keeper_stat stat;
    bool world_writable;
};

static void answer(struct read *r, int rc, const struct Stat *stat)
{
    r->call.rc = rc;
    if (rc == ZOK && stat)
        r->stat = zk_stat(stat);
    zk_call_reply(&r->call);
    zk_unlock(r->call.zk);
}

static struct read *answer_begin(const void *arg)
{
    struct read *r = (struct read *)arg;

    zk_lock(r->call.zk);
    return r;
}

static void on_data(int rc, const char *value, int len, const struct Stat *stat, const void *arg)
{
    struct read *r = answer_begin(arg);

    if (rc == ZOK) {
        r->data->len = 0;
        if (len > 0) /* -1 is a node that was made with no data at all */
            buf_put(r->data, value, (size_t)len);
    }
    answer(r, rc, stat);
}

static void on_stat(int rc, const struct Stat *stat, const void *arg)
{
    answer(answer_begin(arg), rc, stat);
}

static void on_names(int rc, const struct String_vector *names, const struct Stat *stat,
                     const void *arg)
{
    struct read *r = answer_begin(arg);

    for (int i = 0; rc == ZOK && i < names->count; i++)
        buf_put(r->text, names->data[i], strlen(names->data[i]) + 1);
    r->count = rc == ZOK ? (size_t)names->count : 0;
    answer(r, rc, stat);
}

static void on_string(int rc, const char *value, const void *arg)
{
    (void)value;
    answer(answer_begin(arg), rc, NULL);
}

static void on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *arg)
{
    struct read *r = answer_begin(arg);
    int change = ZOO_PERM_WRITE | ZOO_PERM_CREATE | ZOO_PERM_DELETE | ZOO_PERM_ADMIN;

    r->world_writable = false;
    for (int i = 0; rc == ZOK && i < acl->count; i++) {
        if ((acl->data[i].perms & change) && strcmp(acl->data[i].id.scheme, "world") == 0)
            r->world_writable = true;
    }
    answer(r, rc, stat);
}

static int send_get(struct zk *zk, struct read *r)
{
    if (r->data)
        return zoo_aget(zk->handle, r->full, 0, on_data, r);
    return zoo_aexists(zk->handle, r->full, 0, on_stat, r);
}

static int send_children(struct zk *zk, struct read *r)
{
    return zoo_aget_children2(zk->handle, r->full, 0, on_names, r);
}

static int send_sync(struct zk *zk, struct read *r)
{
    return zoo_async(zk->handle, r->full, on_string, r);
}

static int send_acl(struct zk *zk, struct read *r)
{
    return zoo_aget_acl(zk->handle, r->full, on_acl, r);
}

static int send_create(struct zk *zk, struct read *r)
{
    return zoo_acreate(zk->handle, r->full, "", 0, zk->acl, r->flags, on_string, r);
}

static int ask_once(struct zk *zk, struct read *r, int (*send)(struct zk *, struct read *))
{
    int rc;

    zk_call_start(zk, &r->call);
    rc = send(zk, r);
    if (rc != ZOK) {
        zk_call_cancel(&r->call);
        return zk->over ? zk->over : zk_err(rc);
    }
    return zk_err(zk_call_wait(&r->call));
}

static int ask(struct zk *zk, struct read *r, int (*send)(struct zk *, struct read *))
{
    int err;

    do {
        err = zk_wait_connected(zk, r->deadline_ms);
        if (!err)
            err = ask_once(zk, r, send);
    } while (err == DROVER_UNKNOWN && clock_boot_ms() < r->deadline_ms);
    return err;
}

int zk_read_data(struct zk *zk, const char *full, int64_t deadline_ms, struct buf *ret_data,
                 struct keeper_stat *ret_stat)
{
    struct read r = {.full = full, .deadline_ms = deadline_ms, .data = ret_data};
    int err = ask(zk, &r, send_get);

    if (!err && ret_stat)
        *ret_stat = r.stat;
    return err;
}

int zk_read_children(struct zk *zk, const char *full, int64_t deadline_ms, struct buf *ret_text,
                     size_t *ret_count, struct keeper_stat *ret_stat)
{
    struct read r = {.full = full, .deadline_ms = deadline_ms, .text = ret_text};
    int err = ask(zk, &r, send_children);

    if (!err) {
        *ret_count = r.count;
        if (ret_stat)
            *ret_stat = r.stat;
    }
    return err;
}

int zk_read_sync(struct zk *zk, const char *full, int64_t deadline_ms)
{
    struct read r = {.full = full, .deadline_ms = deadline_ms};

    return ask(zk, &r, send_sync);
}

int zk_read_world_writable(struct zk *zk, const char *full, int64_t deadline_ms, bool *ret_writable)
{
    struct read r = {.full = full, .deadline_ms = deadline_ms};
    int err = ask(zk, &r, send_acl);

    if (!err)
        *ret_writable = r.world_writable;
    return err;
}

int zk_make_node(struct zk *zk, const char *full, int64_t deadline_ms, int flags)
{
    struct read r = {.full = full, .deadline_ms = deadline_ms, .flags = flags};
    int err = ask(zk, &r, send_create);

    return err == DROVER_EXISTS ? 0 : err;
}

int zk_get(struct keeper *k, struct str path, struct buf *ret_data, struct keeper_stat *ret_stat)
{
    struct zk *zk = zk_of(k);
    char *full;
    int err = zk_enter(zk);

    if (err)
        return err;
    full = zk_full_path(zk, path);
    err = zk_read_data(zk, full, zk_deadline(zk), ret_data, ret_stat);
    zk_leave(zk);
    free(full);
    return err;
}

int zk_children(struct keeper *k, struct str path, struct buf *ret_text, size_t *ret_count,
                struct keeper_stat *ret_stat)
{
    struct zk *zk = zk_of(k);
    char *full;
    int err = zk_enter(zk);

    if (err)
        return err;
    full = zk_full_path(zk, path);
    err = zk_read_children(zk, full, zk_deadline(zk), ret_text, ret_count, ret_stat);
    zk_leave(zk);
    free(full);
    return err;
}

int zk_sync(struct keeper *k, struct str path)
{
    struct zk *zk = zk_of(k);
    char *full;
    int err = zk_enter(zk);

    if (err)
        return err;
    full = zk_full_path(zk, path);
    err = zk_read_sync(zk, full, zk_deadline(zk));
    zk_leave(zk);
    free(full);
    return err;
}
