/*
 * Workers that share queues, over a simulated keeper. DROVER_SEED=n runs one seed, DROVER_SOAK=1
 * thousands.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "queue/membership.h"
#include "sim.h"

enum { TIMEOUT_MS = 4000 };

static int64_t from_environment(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);

    return text ? atoll(text) : otherwise;
}

static int64_t seeds(int64_t few, int64_t many)
{
    return getenv("DROVER_SOAK") ? many : few;
}

/* Chaos: an event for some worker, and again a little later. */

static int alive(const struct sim *w)
{
    int count = 0;

    for (int i = 0; i < w->worker_count; i++)
        count += w->workers[i]->alive;
    return count;
}

static struct sim_worker *anybody(struct sim *w)
{
    return w->worker_count ? w->workers[sim_random(w, (uint64_t)w->worker_count)] : NULL;
}

static void strike(struct sim *w, struct sim_worker *worker)
{
    uint64_t ms = sim_random(w, 3 * TIMEOUT_MS);

    switch (sim_random(w, 8)) {
    case 0:
        sim_kill(w, worker);
        break;
    case 1:
        if (!worker->busy)
            sim_stop(w, worker);
        break;
    case 2:
    case 3:
    case 4:
        sim_pause(w, worker, (int64_t)ms);
        break;
    default:
        sim_cut_off(w, worker, (int64_t)ms);
    }
}

static void leave_rubbish(struct sim *w)
{
    char path[QUEUE_PATH_SIZE];

    queues_path(&w->queues_at, path, sim_random(w, 2) ? "workers/rubbish" : "queues/_rubbish");
    if (keeper_create(&w->own.base, path, STR("\xff{"), 0, NULL))
        keeper_delete(&w->own.base, path, KEEPER_ANY_VERSION);
}

static void chaos(struct sim *w)
{
    struct sim_worker *worker = anybody(w);
    struct sim_queue *q =
        w->queue_count ? &w->queues[sim_random(w, (uint64_t)w->queue_count)] : NULL;
    /* Each worker meets as many events among hundreds as among a dozen. */
    uint64_t pause_ms = w->o.workers_max > 12 ? (uint64_t)(2400 / w->o.workers_max) : 200;

    switch (sim_random(w, 12)) {
    case 0:
        if (alive(w) < w->o.workers_max)
            sim_start_worker(w);
        break;
    case 1:
        if (worker && worker->alive && worker->resume_ms <= w->now_ms)
            strike(w, worker);
        break;
    case 2:
        if (sim_random(w, 4) == 0)
            sim_add_queue(w);
        break;
    case 3:
        if (q && !q->removed && sim_random(w, 20) == 0)
            sim_remove_queue(w, q);
        break;
    case 4:
        if (sim_random(w, 4) == 0)
            leave_rubbish(w);
        break;
    default:
        if (q)
            sim_post(w, q);
    }
    sim_schedule(w, (struct event){.at_ms = w->now_ms + 1 + (int64_t)sim_random(w, pause_ms),
                                   .kind = EVENT_CHAOS});
}

static bool all_handled(const struct sim *w)
{
    for (int i = 0; i < w->queue_count; i++) {
        const struct sim_queue *q = &w->queues[i];

        if (!q->removed && q->message_count && q->last != q->messages[q->message_count - 1])
            return false;
    }
    return true;
}

/* Time for sessions to expire, lists to be quiet, a last look, and messages in progress. */
static void come_to_rest(struct sim *w)
{
    int64_t deadline_ms = w->now_ms + 200 * 1000;

    w->chaos = NULL;
    if (!w->worker_count || w->workers[w->worker_count - 1]->alive == false)
        sim_start_worker(w);
    do
        sim_run_until(w, w->now_ms + 1000);
    while (w->now_ms < deadline_ms && (!all_handled(w) || sim_balanced(w)));
    sim_check(w, all_handled(w), "messages are left");
    sim_check(w, !sim_balanced(w), sim_balanced(w) ? sim_balanced(w) : "");
}

static uint64_t run_world(const struct sim_options *o, int64_t length_ms)
{
    struct sim w;
    uint64_t sum;

    sim_init(&w, o);
    w.chaos = chaos;
    sim_schedule(&w, (struct event){.at_ms = 0, .kind = EVENT_CHAOS});
    sim_run_until(&w, length_ms);
    come_to_rest(&w);
    sum = w.messages_handled ^ w.calls << 20;
    sim_release(&w);
    return sum;
}

static uint64_t run_seed(uint64_t seed)
{
    static const int64_t quiets[] = {0, 300, 3000};
    const struct sim_options o = {
        .seed = seed,
        .workers = (int)(seed * 7 % 12),
        .workers_max = 12,
        .queues = (int)(seed * 13 % 30),
        .quiet_ms = quiets[seed % 3],
        .timeout_ms = TIMEOUT_MS,
        .parallel = 1 + (int)(seed % 3),
        .faults = true,
    };

    return run_world(&o, 60 * 1000);
}

static void nothing_is_lost_in_chaos(void **state)
{
    int64_t first = from_environment("DROVER_SEED", 1), count = seeds(60, 5000);

    (void)state;
    if (getenv("DROVER_SEED"))
        count = 1;
    for (int64_t i = 0; i < count; i++)
        run_seed((uint64_t)(first + i));
    print_message("# seeds %" PRId64 " to %" PRId64 "\n", first, first + count - 1);
}

static void nothing_is_lost_with_hundreds(void **state)
{
    int64_t count = seeds(1, 1000);
    struct sim_options o = {
        .workers = 200,
        .workers_max = 200,
        .queues = 400,
        .quiet_ms = 2000,
        .timeout_ms = TIMEOUT_MS,
        .parallel = 2,
        .faults = true,
    };

    (void)state;
    for (o.seed = 1000001; count--; o.seed++)
        run_world(&o, 15 * 1000);
    print_message("# seeds 1000001 to %" PRIu64 ", %d workers\n", o.seed - 1, o.workers_max);
}

static void the_same_seed_is_the_same_run(void **state)
{
    (void)state;
    assert_int_equal(run_seed(4711), run_seed(4711));
}

/* A calm run: how long things take, and what moves. */

static uint64_t takes(const struct sim *w)
{
    uint64_t sum = 0;

    for (int i = 0; i < w->queue_count; i++)
        sum += w->queues[i].takes;
    return sum;
}

static void run_until_balanced(struct sim *w, int64_t within_ms)
{
    int64_t deadline_ms = w->now_ms + within_ms;

    while (sim_balanced(w)) {
        sim_check(w, w->now_ms < deadline_ms, sim_balanced(w));
        sim_run_until(w, w->now_ms + 10);
    }
}

/* How many of the survivors' queues must move so that n workers are balanced. */
static uint64_t must_move(const struct sim *w, size_t workers_then)
{
    size_t m = (size_t)w->queue_count, above = 0, surplus = 0;

    for (int i = 0; i < w->worker_count; i++) {
        size_t owned = sim_owned(&w->workers[i]->steps.worker, NULL), common = m / workers_then;

        if (!w->workers[i]->alive || owned <= common)
            continue;
        above++;
        surplus += owned - common;
    }
    return surplus - (above < m % workers_then ? above : m % workers_then);
}

static void kill_and_start(int workers, int queues, int killed, int started)
{
    struct sim w;
    struct sim_options o = {.seed = (uint64_t)(workers + queues),
                            .workers = workers,
                            .queues = queues,
                            .quiet_ms = 3000,
                            .timeout_ms = TIMEOUT_MS,
                            .parallel = 1,
                            .faults = true};
    uint64_t before, orphans = 0, necessary;

    sim_init(&w, &o);
    sim_run_until(&w, 20 * 1000);
    assert_null(sim_balanced(&w));
    w.o.faults = false;
    for (int i = 0; i < killed; i++) {
        orphans += sim_owned(&w.workers[i * 2]->steps.worker, NULL);
        sim_kill(&w, w.workers[i * 2]);
    }
    before = takes(&w);
    run_until_balanced(&w, TIMEOUT_MS + 3000 + 1000);
    sim_run_until(&w, w.now_ms + 60 * 1000);
    assert_int_equal(takes(&w) - before, orphans);

    necessary = must_move(&w, (size_t)(workers - killed + started));
    before = takes(&w);
    for (int i = 0; i < started; i++)
        sim_start_worker(&w);
    run_until_balanced(&w, 3000 + 1000);
    sim_run_until(&w, w.now_ms + 60 * 1000);
    assert_int_equal(takes(&w) - before, necessary);
    assert_null(sim_balanced(&w));
    sim_release(&w);
}

static void only_what_must_move_moves(void **state)
{
    (void)state;
    kill_and_start(20, 200, 5, 5);
    kill_and_start(7, 23, 3, 1);
    kill_and_start(3, 2, 1, 4);
    kill_and_start(10, 101, 1, 9);
    if (getenv("DROVER_SOAK"))
        kill_and_start(200, 1000, 50, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_is_the_same_run),
        cmocka_unit_test(nothing_is_lost_in_chaos),
        cmocka_unit_test(only_what_must_move_moves),
        cmocka_unit_test(nothing_is_lost_with_hundreds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
