/*
 * An array of sessions with a map by session, under one lock. Nothing that may wait for a disk or a
 * network happens under the lock: a session from before a restart is resumed outside, and dropped
 * if another thread was faster; a session that ends is first marked, so that lookups miss it, and
 * then ended outside.
 *
 * A session whose nodes could not be deleted (the ensemble cannot be reached) stays, marked, and is
 * retried every RETRY_MS.
 */
#include "server/sessions.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"
#include "keeper/subsession.h"

enum { RETRY_MS = 1000 };

struct http_session {
    struct keeper *keeper;
    struct keeper *host; /* of a subsession; else NULL */
    struct keeper_session session;
    int64_t seen_ms;    /* when it was last used */
    int64_t retry_ms;   /* when to try again to end it */
    int users, waiters; /* calls under way; requests that wait with it */
    bool ending;        /* lookups miss it */
    bool busy;          /* a thread is about to end it */
};

struct session_table {
    struct sessions_options o;
    _Atomic size_t max; /* may change */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a session ends, or has an earlier deadline than the ticker knows */
    pthread_t ticker;
    bool stop;
    int64_t woken_for_ms; /* what the ticker sleeps until */

    struct http_session **entries; /* refs start at 1 */
    uint32_t len, cap;
    struct map by_session;
};

static int64_t now_ms(const struct session_table *t)
{
    return t->o.now_ms ? t->o.now_ms(t->o.arg) : clock_boot_ms();
}

/* Takes the same time wherever the two differ. */
static bool same_password(const char *a, const char *b)
{
    int differ = 0;
    for (int i = 0; i < KEEPER_PASSWORD_LEN; i++)
        differ |= a[i] ^ b[i];
    return !differ;
}

/* Ids: the number of the session and its password, in hex. */

static void session_id_write(const struct keeper_session *s, char *to)
{
    to += snprintf(to, 17, "%016llx", (unsigned long long)s->id);
    for (int i = 0; i < KEEPER_PASSWORD_LEN; i++)
        to += snprintf(to, 3, "%02x", (unsigned char)s->password[i]);
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool session_id_read(struct str id, struct keeper_session *ret_session)
{
    unsigned char bytes[8 + KEEPER_PASSWORD_LEN];
    uint64_t number = 0;
    if (id.len != SESSION_ID_LEN)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++) {
        int high = nibble(id.p[2 * i]), low = nibble(id.p[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    for (int i = 0; i < 8; i++)
        number = number << 8 | bytes[i];
    ret_session->id = (int64_t)number;
    memcpy(ret_session->password, bytes + 8, KEEPER_PASSWORD_LEN);
    return true;
}

/* Entries, under the lock. */

static uint32_t hash_of(const struct keeper_session *s)
{
    return map_hash_u64((uint64_t)s->id);
}

/* The entry whose keeper is k; k NULL: one that does not end. */
static struct http_session *entry_find(struct session_table *t, const struct keeper_session *s,
                                       const struct keeper *k)
{
    for (uint32_t at, ref = map_first(&t->by_session, hash_of(s), &at); ref;
         ref = map_next(&t->by_session, hash_of(s), &at)) {
        struct http_session *g = t->entries[ref - 1];
        if (g->session.id == s->id && same_password(g->session.password, s->password) &&
            (k ? g->keeper == k : !g->ending))
            return g;
    }
    return NULL;
}

static void entry_list(struct session_table *t, struct http_session *g)
{
    mem_grow(t->entries, t->len, t->cap);
    t->entries[t->len++] = g;
    map_add(&t->by_session, hash_of(&g->session), t->len);
}

/* The last entry moves into the gap. */
static void entry_unlist(struct session_table *t, struct http_session *g)
{
    struct http_session *last = t->entries[t->len - 1];
    uint32_t ref = 1;
    while (t->entries[ref - 1] != g)
        ref++;
    map_remove(&t->by_session, hash_of(&g->session), ref);
    if (last != g) {
        map_remove(&t->by_session, hash_of(&last->session), t->len);
        map_add(&t->by_session, hash_of(&last->session), ref);
        t->entries[ref - 1] = last;
    }
    t->len--;
}

static void entry_tell(const struct session_table *t, const struct http_session *g,
                       struct session_info *ret_info)
{
    session_id_write(&g->session, ret_info->id);
    ret_info->timeout_ms = g->session.timeout_ms;
    ret_info->silent_ms = g->users || g->waiters ? 0 : now_ms(t) - g->seen_ms;
}

/* When the ticker ends it; INT64_MAX: not while it is used, or not by the ticker. */
static int64_t entry_deadline(const struct http_session *g)
{
    if (g->users || g->busy || (g->waiters && !g->ending))
        return INT64_MAX;
    return g->ending ? g->retry_ms : g->seen_ms + g->session.timeout_ms;
}

/* Opening and use. */

static int32_t granted_timeout(int32_t wanted_ms)
{
    if (!wanted_ms)
        return KEEPER_TIMEOUT_DEFAULT_MS;
    if (wanted_ms < KEEPER_TIMEOUT_MIN_MS)
        return KEEPER_TIMEOUT_MIN_MS;
    return wanted_ms > KEEPER_TIMEOUT_MAX_MS ? KEEPER_TIMEOUT_MAX_MS : wanted_ms;
}

static int entry_connect(struct session_table *t, const struct keeper_options *o,
                         struct http_session **ret_entry)
{
    struct keeper *k = NULL, *host = NULL;
    if (t->o.local) {
        TRY(local_connect(t->o.local, o, &k));
    } else {
        host = t->o.host(t->o.arg);
        TRY(host ? subsession_open(host, o->timeout_ms, &k) : DROVER_CLOSED);
    }
    struct http_session *g = mem_alloc(sizeof *g);
    *g = (struct http_session){.keeper = k, .host = host, .seen_ms = now_ms(t)};
    keeper_session(k, &g->session);
    *ret_entry = g;
    return 0;
}

static void entry_free(struct session_table *t, struct http_session *g)
{
    keeper_abandon(g->keeper);
    if (g->host)
        t->o.unhost(t->o.arg, g->host);
    free(g);
}

size_t sessions_count(struct session_table *t)
{
    LOCKED(&t->lock);
    return t->len;
}

/* Those that the maximum is about. */
static size_t count_limited(struct session_table *t)
{
    return t->o.local ? local_sessions(t->o.local) : sessions_count(t);
}

int sessions_create(struct session_table *t, int32_t timeout_ms, struct session_info *ret_info)
{
    struct keeper_options o = {.timeout_ms = granted_timeout(timeout_ms)};
    struct http_session *g;
    if (count_limited(t) >= t->max)
        return DROVER_TOO_MANY;
    TRY(entry_connect(t, &o, &g));
    LOCKED(&t->lock);
    entry_list(t, g);
    entry_tell(t, g, ret_info);
    if (g->seen_ms + g->session.timeout_ms < t->woken_for_ms)
        pthread_cond_broadcast(&t->changed);
    return 0;
}

/*
 * Under the lock, which it may release for a while: the session, or NULL and an error. An id that
 * is not in the table may be a session of the store from before a restart.
 */
static struct http_session *entry_get(struct session_table *t, struct str id, int *ret_err)
{
    struct keeper_options o = {0};
    *ret_err = DROVER_SESSION_EXPIRED;
    if (!session_id_read(id, &o.resume))
        return NULL;
    struct http_session *g = entry_find(t, &o.resume, NULL);
    if (g || !t->o.local || !o.resume.id)
        return g;
    pthread_mutex_unlock(&t->lock);
    *ret_err = entry_connect(t, &o, &g);
    pthread_mutex_lock(&t->lock);
    if (*ret_err)
        return NULL;
    struct http_session *found = entry_find(t, &o.resume, NULL);
    if (!found) {
        entry_list(t, g);
        pthread_cond_broadcast(&t->changed);
        return g;
    }
    pthread_mutex_unlock(&t->lock);
    entry_free(t, g);
    pthread_mutex_lock(&t->lock);
    found = entry_find(t, &o.resume, NULL);
    *ret_err = found ? 0 : DROVER_SESSION_EXPIRED;
    return found;
}

struct keeper *sessions_use(struct session_table *t, struct str id, int *ret_err)
{
    int err;
    LOCKED(&t->lock);
    struct http_session *g = entry_get(t, id, &err);
    if (g)
        g->users++;
    else if (ret_err)
        *ret_err = err;
    return g ? g->keeper : NULL;
}

void sessions_done(struct session_table *t, struct keeper *k)
{
    struct keeper_session session;
    keeper_session(k, &session);
    LOCKED(&t->lock);
    struct http_session *g = entry_find(t, &session, k);
    g->seen_ms = now_ms(t);
    if (!--g->users && g->ending)
        pthread_cond_broadcast(&t->changed);
}

bool sessions_wait(struct session_table *t, struct str id)
{
    LOCKED(&t->lock);
    struct http_session *g = entry_get(t, id, &(int){0});
    if (g)
        g->waiters++;
    return g;
}

int sessions_get(struct session_table *t, struct str id, bool touch, struct session_info *ret_info)
{
    int err;
    LOCKED(&t->lock);
    struct http_session *g = entry_get(t, id, &err);
    if (!g)
        return err;
    if (touch)
        g->seen_ms = now_ms(t);
    entry_tell(t, g, ret_info);
    return 0;
}

/* The session may have ended meanwhile. */
void sessions_unwait(struct session_table *t, struct str id)
{
    struct keeper_session session = {0};
    LOCKED(&t->lock);
    struct http_session *g = session_id_read(id, &session) ? entry_find(t, &session, NULL) : NULL;
    if (g && g->waiters) {
        g->waiters--;
        g->seen_ms = now_ms(t);
    }
}

/* The end. */

/*
 * Under the lock, which it releases meanwhile; the session is marked as ending and has no users.
 * The store ends a session in one step, which fails only on a full disk; the session then ends by
 * its timeout. Deleting the nodes of a subsession may have to be retried.
 */
static int entry_end(struct session_table *t, struct http_session *g)
{
    int err = 0;
    g->busy = true;
    pthread_mutex_unlock(&t->lock);
    if (g->host)
        err = subsession_leave(g->keeper);
    if (err == DROVER_SESSION_EXPIRED)
        err = 0;
    pthread_mutex_lock(&t->lock);
    g->busy = false;
    g->retry_ms = now_ms(t) + RETRY_MS;
    if (err)
        return err;
    entry_unlist(t, g);
    pthread_mutex_unlock(&t->lock);
    if (g->host) {
        entry_free(t, g);
    } else {
        keeper_close(g->keeper);
        free(g);
    }
    pthread_mutex_lock(&t->lock);
    return 0;
}

/* Under the lock: from now on nobody finds it. */
static void mark_ending(struct session_table *t, struct http_session *g)
{
    char id[SESSION_ID_LEN + 1];
    if (g->ending)
        return;
    g->ending = true;
    if (!t->o.ended || !g->waiters)
        return;
    session_id_write(&g->session, id);
    t->o.ended(t->o.arg, str_of(id));
}

int sessions_end(struct session_table *t, struct str id)
{
    int err;
    LOCKED(&t->lock);
    struct http_session *g = entry_get(t, id, &err);
    if (!g)
        return err;
    mark_ending(t, g);
    g->busy = true; /* this thread ends it, not the ticker */
    while (g->users)
        pthread_cond_wait(&t->changed, &t->lock);
    err = entry_end(t, g);
    pthread_cond_broadcast(&t->changed);
    return err;
}

void sessions_evict(struct session_table *t)
{
    LOCKED(&t->lock);
    for (uint32_t i = 0; i < t->len; i++) {
        if (t->entries[i]->host) {
            mark_ending(t, t->entries[i]);
            t->entries[i]->retry_ms = 0;
        }
    }
    pthread_cond_broadcast(&t->changed);
}

/* Under the lock. */
static struct http_session *overdue(struct session_table *t, int64_t now)
{
    for (uint32_t i = 0; i < t->len; i++)
        if (entry_deadline(t->entries[i]) <= now)
            return t->entries[i];
    return NULL;
}

static int64_t tick(struct session_table *t)
{
    int64_t next = INT64_MAX;
    struct http_session *g;
    while (!t->stop && (g = overdue(t, now_ms(t)))) {
        mark_ending(t, g);
        entry_end(t, g);
    }
    for (uint32_t i = 0; i < t->len; i++) {
        g = t->entries[i];
        bool used = (g->users || g->waiters) && !g->ending; /* it may become silent at any time */
        int64_t look = used ? now_ms(t) + g->session.timeout_ms : entry_deadline(g);
        next = look < next ? look : next;
    }
    return next;
}

int64_t sessions_tick(struct session_table *t)
{
    LOCKED(&t->lock);
    return tick(t);
}

static void *ticker_main(void *arg)
{
    struct session_table *t = arg;
    LOCKED(&t->lock);
    while (!t->stop) {
        t->woken_for_ms = tick(t);
        if (t->stop)
            break;
        bool stopped = cond_wait_noticing_stops(&t->changed, &t->lock, t->woken_for_ms);
        int64_t now = clock_boot_ms();
        for (uint32_t i = 0; i < t->len && stopped; i++) /* it did not hear its clients */
            t->entries[i]->seen_ms = now;
    }
    return NULL;
}

/* The table. */

void sessions_set_max(struct session_table *t, size_t max)
{
    t->max = max ? max : SESSIONS_MAX;
}

struct session_table *sessions_open(const struct sessions_options *o)
{
    struct session_table *t = mem_zalloc(sizeof *t);
    t->o = *o;
    sessions_set_max(t, o->max);
    t->woken_for_ms = INT64_MAX;
    pthread_mutex_init(&t->lock, NULL);
    cond_init(&t->changed);
    if (!o->now_ms)
        thread_must_start(&t->ticker, "http-sessions", ticker_main, t);
    return t;
}

void sessions_close(struct session_table *t)
{
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (!t->o.now_ms)
        pthread_join(t->ticker, NULL);
    for (uint32_t i = 0; i < t->len; i++)
        entry_free(t, t->entries[i]);
    map_release(&t->by_session);
    free(t->entries);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
