#include "cli/worker.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/thread.h"

enum { PAUSE_MS = 1000, BACK_OFF_MAX_MS = 3600 * 1000 };

struct worker_options worker_options = {.jobs = 1, .back_off_ms = 1000};

static struct {
    atomic_size_t done, retried, dead, lost;
    atomic_bool ended, broken, skipped, away;
} state;

void worker_begin(int64_t attempts_default)
{
    if (!worker_options.attempts)
        worker_options.attempts = attempts_default;
    if (child_stop_fd() < 0)
        child_catch_signals();
}

int worker_end(void)
{
    if (!worker_options.quiet)
        client_error("%zu done, %zu retried, %zu dead, %zu lost", state.done, state.retried,
                     state.dead, state.lost);
    return state.broken || state.skipped || state.dead ? CMD_FAILURE : CMD_OK;
}

bool worker_is_ending(void)
{
    return state.ended || state.broken || child_signal();
}

void worker_give_up(const char *why)
{
    if (!atomic_exchange(&state.broken, true))
        client_error("%s", why);
}

int64_t worker_back_off(int64_t attempt)
{
    int64_t ms = worker_options.back_off_ms;

    for (int64_t i = 1; i < attempt && ms < BACK_OFF_MAX_MS; i++)
        ms *= 2;
    return ms < BACK_OFF_MAX_MS ? ms : BACK_OFF_MAX_MS;
}

void worker_report(const struct worker_item *item, enum worker_outcome outcome, int64_t back_off_ms,
                   const char *why, const char *where)
{
    char span[HUMAN_SIZE], attempt[64];

    snprintf(attempt, sizeof attempt, "in attempt %" PRId64 " of %" PRId64, item->attempt,
             worker_options.attempts);
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
                         human_span(span, back_off_ms));
        break;
    case WORKER_DEAD:
        state.dead++;
        client_error("%s: %s %s, %s", item->name, why, attempt, where ? where : "dead");
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

void worker_skip_dead(const struct worker_item *item)
{
    state.skipped = true;
    if (!worker_options.quiet)
        client_error("%s: not tried again after %" PRId64 " failed attempts", item->name,
                     item->attempt - 1);
}

/* One run of the command. A command that cannot be started is not the fault of the item. */
enum worker_outcome worker_try(const struct worker_command *c, const struct worker_item *item,
                               char why[static 64])
{
    const struct child_options o = {
        .argv = c->argv,
        .input = item->input,
        .variables = item->variables,
        .tick_ms = c->tick_ms,
        .tick = c->renew,
        .arg = c->arg,
        .grace_ms = item->grace_ms,
    };
    struct err_info e = {""};
    int status = 0, err = child_run(&o, &status, &e);

    if (err || e.text[0]) {
        worker_give_up(e.text);
        return WORKER_RELEASED;
    }
    if (!status)
        return WORKER_DONE;
    if (child_signal())
        return WORKER_RELEASED;
    if (status > 128)
        snprintf(why, 64, "killed by signal %d", status - 128);
    else
        snprintf(why, 64, "exit status %d", status);
    return item->attempt < worker_options.attempts ? WORKER_RETRY : WORKER_DEAD;
}

/* A thread. */

struct job {
    struct worker_thread thread;
    const struct cmd_call *call;
    pthread_t id;
    bool ended;
};

static bool renew(void *arg)
{
    struct worker_thread *t = arg;

    t->lost = t->lost || !t->source->renew(t);
    return !t->lost;
}

/* Waits while the claim is kept. False: a signal came, or the claim is lost. */
static bool pause_and_renew(struct worker_thread *t, int64_t ms)
{
    for (int64_t until_ms = clock_boot_ms() + ms, left = ms; left > 0;
         left = until_ms - clock_boot_ms()) {
        child_pause(left < t->source->tick_ms ? left : t->source->tick_ms);
        if (child_signal() || !renew(t))
            return false;
    }
    return true;
}

static void handle(struct job *j, struct worker_item *item)
{
    struct worker_thread *t = &j->thread;
    const struct worker_command c = {j->call->command, t->source->tick_ms, renew, t};
    const char *where = NULL;
    char why[64] = "";
    enum worker_outcome outcome;
    int64_t back_off_ms;

    t->lost = false;
    for (;; item->attempt++) {
        outcome = worker_try(&c, item, why);
        back_off_ms = worker_back_off(item->attempt);
        if (outcome != WORKER_RETRY || !t->source->local_retries || t->lost)
            break;
        worker_report(item, outcome, back_off_ms, why, NULL);
        if (!pause_and_renew(t, back_off_ms)) {
            outcome = WORKER_RELEASED;
            break;
        }
    }
    if (t->source->retry_pause_max_ms && back_off_ms > t->source->retry_pause_max_ms)
        back_off_ms = t->source->retry_pause_max_ms;
    if (t->lost && outcome != WORKER_DONE)
        outcome = WORKER_RELEASED;
    if (t->source->settle(t, item, outcome, back_off_ms, why, &where))
        worker_report(item, WORKER_LOST, 0, t->error.text, NULL);
    else if (t->lost && outcome == WORKER_RELEASED)
        worker_report(item, WORKER_LOST, 0, "the claim could not be renewed", NULL);
    else
        worker_report(item, outcome, back_off_ms, why, where);
    if (outcome == WORKER_RETRY && t->source->retry_pause_max_ms)
        child_pause(back_off_ms);
}

static void note_away(const char *why)
{
    if (!atomic_exchange(&state.away, true))
        client_error("%s", why);
    child_pause(PAUSE_MS);
}

static void work_once(struct job *j)
{
    struct worker_thread *t = &j->thread;
    struct worker_item item = {.attempt = 1};
    enum worker_taken taken = t->source->take(t, &item);

    if (taken == WORKER_AWAY && !child_signal()) {
        note_away(t->error.text);
        return;
    }
    if (taken != WORKER_AWAY && taken != WORKER_BROKEN && atomic_exchange(&state.away, false))
        client_error("the server is back");
    if (taken == WORKER_TAKEN)
        handle(j, &item);
    else if (taken == WORKER_BROKEN)
        worker_give_up(t->error.text);
    else if (taken == WORKER_NOTHING && worker_options.until_empty && !t->source->is_empty)
        j->ended = true; /* a job that still runs may make others possible */
    else if (taken == WORKER_NOTHING && worker_options.until_empty && t->source->is_empty(t))
        state.ended = true;
}

static void *job_main(void *arg)
{
    struct job *j = arg;

    while (!worker_is_ending() && !j->ended) {
        work_once(j);
        if (j->thread.takes) {
            client_forget(j->thread.takes);
            client_forget(j->thread.ends);
        }
    }
    if (j->thread.takes)
        worker_session_end(&j->thread);
    return NULL;
}

static bool start(struct job *j)
{
    struct worker_thread *t = &j->thread;

    if (t->source->session_ms) {
        t->takes = client_open(&j->call->client);
        t->ends = t->takes ? client_open(&j->call->client) : NULL;
        if (!t->ends)
            return false;
        client_set_stop(t->takes, child_stop_fd());
        client_set_silent(t->takes);
        client_set_silent(t->ends);
    }
    t->own = mem_zalloc(t->source->own_size + 1);
    return !thread_start(&j->id, "worker-job", job_main, j, &t->error);
}

int worker_run(const struct worker_source *s, const struct cmd_call *call, const void *arg)
{
    int64_t count = worker_options.jobs, started = 0;
    struct job *jobs = mem_zalloc((size_t)count * sizeof *jobs);

    worker_begin(s->attempts);
    for (; started < count; started++) {
        jobs[started] = (struct job){.thread = {.source = s, .arg = arg}, .call = call};
        if (!start(&jobs[started])) {
            worker_give_up(jobs[started].thread.error.text);
            break;
        }
    }
    for (int64_t i = 0; i < started; i++)
        pthread_join(jobs[i].id, NULL);
    for (int64_t i = 0; i < count; i++) {
        client_close(jobs[i].thread.takes);
        client_close(jobs[i].thread.ends);
        free(jobs[i].thread.own);
    }
    free(jobs);
    return worker_end();
}

/* Sessions. */

static void forget_session(struct worker_thread *t)
{
    free(t->session);
    t->session = NULL;
}

static const char *session_path(struct worker_thread *t)
{
    return arena_printf(client_arena(t->ends), "/v1/sessions/%s", t->session);
}

/* A server error may pass; a refusal stays one. */
static enum worker_taken refused(struct worker_thread *t, const struct client_reply *reply)
{
    client_describe(t->ends, reply, &t->error);
    return reply->status >= 500 ? WORKER_AWAY : WORKER_BROKEN;
}

enum worker_taken worker_session_open(struct worker_thread *t)
{
    struct client_reply reply;

    if (t->session)
        return WORKER_TAKEN;
    if (client_try(
            t->ends, "POST", "/v1/sessions",
            arena_printf(client_arena(t->ends), "{\"timeout\":%" PRId64 "}", t->source->session_ms),
            &reply)) {
        client_describe(t->ends, NULL, &t->error);
        return WORKER_AWAY;
    }
    if (reply.status / 100 != 2)
        return refused(t, &reply);
    struct str id = json_text_of(reply.json, "session");
    t->session = mem_dup(id.p, id.len);
    t->alive_ms = clock_boot_ms();
    return WORKER_TAKEN;
}

bool worker_session_renew(struct worker_thread *t)
{
    struct client_reply reply;
    int64_t began_ms = clock_boot_ms();
    int status = client_try(t->ends, "PUT", session_path(t), NULL, &reply);

    if (!status && reply.status == 200)
        t->alive_ms = began_ms;
    if (!status && reply.status == 410)
        return false;
    return clock_boot_ms() - t->alive_ms < t->source->session_ms;
}

/* If this request fails too, the session ends by its timeout. */
void worker_session_end(struct worker_thread *t)
{
    struct client_reply reply;

    if (t->session)
        client_try(t->ends, "DELETE", session_path(t), NULL, &reply);
    forget_session(t);
}

enum worker_taken worker_session_take(struct worker_thread *t, const char *path, const char *body,
                                      int64_t wait_ms, struct client_reply *ret_reply)
{
    client_set_wait(t->takes, wait_ms);
    if (client_try(t->takes, "POST", path, body, ret_reply)) {
        client_describe(t->takes, NULL, &t->error);
        worker_session_end(t); /* it may hold a claim that this process does not know of */
        return WORKER_AWAY;
    }
    t->alive_ms = clock_boot_ms();
    if (ret_reply->status == 200)
        return WORKER_TAKEN;
    if (ret_reply->status == 410) {
        forget_session(t);
        return WORKER_AGAIN;
    }
    enum worker_taken taken = refused(t, ret_reply);
    worker_session_end(t);
    return taken;
}
