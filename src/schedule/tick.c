/* The clock of schedules: what is due is ticked. */
#include "base/clock.h"
#include "base/uv_check.h"
#include "schedule/schedules.h"

enum { GRAPHS_MAX = 10 /* that are begun in one turn of the loop */ };

/* The clock was set back: by much, if it was wrong before. */
static void look_at_clock(struct schedules *all)
{
    int64_t wall_ms = clock_wall_ms(), boot_ms = clock_boot_ms();
    int64_t jump_ms = (wall_ms - all->wall_ms) - (boot_ms - all->boot_ms);
    for (size_t i = 0; jump_ms < -SCHEDULE_AHEAD_MS && i < all->table->count; i++) {
        struct schedule *s = all->table->by_name[i];
        if (s->exists && !s->busy && schedule_correct(s, wall_ms))
            schedule_table_place(all->table, s);
    }
    all->wall_ms = wall_ms;
    all->boot_ms = boot_ms;
}

static void on_timer(uv_timer_t *timer)
{
    struct schedules *all = timer->data;
    look_at_clock(all);
    schedules_tick(all);
}

static void arm(struct schedules *all)
{
    const struct heap *due = &all->table->due;
    int64_t in_ms = due->count ? due->entries[0].key - clock_wall_ms() : -1;
    if (!due->count) {
        uv_timer_stop(&all->timer);
        return;
    }
    in_ms = in_ms < 1 ? 1 : in_ms > LOOK_MS ? LOOK_MS : in_ms;
    uv_update_time(all->context->loop);
    UV_CHECK(uv_timer_start(&all->timer, on_timer, (uint64_t)in_ms, 0));
}

void schedules_tick(struct schedules *all)
{
    int64_t now_ms = clock_wall_ms();
    struct schedule_op *op = NULL;
    int graphs = 0;
    if (!all->table || all->ticking)
        return;
    all->ticking = true;
    const struct heap *due = &all->table->due;
    while (due->count && due->entries[0].key <= now_ms && graphs < GRAPHS_MAX &&
           (!op || op->count < TICKS_MAX)) {
        struct schedule *s = all->table->by_ref[due->entries[0].ref];
        if (s->is_graph) {
            graphs++;
            schedule_op_start(schedule_op_new(all, SCHEDULE_TICK, s, NULL));
            continue;
        }
        if (!op)
            op = schedule_op_new(all, SCHEDULE_TICK, NULL, NULL);
        struct schedule_step *step = &op->steps[op->count++];
        step->s = s;
        schedule_op_aim(op, step);
        s->busy = true;
        schedule_table_place(all->table, s);
    }
    if (op)
        schedule_op_begin_ticks(op);
    all->ticking = false;
    if (all->table)
        arm(all);
}
