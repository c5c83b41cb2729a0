/*
 * Watches that stay, made of ZooKeeper's, which fire once.
 *
 * A spot is a node and one of two questions about it: what is it (exists), or what is below it
 * (children). All watches of that node and question share it. A spot is armed by asking the
 * question with a watch: the answer and the watch are set at one moment, so the answer is the state
 * that the watch guards. When ZooKeeper's watch fires, nobody is told yet: the spot is armed again,
 * and the difference between the new state and the old one is what is told. A change between the
 * firing and the arming is in the new state; one after it fires again. Nothing can be lost, and
 * what is told comes after the watch is in force again. Of a node that was made and deleted again
 * both states are the same, it is missing; that it was made is told. No other firing without a
 * difference means a change: each has a zxid of its own, which the states hold.
 *
 * The children of a node that is missing cannot be watched: the spot then waits for its creation.
 *
 * When a connection breaks, libzookeeper sets its watches again on the next one, and the server
 * tells what happened in between; whatever was being armed is armed again by us. Every watch is
 * told RECONNECTED as well.
 *
 * libzookeeper knows a spot by its number, never by its address: it may still call for one that is
 * gone. When the last watch goes, the server is asked to forget the spot; should that fail, it
 * fires some day, into the void.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/zookeeper/zookeeper_impl.h"

enum { TOLD_MAX = 4 };

struct keeper_watch {
    struct zk_item item;
    TAILQ_ENTRY(keeper_watch) link; /* in its spot */
    struct zk_spot *spot;           /* NULL: taken back */
    enum keeper_watch_kind kind;
    keeper_watch_fn *fn;
    void *arg;
    char *path; /* the user's */
    bool running;
    pthread_cond_t idle; /* no longer running */

    /* What is to be told, in order. When there are more, the latest takes the last place. */
    enum keeper_event events[TOLD_MAX];
    size_t event_count;
};
TAILQ_HEAD(watches, keeper_watch);

/* What a spot's question was answered. */
struct state {
    bool exists;
    int64_t czxid;
    int64_t changed; /* mzxid, or pzxid when it is about children */
};

enum arm { IDLE, ARMING, ARMED };

struct zk_spot {
    TAILQ_ENTRY(zk_spot) link;
    struct zk *zk;
    uintptr_t id;
    char *full;
    bool children;
    enum arm arm;
    int err;         /* of the latest arming, when it was refused */
    bool known;      /* state has been answered at least once */
    bool fired;      /* since the latest arming */
    int fired_event; /* the latest, ZooKeeper's number */
    struct state state;
    struct watches watches;
};

static void spot_arm(struct zk_spot *s);

static struct zk_spot *spot_by_id(struct zk *zk, const void *id)
{
    struct zk_spot *s;

    for (s = TAILQ_FIRST(&zk->spots); s; s = TAILQ_NEXT(s, link)) {
        if (s->id == (uintptr_t)id)
            return s;
    }
    return NULL;
}

/* Telling. */

static void watch_tell(struct keeper_watch *w, enum keeper_event event)
{
    struct zk *zk = w->spot->zk;

    if (zk->over && event != KEEPER_EVENT_EXPIRED)
        return;
    if (w->event_count == TOLD_MAX)
        w->event_count--;
    w->events[w->event_count++] = event;
    zk_ready(zk, &w->item);
}

static void spot_tell_all(struct zk_spot *s, enum keeper_event event)
{
    struct keeper_watch *w;

    for (w = TAILQ_FIRST(&s->watches); w; w = TAILQ_NEXT(w, link))
        watch_tell(w, event);
}

/* Changes of data do not concern those who watch for existence. */
static void spot_tell_changed(struct zk_spot *s)
{
    struct keeper_watch *w;

    for (w = TAILQ_FIRST(&s->watches); w; w = TAILQ_NEXT(w, link)) {
        if (w->kind == KEEPER_WATCH_DATA)
            watch_tell(w, KEEPER_EVENT_CHANGED);
        else if (w->kind == KEEPER_WATCH_CHILDREN)
            watch_tell(w, KEEPER_EVENT_CHILDREN);
    }
}

static void spot_compare(struct zk_spot *s, struct state now)
{
    struct state was = s->state;
    bool known = s->known, other = was.czxid != now.czxid;

    s->state = now;
    s->known = true;
    if (!known)
        return;
    if (was.exists && (!now.exists || other))
        spot_tell_all(s, KEEPER_EVENT_DELETED);
    if (now.exists && (!was.exists || other))
        spot_tell_all(s, KEEPER_EVENT_CREATED);
    else if (now.exists && was.changed != now.changed)
        spot_tell_changed(s);
    else if (s->fired && s->fired_event == ZOO_CREATED_EVENT && !was.exists && !now.exists)
        spot_tell_all(s, KEEPER_EVENT_CREATED); /* and deleted since: the next look shows it */
    s->fired = false;
}

/* Arming. On the reply thread, except for the first time. */

static void on_fired(zhandle_t *handle, int type, int state, const char *path, void *id)
{
    struct zk *zk = (struct zk *)zoo_get_context(handle);
    struct zk_spot *s;

    (void)state, (void)path;
    if (type == ZOO_SESSION_EVENT)
        return;
    zk_lock(zk);
    s = spot_by_id(zk, id);
    if (s) {
        s->fired = true;
        s->fired_event = type;
        if (s->arm == ARMED) {
            s->arm = IDLE;
            spot_arm(s);
        }
    }
    zk_unlock(zk);
}

/*
 * Idle spots are armed when there is a connection again. Children that may no longer be read are
 * told as changed: who looks will see.
 */
static void spot_refused(struct zk_spot *s, int rc)
{
    s->arm = IDLE;
    if (!zk_rc_is_lost(rc)) {
        s->err = zk_err(rc);
        if (s->fired)
            spot_tell_changed(s);
        s->fired = false;
    }
}

/* One question on its way. The spot may be gone when it is answered. */
struct arming {
    struct zk_call call;
    uintptr_t id;
    bool children;
    int64_t czxid, mzxid, pzxid;
    char full[];
};

static void arming_answered(const void *arg, int rc, const struct Stat *stat)
{
    struct arming *a = (struct arming *)arg;
    struct zk *zk = a->call.zk;

    zk_lock(zk);
    a->call.rc = rc;
    if (rc == ZOK) {
        a->czxid = stat->czxid;
        a->mzxid = stat->mzxid;
        a->pzxid = stat->pzxid;
    }
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

static void spot_ask(struct zk_spot *s, bool children)
{
    size_t len = strlen(s->full) + 1;
    struct arming *a = mem_zalloc(sizeof *a + len);
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
        spot_refused(s, rc);
    }
}

static void spot_arm(struct zk_spot *s)
{
    if (s->arm == IDLE && !s->zk->over) {
        s->err = 0;
        spot_ask(s, s->children);
    }
}

static void ignore(int rc, const void *arg)
{
    (void)rc, (void)arg;
}

/* libzookeeper takes this callback as what it is, and declares it as a pointer to one. */
static void server_forget(struct zk *zk, const char *full)
{
    struct zk_spot *other;

    for (other = TAILQ_FIRST(&zk->spots); other; other = TAILQ_NEXT(other, link)) {
        if (strcmp(other->full, full) == 0)
            return;
    }
    if (zoo_state(zk->handle) == ZOO_CONNECTED_STATE && !zk->over)
        zoo_aremove_all_watches(zk->handle, full, ZWATCHTYPE_ANY, 0, (void_completion_t *)ignore,
                                NULL);
}

static void spot_answered(struct zk_spot *s, const struct arming *a)
{
    int rc = a->call.rc;
    struct state now = {rc == ZOK, a->czxid, s->children ? a->pzxid : a->mzxid};

    s->arm = ARMED;
    if (rc == ZOK || rc == ZNONODE)
        spot_compare(s, now);
    else
        spot_refused(s, rc);
    if (a->children && rc == ZNONODE) /* nothing is watched by that: wait for its creation */
        spot_ask(s, false);
    if (s->children && !a->children && rc == ZOK) /* it was made meanwhile */
        spot_ask(s, true);
}

static void arming_finish(struct zk_call *c)
{
    struct arming *a = (struct arming *)c;
    struct zk_spot *s = spot_by_id(c->zk, (void *)a->id);

    if (s)
        spot_answered(s, a);
    else
        server_forget(c->zk, a->full);
    pthread_cond_broadcast(&c->zk->changed);
    free(a);
}

/* Spots come with their first watch and go with their last. */

static struct zk_spot *spot_get(struct zk *zk, struct str path, bool children)
{
    char *full = zk_full_path(zk, path);
    struct zk_spot *s;

    for (s = TAILQ_FIRST(&zk->spots); s; s = TAILQ_NEXT(s, link)) {
        if (s->children == children && strcmp(s->full, full) == 0) {
            free(full);
            return s;
        }
    }
    s = mem_zalloc(sizeof *s);
    s->zk = zk;
    s->id = ++zk->last_spot_id;
    s->full = full;
    s->children = children;
    TAILQ_INIT(&s->watches);
    TAILQ_INSERT_TAIL(&zk->spots, s, link);
    return s;
}

static void spot_free(struct zk_spot *s)
{
    TAILQ_REMOVE(&s->zk->spots, s, link);
    free(s->full);
    free(s);
}

static void watch_free(struct keeper_watch *w)
{
    pthread_cond_destroy(&w->idle);
    free(w->path);
    free(w);
}

static void watch_run(struct zk *zk, struct zk_item *item)
{
    struct keeper_watch *w = (struct keeper_watch *)item;

    w->running = true;
    while (w->spot && w->event_count) {
        enum keeper_event event = w->events[0];

        memmove(w->events, w->events + 1, --w->event_count * sizeof *w->events);
        zk_unlock(zk);
        w->fn(w->arg, event, w->path);
        zk_lock(zk);
    }
    w->running = false;
    if (w->spot)
        return;
    if (w->fn)
        pthread_cond_signal(&w->idle);
    else
        watch_free(w); /* taken back by its own callback: nobody waits */
}

static void watch_detach(struct keeper_watch *w)
{
    struct zk_spot *s = w->spot;

    w->spot = NULL;
    zk_unready(s->zk, &w->item);
    TAILQ_REMOVE(&s->watches, w, link);
    if (TAILQ_EMPTY(&s->watches)) {
        struct zk *zk = s->zk;
        char *full = s->full;

        s->full = NULL;
        spot_free(s);
        server_forget(zk, full);
        free(full);
    }
}

int zk_watch(struct keeper *k, struct str path, enum keeper_watch_kind kind, keeper_watch_fn *fn,
             void *arg, struct keeper_watch **ret_watch)
{
    struct zk *zk = zk_of(k);
    struct keeper_watch *w;
    int64_t deadline_ms;
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
    w->spot = spot_get(zk, path, kind == KEEPER_WATCH_CHILDREN);
    TAILQ_INSERT_TAIL(&w->spot->watches, w, link);
    spot_arm(w->spot);
    deadline_ms = zk_deadline(zk);
    while (!zk->over && !w->spot->err && w->spot->arm != ARMED) {
        if (!zk_wait(zk, &zk->changed, deadline_ms))
            break;
    }
    err = zk->over ? zk->over : w->spot->err ? w->spot->err : 0;
    if (!err && w->spot->arm != ARMED)
        err = DROVER_UNKNOWN;
    if (err) {
        watch_detach(w);
        watch_free(w);
    } else {
        *ret_watch = w;
    }
    zk_leave(zk);
    return err;
}

void zk_unwatch(struct keeper *k, struct keeper_watch *w)
{
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
    struct zk_spot *s;

    for (s = TAILQ_FIRST(&zk->spots); s; s = TAILQ_NEXT(s, link)) {
        if (s->known)
            spot_tell_all(s, KEEPER_EVENT_RECONNECTED);
        spot_arm(s);
    }
}

void zk_watches_over(struct zk *zk)
{
    struct zk_spot *s;

    for (s = TAILQ_FIRST(&zk->spots); s; s = TAILQ_NEXT(s, link))
        spot_tell_all(s, KEEPER_EVENT_EXPIRED);
}

void zk_watches_free(struct zk *zk)
{
    struct keeper_watch *w;
    struct zk_spot *s;

    while ((s = TAILQ_FIRST(&zk->spots))) {
        while ((w = TAILQ_FIRST(&s->watches))) {
            TAILQ_REMOVE(&s->watches, w, link);
            zk_unready(zk, &w->item);
            watch_free(w);
        }
        spot_free(s);
    }
}
