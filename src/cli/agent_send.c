/* The sender of an agent: pieces of output and ends of runs, one after the other. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/agent.h"

/* Notes where the value goes on. */
static void note_next(struct agent_run *r, int stream, struct str body)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct json *v = json_get(json_parse(&a, body, NULL), "pagination");
    struct str next = {0}, pid = {0};

    if (json_get_text(v, "next", &next, NULL) == 1 && json_get_text(v, "pid", &pid, NULL) == 1) {
        snprintf(r->sent[stream].next, sizeof r->sent[stream].next, "%.*s", STR_ARGS(next));
        snprintf(r->sent[stream].pid, sizeof r->sent[stream].pid, "%.*s", STR_ARGS(pid));
    }
}

static void send_piece(struct agent *a, struct transport *t, struct agent_message *m)
{
    struct agent_run *r = m->run;
    struct transport_answer answer = {0};
    struct buf body = {0}, path = {0};

    buf_printf(&path, "/v1/nodes/%s/data/%s?attempt=%" PRId64 "&clientid=%" PRId64, r->node,
               AGENT_OUTPUTS[m->stream], r->attempt, a->client);
    if (r->sent[m->stream].next[0])
        buf_printf(&path, "&start=%s&pid=%s", r->sent[m->stream].next, r->sent[m->stream].pid);
    json_open(&body, '{');
    json_member_text(&body, "value", buf_str(&m->text));
    json_close(&body, '}');
    if (agent_call(a, t, "PUT", buf_text(&path), buf_str(&body), &answer) == 200)
        note_next(r, m->stream, buf_str(&answer.body));
    buf_release(&answer.body);
    buf_release(&body);
    buf_release(&path);
}

/* 409: the run no longer belongs to this agent. Then the end is of no use. */
static void send_end(struct agent *a, struct transport *t, struct agent_message *m)
{
    struct transport_answer answer = {0};

    agent_call(a, t, "POST", "/v1/agent/done", buf_str(&m->text), &answer);
    buf_release(&answer.body);
    pthread_mutex_lock(&a->lock);
    m->run->sent_next = a->sent;
    a->sent = m->run;
    pthread_mutex_unlock(&a->lock);
    uv_async_send(&a->wake);
}

void agent_send(struct agent *a, struct agent_message *m)
{
    LOCKED(&a->lock);
    if (a->last_message)
        a->last_message->next = m;
    else
        a->first_message = m;
    a->last_message = m;
    pthread_cond_broadcast(&a->cond);
}

/* NULL: the agent has finished. */
static struct agent_message *take_message(struct agent *a)
{
    LOCKED(&a->lock);
    while (!a->first_message && !a->finishing)
        cond_wait_until(&a->cond, &a->lock, INT64_MAX);
    struct agent_message *m = a->first_message;
    if (m)
        a->first_message = m->next;
    if (!a->first_message)
        a->last_message = NULL;
    return m;
}

void *agent_send_main(void *arg)
{
    struct agent *a = arg;
    struct transport *t = agent_transport(a, false);
    struct agent_message *m;

    while ((m = take_message(a))) {
        if (m->stream >= 0)
            send_piece(a, t, m);
        else
            send_end(a, t, m);
        buf_release(&m->text);
        free(m);
    }
    transport_close(t);
    return NULL;
}
