/*
 * The embedded keeper's session exists from open to close, so borrowing it takes no counting.
 *
 * That of an ensemble counts its borrowers. The keeper's callbacks reach the loop through a
 * uv_async_t. The watch on "/", which every keeper has, tells that a session has ended; a worker
 * thread opens the next one and retries until the ensemble answers. Ended sessions stay on the
 * list, and their callbacks run, until nobody borrows them.
 */
#include "server/context.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/thread.h"
#include "base/uv_check.h"
#include "keeper/election.h"
#include "keeper/zookeeper/zookeeper.h"

#define AUTH_VARIABLE "DROVER_ZK_AUTH"

enum { AUTH_LEN_MAX = 1024, RETRY_MS = 500 };

struct lent_session {
    struct lent_session *next; /* an older one */
    struct zookeeper_session *ensemble;
    struct keeper *keeper;
    struct keeper_watch *watch;
    bool over;       /* set by the watch, on the loop */
    size_t borrowed; /* under the lock */
};

struct zookeeper_session {
    uv_loop_t *loop;
    uv_async_t wake;
    uv_work_t connecting;
    char *url, *auth;
    int32_t timeout_ms;
    struct zookeeper_tls tls;
    struct context *context; /* whose listeners are told; NULL: not open yet */

    pthread_mutex_t lock;
    struct lent_session *current;  /* under the lock; NULL: none */
    struct lent_session *sessions; /* all open ones, newest first; under the lock */
    bool busy, closing;

    struct lent_session *next; /* from the worker thread */
    int next_err;
    struct err_info next_why, said; /* said: in the log, since the last session */
};

/* For keeper_options. */
static void wake(void *async)
{
    uv_async_send(async);
}

static void on_event(void *arg, enum keeper_event event, const char *path)
{
    struct lent_session *session = arg;
    (void)path;
    if (event == KEEPER_EVENT_EXPIRED) {
        session->over = true;
        uv_async_send(&session->ensemble->wake);
    }
}

static void on_note(void *arg, const char *line)
{
    (void)arg;
    log_event(LOG_LEVEL_WARNING, LOG_FIELDS("ensemble-tls", LOG_TEXT_OF("error", line)),
              "no TLS connection to %s", line);
}

/*
 * Opens a session and watches for its end; setting the watch fails if it has ended already. Waits
 * for the ensemble.
 */
static int connect_once(struct zookeeper_session *e, struct lent_session **ret_session,
                        struct err_info *ret_error)
{
    struct zookeeper_options zo = {.auth = e->auth, .tls = e->tls, .note = on_note};
    struct keeper_options o = {.timeout_ms = e->timeout_ms, .wake = wake, .wake_arg = &e->wake};
    bool open_to_all = false;
    struct keeper *k;
    TRY(zookeeper_connect(e->url, &zo, &o, &k, ret_error));
    struct lent_session *session = mem_alloc(sizeof *session);
    *session = (struct lent_session){.ensemble = e, .keeper = k};
    session->over =
        keeper_watch(k, "/", KEEPER_WATCH_EXISTS, on_event, session, &session->watch) != 0;
    if (!zookeeper_world_writable(k, &open_to_all) && open_to_all)
        log_warning("anybody who reaches the ensemble may change %s: consider --zk-auth", e->url);
    *ret_session = session;
    return 0;
}

static void session_close(struct lent_session *session)
{
    keeper_close(session->keeper);
    free(session);
}

static void use(struct zookeeper_session *e, struct lent_session *session)
{
    pthread_mutex_lock(&e->lock);
    session->next = e->sessions;
    e->sessions = e->current = session;
    pthread_mutex_unlock(&e->lock);
    uv_async_send(&e->wake); /* for events before this */
}

static void free_if_closed(uv_handle_t *handle)
{
    struct zookeeper_session *e = handle->data;
    pthread_mutex_destroy(&e->lock);
    free(e->url);
    free(e->auth);
    free(e);
}

/* Some errors come at once: a name that is not known, a certificate that is refused. */
static void work_connect(uv_work_t *work)
{
    struct zookeeper_session *e = work->data;
    e->next_err = connect_once(e, &e->next, &e->next_why);
    if (e->next_err)
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000 * 1000}, NULL);
}

/* The same line is not repeated. */
static void say_unreachable(struct zookeeper_session *e)
{
    if (!strcmp(e->said.text, e->next_why.text))
        return;
    e->said = e->next_why;
    log_event(LOG_LEVEL_WARNING,
              LOG_FIELDS("ensemble-unreachable", LOG_TEXT_OF("error", e->said.text)),
              "%s; trying again", e->said.text);
}

/* With each new session, and with NULL when one ends. */
static void tell_listeners(struct context *h, struct keeper *k)
{
    for (size_t i = 0; h && i < h->listener_count; i++)
        h->listeners[i].fn(h->listeners[i].arg, k);
}

static void start_connecting(struct zookeeper_session *e);

static void after_connect(uv_work_t *work, int status)
{
    struct zookeeper_session *e = work->data;
    (void)status;
    e->busy = false;
    if (e->closing) {
        if (!e->next_err)
            session_close(e->next);
        uv_close((uv_handle_t *)&e->wake, free_if_closed);
    } else if (e->next_err) {
        say_unreachable(e);
        start_connecting(e);
    } else {
        e->said.text[0] = '\0';
        log_event(LOG_LEVEL_INFO, LOG_FIELDS("session-new", LOG_TEXT_OF("url", e->url)),
                  "a new session on %s", e->url);
        use(e, e->next);
        tell_listeners(e->context, e->next->keeper);
    }
}

static void start_connecting(struct zookeeper_session *e)
{
    e->busy = true;
    e->connecting.data = e;
    uv_queue_work(e->loop, &e->connecting, work_connect, after_connect);
}

/* The present session has ended: it is not lent any more, and the next one is opened. */
static void retire_current(struct zookeeper_session *e)
{
    log_event(LOG_LEVEL_WARNING, LOG_FIELDS("session-over", LOG_TEXT_OF("url", e->url)),
              "the session on %s is over", e->url);
    pthread_mutex_lock(&e->lock);
    e->current = NULL;
    pthread_mutex_unlock(&e->lock);
    tell_listeners(e->context, NULL);
    start_connecting(e);
}

/* Removes from the list a session that has ended and is not borrowed; NULL: none. */
static struct lent_session *take_unused(struct zookeeper_session *e)
{
    struct lent_session **at = &e->sessions;
    LOCKED(&e->lock);
    while (*at && (*at == e->current || (*at)->borrowed))
        at = &(*at)->next;
    struct lent_session *found = *at;
    if (found)
        *at = found->next;
    return found;
}

/* The list changes on the loop only, so the loop may walk it without the lock. */
static void on_ensemble_wake(uv_async_t *async)
{
    struct zookeeper_session *e = async->data;
    struct lent_session *unused;
    if (e->closing)
        return;
    for (struct lent_session *session = e->sessions; session; session = session->next)
        keeper_dispatch(session->keeper);
    if (e->current && e->current->over)
        retire_current(e);
    while ((unused = take_unused(e)))
        session_close(unused);
}

static int take_auth(const char *text, const char *where, char **ret_auth,
                     struct err_info *ret_error)
{
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || !colon[1])
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s does not hold user:password", where);
    *ret_auth = mem_dup(text, strlen(text));
    return 0;
}

int zookeeper_auth_read(const char *file, char **ret_auth, struct err_info *ret_error)
{
    const char *variable = getenv(AUTH_VARIABLE);
    char line[AUTH_LEN_MAX];
    if (!file)
        return variable ? take_auth(variable, AUTH_VARIABLE, ret_auth, ret_error) : 0;
    TRY(secret_read(file, line, sizeof line, ret_error));
    return take_auth(line, file, ret_auth, ret_error);
}

static int refuse_half_imported(struct keeper *k, const char *url, struct err_info *ret_error)
{
    int err = keeper_exists(k, LEADER_IMPORT, NULL);
    if (!err)
        return err_set(ret_error, DROVER_IN_USE,
                       "an import into %s is not complete: repeat drover import", url);
    return err == DROVER_NO_NODE ? 0 : err_explain(ret_error, err);
}

int zookeeper_session_open(uv_loop_t *loop, const struct zookeeper_session_options *o,
                           struct zookeeper_session **ret_ensemble, struct err_info *ret_error)
{
    struct zookeeper_session *e = mem_zalloc(sizeof *e);
    struct lent_session *session;
    int err = zookeeper_auth_read(o->auth_file, &e->auth, ret_error);
    e->loop = loop;
    e->url = mem_dup(o->url, strlen(o->url));
    e->timeout_ms = o->timeout_ms;
    e->tls = o->tls;
    pthread_mutex_init(&e->lock, NULL);
    UV_CHECK(uv_async_init(loop, &e->wake, on_ensemble_wake));
    e->wake.data = e;
    if (!err)
        err = connect_once(e, &session, ret_error);
    if (!err) {
        err = refuse_half_imported(session->keeper, o->url, ret_error);
        if (err)
            session_close(session);
    }
    if (err) {
        uv_close((uv_handle_t *)&e->wake, free_if_closed);
        return err;
    }
    use(e, session);
    *ret_ensemble = e;
    return 0;
}

void zookeeper_session_close(struct zookeeper_session *e)
{
    struct lent_session *next;
    e->closing = true;
    for (struct lent_session *session = e->sessions; session; session = next) {
        next = session->next;
        assert(!session->borrowed);
        session_close(session);
    }
    if (!e->busy)
        uv_close((uv_handle_t *)&e->wake, free_if_closed);
}

/* The context. */

static void on_wake(uv_async_t *async)
{
    struct context *h = async->data;
    if (h->keeper)
        keeper_dispatch(h->keeper);
}

int context_connect(struct context *h, void (*fn)(void *arg), void *arg, struct keeper **ret_keeper,
                    struct err_info *ret_error)
{
    struct keeper_options o = {.wake = fn, .wake_arg = arg};
    int err = h->local ? local_connect(h->local, &o, ret_keeper) : 0;
    return err ? err_set(ret_error, err, "cannot open a session: %s", drover_err_message(err)) : 0;
}

int context_open(struct context *h, uv_loop_t *loop, struct err_info *ret_error)
{
    UV_CHECK(uv_async_init(loop, &h->wake, on_wake));
    h->wake.data = h;
    int err = context_connect(h, wake, &h->wake, &h->keeper, ret_error);
    if (err) {
        uv_close((uv_handle_t *)&h->wake, NULL);
        return err;
    }
    if (h->ensemble)
        h->ensemble->context = h;
    h->loop = loop;
    http_topic_init(&h->topic);
    h->events = events_new(loop);
    return 0;
}

void context_close(struct context *h)
{
    events_free(h->events);
    http_topic_release(&h->topic);
    if (h->keeper)
        keeper_close(h->keeper);
    h->keeper = NULL;
    uv_close((uv_handle_t *)&h->wake, NULL);
}

struct keeper *context_keeper(struct context *h)
{
    struct zookeeper_session *e = h->ensemble;
    if (!e)
        return h->keeper;
    LOCKED(&e->lock);
    if (!e->current)
        return NULL;
    e->current->borrowed++;
    return e->current->keeper;
}

void context_return(struct context *h, struct keeper *k)
{
    struct zookeeper_session *e = h->ensemble;
    if (!e)
        return;
    LOCKED(&e->lock);
    struct lent_session *session = e->sessions;
    while (session->keeper != k)
        session = session->next;
    assert(session->borrowed);
    if (!--session->borrowed && session != e->current)
        uv_async_send(&e->wake);
}

void context_listen(struct context *h, context_session_fn *fn, void *arg)
{
    assert(h->listener_count < CONTEXT_LISTENERS_MAX);
    h->listeners[h->listener_count++] = (struct context_listener){fn, arg};
}
