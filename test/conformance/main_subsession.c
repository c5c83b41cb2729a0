/*
 * The conformance suite over subsessions that share one session of the embedded keeper, in memory:
 *
 *   conformance-subsession [part of a case's name]
 *
 * What a subsession does not promise is left out: it cannot be resumed, it does not end by itself,
 * its ephemeral nodes show the host's session as their owner, and its callbacks run where the
 * host's do.
 */
#include <stdio.h>

#include "conformance.h"
#include "keeper/local/local.h"
#include "keeper/subsession.h"

static const char *const WITHOUT[] = {
    "dispatch_",
    "session_",
    "expired",
    /* These look at the owner. */
    "create_without_asking_for_the_stat",
    "ephemeral_has_its_owner",
    "ephemeral_made_again_by_another",
    "ephemeral_name_is_free_after_the_session",
    "ephemeral_set_by_another_keeps_its_owner",
    "multi_with_ephemerals",
    "rollback_of_an_ephemeral_deleted",
    NULL,
};

static int connect_subsession(void *ctx, const struct keeper_options *o, struct keeper **ret_keeper)
{
    if (o->resume.id)
        return DROVER_SESSION_EXPIRED;
    return subsession_open(ctx, o->timeout_ms ? o->timeout_ms : KEEPER_TIMEOUT_DEFAULT_MS,
                           ret_keeper);
}

int main(int argc, char **argv)
{
    struct local_options o = {.mode = LOCAL_NONE};
    struct conformance_backend backend = {"subsession", NULL, connect_subsession,
                                          KEEPER_TIMEOUT_MIN_MS, WITHOUT};
    struct keeper *host;
    struct local *l;
    int failed;

    if (local_open(&o, &l, NULL) || local_connect(l, NULL, &host)) {
        fputs("no keeper\n", stderr);
        return 1;
    }
    backend.ctx = host;
    failed = conformance_run(&backend, argc > 1 ? argv[1] : NULL);
    keeper_close(host);
    local_close(l);
    return failed != 0;
}
