/*
 * The standard input of a run that somebody is attached to: a thread of its own reads it from the
 * server, a piece at a time, and waits until the command has taken that.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli/agent.h"

/* Passes a piece to the loop, and waits until it is written. False: the run is over. */
static bool pass(struct agent_run *r, struct str bytes, bool is_end)
{
    struct agent *a = r->agent;
    LOCKED(&a->lock);
    buf_put_str(&r->input, bytes);
    r->input_ended = is_end;
    uv_async_send(&a->wake);
    while ((r->input.len || is_end) && !r->input_over)
        cond_wait_until(&a->cond, &a->lock, INT64_MAX);
    return !r->input_over;
}

static void *read_input(void *arg)
{
    struct agent_run *r = arg;
    struct agent *a = r->agent;
    CLEANUP(client_close) struct client c = {.silent = true, .wait_ms = AGENT_WAIT_MS};
    uint64_t at = 0;
    bool more = !client_connect(&c, &a->config);
    while (more) {
        struct client_reply reply;
        arena_reset(&c.arena);
        more = !client_try(&c, &reply, NULL,
                           "GET /v1/nodes/%s/stdin?attempt=%" PRId64 "&clientid=%" PRId64
                           "&at=%" PRIu64 "&wait=%d",
                           r->node, r->attempt, a->client, at, AGENT_WAIT_MS) ||
               c.err == DROVER_UNREACHABLE || c.err == DROVER_UNKNOWN;
        if (!more || c.err || reply.status == 503) {
            LOCKED(&a->lock);
            more = more && !r->input_over;
            cond_wait_until(&a->cond, &a->lock, clock_boot_ms() + AGENT_PAUSE_MS);
        } else if (reply.status == 200) {
            at += reply.body.len;
            more = pass(r, reply.body, false);
        } else {
            more = false;
            if (reply.status == 410)
                pass(r, STR(""), true);
        }
    }
    LOCKED(&a->lock);
    r->asking = false;
    uv_async_send(&a->wake);
    return NULL;
}

void agent_input_begin(struct agent_run *r)
{
    r->asking = r->has_asker = true;
    thread_must_start(&r->asker, "agent-input", read_input, r);
}

void agent_input_give(struct agent_run *r)
{
    LOCKED(&r->agent->lock);
    if (!r->run || (!r->input.len && !r->input_ended))
        return;
    size_t taken = run_write(r->run, buf_str(&r->input), r->input_ended);
    if (taken)
        memmove(r->input.p, r->input.p + taken, r->input.len -= taken);
    if (!r->input.len)
        pthread_cond_broadcast(&r->agent->cond);
}

void agent_input_end(struct agent_run *r)
{
    LOCKED(&r->agent->lock);
    r->input_over = true;
    pthread_cond_broadcast(&r->agent->cond);
}

void agent_input_release(struct agent_run *r)
{
    if (r->has_asker)
        pthread_join(r->asker, NULL);
    buf_release(&r->input);
}
