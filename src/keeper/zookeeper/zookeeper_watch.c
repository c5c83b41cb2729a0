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
    bool running;

    /* Events to deliver, in order. If there are more, the latest replaces the last. */
    enum keeper_event events[EVENTS_MAX];
    size_t event_count;
    char path[]; /* the user's */
};
TAILQ_HEAD(zk_watches, zk_watch);

enum zk_arm { IDLE, ARMING, ARMED };

struct zk_watched {
    TAILQ_ENTRY(zk_watched) link;
    struct zk *zk;
    uintptr_t id;
    char *full;
    bool children;
    enum zk_arm arm;
    int err;         /* of the last arming, if it was refused */
    int fired;       /* the last event since the last arming, ZooKeeper's number; 0: none */
    bool known;      /* the next two are an answer */
    int64_t czxid;   /* 0: the node is missing */
    int64_t changed; /* mzxid, or pzxid when it is about children */
    struct zk_watches watches;
};

static void watched_arm(struct zk_watched *s);
static void on_answer(struct zk_call *c);

static struct zk_watched *watched_by_id(struct zk *zk, uintptr_t id)
{
    struct zk_watched *s;
    TAILQ_FOREACH(s, &zk->watched, link)
        if (s->id == id)
            return s;
    return NULL;
}

/* Events. */

/* A change of data is no event for a watch on existence; of children it has a name of its own. */
static void watched_post(struct zk_watched *s, enum keeper_event event)
{
    struct zk_watch *w;
    if (s->zk->ended && event != KEEPER_EVENT_EXPIRED)
        return;
    TAILQ_FOREACH(w, &s->watches, link) {
        bool changed = event == KEEPER_EVENT_CHANGED;
        if (changed && w->kind == KEEPER_WATCH_EXISTS)
            continue;
        if (w->event_count == EVENTS_MAX)
            w->event_count--;
        w->events[w->event_count++] =
            changed && w->kind == KEEPER_WATCH_CHILDREN ? KEEPER_EVENT_CHILDREN : event;
        zk_ready(s->zk, &w->item);
    }
}

/* The difference between two answers. */
static void watched_compare(struct zk_watched *s, int64_t czxid, int64_t changed)
{
    bool other = s->czxid != czxid;
    if (s->czxid && other)
        watched_post(s, KEEPER_EVENT_DELETED);
    if (czxid && other)
        watched_post(s, KEEPER_EVENT_CREATED);
    else if (czxid && s->changed != changed)
        watched_post(s, KEEPER_EVENT_CHANGED);
    else if (!czxid && !s->czxid && s->fired == ZOO_CREATED_EVENT)
        watched_post(s, KEEPER_EVENT_CREATED); /* and deleted since: the reader will see it */
    s->fired = 0;
}

/* Arming. On the reply thread, except for the first time. */

static void on_fired(zhandle_t *handle, int type, int state, const char *path, void *id)
{
    struct zk *zk = (struct zk *)zoo_get_context(handle);
    (void)state, (void)path;
    if (type == ZOO_SESSION_EVENT)
        return;
    LOCKED(&zk->lock);
    struct zk_watched *s = watched_by_id(zk, (uintptr_t)id);
    if (s) {
        s->fired = type;
        if (s->arm == ARMED) {
            s->arm = IDLE;
            watched_arm(s);
        }
    }
}

/*
 * Idle watched are armed when there is a connection again. Children that may no longer be read are
 * told as changed: who looks will see.
 */
static void watched_refused(struct zk_watched *s, int err)
{
    s->arm = IDLE;
    if (err != DROVER_UNKNOWN) {
        s->err = err;
        if (s->fired)
            watched_post(s, KEEPER_EVENT_CHANGED);
        s->fired = 0;
    }
}

static void question_free(struct zk_request *r)
{
    free((char *)r->full);
    free(r);
}

/* The zk_watched may be freed before the answer. */
static void watched_ask(struct zk_watched *s, bool children)
{
    struct zk_request *r = mem_alloc(sizeof *r);
    *r = (struct zk_request){
        .call.finish = on_answer,
        .kind = children ? ZK_CHILDREN : ZK_EXISTS,
        .full = mem_dup(s->full, strlen(s->full)),
        .watcher = on_fired,
        .watcher_id = s->id,
    };
    s->arm = ARMING;
    int err = zk_request_send(s->zk, r);
    if (err) {
        question_free(r);
        watched_refused(s, err);
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
    if (zk->ended || zoo_state(zk->handle) != ZOO_CONNECTED_STATE)
        return;
    TAILQ_FOREACH(other, &zk->watched, link)
        if (strcmp(other->full, full) == 0)
            return;
    zoo_aremove_all_watches(zk->handle, full, ZWATCHTYPE_ANY, 0, (void_completion_t *)ignore, NULL);
}

static void watched_answered(struct zk_watched *s, const struct zk_request *r)
{
    int rc = r->call.rc;
    bool children = r->kind == ZK_CHILDREN;
    int64_t changed = s->children ? r->stat.pzxid : r->stat.mzxid;
    s->arm = ARMED;
    if (rc == ZOK || rc == ZNONODE) {
        if (s->known)
            watched_compare(s, r->stat.czxid, changed);
        s->known = true;
        s->czxid = r->stat.czxid;
        s->changed = changed;
    } else {
        watched_refused(s, zk_err(rc));
    }
    if (children && rc == ZNONODE) /* that set no watch: watch for its creation */
        watched_ask(s, false);
    if (s->children && !children && rc == ZOK) /* it was created meanwhile */
        watched_ask(s, true);
}

static void on_answer(struct zk_call *c)
{
    struct zk_request *r = (struct zk_request *)c;
    struct zk_watched *s = watched_by_id(c->zk, r->watcher_id);
    if (s)
        watched_answered(s, r);
    else
        server_forget(c->zk, r->full);
    pthread_cond_broadcast(&c->zk->changed);
    question_free(r);
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
    s = mem_alloc(sizeof *s);
    *s = (struct zk_watched){
        .zk = zk, .id = ++zk->last_watched_id, .full = full, .children = children};
    TAILQ_INIT(&s->watches);
    TAILQ_INSERT_TAIL(&zk->watched, s, link);
    return s;
}

static void watch_run(struct zk *zk, struct zk_item *item)
{
    struct zk_watch *w = (struct zk_watch *)item;
    w->running = true;
    while (w->watched && w->event_count) {
        enum keeper_event event = w->events[0];
        memmove(w->events, w->events + 1, --w->event_count * sizeof *w->events);
        pthread_mutex_unlock(&zk->lock);
        w->fn(w->arg, event, w->path);
        pthread_mutex_lock(&zk->lock);
    }
    w->running = false;
    if (w->watched)
        return;
    if (w->fn)
        pthread_cond_broadcast(&zk->changed);
    else
        free(w); /* removed by its own callback: no thread waits */
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
        free(s->full);
        free(s);
    }
}

int zk_watch(struct keeper *k, struct str path, enum keeper_watch_kind kind, keeper_watch_fn *fn,
             void *arg, struct keeper_watch **ret_watch)
{
    struct zk *zk = zk_of(k);
    TRY(zk_enter(zk));
    struct zk_watched *s = watched_get(zk, path, kind == KEEPER_WATCH_CHILDREN);
    struct zk_watch *w = mem_alloc(sizeof *w + path.len + 1);
    *w = (struct zk_watch){.item.run = watch_run, .watched = s, .kind = kind, .fn = fn, .arg = arg};
    memcpy(w->path, path.p, path.len);
    w->path[path.len] = '\0';
    TAILQ_INSERT_TAIL(&s->watches, w, link);
    watched_arm(s);
    int64_t deadline_ms = zk_deadline(zk);
    while (!zk->ended && !s->err && s->arm != ARMED && zk_wait(zk, deadline_ms))
        ;
    int err = zk->ended ? zk->ended : s->err;
    if (!err && s->arm != ARMED)
        err = DROVER_UNKNOWN;
    if (err) {
        watch_detach(w);
        free(w);
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
    LOCKED(&zk->lock);
    watch_detach(w);
    if (w->running && pthread_equal(zk->dispatcher, pthread_self())) {
        w->fn = NULL; /* watch_run() frees it */
    } else {
        while (w->running)
            pthread_cond_wait(&zk->changed, &zk->lock);
        free(w);
    }
}

void zk_watches_reconnected(struct zk *zk)
{
    struct zk_watched *s;
    TAILQ_FOREACH(s, &zk->watched, link) {
        if (s->known)
            watched_post(s, KEEPER_EVENT_RECONNECTED);
        watched_arm(s);
    }
}

void zk_watches_end(struct zk *zk)
{
    struct zk_watched *s;
    TAILQ_FOREACH(s, &zk->watched, link)
        watched_post(s, KEEPER_EVENT_EXPIRED);
}

void zk_watches_free(struct zk *zk)
{
    struct zk_watched *s;
    while ((s = TAILQ_FIRST(&zk->watched))) {
        struct zk_watch *w = TAILQ_FIRST(&s->watches);
        watch_detach(w);
        free(w);
    }
}
