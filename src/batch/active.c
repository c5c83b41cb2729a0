/*
 * Batches that are not in a final state, watched one by one: what foreign clients do to them, and
 * the end of those that foreign clients have given jobs, whoever ends the last one (batch_lists.c).
 *
 *     the status was set                  the index is corrected
 *     batch-processing changed            if it is empty, the report is due
 *     Pending, without lists, not locked  `states` is removed: who took it has died (item.h)
 *
 * The library of the specification changes lists in steps. When a job ends, it is in no list of its
 * batch for a moment; some releases also take it out of batch-processing and put it back with every
 * other move. So a batch has ended when batch-processing has been empty and unchanged for QUIET_MS
 * and no job is missing: the lists have as many as they ever had. A job that stays away (it was
 * deleted, or its client died between two steps, which fsck repairs) holds the report up for
 * MISSING_MS.
 *
 * While a batch is locked, its holder may add jobs: it is looked at again every LOCKED_MS.
 *
 * Each batch is looked at when one of its watches has fired, at most every REST_MS and for at most
 * one part in LIST_REST of the time, and every BATCH_SWEEP_MS. Those whose watches have fired come
 * before those that are only due. The thread looks at each sort for LOOK_MS at a time and then does
 * its other work. At most WATCHED_MAX batches have watches, because a client sends all of them
 * again after a reconnection. Those that are Failed or Held, and may stay so for ever, get none of
 * the last half.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "batch/server.h"

enum {
    QUIET_MS = 250,
    MISSING_MS = 10 * 1000,
    REST_MS = 100,
    LOOK_MS = 50,
    LOCKED_MS = 500,
    WATCHED_MAX = 2000,
    REST_EACH = 1000, /* going through so many batches is followed by a rest of one ms */
    PATH_SIZE = 64,
};

struct batch_active {
    int64_t number;
    int listed;               /* the state whose list has it */
    bool watched;             /* it is one of WATCHED_MAX */
    bool due;                 /* to be looked at, whatever the watches say */
    bool gone;                /* final, or deleted: is forgotten */
    int64_t rest_ms, next_ms; /* nothing is done before, and again at the latest */
    char paths[2][PATH_SIZE];
    struct list_watch status, list; /* list: batch-processing */

    /* batch-processing, as it was seen. */
    int64_t pzxid, since_ms; /* unchanged since */
    int64_t most;            /* jobs in all lists */
};

struct batch_actives {
    struct batch_active **list; /* sorted by number */
    size_t count, cap, next;    /* next: the first one that was not looked at in this turn */
    size_t watched;
    bool due;        /* some are */
    int64_t rest_ms; /* nothing is done before */
    void (*changed)(void *arg);
    void *arg;
};

struct batch_actives *batch_actives_open(void (*changed)(void *arg), void *arg)
{
    struct batch_actives *s = mem_zalloc(sizeof *s);
    s->changed = changed;
    s->arg = arg;
    return s;
}

static void forget(struct batch_actives *s, struct batch_active *a)
{
    s->watched -= a->watched;
    list_watch_release(&a->status);
    list_watch_release(&a->list);
    free(a);
}

void batch_actives_clear(struct batch_actives *s)
{
    for (size_t i = 0; i < s->count; i++) {
        list_watch_clear(&s->list[i]->status);
        list_watch_clear(&s->list[i]->list);
    }
}

void batch_actives_close(struct batch_actives *s)
{
    for (size_t i = 0; i < s->count; i++)
        forget(s, s->list[i]);
    free(s->list);
    free(s);
}

/* Where the batch is in the list, or belongs. */
static size_t place_of(const struct batch_actives *s, int64_t number)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->list[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add(struct batch_actives *s, int64_t number, int state)
{
    char id[BATCH_ID_LEN + 1];
    size_t at = place_of(s, number);
    struct batch_active *a = at < s->count ? s->list[at] : NULL;
    if (a && a->number == number) {
        a->due |= a->listed != state && !a->watched; /* it may have watches now */
        s->due |= a->due;
        return;
    }
    a = mem_zalloc(sizeof *a);
    s->due = true;
    batch_id(BATCH_ID_BATCH, number, id);
    *a = (struct batch_active){.number = number, .listed = state, .due = true, .pzxid = -1};
    snprintf(a->paths[0], PATH_SIZE, "/batches/%s/status", id);
    snprintf(a->paths[1], PATH_SIZE, "/batches/%s/states/%s", id, BATCH_LISTS[0]);
    list_watch_init(&a->status, a->paths[0], KEEPER_WATCH_DATA, s->changed, s->arg);
    list_watch_init(&a->list, a->paths[1], KEEPER_WATCH_CHILDREN, s->changed, s->arg);
    mem_grow(s->list, s->count, s->cap);
    memmove(&s->list[at + 1], &s->list[at], (s->count++ - at) * sizeof *s->list);
    s->list[at] = a;
    s->next += at < s->next;
}

int batch_actives_read(struct batch_actives *s, struct batch_call *c, int state)
{
    struct keeper_names names;
    TRY(batch_node_children(c, &names, NULL, "%s",
                            c->store->kinds[BATCH_KIND_BATCH].views[state].dir));
    for (size_t i = 0; i < names.count; i++) {
        int64_t number = batch_id_number(BATCH_ID_BATCH, str_of(names.names[i]));
        if (number >= 0)
            add(s, number, state);
    }
    return 0;
}

/* Whether the lists have been still for long enough; else when to look again. */
static bool is_quiet(struct batch_active *a, const struct batch_census *n, int64_t now_ms)
{
    int64_t total = 0;
    for (int l = 0; l < BATCH_LIST_COUNT; l++)
        total += n->counts[l];
    bool missing = total < a->most;
    if (n->processing.pzxid != a->pzxid) { /* the counts may be of different moments */
        a->pzxid = n->processing.pzxid;
        a->since_ms = now_ms;
        a->next_ms = now_ms + REST_MS;
        return false;
    }
    a->most = missing ? a->most : total;
    if (n->counts[BATCH_LIST_PROCESSING] || total == 0)
        return false;
    if (now_ms - a->since_ms >= (missing ? MISSING_MS : QUIET_MS))
        return true;
    a->next_ms = missing ? now_ms + REST_MS : a->since_ms + QUIET_MS;
    return false;
}

/* A batch that may have ended, or that waits to be taken. */
static int look_at_jobs(struct batch_call *c, struct batch_active *a, const struct batch_item *b)
{
    const struct batch_store *r = c->store;
    int state = b->status.state;
    struct batch_census n;
    if (state != r->batch.pending && state != r->batch.processing && state != r->batch.failed)
        return 0;
    int err = a->watched ? list_watch_set(&a->list, c->k) : 0; /* fails if the list is too long */
    TRY(batch_census(c, b->id, &n));
    if (is_quiet(a, &n, clock_boot_ms())) {
        int settled = batch_settle(c, b->id);
        TRY(settled < 0 ? settled : 0);
        a->most = 0;
        if (!settled && state != r->batch.failed)
            a->next_ms = clock_boot_ms() + LOCKED_MS;
    } else if (state == r->batch.pending && !n.processing.czxid && !a->most) {
        TRY(batch_untake(c, b->id, state));
    }
    return err;
}

static int look_at(struct batch_call *c, struct batch_active *a)
{
    struct batch_kind *kind = &c->store->kinds[BATCH_KIND_BATCH];
    char id[BATCH_ID_LEN + 1];
    struct batch_item b;
    batch_id(BATCH_ID_BATCH, a->number, id);
    if (a->watched)
        TRY(list_watch_set(&a->status, c->k));
    int err = batch_item_read(c, BATCH_KIND_BATCH, str_of(id), &b);
    a->gone = err == DROVER_NO_NODE;
    if (err == DROVER_DAMAGED) /* fsck reports it; or it is being written */
        return 0;
    if (!err && b.status.state == BATCH_NO_STATE) /* left to whoever knows it */
        return 0;
    if (err && !a->gone)
        return err;
    if (a->gone || b.status.state != a->listed) {
        err = batch_index_correct(c, kind, a->number, a->listed);
        if (err < 0 || a->gone)
            return err;
        if (err) /* a foreign client moved it */
            batch_publish(c, &b, a->listed, b.status.state);
        a->listed = b.status.state;
        a->gone = batch_machine_is_final(kind->machine, a->listed);
    }
    return a->gone ? 0 : look_at_jobs(c, a, &b);
}

/* Whether one of its watches has fired. That of the list is set only where it is needed. */
static bool is_stale(const struct batch_store *r, struct batch_active *a)
{
    int state = a->listed;
    bool list =
        state == r->batch.pending || state == r->batch.processing || state == r->batch.failed;
    return a->watched && (!list_watch_is_set(&a->status) || (list && !list_watch_is_set(&a->list)));
}

/* Gives a batch watches, or takes them away, by its state. */
static void assign_watches(struct batch_actives *s, struct batch_call *c, struct batch_active *a)
{
    bool rests = a->listed == c->store->batch.failed || a->listed == c->store->batch.held;
    size_t others = s->watched - a->watched;
    bool watched = others < (rests ? WATCHED_MAX / 2 : WATCHED_MAX);
    if (a->watched && !watched) {
        list_watch_clear(&a->status);
        list_watch_clear(&a->list);
    }
    a->watched = watched;
    s->watched = others + watched;
}

/* Looks at one batch if it is time. due: also if it only is due. Returns whether it did. */
static bool attend(struct batch_actives *s, struct batch_call *c, struct batch_active *a, bool due,
                   int64_t *next_ms)
{
    int64_t now_ms = clock_boot_ms();
    if (!(due && a->due) && a->next_ms > now_ms && !is_stale(c->store, a)) {
        *next_ms = a->next_ms < *next_ms ? a->next_ms : *next_ms;
        return false;
    }
    if (a->rest_ms > now_ms) {
        *next_ms = a->rest_ms < *next_ms ? a->rest_ms : *next_ms;
        return false;
    }
    assign_watches(s, c, a);
    a->due = false;
    a->next_ms = INT64_MAX;
    int listed = a->listed, err = look_at(c, a);
    if (err < 0)
        a->next_ms = now_ms + (batch_is_conflict(err) ? REST_MS : BATCH_RETRY_MS);
    int64_t end_ms = clock_boot_ms(), rest_ms = LIST_REST * (end_ms - now_ms);
    a->rest_ms = end_ms + (rest_ms > REST_MS ? rest_ms : REST_MS);
    if (a->listed != listed && s->watched >= WATCHED_MAX / 2 && a->next_ms > a->rest_ms)
        a->next_ms = a->rest_ms; /* it may get watches, or lose them */
    *next_ms = a->next_ms < *next_ms ? a->next_ms : *next_ms;
    return true;
}

/* Looks at those whose time it is. Returns whether some are due. */
static bool look_through(struct batch_actives *s, struct batch_call *c, bool due, int64_t *next_ms)
{
    int64_t began_ms = clock_boot_ms();
    bool left = false;
    for (size_t n = s->count; n > 0; n--) {
        if (s->next >= s->count)
            s->next = 0;
        struct batch_active *a = s->list[s->next++];
        bool looked = attend(s, c, a, due, next_ms);
        left |= a->due;
        if (looked && clock_boot_ms() - began_ms >= LOOK_MS) {
            *next_ms = clock_boot_ms() + LOOK_MS;
            return true;
        }
    }
    return left;
}

void batch_actives_look(struct batch_actives *s, struct batch_call *c, bool all, int64_t *next_ms)
{
    size_t kept = 0;
    for (size_t i = 0; all && i < s->count; i++)
        s->due = s->list[i]->due = true;
    if (clock_boot_ms() < s->rest_ms) {
        *next_ms = s->rest_ms < *next_ms ? s->rest_ms : *next_ms;
        return;
    }
    look_through(s, c, false, next_ms);
    if (s->due)
        s->due = look_through(s, c, true, next_ms);
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i]->gone)
            forget(s, s->list[i]);
        else
            s->list[kept++] = s->list[i];
    s->count = kept;
    s->rest_ms = clock_boot_ms() + (int64_t)kept / REST_EACH;
}
