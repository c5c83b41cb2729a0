#include "server/group_commit.h"

#include "base/uv_check.h"

void group_commit_open(struct group_commit *g, uv_loop_t *loop, struct local *l)
{
    g->local = l;
    UV_CHECK(uv_idle_init(loop, &g->turn));
    uv_unref((uv_handle_t *)&g->turn);
    local_set_defers(l, true);
}

static void on_turn(uv_idle_t *turn)
{
    (void)turn;
}

bool group_commit_rest(struct group_commit *g)
{
    if (!g->local)
        return false;
    int64_t deferred = local_deferred(g->local);
    if (deferred > g->seen) {
        g->seen = deferred;
        UV_CHECK(uv_idle_start(&g->turn, on_turn));
        return false;
    }
    g->seen = 0;
    uv_idle_stop(&g->turn);
    return deferred && local_write_deferred(g->local);
}

void group_commit_close(struct group_commit *g)
{
    if (!g->local)
        return;
    local_set_defers(g->local, false);
    uv_close((uv_handle_t *)&g->turn, NULL);
    g->local = NULL;
}
