#include "client/store_ensemble.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "client/keeper_library.h"
#include "keeper/election.h"

enum { RETRY_MS = 200, IDLE_MS = 60 * 1000 };

struct store_ensemble {
    char *name, *auth;
    struct drover_keeper_options options;
    struct service *service;
    struct drover_keeper *keeper; /* NULL: no session */
    struct election election;
    struct periodic *periodic;
    atomic_bool doubt;
    pthread_mutex_t lock; /* held while it leads */
};

/* Under the service's lock. */
static void on_doubt(void *arg)
{
    struct store_ensemble *s = arg;
    atomic_store(&s->doubt, true);
    periodic_wake(s->periodic);
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
    election_leave(&s->election, has_session);
    drover_keeper_close(s->keeper);
    s->keeper = NULL;
}

/* Joins the candidates if necessary. IN_USE: another one is before this. */
static int check_place(struct store_ensemble *s)
{
    long place = -1;
    TRY(election_prepare(s->election.keeper));
    for (int i = 0; i < 2 && place < 0; i++) {
        CLEANUP(keeper_names_release) struct keeper_names names = {0};
        TRY(election_place(&s->election, &names, &place));
        if (place < 0)
            TRY(election_join(&s->election));
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

/* After a doubt. Without a session, or behind another candidate, calls get an error meanwhile. */
static void run(struct periodic *p, void *arg)
{
    struct store_ensemble *s = arg;
    LOCKED(&s->lock);
    if (!atomic_exchange(&s->doubt, false))
        return;
    int err = lead(s, NULL);
    if (!err)
        return;
    if (err == DROVER_SESSION_EXPIRED || err == DROVER_IN_USE) {
        service_stop(s->service);
        disconnect(s, err == DROVER_IN_USE);
    }
    atomic_store(&s->doubt, true);
    periodic_next(p, RETRY_MS);
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
    if (s->options.auth)
        s->options.auth = s->auth = mem_dup(s->options.auth, strlen(s->options.auth));
    pthread_mutex_init(&s->lock, NULL);
    int err = open_all(s, e);
    *ret_service = s->service;
    if (err)
        store_ensemble_close(s);
    else
        *ret_ensemble = s;
    return err;
}

/* In this order: commits in flight are abandoned, and their callbacks end with the keeper. */
void store_ensemble_close(struct store_ensemble *s)
{
    periodic_stop(s->periodic);
    if (s->service)
        service_stop(s->service);
    disconnect(s, true);
    pthread_mutex_destroy(&s->lock);
    free(s->name);
    free(s->auth);
    free(s);
}
