/* Schedules come with the leadership of this server, and go with it. */
#include "schedule/module.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/uv_check.h"
#include "dag/service.h"
#include "drover.h"
#include "schedule/schedules.h"
#include "server/ground.h"
#include "server/leader.h"

static void start(struct schedules *all, struct schedule_table *table)
{
    all->table = table;
    all->wall_ms = clock_wall_ms();
    all->boot_ms = clock_boot_ms();
    schedules_tick(all);
}

static void stop(struct schedules *all, int err)
{
    schedule_ops_drop(all, err);
    schedule_table_free(all->table);
    all->table = NULL;
    uv_timer_stop(&all->timer);
}

static void on_wake(uv_async_t *wake)
{
    struct schedules *all = wake->data;
    pthread_mutex_lock(&all->lock);
    struct schedule_table *read = all->read;
    bool stopped = all->stopped;
    all->read = NULL;
    all->stopped = false;
    pthread_mutex_unlock(&all->lock);
    if (stopped)
        stop(all, DROVER_NOT_LEADER);
    if (read && all->table)
        schedule_table_free(read);
    else if (read)
        start(all, read);
}

static void leave_news(struct schedules *all, struct schedule_table *read, bool stopped)
{
    LOCKED(&all->lock);
    schedule_table_free(all->read);
    all->read = read;
    all->stopped |= stopped;
    if (!all->closing)
        uv_async_send(&all->wake);
}

static int on_lead(void *arg, struct keeper *k, const struct keeper_op *fence, struct err_info *e)
{
    struct schedule_table *table;
    (void)fence; /* the task store puts it into every commit */
    TRY(schedule_table_read(k, &table, e));
    leave_news(arg, table, false);
    return 0;
}

static void on_stop(void *arg)
{
    leave_news(arg, NULL, true);
}

/* With the embedded keeper. */
static int read_first(struct schedules *all, struct err_info *ret_error)
{
    struct schedule_table *table;
    struct keeper *k = context_keeper(all->context);
    if (!k)
        return err_set(ret_error, DROVER_CLOSED, "schedules: closing");
    int err = schedule_table_read(k, &table, ret_error);
    context_return(all->context, k);
    if (!err)
        start(all, table);
    return err;
}

static double read_count(void *arg)
{
    const struct schedules *all = arg;
    return all->table ? (double)all->table->count : 0;
}

static void count_in(struct schedules *all, struct metrics *m)
{
    static const char name[] = "drover_schedule_times_total";
    static const char help[] = "Times of schedules that have come, by what became of them.";
    metrics_read(m, "drover_schedules", "gauge", NULL, "Schedules.", read_count, all);
    all->ticks = metrics_counter(m, name, "outcome=\"added\"", help);
    all->skipped = metrics_counter(m, name, "outcome=\"skipped\"", help);
    all->failed = metrics_counter(m, name, "outcome=\"failed\"", help);
}

static void on_closed(uv_handle_t *handle)
{
    struct schedules *all = handle->data;
    if (--all->open_handles)
        return;
    schedule_table_free(all->read);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static void module_close(void *module)
{
    struct schedules *all = module;
    {
        LOCKED(&all->lock);
        all->closing = true;
    }
    stop(all, DROVER_CLOSED);
    uv_close((uv_handle_t *)&all->timer, on_closed);
    uv_close((uv_handle_t *)&all->wake, on_closed);
}

static int module_open(struct context *h, void **ret_module, struct err_info *ret_error)
{
    struct schedules *all = mem_zalloc(sizeof *all);
    all->context = h;
    all->dag = h->dag;
    pthread_mutex_init(&all->lock, NULL);
    UV_CHECK(uv_timer_init(h->loop, &all->timer));
    UV_CHECK(uv_async_init(h->loop, &all->wake, on_wake));
    all->timer.data = all->wake.data = all;
    all->open_handles = 2;
    count_in(all, h->metrics);
    ground_own(h, SCHEDULES_ROOT);
    ground_lead(h, SCHEDULES_ROOT);
    if (h->leader)
        leader_follow(h->leader,
                      &(struct leader_follower){.lead = on_lead, .stop = on_stop, .arg = all});
    int err = h->leader ? 0 : read_first(all, ret_error);
    if (err)
        module_close(all);
    else
        *ret_module = all;
    return err;
}

static bool module_ready(void *module)
{
    return ((struct schedules *)module)->table;
}

const struct module schedule_module = {
    .name = "schedules",
    .open = module_open,
    .routes = schedule_routes,
    .ready = module_ready,
    .close = module_close,
};
