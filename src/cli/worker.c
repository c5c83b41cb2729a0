#include "cli/worker.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/term.h"

enum { PAUSE_MS = 1000, BACK_OFF_MS = 1000, BACK_OFF_MAX_MS = 3600 * 1000 };

struct worker_options worker_options = {.jobs = 1};

static struct {
    atomic_size_t done, retried, dead, lost, running;
    atomic_bool ended, broken, away;
    struct periodic *progress; /* NULL: none is shown */
} state;

/* Progress, twice a second; the rate is that of the last ten seconds. */

enum { PROGRESS_MS = 500, SAMPLES = 20 };

static void show_progress(struct periodic *p, void *arg)
{
    static size_t samples[SAMPLES], count; /* items that had ended */
    size_t failed = state.retried + state.dead, ended = state.done + failed;
    size_t spans = count < SAMPLES ? count : SAMPLES;
    size_t before = spans ? samples[(count - spans) % SAMPLES] : 0;
    double rate = (double)(ended - before) * 1000 / (double)((spans ? spans : 1) * PROGRESS_MS);
    char line[200];
    (void)p, (void)arg;
    samples[count++ % SAMPLES] = ended;
    snprintf(line, sizeof line, "%zu done, %zu failed, %zu running, %.1f/s", state.done, failed,
             state.running, rate);
    term_status(line);
}

void worker_begin(int64_t attempts_default)
{
    if (!worker_options.attempts)
        worker_options.attempts = attempts_default;
    if (!worker_options.back_off_ms && attempts_default)
        worker_options.back_off_ms = BACK_OFF_MS;
    if (child_stop_fd() < 0)
        child_catch_signals();
    if (!state.progress && !worker_options.quiet && term_can_status())
        state.progress = periodic_start("worker-status", PROGRESS_MS, show_progress, NULL);
}

int worker_end(void)
{
    periodic_stop(state.progress);
    state.progress = NULL;
    term_status("");
    if (!worker_options.quiet)
        client_error("%zu done, %zu retried, %zu dead, %zu lost", state.done, state.retried,
                     state.dead, state.lost);
    return state.broken || state.dead ? CMD_FAILURE : CMD_OK;
}

bool worker_is_ending(void)
{
    return state.ended || state.broken || child_signal();
}

/* Ends all jobs; prints the reason once. */
static void give_up(const char *why)
{
    if (!atomic_exchange(&state.broken, true))
        client_error("%s", why);
}

static int64_t back_off(int64_t attempt)
{
    int64_t ms = worker_options.back_off_ms;
    for (int64_t i = 1; i < attempt && ms < BACK_OFF_MAX_MS; i++)
        ms *= 2;
    return ms < BACK_OFF_MAX_MS ? ms : BACK_OFF_MAX_MS;
}

static int64_t attempts_of(const struct worker_item *item)
{
    return item->attempts ? item->attempts : worker_options.attempts;
}

void worker_report(const struct worker_item *item, enum worker_outcome outcome)
{
    const char *why = item->why.text;
    char span[HUMAN_SIZE], attempt[64], most[32] = "";

    if (attempts_of(item))
        snprintf(most, sizeof most, " of %" PRId64, attempts_of(item));
    snprintf(attempt, sizeof attempt, "in attempt %" PRId64 "%s", item->attempt, most);
    switch (outcome) {
    case WORKER_DONE:
        state.done++;
        if (worker_options.verbose)
            client_error("%s: done", item->name);
        break;
    case WORKER_RETRY:
        state.retried++;
        if (!worker_options.quiet)
            client_error("%s: %s %s, retrying in %s", item->name, why, attempt,
                         human_span(span, item->back_off_ms));
        break;
    case WORKER_DEAD:
        state.dead++;
        client_error("%s: %s %s, %s", item->name, why, attempt, item->where ? item->where : "dead");
        break;
    case WORKER_RELEASED:
        if (!worker_options.quiet)
            client_error("%s: released", item->name);
        break;
    case WORKER_LOST:
        state.lost++;
        client_error("%s: lost: %s", item->name, why);
    }
}

/* Keeps the end. What is printed passes through here only if it has to. */
static void on_output(void *arg, int fd, struct str bytes)
{
    struct worker_item *item = arg;
    if (fd == STDOUT_FILENO && item->keeps_output) {
        size_t room = WORKER_OUTPUT_MAX + 1 - item->output.len;
        buf_put(&item->output, bytes.p, bytes.len < room ? bytes.len : room);
        return;
    }
    term_pass(fd, bytes);
    if (fd != STDERR_FILENO || !item->keeps_error)
        return;
    struct buf *b = &item->error;
    buf_put_str(b, bytes);
    if (b->len > 2 * WORKER_ERROR_MAX) {
        memmove(b->p, b->p + b->len - WORKER_ERROR_MAX, WORKER_ERROR_MAX);
        b->len = WORKER_ERROR_MAX;
    }
}

/* Which outputs of the command pass through us: kept ones, and all that share our terminal. */
static unsigned outputs_of(const struct worker_item *item)
{
    bool shared = state.progress != NULL;
    bool out = item->keeps_output || (shared && isatty(STDOUT_FILENO));
    return (unsigned)out << STDOUT_FILENO | (unsigned)(item->keeps_error || shared)
                                                << STDERR_FILENO;
}

/* One run of the command. A command that cannot be started is not the fault of the item. */
enum worker_outcome worker_try(struct child_options o, struct worker_item *item)
{
    struct err_info e = {""};
    int status = 0;
    o.input = item->input;
    o.variables = item->variables;
    o.grace_ms = item->grace_ms;
    o.outputs = outputs_of(item);
    o.output = on_output;
    o.output_arg = item;
    item->error.len = item->output.len = 0;
    item->back_off_ms = back_off(item->attempt);
    state.running++;
    int err = child_run(&o, &status, &e);
    state.running--;
    if (err || e.text[0]) {
        give_up(e.text);
        return WORKER_RELEASED;
    }
    if (!status)
        return WORKER_DONE;
    if (child_signal())
        return WORKER_RELEASED;
    if (status > 128)
        err_set(&item->why, 0, "killed by signal %d", status - 128);
    else
        err_set(&item->why, 0, "exit status %d", status);
    bool dies = attempts_of(item) && item->attempt >= attempts_of(item);
    return dies ? WORKER_DEAD : WORKER_RETRY;
}

/* A thread. */

static bool renew(void *arg)
{
    struct worker_thread *t = arg;
    t->lost = t->lost || !t->source->renew(t);
    return !t->lost;
}

/* Waits while the claim is kept. False: a signal came, or the claim is lost. */
static bool pause_and_renew(struct worker_thread *t, int64_t ms)
{
    int64_t tick = t->source->tick_ms;
    for (int64_t until_ms = clock_boot_ms() + ms, left = ms; left > 0;
         left = until_ms - clock_boot_ms()) {
        child_pause(left < tick ? left : tick);
        if (child_signal() || !renew(t))
            return false;
    }
    return true;
}

/* Runs the command, with a source that has local retries as often as it takes. */
static enum worker_outcome run_command(struct worker_thread *t, struct worker_item *item)
{
    const struct child_options o = {
        .argv = t->call->command, .tick_ms = t->source->tick_ms, .tick = renew, .arg = t};
    for (;; item->attempt++) {
        enum worker_outcome outcome = worker_try(o, item);
        if (outcome != WORKER_RETRY || !t->source->local_retries || t->lost)
            return outcome;
        worker_report(item, outcome);
        if (!pause_and_renew(t, item->back_off_ms))
            return WORKER_RELEASED;
    }
}

static void handle(struct worker_thread *t, struct worker_item *item)
{
    int64_t pause_max_ms = t->source->retry_pause_max_ms;
    t->lost = false;
    enum worker_outcome outcome = run_command(t, item);
    if (pause_max_ms && item->back_off_ms > pause_max_ms)
        item->back_off_ms = pause_max_ms;
    if (t->lost && outcome != WORKER_DONE)
        outcome = WORKER_RELEASED;
    int err = t->source->settle(t, item, &outcome);
    if (err) {
        item->why = t->error;
        worker_report(item, WORKER_LOST);
    } else if (t->lost && outcome == WORKER_RELEASED) {
        err_set(&item->why, 0, "the claim could not be renewed");
        worker_report(item, WORKER_LOST);
    } else {
        worker_report(item, outcome);
    }
    if (outcome == WORKER_RETRY && pause_max_ms)
        child_pause(item->back_off_ms);
    buf_release(&item->error);
    buf_release(&item->output);
}

static void work_once(struct worker_thread *t)
{
    struct worker_item item = {.attempt = 1};
    enum worker_taken taken = t->source->take(t, &item);
    if (taken == WORKER_AWAY && !child_signal()) {
        if (!atomic_exchange(&state.away, true))
            client_error("%s", t->error.text);
        child_pause(PAUSE_MS);
        return;
    }
    if (taken != WORKER_AWAY && taken != WORKER_BROKEN && atomic_exchange(&state.away, false))
        client_error("the server is back");
    if (taken == WORKER_TAKEN)
        handle(t, &item);
    else if (taken == WORKER_BROKEN)
        give_up(t->error.text);
    else if (taken == WORKER_NOTHING && worker_options.until_empty && !t->source->is_empty)
        t->ended = true; /* a job that still runs may make others possible */
    else if (taken == WORKER_NOTHING && worker_options.until_empty && t->source->is_empty(t))
        state.ended = true;
}

static void release(struct worker_thread *t)
{
    if (t->source->close)
        t->source->close(t);
    free(t->own);
}

static void *job_main(void *arg)
{
    struct worker_thread *t = arg;
    while (!worker_is_ending() && !t->ended)
        work_once(t);
    release(t);
    return NULL;
}

static bool start(struct worker_thread *t)
{
    t->own = mem_zalloc(t->source->own_size + 1);
    if ((!t->source->open || !t->source->open(t)) &&
        !thread_start(&t->id, "worker-job", job_main, t, &t->error))
        return true;
    release(t);
    return false;
}

int worker_run(const struct worker_source *s, const struct cmd_call *call)
{
    int64_t count = worker_options.jobs, started = 0;
    struct worker_thread *threads = mem_zalloc((size_t)count * sizeof *threads);
    worker_begin(s->attempts);
    for (; started < count; started++) {
        struct worker_thread *t = &threads[started];
        t->source = s;
        t->call = call;
        if (!start(t)) {
            give_up(t->error.text);
            break;
        }
    }
    for (int64_t i = 0; i < started; i++)
        pthread_join(threads[i].id, NULL);
    free(threads);
    return worker_end();
}
