#include "keeper/election.h"

#include <stdlib.h>
#include <string.h>

int election_prepare(struct keeper *k)
{
    static const char *const paths[] = {"/drover", LEADER_ROOT, LEADER_EPOCH};
    int err = keeper_exists(k, LEADER_IMPORT, NULL);
    if (err != DROVER_NO_NODE)
        return err ? err : DROVER_IN_USE;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        TRY(keeper_ensure(k, paths[i], STR("")));
    return 0;
}

int election_join(struct election *e)
{
    free(e->node);
    e->node = NULL;
    return keeper_create(e->keeper, LEADER_ROOT "/server-", str_of(e->url),
                         KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL, &e->node);
}

/* Names are sorted, by their numbers too. */
int election_place(const struct election *e, struct keeper_names *ret_names, long *ret_place)
{
    const char *own = e->node ? strrchr(e->node, '/') + 1 : "";
    TRY(keeper_children(e->keeper, LEADER_ROOT, ret_names, NULL));
    *ret_place = -1;
    for (size_t i = 0; i < ret_names->count; i++)
        if (!strcmp(ret_names->names[i], own))
            *ret_place = (long)i;
    return 0;
}

int election_win(const struct election *e, struct keeper_op *ret_fence)
{
    struct keeper_stat stat;
    TRY(keeper_set(e->keeper, LEADER_EPOCH, str_of(e->url), KEEPER_ANY_VERSION, &stat));
    *ret_fence = keeper_op_check(LEADER_EPOCH, stat.version);
    return 0;
}

void election_leave(struct election *e, bool has_session)
{
    if (e->node && has_session)
        keeper_delete(e->keeper, e->node, KEEPER_ANY_VERSION);
    free(e->node);
    e->node = NULL;
}
