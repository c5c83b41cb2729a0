/*
 * Opening and closing a keeper on a ZooKeeper ensemble: its URL, its session, its end; the queue of
 * callbacks; and what all requests share: the table of errors and the translation of paths and
 * stats.
 *
 * The chroot is prepended here and not by libzookeeper: paths are copied anyway, one session can
 * create the chroot and use it, and nodes above it can be read.
 *
 * The other files: zookeeper_call.c waits for answers, zookeeper_txn.c has the transactions,
 * zookeeper_tag.c finds the outcome of lost ones, zookeeper_watch.c has persistent watches.
 * zookeeper_impl.h describes threads and locks.
 */
#include "keeper/zookeeper/zookeeper.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "keeper/path.h"
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

/* The URL. */

/* host, host:port, [address] or [address]:port */
static int host_put(struct buf *hosts, struct str host, const char *url, struct err_info *e)
{
    const char *end = host.p + host.len, *colon;
    struct str name = host;
    long port = ZOOKEEPER_PORT;

    if (host.len && host.p[0] == '[') {
        const char *close = memchr(host.p, ']', host.len);
        if (!close)
            return err_set(e, DROVER_BAD_ARGUMENT, "%s: a [ without its ]", url);
        name = (struct str){host.p + 1, (size_t)(close - host.p) - 1};
        colon = close + 1 < end ? close + 1 : NULL;
    } else if ((colon = memrchr(host.p, ':', host.len))) {
        name.len = (size_t)(colon - host.p);
    }
    if (colon) {
        port = *colon == ':' ? 0 : 65536;
        for (const char *p = colon + 1; p < end && port <= 65535; p++)
            port = *p >= '0' && *p <= '9' ? port * 10 + *p - '0' : 65536;
    }
    if (!name.len)
        return err_set(e, DROVER_BAD_ARGUMENT, "%s: a host is missing", url);
    if (port < 1 || port > 65535)
        return err_set(e, DROVER_BAD_ARGUMENT, "%s: '%.*s' is not host:port", url, STR_ARGS(host));
    buf_printf(hosts, "%s%.*s:%ld", hosts->len ? "," : "", STR_ARGS(name), port);
    return 0;
}

/* Splits the URL into hosts as libzookeeper wants them, and the chroot. */
static int url_parse(const char *url, struct buf *hosts, struct str *ret_chroot, struct err_info *e)
{
    static const char scheme[] = "zk://";
    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        return err_set(e, DROVER_BAD_ARGUMENT, "%s: not of the form zk://host:port,.../chroot",
                       url);
    const char *at = url + sizeof scheme - 1, *end = at + strcspn(at, "/");
    if (memchr(at, '@', (size_t)(end - at)))
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "a zk:// URL with an @: credentials do not go there");
    struct str chroot = str_of(end);
    if (chroot.len == 1)
        chroot.len = 0;
    if (chroot.len && !path_is_valid(chroot, false))
        return err_set(e, DROVER_BAD_ARGUMENT, "%s: '%s' is not a path", url, end);
    for (size_t len; at <= end; at += len + 1) {
        len = strcspn(at, ",/");
        TRY(host_put(hosts, (struct str){at, len}, url, e));
    }
    *ret_chroot = chroot;
    return 0;
}

int zookeeper_check_url(const char *url, struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf hosts = {0};
    struct str chroot;
    return url_parse(url, &hosts, &chroot, ret_error);
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
static int session_start(struct zk *zk, const char *hosts, const struct zookeeper_options *zo,
                         struct err_info *e)
{
    clientid_t id = {.client_id = zk->keeper.session.id};
    memcpy(id.passwd, zk->keeper.session.password, sizeof id.passwd);
    zk->acl = zo && zo->auth ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
    if (zo && zo->auth)
        zk->user = mem_dup(zo->auth, strcspn(zo->auth, ":"));
    zoo_set_debug_level(0);
    zk->handle = zookeeper_init2(hosts, on_session, zk->keeper.session.timeout_ms,
                                 id.client_id ? &id : NULL, zk, ZOO_NO_LOG_CLIENTENV, NULL);
    if (!zk->handle)
        return err_set(e, DROVER_IO, "zk://%s: cannot resolve any of the hosts: %s", hosts,
                       strerror(errno));
    zoo_set_servers_resolution_delay(zk->handle, -1);
    const char *login = !zo ? NULL : zo->auth ? zo->auth : zo->login;
    if (login && zoo_add_auth(zk->handle, "digest", login, (int)strlen(login), NULL, NULL) != ZOK)
        return err_set(e, DROVER_NO_AUTH, "zk://%s: the credentials could not be sent", hosts);
    return 0;
}

static int session_wait(struct zk *zk, const char *hosts, int32_t timeout_ms, struct err_info *e)
{
    timeout_ms = timeout_ms ? timeout_ms : ZOOKEEPER_CONNECT_TIMEOUT_MS;
    int err = zk_wait_connected(zk, clock_boot_ms() + timeout_ms);
    if (err == DROVER_UNKNOWN)
        return err_set(e, DROVER_IO, "zk://%s: no server answered within %d ms", hosts, timeout_ms);
    if (err)
        return err_set(e, err, "zk://%s: session 0x%llx: %s", hosts,
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
static int chroot_make(struct zk *zk, const char *hosts, struct err_info *e)
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
        err_set(e, err, "zk://%s: cannot make %s: %s", hosts, part, drover_err_message(err));
    return err;
}

static int session_open(struct zk *zk, const char *hosts, const struct zookeeper_options *zo,
                        struct err_info *e)
{
    LOCKED(&zk->lock);
    TRY(session_start(zk, hosts, zo, e));
    TRY(session_wait(zk, hosts, zo ? zo->connect_timeout_ms : 0, e));
    TRY(chroot_make(zk, hosts, e));
    if (!zk->wake)
        TRY(thread_start(&zk->thread, "zk-callbacks", queue_main, zk, e));
    zk->thread_runs = !zk->wake;
    return 0;
}

int zookeeper_connect(const char *url, const struct zookeeper_options *zo,
                      const struct keeper_options *o, struct keeper **ret_keeper,
                      struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf hosts = {0};
    struct str chroot = {0};
    TRY(url_parse(url, &hosts, &chroot, ret_error));
    struct zk *zk = zk_new(o, chroot);
    int err = session_open(zk, buf_text(&hosts), zo, ret_error);
    if (!err)
        *ret_keeper = &zk->keeper;
    else if (zk->handle)
        close_keeper(&zk->keeper, o->resume.id == 0);
    else
        zk_free(zk);
    return err;
}
