/* The sender of an agent: pieces of output and ends, one after the other. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/agent.h"

enum { STOP_PATIENCE_MS = 5000 };

struct agent_sender {
    struct agent *agent;
    int64_t client;
    struct transport *transport;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct agent_message *first, *last;
    int64_t give_up_at; /* INT64_MAX: not yet */
    bool stopping;
};

static const char *const KEYS[] = {"stdout", "stderr", "mixedout"};

static bool is_over(struct agent_sender *s)
{
    bool over;

    pthread_mutex_lock(&s->lock);
    over = s->stopping && clock_boot_ms() > s->give_up_at;
    pthread_mutex_unlock(&s->lock);
    return over;
}

/* Calls until there is an answer. Returns its status, or 0: given up. */
static int call(struct agent_sender *s, const char *method, const char *path, struct buf *body,
                struct transport_answer *answer)
{
    struct timespec pause = {.tv_nsec = AGENT_PAUSE_MS * 1000000L};
    struct err_info why;

    for (;;) {
        int err = transport_call(s->transport, method, path, (struct str){body->p, body->len}, 0,
                                 answer, &why);

        if (!err && answer->status != 503)
            return answer->status;
        if (!err)
            buf_release(&answer->body);
        if (is_over(s))
            return 0;
        nanosleep(&pause, NULL);
    }
}

/* Where the value goes on. */
static void note_next(struct agent_run *r, int stream, struct str body)
{
    struct arena a = {0};
    const struct json *v = json_get(json_parse(&a, body, NULL), "pagination");
    struct str next = {0}, pid = {0};

    if (json_get_text(v, "next", &next, NULL) == 1 && json_get_text(v, "pid", &pid, NULL) == 1) {
        snprintf(r->sent[stream].next, sizeof r->sent[stream].next, "%.*s", (int)next.len, next.p);
        snprintf(r->sent[stream].pid, sizeof r->sent[stream].pid, "%.*s", (int)pid.len, pid.p);
        r->sent[stream].begun = true;
    }
    arena_release(&a);
}

static void send_piece(struct agent_sender *s, struct agent_message *m)
{
    struct agent_run *r = m->run;
    struct transport_answer answer = {0};
    struct buf body = {0};
    char path[256];
    int status;

    if (r->sent[m->stream].begun)
        snprintf(path, sizeof path,
                 "/v1/nodes/%s/data/%s?start=%s&pid=%s&task=%" PRId64 "&clientid=%" PRId64, r->node,
                 KEYS[m->stream], r->sent[m->stream].next, r->sent[m->stream].pid, r->task,
                 s->client);
    else
        snprintf(path, sizeof path, "/v1/nodes/%s/data/%s?task=%" PRId64 "&clientid=%" PRId64,
                 r->node, KEYS[m->stream], r->task, s->client);
    json_open(&body, '{');
    json_key(&body, "value");
    json_put_text(&body, (struct str){m->text.p, m->text.len});
    json_close(&body, '}');
    status = call(s, "PUT", path, &body, &answer);
    if (status == 200)
        note_next(r, m->stream, (struct str){answer.body.p, answer.body.len});
    buf_release(&answer.body);
    buf_release(&body);
}

static void work(struct agent_sender *s, struct agent_message *m)
{
    struct transport_answer answer = {0};

    if (m->stream >= 0) {
        send_piece(s, m);
    } else {
        call(s, "POST", "/v1/agent/done", &m->text, &answer); /* 409: it is another's now */
        buf_release(&answer.body);
        agent_told(s->agent, m->run);
    }
    buf_release(&m->text);
    free(m);
}

static void *sender_main(void *arg)
{
    struct agent_sender *s = arg;

    for (;;) {
        struct agent_message *m;

        pthread_mutex_lock(&s->lock);
        while (!s->first && !s->stopping)
            cond_wait_until(&s->cond, &s->lock, INT64_MAX);
        m = s->first;
        if (m)
            s->first = m->next;
        if (!s->first)
            s->last = NULL;
        pthread_mutex_unlock(&s->lock);
        if (!m)
            return NULL;
        work(s, m);
    }
}

struct agent_sender *agent_sender_start(struct agent *a, const struct agent_options *o,
                                        int64_t client)
{
    struct transport_options t = {.server = o->server, .token = o->token};
    struct agent_sender *s = mem_zalloc(sizeof *s);
    struct err_info why;

    s->agent = a;
    s->client = client;
    s->give_up_at = INT64_MAX;
    if (transport_open(&t, &s->transport, &why)) {
        free(s);
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->cond);
    thread_must_start(&s->thread, "agent-send", sender_main, s);
    return s;
}

void agent_sender_put(struct agent_sender *s, struct agent_message *m)
{
    pthread_mutex_lock(&s->lock);
    if (s->last)
        s->last->next = m;
    else
        s->first = m;
    s->last = m;
    pthread_cond_signal(&s->cond);
    pthread_mutex_unlock(&s->lock);
}

void agent_sender_stop(struct agent_sender *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    s->give_up_at = clock_boot_ms() + STOP_PATIENCE_MS;
    pthread_cond_signal(&s->cond);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    transport_close(s->transport);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->cond);
    free(s);
}
