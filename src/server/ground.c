/* One thread: watches the nodes, and makes those that were deleted. */
#include "server/ground.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "server/context.h"
#include "server/leader.h"

enum {
    RETRY_MS = 100,
    IDLE_MS = 3600 * 1000, /* it is woken when there is something to do */
};

struct ground_node {
    struct ground *ground;
    char *path;
    bool leads;       /* the leader makes it */
    atomic_bool seen; /* it has existed */
    bool told;        /* that it is missing */
    struct keeper_watch *watch;
};

struct ground {
    struct context *context;
    struct ground_node *nodes;
    size_t count, cap;
    struct periodic *thread;
    atomic_uint deletions; /* that were noticed */
    atomic_uint healed;    /* so many of them */
    atomic_bool ended;     /* the session has */
    struct keeper *k;      /* borrowed as long as it has watches; NULL: none */
};

static void wake(struct ground *g)
{
    if (g->thread)
        periodic_wake(g->thread);
}

static void on_event(void *arg, enum keeper_event event, const char *path)
{
    struct ground_node *n = arg;
    (void)path;
    if (event == KEEPER_EVENT_CREATED || event == KEEPER_EVENT_DELETED)
        n->seen = true;
    n->ground->deletions += event == KEEPER_EVENT_DELETED;
    wake(n->ground);
}

static void on_session(void *arg, struct keeper *k)
{
    struct ground *g = ((struct context *)arg)->ground;
    if (!g)
        return;
    if (!k)
        g->ended = true;
    wake(g);
}

static void give_back(struct ground *g)
{
    if (!g->k)
        return;
    for (size_t i = 0; i < g->count; i++) {
        if (g->nodes[i].watch)
            keeper_unwatch(g->k, g->nodes[i].watch);
        g->nodes[i].watch = NULL;
    }
    context_return(g->context, g->k);
    g->k = NULL;
}

/*
 * The watch is set before the node is looked for, so no deletion is missed. Only a node that was
 * seen before the look can be missing after it: one that a module makes meanwhile is new.
 */
static int look_at(struct ground *g, struct ground_node *n, bool *ret_missing)
{
    if (!n->watch)
        TRY(keeper_watch(g->k, n->path, KEEPER_WATCH_EXISTS, on_event, n, &n->watch));
    bool seen = n->seen;
    int err = keeper_exists(g->k, n->path, NULL);
    *ret_missing = err == DROVER_NO_NODE && seen;
    if (!err)
        n->seen = true;
    n->told &= *ret_missing;
    return err == DROVER_NO_NODE ? 0 : err;
}

/* Parents come first, so that they are there. */
static int heal(struct ground *g, struct ground_node *n)
{
    if (!n->told)
        log_event(LOG_LEVEL_WARNING, LOG_FIELDS("deleted", LOG_TEXT_OF("path", n->path)),
                  "another client has deleted %s: making it again", n->path);
    n->told = true;
    if (!n->leads)
        return keeper_ensure(g->k, n->path, STR(""));
    leader_reload(g->context->leader);
    return 0;
}

static void look(struct periodic *thread, void *arg)
{
    struct ground *g = arg;
    unsigned deletions = g->deletions; /* further ones call this again */
    bool missing, waits = false;
    int err = 0;
    if (atomic_exchange(&g->ended, false))
        give_back(g);
    if (!g->k)
        g->k = context_keeper(g->context);
    for (size_t i = 0; g->k && !err && i < g->count; i++) {
        err = look_at(g, &g->nodes[i], &missing);
        if (!err && missing) {
            err = heal(g, &g->nodes[i]);
            waits |= g->nodes[i].leads;
        }
    }
    bool whole = g->k && !err && !waits;
    if (whole)
        g->healed = deletions;
    periodic_next(thread, whole ? IDLE_MS : RETRY_MS);
}

void ground_open(struct context *h)
{
    struct ground *g = h->ground = mem_zalloc(sizeof *g);
    g->context = h;
    context_listen(h, on_session, h);
}

static void add(struct ground *g, const char *path, bool leads)
{
    mem_grow(g->nodes, g->count, g->cap);
    g->nodes[g->count++] =
        (struct ground_node){.ground = g, .path = mem_dup(path, strlen(path)), .leads = leads};
}

void ground_need(struct context *h, const char *path)
{
    if (h->ground)
        add(h->ground, path, false);
}

void ground_lead(struct context *h, const char *path)
{
    if (h->ground && h->leader)
        add(h->ground, path, true);
}

void ground_own(struct context *h, const char *path)
{
    if (h->ground && h->local)
        local_reserve(h->local, path);
    ground_lead(h, path);
}

void ground_begin(struct context *h)
{
    h->ground->thread = periodic_start("ground", 0, look, h->ground);
}

bool ground_is_whole(const struct context *h)
{
    const struct ground *g = h->ground;
    return !g || g->healed == g->deletions;
}

void ground_close(struct context *h)
{
    struct ground *g = h->ground;
    if (!g)
        return;
    h->ground = NULL;
    periodic_stop(g->thread);
    give_back(g);
    for (size_t i = 0; i < g->count; i++)
        free(g->nodes[i].path);
    free(g->nodes);
    free(g);
}
