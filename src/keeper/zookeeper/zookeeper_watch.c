/*
 * Persistent watches, made of ZooKeeper's, which fire once.
 *
 * A zk_watched is a node with one of two questions: what is it (exists), or what are its children.
 * All watches with the same node and question share it. It is armed by asking the question with a
 * watch: the answer and the watch are set at one moment, so the answer is the state that the watch
 * guards. When ZooKeeper's watch fires, no event is sent yet. The question is asked again, and the
 * difference between the new state and the old one becomes the event. A change between the firing
 * and the arming is in the new state; a change after it fires again. So no change is lost, and an
 * event comes after the watch is in force again. If a node was created and deleted in between, both
 * states say that it is missing; then the creation is reported. Any other firing without a
 * difference means no change, because every change has its own zxid and the states hold it.
 *
 * The children of a missing node cannot be watched: then its creation is watched.
 *
 * After a reconnection libzookeeper sets its watches again, and the server reports what happened in
 * between. Questions that were in flight are asked again here. Every watch also gets RECONNECTED.
 *
 * libzookeeper gets the id of a zk_watched, never its address, because it may still call for one
 * that is freed. When its last watch goes, the server is asked to remove its watches. If that
 * fails, they fire once more, and the id is not found.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/zookeeper/zookeeper_impl.h"

enum { EVENTS_MAX = 4 };

struct zk_watch {
    struct zk_item item;
    TAILQ_ENTRY(zk_watch) link; /* in watched->watches */
    struct zk_watched *watched; /* NULL: removed */
    enum keeper_watch_kind kind;
    keeper_watch_fn *fn;
    void *arg;
    char *path; /* the user's */
    bool running;
    pthread_cond_t idle; /* no longer running */

    /* Events to deliver, in order. If there are more, the latest replaces the last. */
    enum keeper_event events[EVENTS_MAX];
    size_t event_count;
};
TAILQ_HEAD(zk_watches, zk_watch);

/* The answer to the question. */
struct zk_watched_state {
    bool exists;
    int64_t czxid;
    int64_t changed; /* mzxid, or pzxid when it is about children */
};

enum zk_arm { IDLE, ARMING, ARMED };

struct zk_watched {
    TAILQ_ENTRY(zk_watched) link;
    struct zk *zk;
    uintptr_t id;
    char *full;
    bool children;
    enum zk_arm arm;
    int err;         /* of the last arming, if it was refused */
    bool known;      /* state holds an answer */
    bool fired;      /* since the last arming */
    int fired_event; /* the last one, ZooKeeper's number */
    struct zk_watched_state state;
    struct zk_watches watches;
};

static void watched_arm(struct zk_watched *s);

static struct zk_watched *watched_by_id(struct zk *zk, const void *id)
{
    struct zk_watched *s;

    TAILQ_FOREACH(s, &zk->watched, link)
        if (s->id == (uintptr_t)id)
            return s;
    return NULL;
}

/* Events. */

static void watch_post(struct zk_watch *w, enum keeper_event event)
{
    struct zk *zk = w->watched->zk;

    if (zk->ended && event != KEEPER_EVENT_EXPIRED)
        return;
    if (w->event_count == EVENTS_MAX)
        w->event_count--;
    w->events[w->event_count++] = event;
    zk_ready(zk, &w->item);
}

static void watched_post_all(struct zk_watched *s, enum keeper_event event)
{
    struct zk_watch *w;

    TAILQ_FOREACH(w, &s->watches, link)
        watch_post(w, event);
}

/* A change of data is no event for a watch on existence. */
static void watched_post_changed(struct zk_watched *s)
{
    struct zk_watch *w;

    TAILQ_FOREACH(w, &s->watches, link) {
        if (w->kind == KEEPER_WATCH_DATA)
            watch_post(w, KEEPER_EVENT_CHANGED);
        else if (w->kind == KEEPER_WATCH_CHILDREN)
            watch_post(w, KEEPER_EVENT_CHILDREN);
    }
}

static void watched_compare(struct zk_watched *s, struct zk_watched_state now)
{
    struct zk_watched_state was = s->state;
    bool known = s->known, other = was.czxid != now.czxid;

    s->state = now;
    s->known = true;
    if (!known)
        return;
    if (was.exists && (!now.exists || other))
        watched_post_all(s, KEEPER_EVENT_DELETED);
    if (now.exists && (!was.exists || other))
        watched_post_all(s, KEEPER_EVENT_CREATED);
    else if (now.exists && was.changed != now.changed)
        watched_post_changed(s);
    else if (s->fired && s->fired_event == ZOO_CREATED_EVENT && !was.exists && !now.exists)
        watched_post_all(s, KEEPER_EVENT_CREATED); /* and deleted since: the reader will see it */
    s->fired = false;
}

/* Arming. On the reply thread, except for the first time. */

static void on_fired(zhandle_t *handle, int type, int state, const char *path, void *id)
{
    struct zk *zk = (struct zk *)zoo_get_context(handle);

    (void)state, (void)path;
    if (type == ZOO_SESSION_EVENT)
        return;
    zk_lock(zk);
    struct zk_watched *s = watched_by_id(zk, id);
    if (s) {
        s->fired = true;
        s->fired_event = type;
        if (s->arm == ARMED) {
            s->arm = IDLE;
            watched_arm(s);
        }
    }
    zk_unlock(zk);
}

/*
 * Idle watched are armed when there is a connection again. Children that may no longer be read are
 * told as changed: who looks will see.
 */
static void watched_refused(struct zk_watched *s, int rc)
{
    s->arm = IDLE;
    if (!zk_rc_is_lost(rc)) {
        s->err = zk_err(rc);
        if (s->fired)
            watched_post_changed(s);
        s->fired = false;
    }
}

/* A question in flight. The zk_watched may be freed before the answer. */
struct zk_arming {
    struct zk_call call;
    uintptr_t id;
    bool children;
    struct keeper_stat stat;
    char full[];
};

static void arming_answered(const void *arg, int rc, const struct Stat *stat)
{
    struct zk_arming *a = (struct zk_arming *)arg;
    struct zk *zk = a->call.zk;

    zk_lock(zk);
    a->call.rc = rc;
    if (rc == ZOK)
        a->stat = zk_stat(stat);
    zk_call_reply(&a->call);
    zk_unlock(zk);
}

static void on_exists(int rc, const struct Stat *stat, const void *arg)
{
    arming_answered(arg, rc, stat);
}

static void on_children(int rc, const struct String_vector *names, const struct Stat *stat,
                        const void *arg)
{
    (void)names;
    arming_answered(arg, rc, stat);
}

static void arming_finish(struct zk_call *c);

static void watched_ask(struct zk_watched *s, bool children)
{
    size_t len = strlen(s->full) + 1;
    struct zk_arming *a = mem_zalloc(sizeof *a + len);
    void *id = (void *)s->id;
    int rc;

    a->call.finish = arming_finish;
    a->id = s->id;
    a->children = children;
    memcpy(a->full, s->full, len);
    s->arm = ARMING;
    zk_call_start(s->zk, &a->call);
    if (children)
        rc = zoo_awget_children2(s->zk->handle, s->full, on_fired, id, on_children, a);
    else
        rc = zoo_awexists(s->zk->handle, s->full, on_fired, id, on_exists, a);
    if (rc != ZOK) {
        zk_call_cancel(&a->call);
        free(a);
        watched_refused(s, rc);
    }
}

static void watched_arm(struct zk_watched *s)
{
    if (s->arm == IDLE && !s->zk->ended) {
        s->err = 0;
        watched_ask(s, s->children);
    }
}

static void ignore(int rc, const void *arg)
{
    (void)rc, (void)arg;
}

/*
 * libzookeeper declares the callback as a pointer to a function pointer, but calls it as a
 * function.
 */
static void server_forget(struct zk *zk, const char *full)
{
    struct zk_watched *other;

    TAILQ_FOREACH(other, &zk->watched, link)
        if (strcmp(other->full, full) == 0)
            return;
    if (zoo_state(zk->handle) == ZOO_CONNECTED_STATE && !zk->ended)
        zoo_aremove_all_watches(zk->handle, full, ZWATCHTYPE_ANY, 0, (void_completion_t *)ignore,
                                NULL);
}

static void watched_answered(struct zk_watched *s, const struct zk_arming *a)
{
    int rc = a->call.rc;
    struct zk_watched_state now = {rc == ZOK, a->stat.czxid,
                                   s->children ? a->stat.pzxid : a->stat.mzxid};

    s->arm = ARMED;
    if (rc == ZOK || rc == ZNONODE)
        watched_compare(s, now);
    else
        watched_refused(s, rc);
    if (a->children && rc == ZNONODE) /* that set no watch: watch for its creation */
        watched_ask(s, false);
    if (s->children && !a->children && rc == ZOK) /* it was created meanwhile */
        watched_ask(s, true);
}

static void arming_finish(struct zk_call *c)
{
    struct zk_arming *a = (struct zk_arming *)c;
    struct zk_watched *s = watched_by_id(c->zk, (void *)a->id);

    if (s)
        watched_answered(s, a);
    else
        server_forget(c->zk, a->full);
    pthread_cond_broadcast(&c->zk->changed);
    free(a);
}

/* A zk_watched exists from its first watch to its last. */

static struct zk_watched *watched_get(struct zk *zk, struct str path, bool children)
{
    char *full = zk_full_path(zk, path);
    struct zk_watched *s;

    TAILQ_FOREACH(s, &zk->watched, link) {
        if (s->children == children && strcmp(s->full, full) == 0) {
            free(full);
            return s;
        }
    }
    s = mem_zalloc(sizeof *s);
    s->zk = zk;
    s->id = ++zk->last_watched_id;
    s->full = full;
    s->children = children;
    TAILQ_INIT(&s->watches);
    TAILQ_INSERT_TAIL(&zk->watched, s, link);
    return s;
}

static void watched_free(struct zk_watched *s)
{
    free(s->full);
    free(s);
}

static void watch_free(struct zk_watch *w)
{
    pthread_cond_destroy(&w->idle);
    free(w->path);
    free(w);
}

static void watch_run(struct zk *zk, struct zk_item *item)
{
    struct zk_watch *w = (struct zk_watch *)item;

    w->running = true;
    while (w->watched && w->event_count) {
        enum keeper_event event = w->events[0];

        memmove(w->events, w->events + 1, --w->event_count * sizeof *w->events);
        zk_unlock(zk);
        w->fn(w->arg, event, w->path);
        zk_lock(zk);
    }
    w->running = false;
    if (w->watched)
        return;
    if (w->fn)
        pthread_cond_signal(&w->idle);
    else
        watch_free(w); /* removed by its own callback: no thread waits */
}

static void watch_detach(struct zk_watch *w)
{
    struct zk_watched *s = w->watched;

    w->watched = NULL;
    zk_unready(s->zk, &w->item);
    TAILQ_REMOVE(&s->watches, w, link);
    if (TAILQ_EMPTY(&s->watches)) {
        TAILQ_REMOVE(&s->zk->watched, s, link);
        server_forget(s->zk, s->full);
        watched_free(s);
    }
}

int zk_watch(struct keeper *k, struct str path, enum keeper_watch_kind kind, keeper_watch_fn *fn,
             void *arg, struct keeper_watch **ret_watch)
{
    struct zk *zk = zk_of(k);
    struct zk_watch *w;
    int err = zk_enter(zk);

    if (err)
        return err;
    w = mem_zalloc(sizeof *w);
    w->item.run = watch_run;
    w->kind = kind;
    w->fn = fn;
    w->arg = arg;
    w->path = mem_dup(path.p, path.len);
    pthread_cond_init(&w->idle, NULL);
    w->watched = watched_get(zk, path, kind == KEEPER_WATCH_CHILDREN);
    TAILQ_INSERT_TAIL(&w->watched->watches, w, link);
    watched_arm(w->watched);
    int64_t deadline_ms = zk_deadline(zk);
    while (!zk->ended && !w->watched->err && w->watched->arm != ARMED &&
           zk_wait(zk, &zk->changed, deadline_ms))
        ;
    err = zk->ended ? zk->ended : w->watched->err;
    if (!err && w->watched->arm != ARMED)
        err = DROVER_UNKNOWN;
    if (err) {
        watch_detach(w);
        watch_free(w);
    } else {
        *ret_watch = (struct keeper_watch *)w;
    }
    zk_leave(zk);
    return err;
}

void zk_unwatch(struct keeper *k, struct keeper_watch *handle)
{
    struct zk_watch *w = (struct zk_watch *)handle;
    struct zk *zk = zk_of(k);

    zk_lock(zk);
    watch_detach(w);
    if (w->running && zk_is_dispatcher(zk)) {
        w->fn = NULL; /* watch_run() frees it */
    } else {
        while (w->running)
            pthread_cond_wait(&w->idle, &zk->lock);
        watch_free(w);
    }
    zk_unlock(zk);
}

void zk_watches_reconnected(struct zk *zk)
{
    struct zk_watched *s;

    TAILQ_FOREACH(s, &zk->watched, link) {
        if (s->known)
            watched_post_all(s, KEEPER_EVENT_RECONNECTED);
        watched_arm(s);
    }
}

void zk_watches_end(struct zk *zk)
{
    struct zk_watched *s;

    TAILQ_FOREACH(s, &zk->watched, link)
        watched_post_all(s, KEEPER_EVENT_EXPIRED);
}

void zk_watches_free(struct zk *zk)
{
    struct zk_watch *w;
    struct zk_watched *s;

    while ((s = TAILQ_FIRST(&zk->watched))) {
        TAILQ_REMOVE(&zk->watched, s, link);
        while ((w = TAILQ_FIRST(&s->watches))) {
            TAILQ_REMOVE(&s->watches, w, link);
            zk_unready(zk, &w->item);
            watch_free(w);
        }
        watched_free(s);
    }
}
