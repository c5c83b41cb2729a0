/* One thread: stands for election, leads, and stands again. */
#include "server/leader.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "server/context.h"
#include "server/ground.h"

enum { RETRY_MS = 200, DAMAGE_RETRY_MS = 5000 };

struct leader {
    struct context *context;
    char *own_url; /* a copy: the HTTP server is freed before the leader closes */
    struct leader_follower followers[LEADER_FOLLOWERS_MAX];
    size_t follower_count;
    size_t led; /* how many of them lead */
    pthread_t thread;
    bool begun;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool closing, gone, look; /* look: check again who leads */
    bool doubt;               /* does not lead, or has to lead again */
    bool reload;              /* and the followers have to start anew */
    char url[LEADER_URL_SIZE];
};

/* One candidacy, with one session. */
struct candidacy {
    struct leader *l;
    struct keeper *k;
    struct election election;
    char *before; /* the watched predecessor, or NULL */
    struct keeper_watch *before_watch, *epoch_watch;
};

/* Sets one of the flags that the lock guards, and wakes the thread. */
static void set_flag(struct leader *l, bool *flag)
{
    LOCKED(&l->lock);
    *flag = l->look = true;
    pthread_cond_broadcast(&l->changed);
}

static void on_event(void *arg, enum keeper_event event, const char *path)
{
    struct leader *l = arg;
    (void)event, (void)path;
    set_flag(l, &l->look);
}

static void on_session(void *arg, struct keeper *k)
{
    struct context *h = arg;
    (void)k;
    if (h->leader)
        set_flag(h->leader, &h->leader->gone);
}

void leader_doubt(struct leader *l)
{
    set_flag(l, &l->doubt);
}

void leader_reload(struct leader *l)
{
    set_flag(l, &l->reload);
    leader_doubt(l);
}

/* Waits for a change. False: the session has ended, or the thread shall. */
static bool wait_for_look(struct leader *l)
{
    LOCKED(&l->lock);
    while (!l->look && !l->closing)
        cond_wait_until(&l->changed, &l->lock, INT64_MAX);
    l->look = false;
    return !l->closing && !l->gone;
}

/*
 * Waits before the next attempt, whatever changes meanwhile, as long as there is a session. A node
 * that cannot be read needs somebody to repair it.
 */
static void wait_for_retry(struct leader *l, int err)
{
    bool damage = err == DROVER_DAMAGED || err == DROVER_NEWER_VERSION;
    int64_t until = clock_boot_ms() + (damage ? DAMAGE_RETRY_MS : RETRY_MS);
    LOCKED(&l->lock);
    while (!l->gone && !l->closing && clock_boot_ms() < until)
        cond_wait_until(&l->changed, &l->lock, until);
    l->look = true;
}

static void set_url(struct leader *l, const char *url, bool leads)
{
    LOCKED(&l->lock);
    snprintf(l->url, sizeof l->url, "%s", url);
    l->doubt |= !leads;
}

/* Leading. */

static void stop_all(struct leader *l)
{
    while (l->led) {
        struct leader_follower *f = &l->followers[--l->led];
        f->stop(f->arg);
    }
}

/* Sets the fence against every earlier leader, this server included, and starts the followers. */
static int lead(struct candidacy *s)
{
    struct leader *l = s->l;
    struct keeper_op fence;
    struct err_info e = {""};
    TRY(election_win(&s->election, &fence));
    for (size_t i = 0; i < l->follower_count; i++) {
        struct leader_follower *f = &l->followers[i];
        if (i == l->led)
            l->led++;
        int err = f->lead(f->arg, s->k, &fence, &e);
        if (err) {
            const char *why = e.text[0] ? e.text : drover_err_message(err);
            log_event(LOG_LEVEL_WARNING, LOG_FIELDS("cannot-lead", LOG_TEXT_OF("error", why)),
                      "cannot lead: %s", why);
            return err;
        }
    }
    set_url(l, "", true);
    log_event(LOG_LEVEL_INFO, (struct log_fields){.event = "leads"}, "this server leads");
    return 0;
}

/* Standing for election. */

/* Another client has deleted something that the election or a follower needs. */
static int heal(struct candidacy *s)
{
    leader_doubt(s->l);
    return election_prepare(s->election.keeper);
}

static void unwatch_before(struct candidacy *s)
{
    if (s->before_watch)
        keeper_unwatch(s->k, s->before_watch);
    s->before_watch = NULL;
    free(s->before);
    s->before = NULL;
}

/* Watches the predecessor and checks that it still exists. */
static int watch_before(struct candidacy *s, const char *name)
{
    char path[sizeof LEADER_ROOT + 64];
    snprintf(path, sizeof path, "%s/%s", LEADER_ROOT, name);
    if (s->before && !strcmp(s->before, path))
        return 0;
    unwatch_before(s);
    TRY(keeper_watch(s->k, path, KEEPER_WATCH_EXISTS, on_event, s->l, &s->before_watch));
    s->before = mem_dup(path, strlen(path));
    int err = keeper_exists(s->k, path, NULL);
    if (err == DROVER_NO_NODE)
        set_flag(s->l, &s->l->look);
    return err == DROVER_NO_NODE ? 0 : err;
}

/* Where to redirect clients meanwhile. */
static int learn_url(struct candidacy *s)
{
    CLEANUP(buf_release) struct buf b = {0};
    TRY(keeper_get(s->k, LEADER_EPOCH, &b, NULL));
    set_url(s->l, buf_text(&b), false);
    return 0;
}

/* Whether the flag was set, which it is no longer. */
static bool take_flag(struct leader *l, bool *flag)
{
    LOCKED(&l->lock);
    bool was = *flag;
    *flag = false;
    return was;
}

/* Checks once who leads, and acts on it. */
static int look(struct candidacy *s)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    long place;
    TRY(election_place(&s->election, &names, &place));
    if (place < 0) {
        set_flag(s->l, &s->l->look);
        return election_join(&s->election);
    }
    if (place > 0) {
        stop_all(s->l);
        TRY(watch_before(s, names.names[place - 1]));
        return learn_url(s);
    }
    bool reload = take_flag(s->l, &s->l->reload);
    if (!take_flag(s->l, &s->l->doubt) && !reload) /* it leads already */
        return 0;
    if (reload)
        stop_all(s->l);
    unwatch_before(s);
    int err = lead(s);
    if (err)
        leader_doubt(s->l);
    return err;
}

static void stand(struct leader *l, struct keeper *k)
{
    struct candidacy s = {.l = l, .k = k, .election = {.keeper = k, .url = l->own_url}};
    int err = election_prepare(k);
    if (!err)
        err = keeper_watch(k, LEADER_EPOCH, KEEPER_WATCH_DATA, on_event, l, &s.epoch_watch);
    set_flag(l, &l->look);
    while (err != DROVER_SESSION_EXPIRED && wait_for_look(l)) {
        err = look(&s);
        if (err == DROVER_NO_NODE)
            err = heal(&s);
        if (err && err != DROVER_SESSION_EXPIRED)
            wait_for_retry(l, err);
    }
    stop_all(l);
    set_url(l, "", false);
    unwatch_before(&s);
    if (s.epoch_watch)
        keeper_unwatch(k, s.epoch_watch);
    election_leave(&s.election, err != DROVER_SESSION_EXPIRED);
}

/* False: the thread ends. */
static bool begin_candidacy(struct leader *l)
{
    LOCKED(&l->lock);
    l->gone = false;
    return !l->closing;
}

static void *leader_main(void *arg)
{
    struct leader *l = arg;
    while (begin_candidacy(l)) {
        struct keeper *k = context_keeper(l->context);
        if (k) {
            stand(l, k);
            context_return(l->context, k);
        }
        wait_for_retry(l, 0);
    }
    return NULL;
}

void leader_open(struct context *h)
{
    struct leader *l = h->leader = mem_zalloc(sizeof *l);
    l->context = h;
    l->own_url = mem_dup(h->url ? h->url : "", h->url ? strlen(h->url) : 0);
    pthread_mutex_init(&l->lock, NULL);
    cond_init(&l->changed);
    l->doubt = true;
    context_listen(h, on_session, h);
    ground_lead(h, "/drover");
    ground_lead(h, LEADER_ROOT);
    ground_lead(h, LEADER_EPOCH);
}

void leader_follow(struct leader *l, const struct leader_follower *f)
{
    assert(!l->begun && l->follower_count < LEADER_FOLLOWERS_MAX);
    l->followers[l->follower_count++] = *f;
}

void leader_begin(struct leader *l)
{
    if (!l || l->begun)
        return;
    l->begun = true;
    thread_must_start(&l->thread, "leader", leader_main, l);
}

void leader_close(struct context *h)
{
    struct leader *l = h->leader;
    if (!l)
        return;
    set_flag(l, &l->closing);
    if (l->begun)
        pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l->own_url);
    free(l);
    h->leader = NULL;
}

void leader_url(struct leader *l, char url[LEADER_URL_SIZE])
{
    url[0] = '\0';
    if (!l)
        return;
    LOCKED(&l->lock);
    memcpy(url, l->url, LEADER_URL_SIZE);
}

void leader_redirect(struct leader *l, struct http_request *r, const char *nobody)
{
    char url[LEADER_URL_SIZE];
    CLEANUP(buf_release) struct buf b = {0};
    leader_url(l, url);
    if (!url[0]) {
        http_reply_error(r, 503, nobody);
        return;
    }
    buf_printf(&b, "%s%.*s", url, STR_ARGS(r->head.path));
    if (r->head.query.len)
        buf_printf(&b, "?%.*s", STR_ARGS(r->head.query));
    http_add_header(r, "Location", buf_str(&b));
    http_reply_errorf(r, 307, "another server leads: %s", url);
}
