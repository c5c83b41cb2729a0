#include "gather.h"

void gather_open(struct gather *g, uv_loop_t *loop, struct local *l)
{
    g->local = l;
    uv_idle_init(loop, &g->turn);
    uv_unref((uv_handle_t *)&g->turn);
    local_hold(l, true);
}

static void on_turn(uv_idle_t *turn)
{
    (void)turn;
}

void gather_rest(struct gather *g)
{
    int64_t held;

    if (!g->local)
        return;
    held = local_held(g->local);
    if (held > g->seen) {
        g->seen = held;
        uv_idle_start(&g->turn, on_turn);
        return;
    }
    g->seen = 0;
    uv_idle_stop(&g->turn);
    if (held)
        local_want(g->local);
}

void gather_close(struct gather *g)
{
    if (!g->local)
        return;
    local_hold(g->local, false);
    uv_close((uv_handle_t *)&g->turn, NULL);
    g->local = NULL;
}
