/* The agent as a client of the task store: claiming and starting, renewing, kills. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/agent.h"

/* Claiming. */

static void put_claim(const struct agent *a, struct buf *b, uint32_t limit)
{
    json_open(b, '{');
    json_member_int(b, "clientid", a->client);
    json_member_open(b, "groups", '[');
    for (uint32_t i = 0; i < a->o->group_count; i++)
        json_put_text(b, str_of(a->o->groups[i]));
    json_close(b, ']');
    json_member_int(b, "limit", limit < 100 ? limit : 100);
    json_member_int(b, "wait", AGENT_WAIT_MS);
    json_member_int(b, "duration", a->o->lease_ms);
    json_close(b, '}');
}

/* Asks to start the node of a claimed task. NULL: it must not be started. */
static struct agent_run *start_node(struct agent *a, struct transport *t, int64_t task,
                                    struct str data)
{
    struct agent_run *r = mem_zalloc(sizeof *r);
    struct transport_answer answer = {0};
    char path[64], body[96];
    int64_t node = 0;
    int status = 0;

    r->agent = a;
    r->task = task;
    r->task_data = arena_text(&r->arena, data);
    if (json_get_int(json_parse(&r->arena, data, NULL), "node", &node, NULL) == 1) {
        snprintf(path, sizeof path, "/v1/nodes/%" PRId64 "/start", node);
        snprintf(body, sizeof body, "{\"clientid\":%" PRId64 ",\"task\":%" PRId64 "}", a->client,
                 task);
        status = agent_call(a, t, "POST", path, str_of(body), &answer);
    } else {
        log_warning("agent: task %" PRId64 " is not a node of a DAG", task);
    }
    if (status == 200) {
        struct str text = {answer.body.p, answer.body.len};

        r->node = arena_printf(&r->arena, "%" PRId64, node);
        r->spec = (struct str){arena_text(&r->arena, text), text.len};
        json_get_int(json_parse(&r->arena, r->spec, NULL), "attempt", &r->attempt, NULL);
    }
    buf_release(&answer.body);
    if (status == 200)
        return r;
    agent_free_run(r);
    return NULL;
}

static void start_all(struct agent *a, struct transport *t, struct str body)
{
    CLEANUP(arena_release) struct arena scratch = {0};
    const struct json *list = json_get(json_parse(&scratch, body, NULL), "tasks");

    for (const struct json *v = list ? list->first : NULL; v; v = v->next) {
        struct str data = {0};
        int64_t task = 0;

        if (json_get_int(v, "id", &task, NULL) != 1 || json_get_text(v, "data", &data, NULL) < 0)
            continue;
        struct agent_run *r = start_node(a, t, task, data);
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
    while (a->busy >= a->o->jobs && !a->stopping)
        cond_wait_until(&a->cond, &a->lock, INT64_MAX);
    return a->stopping ? 0 : a->o->jobs - a->busy;
}

void *agent_claim_main(void *arg)
{
    struct agent *a = arg;
    struct transport *t = agent_transport(a, true);
    uint32_t limit;

    while ((limit = wait_for_job(a))) {
        struct transport_answer answer = {0};
        CLEANUP(buf_release) struct buf body = {0};

        put_claim(a, &body, limit);
        if (agent_call(a, t, "POST", "/claim", buf_str(&body), &answer) == 200)
            start_all(a, t, buf_str(&answer.body));
        buf_release(&answer.body);
    }
    transport_close(t);
    return NULL;
}

/* Renewing. The loop may free a run during a call, so the claims are copied. */

struct claim_copy {
    char node[24];
    int64_t attempt, task;
    char *data;
};

static size_t copy_claims(struct agent *a, struct claim_copy **ret_claims)
{
    struct claim_copy *claims = NULL;
    size_t count = 0, cap = 0;

    pthread_mutex_lock(&a->lock);
    for (const struct agent_run *r = a->runs; r; r = r->next) {
        if (r->lost)
            continue;
        mem_grow(claims, count, cap);
        claims[count] = (struct claim_copy){.attempt = r->attempt, .task = r->task};
        snprintf(claims[count].node, sizeof claims[count].node, "%s", r->node);
        claims[count++].data = mem_dup(r->task_data, strlen(r->task_data));
    }
    pthread_mutex_unlock(&a->lock);
    *ret_claims = claims;
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
static int renew(struct agent *a, struct transport *t, const struct claim_copy *claims,
                 size_t count)
{
    struct transport_answer answer = {0};
    struct arena scratch = {0};
    CLEANUP(buf_release) struct buf body = {0};
    int status;

    buf_printf(&body, "{\"clientid\":%" PRId64 ",\"requestid\":\"%" PRIu64 "\",\"updates\":[",
               a->client, ++a->renewals);
    for (size_t i = 0; i < count; i++) {
        buf_printf(&body, "%s{\"id\":%" PRId64 ",\"timespec\":%" PRId64 ",\"data\":", i ? "," : "",
                   claims[i].task, -a->o->lease_ms);
        json_put_text(&body, str_of(claims[i].data));
        buf_printf(&body, "}");
    }
    buf_printf(&body, "]}");
    status = agent_call(a, t, "POST", "/update", buf_str(&body), &answer);
    const struct json *v = json_get(json_parse(&scratch, buf_str(&answer.body), NULL), "tasks");
    v = status == 200 && v ? v->first : NULL;
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < count && v; i++, v = v->next) {
        struct agent_run *r = find_run(a, str_of(claims[i].node), claims[i].attempt);

        if (r)
            json_get_int(v, "id", &r->task, NULL);
    }
    pthread_mutex_unlock(&a->lock);
    arena_release(&scratch);
    buf_release(&answer.body);
    return status;
}

/* A claim that is over refuses the request for all: then each is renewed alone. */
static void renew_all(struct agent *a, struct transport *t)
{
    struct claim_copy *claims;
    size_t count = copy_claims(a, &claims);
    int status = count ? renew(a, t, claims, count) : 200;

    for (size_t i = 0; i < count && status == 409; i++)
        if (renew(a, t, &claims[i], 1) == 409)
            mark_run(a, str_of(claims[i].node), claims[i].attempt, true);
    for (size_t i = 0; i < count; i++)
        free(claims[i].data);
    free(claims);
}

/*
 * Waits for kills until the next renewal is due. Returns the number to go on from: the same again
 * if the loop does not have the run yet.
 */
static int64_t wait_for_kills(struct agent *a, struct transport *t, int64_t after, int64_t wait_ms)
{
    struct transport_answer answer = {0};
    struct arena scratch = {0};
    struct timespec pause = {.tv_nsec = 20 * 1000000L};
    int64_t next = after;
    bool found = true;
    char path[128];

    snprintf(path, sizeof path,
             "/v1/agent/kills?clientid=%" PRId64 "&after=%" PRId64 "&wait=%" PRId64, a->client,
             after, wait_ms < AGENT_WAIT_MS ? wait_ms : AGENT_WAIT_MS);
    if (agent_call(a, t, "GET", path, (struct str){0}, &answer) == 200) {
        const struct json *v = json_parse(&scratch, buf_str(&answer.body), NULL);
        const struct json *nodes = json_get(v, "nodes");
        json_get_int(v, "next", &next, NULL);
        for (const struct json *m = nodes ? nodes->first : NULL; m; m = m->next)
            found &= mark_run(a, m->text, 0, false);
    }
    arena_release(&scratch);
    buf_release(&answer.body);
    if (!found)
        nanosleep(&pause, NULL);
    return found ? next : after;
}

/* Waits until there are runs, and then sets when to renew them. False: the agent is stopped. */
static bool wait_for_runs(struct agent *a, int64_t *due_ms)
{
    pthread_mutex_lock(&a->lock);
    while (!a->runs && !a->stopping) {
        cond_wait_until(&a->cond, &a->lock, INT64_MAX);
        *due_ms = clock_boot_ms() + a->o->lease_ms / 3;
    }
    bool stopping = a->stopping;
    pthread_mutex_unlock(&a->lock);
    return !stopping;
}

void *agent_renew_main(void *arg)
{
    struct agent *a = arg;
    struct transport *t = agent_transport(a, true);
    int64_t due_ms = clock_boot_ms() + a->o->lease_ms / 3, after = 0;

    while (wait_for_runs(a, &due_ms)) {
        int64_t now = clock_boot_ms();
        if (now >= due_ms) {
            renew_all(a, t);
            due_ms = now + a->o->lease_ms / 3;
            now = clock_boot_ms();
        }
        after = wait_for_kills(a, t, after, due_ms > now ? due_ms - now : 0);
    }
    transport_close(t);
    return NULL;
}
