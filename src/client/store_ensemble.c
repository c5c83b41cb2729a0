#include "client/store_ensemble.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "client/keeper_library.h"
#include "keeper/election.h"

enum { RETRY_MS = 200, IDLE_MS = 60 * 1000 };

struct store_ensemble {
    char *name;
    struct drover_keeper_options options; /* with copies of the texts */
    struct service *service;
    struct drover_keeper *keeper; /* NULL: no session */
    struct election election;
    struct keeper_watch *watch; /* on the candidate's node; NULL: none */
    struct periodic *periodic;
    atomic_bool doubt;
    pthread_mutex_t lock; /* held while it leads */
    bool closing;         /* under the lock */
};

#define TEXTS(s) &(s)->options.auth, &(s)->options.ca, &(s)->options.cert, &(s)->options.key

/* Under the service's lock, or from the watch. */
static void on_doubt(void *arg)
{
    struct store_ensemble *s = arg;
    atomic_store(&s->doubt, true);
    periodic_wake(s->periodic);
}

/* Without its node another process may lead, which reads alone would not notice. */
static void on_event(void *arg, enum keeper_event event, const char *path)
{
    (void)path;
    if (event == KEEPER_EVENT_DELETED || event == KEEPER_EVENT_EXPIRED)
        on_doubt(arg);
}

static void unwatch(struct store_ensemble *s)
{
    if (s->watch)
        keeper_unwatch(s->election.keeper, s->watch);
    s->watch = NULL;
}

static int connect_keeper(struct store_ensemble *s, struct err_info *e)
{
    if (s->keeper)
        return 0;
    TRY(drover_keeper_open(s->name, &s->options, &s->keeper, e));
    s->election = (struct election){.keeper = s->keeper->keeper, .url = ""};
    return 0;
}

static void disconnect(struct store_ensemble *s, bool has_session)
{
    if (!s->keeper)
        return;
    unwatch(s);
    election_leave(&s->election, has_session);
    drover_keeper_close(s->keeper);
    s->keeper = NULL;
}

static int join(struct store_ensemble *s)
{
    unwatch(s);
    return election_join(&s->election);
}

/*
 * Joins the candidates if necessary. The watch is set before the place is looked up, so that no
 * deletion is missed. IN_USE: another one is before this.
 */
static int check_place(struct store_ensemble *s)
{
    struct election *e = &s->election;
    long place = -1;
    TRY(election_prepare(e->keeper));
    for (int i = 0; i < 2 && place < 0; i++) {
        CLEANUP(keeper_names_release) struct keeper_names names = {0};
        if (e->node && !s->watch)
            TRY(keeper_watch(e->keeper, e->node, KEEPER_WATCH_EXISTS, on_event, s, &s->watch));
        TRY(election_place(e, &names, &place));
        if (place < 0)
            TRY(join(s));
    }
    return place ? DROVER_IN_USE : 0;
}

static int lead(struct store_ensemble *s, struct err_info *e)
{
    struct keeper_op fence;
    TRY(connect_keeper(s, e));
    int err = check_place(s);
    if (!err)
        err = election_win(&s->election, &fence);
    if (err)
        return err_set(e, err, "%s: %s", s->name,
                       err == DROVER_IN_USE
                           ? "another process has the tasks, or its session has not ended yet"
                           : drover_err_message(err));
    return service_start(s->service, s->election.keeper, &fence, e);
}

/* Unless the ensemble is only out of reach, calls get an error until this process leads again. */
static void failed(struct store_ensemble *s, int err)
{
    if (err != DROVER_UNKNOWN)
        service_stop(s->service);
    if (err == DROVER_SESSION_EXPIRED || err == DROVER_IN_USE)
        disconnect(s, err == DROVER_IN_USE);
    atomic_store(&s->doubt, true);
}

/* After a doubt. No other thread delivers the answers that this one gives. */
static void run(struct periodic *p, void *arg)
{
    struct store_ensemble *s = arg;
    LOCKED(&s->lock);
    if (s->closing || !atomic_exchange(&s->doubt, false))
        return;
    int err = lead(s, NULL);
    if (err)
        failed(s, err);
    service_dispatch(s->service);
    periodic_next(p, err ? RETRY_MS : IDLE_MS);
}

static int open_all(struct store_ensemble *s, struct err_info *e)
{
    struct service_options so = {.doubt = on_doubt, .doubt_arg = s};
    LOCKED(&s->lock);
    TRY(service_open(&so, &s->service, e));
    s->periodic = periodic_start("store-leader", IDLE_MS, run, s);
    return lead(s, e);
}

int store_ensemble_open(const char *name, const struct drover_keeper_options *o,
                        struct service **ret_service, struct store_ensemble **ret_ensemble,
                        struct err_info *e)
{
    struct store_ensemble *s = mem_zalloc(sizeof *s);
    s->name = mem_dup(name, strlen(name));
    if (o)
        s->options = *o;
    const char **const texts[] = {TEXTS(s)};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i])
            *texts[i] = mem_dup(*texts[i], strlen(*texts[i]));
    pthread_mutex_init(&s->lock, NULL);
    int err = open_all(s, e);
    *ret_service = s->service;
    if (err)
        store_ensemble_close(s);
    else
        *ret_ensemble = s;
    return err;
}

static void stop_leading(struct store_ensemble *s)
{
    LOCKED(&s->lock);
    s->closing = true;
}

/*
 * In this order: commits in flight are abandoned, their callbacks and the watch end with the
 * keeper, and then nothing wakes the thread any more.
 */
void store_ensemble_close(struct store_ensemble *s)
{
    stop_leading(s);
    if (s->service)
        service_stop(s->service);
    disconnect(s, true);
    periodic_stop(s->periodic);
    pthread_mutex_destroy(&s->lock);
    free(s->name);
    const char **const texts[] = {TEXTS(s)};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free((char *)*texts[i]);
    free(s);
}
