/* The threads of an agent that talk to the server: claiming and starting, renewing, sending. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "cli/agent.h"

const char *const AGENT_OUTPUTS[RUN_STREAMS] = {"stdout", "stderr", "mixedout"};

static bool has_given_up(struct agent *a)
{
    LOCKED(&a->lock);
    return a->stopping && clock_boot_ms() > a->give_up_at;
}

static void pause_ms(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/*
 * Repeats a call until the server answers it with anything but 503. Returns the status; 0: the
 * agent was stopped. The reply lives until the next call with this client. Logs only the first
 * failure, and the recovery.
 */
__attribute__((format(printf, 5, 6))) static int call(struct agent *a, struct client *c,
                                                      struct client_reply *ret_reply,
                                                      const char *body, const char *fmt, ...)
{
    char request[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(request, sizeof request, fmt, ap);
    va_end(ap);
    for (;; pause_ms(AGENT_PAUSE_MS)) {
        arena_reset(&c->arena);
        bool failed = client_try(c, ret_reply, body, "%s", request);
        if (!failed && ret_reply->status != 503) {
            if (atomic_exchange(&a->is_down, false))
                log_info("agent: the server is reachable again");
            if (ret_reply->status != 200 && ret_reply->status != 409)
                log_error("agent: %s: %.*s", strchr(request, '/'), STR_ARGS(ret_reply->body));
            return ret_reply->status;
        }
        if (c->err == DROVER_CLOSED || has_given_up(a))
            return 0;
        if (!atomic_exchange(&a->is_down, true))
            log_warning("agent: %s; trying again",
                        failed ? c->error.text : "the server is not ready");
    }
}

/* Claiming. */

static void put_claim(const struct agent *a, struct buf *b, uint32_t limit)
{
    json_open(b, '{');
    json_member_int(b, "clientid", a->client);
    json_member_texts(b, "groups", a->groups, a->group_count);
    json_member_int(b, "limit", limit < 100 ? limit : 100);
    json_member_int(b, "wait", AGENT_WAIT_MS);
    json_member_int(b, "duration", a->lease_ms);
    json_close(b, '}');
}

/* Asks to start the node of a claimed task. NULL: it must not be started. */
static struct agent_run *start_node(struct agent *a, int64_t task, struct str data)
{
    struct client_reply reply;
    int64_t node = 0;
    char body[96];
    if (json_get_int(json_parse(&a->claims.arena, data, NULL), "node", &node, NULL) != 1) {
        log_warning("agent: task %" PRId64 " is not a node of a DAG", task);
        return NULL;
    }
    snprintf(body, sizeof body, "{\"clientid\":%" PRId64 ",\"task\":%" PRId64 "}", a->client, task);
    if (call(a, &a->claims, &reply, body, "POST /v1/nodes/%" PRId64 "/start", node) != 200)
        return NULL;
    struct agent_run *r = mem_zalloc(sizeof *r);
    struct str text = {arena_text(&r->arena, reply.body), reply.body.len};
    r->agent = a;
    r->task = task;
    r->task_data = arena_text(&r->arena, data);
    r->node = arena_printf(&r->arena, "%" PRId64, node);
    r->spec = json_parse(&r->arena, text, NULL);
    r->attempt = json_int_of(r->spec, "attempt");
    return r;
}

static void start_all(struct agent *a, struct str body)
{
    CLEANUP(arena_release) struct arena scratch = {0};
    struct str text = {arena_text(&scratch, body), body.len};
    const struct json *list = json_get(json_parse(&scratch, text, NULL), "tasks");
    json_each(v, json_list(list)) {
        struct agent_run *r = start_node(a, json_int_of(v, "id"), json_text_of(v, "data"));
        if (!r)
            continue;
        pthread_mutex_lock(&a->lock);
        a->busy++;
        r->next = a->fresh;
        a->fresh = r;
        pthread_mutex_unlock(&a->lock);
        uv_async_send(&a->wake);
    }
}

/* Waits for a free job and returns the number of free jobs. 0: the agent is stopped. */
static uint32_t wait_for_job(struct agent *a)
{
    LOCKED(&a->lock);
    while ((a->busy >= a->jobs_max || a->draining) && !a->stopping)
        cond_wait_until(&a->cond, &a->lock, INT64_MAX);
    return a->stopping ? 0 : a->jobs_max - a->busy;
}

void *agent_claim_main(void *arg)
{
    struct agent *a = arg;
    for (uint32_t limit; (limit = wait_for_job(a));) {
        CLEANUP(buf_release) struct buf body = {0};
        struct client_reply reply;
        put_claim(a, &body, limit);
        if (call(a, &a->claims, &reply, buf_text(&body), "POST /claim") == 200)
            start_all(a, reply.body);
    }
    return NULL;
}

/* Renewing. The loop may free a run during a call, so the claims are copied. */

struct claim_copy {
    const char *node, *data;
    int64_t attempt, task;
};

static size_t copy_claims(struct agent *a, struct arena *to, struct claim_copy **ret_claims)
{
    size_t count = 0;
    LOCKED(&a->lock);
    *ret_claims = arena_alloc(to, (a->busy + 1) * sizeof **ret_claims);
    for (const struct agent_run *r = a->runs; r; r = r->next)
        if (!r->lost)
            (*ret_claims)[count++] =
                (struct claim_copy){.node = arena_text(to, str_of(r->node)),
                                    .data = arena_text(to, str_of(r->task_data)),
                                    .attempt = r->attempt,
                                    .task = r->task};
    return count;
}

/* The run of a claim, or of a node (attempt 0). With the lock. */
static struct agent_run *find_run(struct agent *a, struct str node, int64_t attempt)
{
    for (struct agent_run *r = a->runs; r; r = r->next)
        if (str_eq(str_of(r->node), node) && (!attempt || r->attempt == attempt))
            return r;
    return NULL;
}

/* Has the loop kill a run, because the claim is over or the server wants it. */
static bool mark_run(struct agent *a, struct str node, int64_t attempt, bool lost)
{
    pthread_mutex_lock(&a->lock);
    struct agent_run *r = find_run(a, node, attempt);
    if (r) {
        r->killed = true;
        r->lost |= lost;
    }
    pthread_mutex_unlock(&a->lock);
    uv_async_send(&a->wake);
    return r != NULL;
}

/*
 * Renews claims in one request. A repeated request has the same requestid and so the same answer.
 */
static int renew(struct agent *a, const struct claim_copy *claims, size_t count)
{
    CLEANUP(buf_release) struct buf body = {0};
    struct client_reply reply;

    buf_printf(&body, "{\"clientid\":%" PRId64 ",\"requestid\":\"%" PRIu64 "\",\"updates\":[",
               a->client, ++a->renewals);
    for (size_t i = 0; i < count; i++) {
        json_open(&body, '{');
        json_member_int(&body, "id", claims[i].task);
        json_member_int(&body, "timespec", -a->lease_ms);
        json_member_text(&body, "data", str_of(claims[i].data));
        json_close(&body, '}');
    }
    buf_printf(&body, "]}");
    int status = call(a, &a->renews, &reply, buf_text(&body), "POST /update");
    if (status != 200)
        return status;
    const struct json *list = json_get(reply.json, "tasks"), *v = list ? list->first : NULL;
    LOCKED(&a->lock);
    for (size_t i = 0; i < count && v; i++, v = v->next) {
        struct agent_run *r = find_run(a, str_of(claims[i].node), claims[i].attempt);
        if (r)
            json_get_int(v, "id", &r->task, NULL);
    }
    return status;
}

/* A claim that is over refuses the request for all: then each is renewed alone. */
static void renew_all(struct agent *a)
{
    CLEANUP(arena_release) struct arena scratch = {0};
    struct claim_copy *claims;
    size_t count = copy_claims(a, &scratch, &claims);
    int status = count ? renew(a, claims, count) : 200;
    for (size_t i = 0; i < count && status == 409; i++)
        if (renew(a, &claims[i], 1) == 409)
            mark_run(a, str_of(claims[i].node), claims[i].attempt, true);
}

/*
 * Waits for kills until the next renewal is due. Returns the number to go on from: the same again
 * if the loop does not have the run yet.
 */
static int64_t wait_for_kills(struct agent *a, int64_t after, int64_t wait_ms)
{
    struct client_reply reply;
    int64_t next = after;
    bool found = true;
    if (call(a, &a->renews, &reply, NULL,
             "GET /v1/agent/kills?clientid=%" PRId64 "&after=%" PRId64 "&wait=%" PRId64, a->client,
             after, wait_ms < AGENT_WAIT_MS ? wait_ms : AGENT_WAIT_MS) == 200) {
        json_get_int(reply.json, "next", &next, NULL);
        json_each(m, json_list(json_get(reply.json, "nodes")))
            found &= mark_run(a, m->text, 0, false);
    }
    if (!found)
        pause_ms(20);
    return found ? next : after;
}

/* Says who this agent is, and learns whether it drains. A server that does not ask is no error. */
static void announce(struct agent *a)
{
    CLEANUP(buf_release) struct buf body = {0};
    struct client_reply reply;
    char host[256] = "";
    bool drain = false;
    gethostname(host, sizeof host - 1);
    json_open(&body, '{');
    json_member_text(&body, "host", str_of(host));
    json_member_texts(&body, "groups", a->groups, a->group_count);
    json_member_int(&body, "jobs", a->jobs_max);
    json_member_int(&body, "lease", a->lease_ms);
    json_member_open(&body, "labels", '{');
    for (size_t i = 0; i < a->labels.count; i++) {
        size_t len = strcspn(a->labels.items[i], "=");
        json_key_str(&body, (struct str){a->labels.items[i], len});
        json_put_text(&body, str_of(a->labels.items[i] + len + 1));
    }
    json_close(&body, '}');
    {
        LOCKED(&a->lock);
        json_member_bool(&body, "draining", a->draining);
    }
    json_close(&body, '}');
    if (call(a, &a->renews, &reply, buf_text(&body), "PUT /v1/agents/%" PRId64, a->client) != 200 ||
        json_get_bool(reply.json, "drain", &drain, NULL) != 1)
        return;
    LOCKED(&a->lock);
    if (drain != a->draining)
        log_info("agent: %s", drain ? "drains: takes no more nodes" : "takes nodes again");
    a->draining = drain;
    pthread_cond_broadcast(&a->cond);
}

/* Waits until there are runs, or until it is time. False: the agent is stopped. */
static bool wait_for_runs(struct agent *a, int64_t due_ms)
{
    LOCKED(&a->lock);
    while (!a->runs && !a->stopping && clock_boot_ms() < due_ms)
        cond_wait_until(&a->cond, &a->lock, due_ms);
    return !a->stopping;
}

void *agent_renew_main(void *arg)
{
    struct agent *a = arg;
    int64_t due_ms = clock_boot_ms(), after = 0;
    while (wait_for_runs(a, due_ms)) {
        int64_t now = clock_boot_ms();
        if (now >= due_ms) {
            renew_all(a);
            announce(a);
            due_ms = now + a->lease_ms / 3;
            continue;
        }
        after = wait_for_kills(a, after, due_ms > now ? due_ms - now : 0);
    }
    return NULL;
}

/* Sending pieces of output and ends of runs, one after the other. */

static void send_piece(struct agent *a, const struct agent_message *m)
{
    struct agent_run *r = m->run;
    char *next = r->sent[m->stream].next, *pid = r->sent[m->stream].pid;
    CLEANUP(buf_release) struct buf body = {0};
    struct client_reply reply;
    char from[64] = "";

    if (next[0])
        snprintf(from, sizeof from, "&start=%s&pid=%s", next, pid);
    json_open(&body, '{');
    json_member_text(&body, "value", buf_str(&m->text));
    json_close(&body, '}');
    if (call(a, &a->sends, &reply, buf_text(&body),
             "PUT /v1/nodes/%s/data/%s?attempt=%" PRId64 "&clientid=%" PRId64 "%s", r->node,
             AGENT_OUTPUTS[m->stream], r->attempt, a->client, from) != 200)
        return;
    const struct json *v = json_get(reply.json, "pagination");
    struct str next_text = json_text_of(v, "next"), pid_text = json_text_of(v, "pid");
    if (next_text.len && pid_text.len) {
        snprintf(next, sizeof r->sent->next, "%.*s", STR_ARGS(next_text));
        snprintf(pid, sizeof r->sent->pid, "%.*s", STR_ARGS(pid_text));
    }
}

/* 409: the run no longer belongs to this agent. Then the end is of no use. */
static void send_end(struct agent *a, struct agent_message *m)
{
    struct client_reply reply;
    call(a, &a->sends, &reply, buf_text(&m->text), "POST /v1/agent/done");
    pthread_mutex_lock(&a->lock);
    m->run->over = true;
    pthread_mutex_unlock(&a->lock);
    uv_async_send(&a->wake);
}

void agent_send(struct agent_run *r, int stream, struct buf *text)
{
    struct agent *a = r->agent;
    struct agent_message *m = mem_alloc(sizeof *m);
    *m = (struct agent_message){.run = r, .stream = stream, .text = *text};
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
    for (struct agent_message *m; (m = take_message(a)); free(m)) {
        if (m->stream >= 0)
            send_piece(a, m);
        else
            send_end(a, m);
        buf_release(&m->text);
    }
    return NULL;
}
