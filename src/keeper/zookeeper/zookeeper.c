/*
 * Opening and closing a keeper on a ZooKeeper ensemble: its session, its end; the queue of
 * callbacks; and what all requests share: the table of errors and the translation of paths and
 * stats.
 *
 * The chroot is prepended here and not by libzookeeper: paths are copied anyway, one session can
 * create the chroot and use it, and nodes above it can be read.
 *
 * The other files: zookeeper_url.c parses the URL, zookeeper_relay.c speaks TLS,
 * zookeeper_call.c waits for answers, zookeeper_txn.c has the transactions,
 * zookeeper_tag.c finds the outcome of lost ones, zookeeper_watch.c has persistent watches.
 * zookeeper_impl.h describes threads and locks.
 */
#include "keeper/zookeeper/zookeeper.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "keeper/zookeeper/zookeeper_impl.h"

enum { ZK_QUOTA_EXCEEDED = -125 }; /* newer than the library */

/*
 * ZooKeeper's errors and ours. Others (marshalling) are IO. When a
 * session moved to another connection, the request did not happen; UNKNOWN allows that.
 */
static const struct {
    int rc, err;
} errors[] = {
    {ZNONODE, DROVER_NO_NODE},
    {ZNODEEXISTS, DROVER_EXISTS},
    {ZBADVERSION, DROVER_BAD_VERSION},
    {ZNOTEMPTY, DROVER_NOT_EMPTY},
    {ZRUNTIMEINCONSISTENCY, DROVER_NOT_TRIED},
    {ZNOCHILDRENFOREPHEMERALS, DROVER_NO_CHILDREN_FOR_EPHEMERALS},
    {ZBADARGUMENTS, DROVER_BAD_ARGUMENT},
    {ZNOAUTH, DROVER_NO_AUTH},
    {ZAUTHFAILED, DROVER_NO_AUTH},
    {ZINVALIDACL, DROVER_NO_AUTH},
    {ZUNIMPLEMENTED, DROVER_UNIMPLEMENTED},
    {ZK_QUOTA_EXCEEDED, DROVER_QUOTA_EXCEEDED},
    {ZCONNECTIONLOSS, DROVER_UNKNOWN},
    {ZOPERATIONTIMEOUT, DROVER_UNKNOWN},
    {ZSYSTEMERROR, DROVER_UNKNOWN},
    {ZSESSIONMOVED, DROVER_UNKNOWN},
    {ZSESSIONEXPIRED, DROVER_SESSION_EXPIRED},
    {ZINVALIDSTATE, DROVER_SESSION_EXPIRED},
    {ZCLOSING, DROVER_CLOSED},
};

int zk_err(int rc)
{
    if (rc == ZOK)
        return 0;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].rc == rc)
            return errors[i].err;
    return DROVER_IO;
}

/* "/" is the chroot itself, without a slash, unless a sequence number will follow. */
size_t zk_full_path_put(const struct zk *zk, struct str path, bool sequential, char *at)
{
    if (zk->chroot_len && path.len == 1 && !sequential)
        path.len = 0;
    memcpy(at, zk->chroot, zk->chroot_len);
    memcpy(at + zk->chroot_len, path.p, path.len);
    at[zk->chroot_len + path.len] = '\0';
    return zk->chroot_len + path.len;
}

char *zk_full_path(const struct zk *zk, struct str path)
{
    char *full = mem_alloc(zk->chroot_len + path.len + 1);
    zk_full_path_put(zk, path, false, full);
    return full;
}

struct keeper_stat zk_stat(const struct Stat *s)
{
    return (struct keeper_stat){
        .czxid = s->czxid,
        .mzxid = s->mzxid,
        .pzxid = s->pzxid,
        .ctime_ms = s->ctime,
        .mtime_ms = s->mtime,
        .ephemeral_owner = s->ephemeralOwner,
        .version = s->version,
        .cversion = s->cversion,
        .aversion = s->aversion,
        .data_len = s->dataLength,
        .child_count = s->numChildren,
    };
}

/* The session. */

static void session_over(struct zk *zk, int err)
{
    if (zk->ended)
        return;
    zk_watches_end(zk);
    zk->ended = err;
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *arg)
{
    struct zk *zk = arg;
    (void)handle, (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    LOCKED(&zk->lock);
    if (state == ZOO_CONNECTED_STATE) {
        if (zk->connected_before)
            zk_watches_reconnected(zk);
        zk->connected_before = true;
    } else if (state == ZOO_EXPIRED_SESSION_STATE) {
        session_over(zk, DROVER_SESSION_EXPIRED);
    } else if (state == ZOO_AUTH_FAILED_STATE) {
        session_over(zk, DROVER_NO_AUTH);
    }
    pthread_cond_broadcast(&zk->changed);
}

/*
 * The queue of the user's callbacks that are due. The keeper's own thread runs them, or
 * keeper_dispatch() if the options have a wake.
 *
 * wake is called when the queue was empty before, and by a dispatch that leaves callbacks behind:
 * one dispatch runs only those that were due when it began, so that a busy keeper does not block
 * its user's event loop.
 */

void zk_ready(struct zk *zk, struct zk_item *item)
{
    bool first = TAILQ_EMPTY(&zk->ready);
    if (item->queued)
        return;
    item->queued = true;
    TAILQ_INSERT_TAIL(&zk->ready, item, link);
    zk->ready_count++;
    if (!zk->wake)
        pthread_cond_signal(&zk->due);
    else if (first && !zk->closing) /* closing runs the rest itself */
        zk->wake(zk->wake_arg);
}

void zk_unready(struct zk *zk, struct zk_item *item)
{
    if (!item->queued)
        return;
    item->queued = false;
    TAILQ_REMOVE(&zk->ready, item, link);
    zk->ready_count--;
}

/* Runs up to count callbacks. Does nothing if called from inside one. */
static void run_items(struct zk *zk, size_t count)
{
    struct zk_item *item;
    if (zk->dispatching)
        return;
    zk->dispatching = true;
    zk->dispatcher = pthread_self();
    while (count-- > 0 && (item = TAILQ_FIRST(&zk->ready))) {
        zk_unready(zk, item);
        item->run(zk, item);
    }
    zk->dispatching = false;
}

static void dispatch(struct keeper *k)
{
    struct zk *zk = zk_of(k);
    if (!zk->wake)
        return;
    LOCKED(&zk->lock);
    run_items(zk, zk->ready_count);
    if (!zk->dispatching && !TAILQ_EMPTY(&zk->ready))
        zk->wake(zk->wake_arg);
}

static void *queue_main(void *arg)
{
    struct zk *zk = arg;
    LOCKED(&zk->lock);
    while (!zk->stop || !TAILQ_EMPTY(&zk->ready)) {
        if (TAILQ_EMPTY(&zk->ready))
            pthread_cond_wait(&zk->due, &zk->lock);
        run_items(zk, zk->ready_count);
    }
    return NULL;
}

/* Runs the callbacks that are left. */
static void queue_close(struct zk *zk)
{
    pthread_mutex_lock(&zk->lock);
    zk->stop = true;
    pthread_cond_signal(&zk->due);
    while (!zk->thread_runs && !TAILQ_EMPTY(&zk->ready))
        run_items(zk, zk->ready_count);
    pthread_mutex_unlock(&zk->lock);
    if (zk->thread_runs)
        pthread_join(zk->thread, NULL);
}

/* Closing. */

/*
 * Waits a while for a connection, which ending the session needs, and for the results of commits.
 */
static void close_wait(struct zk *zk)
{
    int64_t deadline_ms = clock_boot_ms() + ZK_CLOSE_MS;
    while (!is_unrecoverable(zk->handle) &&
           (zk->in_flight || zoo_state(zk->handle) != ZOO_CONNECTED_STATE) &&
           zk_wait(zk, deadline_ms))
        ;
}

/*
 * zookeeper_close() ends the session of a connected handle, and no other call disconnects one. But
 * a server closes the connection, and keeps the session, when it gets credentials of an unknown
 * scheme, and libzookeeper then does not reconnect. If the server is slow, it still reads the
 * credentials before the request to end the session.
 */
static void abandon_wait(struct zk *zk)
{
    int64_t deadline_ms = clock_boot_ms() + ZK_ABANDON_MS;
    zoo_add_auth(zk->handle, "drover-abandon", "", 0, NULL, NULL);
    while ((!is_unrecoverable(zk->handle) || zk->in_flight) && zk_wait(zk, deadline_ms))
        ;
}

static void zk_free(struct zk *zk)
{
    zk_watches_free(zk);
    zk_relay_close(zk->relay);
    pthread_cond_destroy(&zk->changed);
    pthread_cond_destroy(&zk->due);
    pthread_mutex_destroy(&zk->lock);
    free(zk->chroot);
    free(zk->user);
    free(zk);
}

static void close_keeper(struct keeper *k, bool end_session)
{
    struct zk *zk = zk_of(k);
    pthread_mutex_lock(&zk->lock);
    bool has_session = zk->connected_before && !zk->ended;
    zk->closing = true;
    if (!zk->ended)
        zk->ended = DROVER_CLOSED;
    pthread_cond_broadcast(&zk->changed);
    if (has_session && end_session)
        close_wait(zk);
    else if (has_session)
        abandon_wait(zk);
    pthread_mutex_unlock(&zk->lock);

    zookeeper_close(zk->handle); /* its threads have ended when this returns */
    zk_relay_close(zk->relay);
    zk->relay = NULL;
    pthread_mutex_lock(&zk->lock);
    zk_calls_fail(zk);
    while (zk->callers)
        pthread_cond_wait(&zk->changed, &zk->lock);
    pthread_mutex_unlock(&zk->lock);
    zk_tags_close(zk);
    queue_close(zk);
    zk_free(zk);
}

/* Opening. */

static const struct keeper_ops ops = {
    .get = zk_get,
    .children = zk_children,
    .multi = zk_multi,
    .commit = zk_commit,
    .sync = zk_sync,
    .watch = zk_watch,
    .unwatch = zk_unwatch,
    .dispatch = dispatch,
    .close = close_keeper,
};

static struct zk *zk_new(const struct keeper_options *o, struct str chroot)
{
    struct zk *zk = mem_alloc(sizeof *zk);
    *zk = (struct zk){
        .keeper = {&ops, o->resume},
        .chroot = mem_dup(chroot.p, chroot.len),
        .chroot_len = chroot.len,
        .wake = o->wake,
        .wake_arg = o->wake_arg,
    };
    zk->keeper.session.timeout_ms =
        keeper_granted_timeout(o->timeout_ms ? o->timeout_ms : KEEPER_TIMEOUT_DEFAULT_MS);
    pthread_mutex_init(&zk->lock, NULL);
    cond_init(&zk->changed);
    cond_init(&zk->due);
    TAILQ_INIT(&zk->calls);
    TAILQ_INIT(&zk->commits);
    TAILQ_INIT(&zk->ready);
    TAILQ_INIT(&zk->unresolved);
    TAILQ_INIT(&zk->watched);
    return zk;
}

/*
 * The resolution delay of -1 keeps libzookeeper from resolving the hosts before every request; it
 * still resolves them whenever it connects.
 */
static int session_start(struct zk *zk, const char *name, const struct zookeeper_options *zo,
                         struct err_info *e)
{
    const char *hosts = zk->relay ? zk_relay_hosts(zk->relay) : zk_url_hosts(name);
    clientid_t id = {.client_id = zk->keeper.session.id};
    memcpy(id.passwd, zk->keeper.session.password, sizeof id.passwd);
    zk->acl = zo && zo->auth ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
    if (zo && zo->auth)
        zk->user = mem_dup(zo->auth, strcspn(zo->auth, ":"));
    zoo_set_debug_level(0);
    zk->handle = zookeeper_init2(hosts, on_session, zk->keeper.session.timeout_ms,
                                 id.client_id ? &id : NULL, zk, ZOO_NO_LOG_CLIENTENV, NULL);
    if (!zk->handle)
        return err_set(e, DROVER_IO, "%s: cannot resolve any of the hosts: %s", name,
                       strerror(errno));
    zoo_set_servers_resolution_delay(zk->handle, -1);
    const char *login = !zo ? NULL : zo->auth ? zo->auth : zo->login;
    if (login && zoo_add_auth(zk->handle, "digest", login, (int)strlen(login), NULL, NULL) != ZOK)
        return err_set(e, DROVER_NO_AUTH, "%s: the credentials could not be sent", name);
    return 0;
}

/* With TLS the relay knows why there is no connection, and whether to wait for one. */
static int wait_relayed(struct zk *zk, const char *name, int32_t timeout_ms, struct err_info *e)
{
    int64_t now_ms = clock_boot_ms(), deadline_ms = now_ms + timeout_ms;
    struct err_info why = {0};
    int err;
    do {
        now_ms = clock_boot_ms();
        err = zk_wait_connected(zk, now_ms + ZK_LOOK_MS < deadline_ms ? now_ms + ZK_LOOK_MS
                                                                      : deadline_ms);
        if (err == DROVER_UNKNOWN && zk_relay_problem(zk->relay, &why))
            return err_set(e, DROVER_IO, "%s: %s", name, why.text);
    } while (err == DROVER_UNKNOWN && now_ms < deadline_ms);
    if (err == DROVER_UNKNOWN && why.text[0])
        return err_set(e, DROVER_IO, "%s: no server answered within %d ms: %s", name, timeout_ms,
                       why.text);
    return err;
}

static int session_wait(struct zk *zk, const char *name, int32_t timeout_ms, struct err_info *e)
{
    timeout_ms = timeout_ms ? timeout_ms : ZOOKEEPER_CONNECT_TIMEOUT_MS;
    int err = zk->relay ? wait_relayed(zk, name, timeout_ms, e)
                        : zk_wait_connected(zk, clock_boot_ms() + timeout_ms);
    if (err == DROVER_IO)
        return err;
    if (err == DROVER_UNKNOWN)
        return err_set(e, DROVER_IO, "%s: no server answered within %d ms", name, timeout_ms);
    if (err)
        return err_set(e, err, "%s: session 0x%llx: %s", name,
                       (unsigned long long)zk->keeper.session.id, drover_err_message(err));
    zk->keeper.session.id = zoo_client_id(zk->handle)->client_id;
    memcpy(zk->keeper.session.password, zoo_client_id(zk->handle)->passwd, KEEPER_PASSWORD_LEN);
    zk->keeper.session.timeout_ms = zoo_recv_timeout(zk->handle);
    return 0;
}

/*
 * Reads before it creates, because a client may be allowed to use the chroot and not to create it.
 * Waits for two session timeouts, because a silent server is given up after two thirds of one.
 */
static int chroot_make(struct zk *zk, const char *name, struct err_info *e)
{
    CLEANUP(mem_free) char *part = mem_dup(zk->chroot, zk->chroot_len);
    int64_t deadline_ms = zk_deadline(zk) + zk->keeper.session.timeout_ms;
    int err = zk->chroot_len ? zk_exists(zk, part, deadline_ms, NULL) : 0;
    for (size_t i = 1; err == DROVER_NO_NODE && i <= zk->chroot_len; i++) {
        if (i < zk->chroot_len && part[i] != '/')
            continue;
        part[i] = '\0';
        int made = zk_exists(zk, part, deadline_ms, NULL);
        if (made == DROVER_NO_NODE)
            made = zk_make_node(zk, part, deadline_ms, 0);
        if (made || i == zk->chroot_len)
            err = made;
        else
            part[i] = '/';
    }
    if (err)
        err_set(e, err, "%s: cannot make %s: %s", name, part, drover_err_message(err));
    return err;
}

static int session_open(struct zk *zk, const char *name, const struct zookeeper_options *zo,
                        struct err_info *e)
{
    LOCKED(&zk->lock);
    if (zk_url_is_tls(name))
        TRY(zk_relay_open(zk_url_hosts(name), zo, zk->keeper.session.timeout_ms, &zk->relay, e));
    TRY(session_start(zk, name, zo, e));
    TRY(session_wait(zk, name, zo ? zo->connect_timeout_ms : 0, e));
    TRY(chroot_make(zk, name, e));
    if (!zk->wake)
        TRY(thread_start(&zk->thread, "zk-callbacks", queue_main, zk, e));
    zk->thread_runs = !zk->wake;
    return 0;
}

int zookeeper_connect(const char *url, const struct zookeeper_options *zo,
                      const struct keeper_options *o, struct keeper **ret_keeper,
                      struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf name = {0};
    struct str chroot = {0};
    TRY(zookeeper_check_url(url, zo ? &zo->tls : NULL, ret_error));
    TRY(zk_url_parse(url, &name, &chroot, ret_error));
    struct zk *zk = zk_new(o, chroot);
    int err = session_open(zk, buf_text(&name), zo, ret_error);
    if (!err)
        *ret_keeper = &zk->keeper;
    else if (zk->handle)
        close_keeper(&zk->keeper, o->resume.id == 0);
    else
        zk_free(zk);
    return err;
}
