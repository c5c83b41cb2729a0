/* The loop of an agent, its claimer and its renewer. What it sends is in agent_send.c. */
#include "cli/agent.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/uv_check.h"
#include "dag/environment.h"
#include "dag/output.h"

struct agent {
    const struct agent_options *o;
    int64_t client;
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t flush;
    uv_signal_t signals[2];
    struct runner *runner;
    struct agent_sender *sender;
    struct agent_run *runs;
    pthread_t claimer, renewer;
    int stop_fd; /* readable: the threads are to end */
    bool closing;

    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool stopping;
    uint32_t busy;           /* claimed and not told */
    struct agent_run *fresh; /* claimed, for the loop */
    struct agent_run *told;  /* their ends are with the server */
    struct buf orders;       /* "kill 7 12\n" for the loop: state, node, task */
    struct buf held;         /* the runs as JSON, for the renewer */
    uint64_t held_count;
};

static void free_run(struct agent_run *r)
{
    arena_release(&r->arena);
    free(r);
}

static bool is_stopping(struct agent *a)
{
    bool stopping;

    pthread_mutex_lock(&a->lock);
    stopping = a->stopping;
    pthread_mutex_unlock(&a->lock);
    return stopping;
}

static struct transport *open_transport(struct agent *a)
{
    struct transport_options t = {.server = a->o->server, .token = a->o->token};
    struct transport *transport = NULL;
    struct err_info why;

    if (transport_open(&t, &transport, &why))
        log_error("%s", why.text);
    else
        transport_set_stop(transport, a->stop_fd);
    return transport;
}

static void pause_a_little(void)
{
    struct timespec t = {.tv_nsec = AGENT_PAUSE_MS * 1000000L};

    nanosleep(&t, NULL);
}

/* A call that may fail; then it says so once, and again when it works. True: 200. */
static bool try_call(struct transport *t, const char *path, struct buf *body, bool *down,
                     struct transport_answer *answer)
{
    struct err_info why;
    int err = transport_call(t, "POST", path, (struct str){body->p, body->len},
                             AGENT_WAIT_MS + TRANSPORT_TIMEOUT_MS, answer, &why);

    if (err == DROVER_CLOSED)
        return false;
    if (err || answer->status == 503) {
        if (!*down)
            log_warning("agent: %s; trying again", err ? why.text : "the server is not ready");
        *down = true;
    } else {
        if (*down)
            log_info("agent: the server is there again");
        *down = false;
        if (answer->status == 200)
            return true;
        log_error("agent: %s: %.*s", path, (int)answer->body.len, answer->body.p);
    }
    if (!err)
        buf_release(&answer->body);
    pause_a_little();
    return false;
}

/* Claiming. */

static const char **read_list(struct arena *a, const struct json *list)
{
    const char **texts = arena_zalloc(a, ((list ? list->count : 0) + 1) * sizeof *texts);
    size_t at = 0;

    for (const struct json *m = list ? list->first : NULL; m; m = m->next)
        texts[at++] = m->kind == JSON_TEXT ? arena_text(a, m->text) : "";
    return texts;
}

/* What was claimed waits in the arena, as it came, until the loop starts it. */
static void take_runs(struct agent *a, struct str body)
{
    struct arena scratch = {0};
    const struct json *list = json_get(json_parse(&scratch, body, NULL), "runs");

    for (const struct json *v = list ? list->first : NULL; v; v = v->next) {
        struct agent_run *r = mem_zalloc(sizeof *r);
        struct str node = {0};

        r->agent = a;
        r->run = NULL;
        if (json_get_text(v, "node", &node, NULL) != 1 ||
            json_get_int(v, "task", &r->task, NULL) != 1) {
            free_run(r);
            continue;
        }
        r->node = arena_text(&r->arena, node);
        /* The whole claim goes first in the arena's text, to be read again by the loop. */
        r->claim = (struct str){arena_text(&r->arena, v->raw), v->raw.len};
        pthread_mutex_lock(&a->lock);
        a->busy++;
        r->next = a->fresh;
        a->fresh = r;
        pthread_mutex_unlock(&a->lock);
    }
    arena_release(&scratch);
    uv_async_send(&a->wake);
}

static void put_claim(struct agent *a, struct buf *b, uint32_t room)
{
    json_open(b, '{');
    json_key(b, "clientid");
    json_put_int(b, a->client);
    json_key(b, "groups");
    json_open(b, '[');
    for (uint32_t i = 0; i < a->o->group_count; i++)
        json_put_text(b, str_of(a->o->groups[i]));
    json_close(b, ']');
    json_key(b, "limit");
    json_put_int(b, room < 100 ? room : 100);
    json_key(b, "wait");
    json_put_int(b, AGENT_WAIT_MS);
    json_key(b, "duration");
    json_put_int(b, a->o->lease_ms);
    json_close(b, '}');
}

/* Waits for room. 0: it is over. */
static uint32_t wait_for_room(struct agent *a)
{
    uint32_t room;

    pthread_mutex_lock(&a->lock);
    while (a->busy >= a->o->jobs && !a->stopping)
        cond_wait_until(&a->cond, &a->lock, INT64_MAX);
    room = a->stopping ? 0 : a->o->jobs - a->busy;
    pthread_mutex_unlock(&a->lock);
    return room;
}

static void *claimer_main(void *arg)
{
    struct agent *a = arg;
    struct transport *t = open_transport(a);
    bool down = false;
    uint32_t room;

    while (t && (room = wait_for_room(a))) {
        struct transport_answer answer = {0};
        struct buf body = {0};

        put_claim(a, &body, room);
        if (try_call(t, "/v1/agent/claim", &body, &down, &answer)) {
            take_runs(a, (struct str){answer.body.p, answer.body.len});
            buf_release(&answer.body);
        }
        buf_release(&body);
    }
    if (t)
        transport_close(t);
    return NULL;
}

/* Renewing. */

static void take_orders(struct agent *a, struct str body)
{
    struct arena scratch = {0};
    const struct json *list = json_get(json_parse(&scratch, body, NULL), "runs");

    pthread_mutex_lock(&a->lock);
    for (const struct json *v = list ? list->first : NULL; v; v = v->next) {
        struct str state = {0}, node = {0};
        int64_t task = 0;

        if (json_get_text(v, "state", &state, NULL) == 1 &&
            json_get_text(v, "node", &node, NULL) == 1 &&
            json_get_int(v, "task", &task, NULL) == 1 && !str_eq(state, STR("yours")))
            buf_printf(&a->orders, "%.*s %.*s %" PRId64 "\n", (int)state.len, state.p,
                       (int)node.len, node.p, task);
    }
    pthread_mutex_unlock(&a->lock);
    arena_release(&scratch);
    uv_async_send(&a->wake);
}

/* False: nothing is held. */
static bool put_renewal(struct agent *a, struct buf *b)
{
    bool any;

    json_open(b, '{');
    json_key(b, "clientid");
    json_put_int(b, a->client);
    json_key(b, "duration");
    json_put_int(b, a->o->lease_ms);
    json_key(b, "wait");
    json_put_int(b, a->o->lease_ms / 5);
    json_key(b, "runs");
    pthread_mutex_lock(&a->lock);
    any = a->held_count > 0;
    json_put_raw(b, any ? (struct str){a->held.p, a->held.len} : STR("[]"));
    pthread_mutex_unlock(&a->lock);
    json_close(b, '}');
    return any;
}

static void *renewer_main(void *arg)
{
    struct agent *a = arg;
    struct transport *t = open_transport(a);
    struct timespec tick = {.tv_nsec = 50 * 1000000L};
    bool down = false;

    while (t && !is_stopping(a)) {
        struct transport_answer answer = {0};
        struct buf body = {0};

        if (!put_renewal(a, &body)) {
            nanosleep(&tick, NULL);
        } else if (try_call(t, "/v1/agent/renew", &body, &down, &answer)) {
            take_orders(a, (struct str){answer.body.p, answer.body.len});
            buf_release(&answer.body);
        }
        buf_release(&body);
    }
    if (t)
        transport_close(t);
    return NULL;
}

/* What the renewer is to say. On the loop, when runs come and go. */
static void note_held(struct agent *a)
{
    struct buf b = {0};
    uint64_t count = 0;

    json_open(&b, '[');
    for (struct agent_run *r = a->runs; r; r = r->next, count++) {
        json_open(&b, '{');
        json_key(&b, "node");
        json_put_text(&b, str_of(r->node));
        json_key(&b, "task");
        json_put_int(&b, r->task);
        json_close(&b, '}');
    }
    json_close(&b, ']');
    pthread_mutex_lock(&a->lock);
    buf_release(&a->held);
    a->held = b;
    a->held_count = count;
    pthread_mutex_unlock(&a->lock);
}

/* Runs. */

static void send_end(struct agent_run *r, const struct run_end *end, const char *reason, int status)
{
    static const char *const hows[] = {"exited", "signalled", "timed out", "killed"};
    static const char *const keys[] = {"stdout", "stderr", "mixedout"};
    struct agent_message *m = mem_zalloc(sizeof *m);
    struct buf *b = &m->text;

    m->run = r;
    m->stream = -1;
    json_open(b, '{');
    json_key(b, "clientid");
    json_put_int(b, r->agent->client);
    json_key(b, "node");
    json_put_text(b, str_of(r->node));
    json_key(b, "task");
    json_put_int(b, r->task);
    json_key(b, "how");
    json_put_text(b, str_of(end ? hows[end->how] : "exited"));
    json_key(b, "status");
    json_put_int(b, end ? end->status : status);
    if (reason) {
        json_key(b, "reason");
        json_put_text(b, str_of(reason));
    }
    for (int i = 0; i < RUN_STREAMS && r->run; i++) {
        const struct run_output *o = run_output(r->run, (enum run_stream)i);

        if (r->queued[i] || o->text.len > AGENT_INLINE_LEN)
            continue;
        json_key(b, keys[i]);
        json_put_text(b, (struct str){o->text.p, o->text.len});
    }
    json_close(b, '}');
    agent_sender_put(r->agent->sender, m);
}

/* Hands what was printed since the last time to the sender. */
static void queue_output(struct agent_run *r, bool last)
{
    for (int i = 0; i < RUN_STREAMS && r->run; i++) {
        const struct run_output *o = run_output(r->run, (enum run_stream)i);
        size_t from = r->queued[i], len = o->text.len - from;

        if (!last)
            len = output_whole(o->text.p + from, len);
        else if (!from && o->text.len <= AGENT_INLINE_LEN)
            continue; /* goes with the end */
        while (len) {
            struct agent_message *m = mem_zalloc(sizeof *m);
            size_t piece =
                len > AGENT_INLINE_LEN ? output_whole(o->text.p + from, AGENT_INLINE_LEN) : len;

            m->run = r;
            m->stream = i;
            buf_put(&m->text, o->text.p + from, piece);
            agent_sender_put(r->agent->sender, m);
            from += piece;
            len -= piece;
        }
        r->queued[i] = from;
    }
}

static void on_run_done(void *arg, struct run *run, const struct run_end *end)
{
    struct agent_run *r = arg;

    queue_output(r, true);
    if (r->stopped)
        send_end(r, NULL, "the agent was stopped", 143);
    else
        send_end(r, end, NULL, 0);
    r->run = NULL;
    run_free(run);
}

static void start_run(struct agent *a, struct agent_run *r)
{
    const struct json *v = json_parse(&r->arena, r->claim, NULL);
    struct str parent = {0}, cwd = {0};
    int64_t attempt = 0, store = 0, timeout = 0;
    struct run_spec spec = {0};
    struct environment e;
    struct err_info why;
    int status = 0;

    json_get_int(v, "attempt", &attempt, NULL);
    json_get_int(v, "store", &store, NULL);
    json_get_int(v, "timeout", &timeout, NULL);
    json_get_text(v, "parent", &parent, NULL);
    json_get_text(v, "cwd", &cwd, NULL);
    e = (struct environment){
        .url = a->o->server,
        .password = a->o->token,
        .node = r->node,
        .parent = arena_text(&r->arena, parent),
        .token =
            arena_printf(&r->arena, "DROVER_RUN=%" PRId64 ".%s.%" PRId64, store, r->node, attempt),
    };
    spec.argv = read_list(&r->arena, json_get(v, "argv"));
    spec.envp = environment_make(&r->arena, &e, read_list(&r->arena, json_get(v, "env")));
    spec.token = e.token;
    spec.timeout_ms = timeout;
    spec.cwd = cwd.len ? arena_text(&r->arena, cwd) : NULL;
    if (a->o->log_dir)
        spec.log_path =
            arena_printf(&r->arena, "%s/%s-%" PRId64 ".log", a->o->log_dir, r->node, attempt);
    r->run = runner_start(a->runner, &spec, on_run_done, NULL, r, &status, &why);
    if (!r->run)
        send_end(r, NULL, why.text, status);
}

/* From the sender's thread. */
void agent_told(struct agent *a, struct agent_run *r)
{
    pthread_mutex_lock(&a->lock);
    r->told_next = a->told;
    a->told = r;
    pthread_mutex_unlock(&a->lock);
    uv_async_send(&a->wake);
}

static void unlink_run(struct agent *a, struct agent_run *r)
{
    if (r->prev)
        r->prev->next = r->next;
    else
        a->runs = r->next;
    if (r->next)
        r->next->prev = r->prev;
}

static void obey(struct agent *a, const char *line)
{
    char state[16], node[32];
    int64_t task;

    if (sscanf(line, "%15s %31s %" SCNd64, state, node, &task) != 3)
        return;
    for (struct agent_run *r = a->runs; r; r = r->next)
        if (!strcmp(r->node, node) && r->task == task && r->run)
            run_kill(r->run, a->o->grace_ms);
}

static void close_if_done(struct agent *a)
{
    if (!a->closing || a->runs)
        return;
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&a->signals[i], NULL);
    uv_close((uv_handle_t *)&a->flush, NULL);
    uv_close((uv_handle_t *)&a->wake, NULL);
    runner_close(a->runner);
    a->closing = false;
}

static void on_wake(uv_async_t *async)
{
    struct agent *a = async->data;
    struct agent_run *fresh, *told;
    struct buf orders;
    char *line, *save;

    pthread_mutex_lock(&a->lock);
    fresh = a->fresh;
    told = a->told;
    orders = a->orders;
    a->fresh = a->told = NULL;
    a->orders = (struct buf){0};
    for (struct agent_run *r = told; r; r = r->told_next)
        a->busy--;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->lock);
    for (struct agent_run *r = told, *next; r; r = next) {
        next = r->told_next;
        unlink_run(a, r);
        free_run(r);
    }
    for (struct agent_run *r = fresh, *next; r; r = next) {
        next = r->next;
        r->prev = NULL;
        r->next = a->runs;
        if (a->runs)
            a->runs->prev = r;
        a->runs = r;
        if (is_stopping(a))
            send_end(r, NULL, "the agent was stopped", 143);
        else
            start_run(a, r);
    }
    for (line = orders.len ? strtok_r((char *)buf_text(&orders), "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save))
        obey(a, line);
    buf_release(&orders);
    if (fresh || told)
        note_held(a);
    close_if_done(a);
}

static void on_flush(uv_timer_t *timer)
{
    struct agent *a = timer->data;

    for (struct agent_run *r = a->runs; r; r = r->next)
        queue_output(r, false);
}

/* The first signal ends what runs and tells the server; the second ends us. */
static void on_signal(uv_signal_t *handle, int number)
{
    struct agent *a = handle->data;
    uint64_t one = 1;

    (void)number;
    log_info("agent: ending");
    for (int i = 0; i < 2; i++)
        uv_signal_stop(&a->signals[i]);
    pthread_mutex_lock(&a->lock);
    a->stopping = true;
    pthread_cond_broadcast(&a->cond);
    pthread_mutex_unlock(&a->lock);
    if (write(a->stop_fd, &one, sizeof one) < 0)
        log_error("agent: cannot wake its threads");
    for (struct agent_run *r = a->runs; r; r = r->next)
        if (r->run) {
            r->stopped = true;
            run_kill(r->run, a->o->grace_ms);
        }
    pthread_join(a->claimer, NULL);
    pthread_join(a->renewer, NULL);
    a->closing = true;
    uv_async_send(&a->wake);
}

static void open_loop(struct agent *a)
{
    static const int numbers[] = {SIGTERM, SIGINT};

    UV_CHECK(uv_loop_init(&a->loop));
    UV_CHECK(uv_async_init(&a->loop, &a->wake, on_wake));
    UV_CHECK(uv_timer_init(&a->loop, &a->flush));
    a->wake.data = a->flush.data = a;
    uv_timer_start(&a->flush, on_flush, AGENT_FLUSH_MS, AGENT_FLUSH_MS);
    a->runner = runner_open(&a->loop, RUNNER_BY_CGROUP);
    for (int i = 0; i < 2; i++) {
        UV_CHECK(uv_signal_init(&a->loop, &a->signals[i]));
        a->signals[i].data = a;
        uv_signal_start(&a->signals[i], on_signal, numbers[i]);
    }
}

int agent_main(const struct agent_options *o)
{
    struct agent a = {.o = o};
    uint64_t random;

    signal(SIGPIPE, SIG_IGN);
    random_fill(&random, sizeof random);
    a.client = (int64_t)(random >> 12) + 1;
    a.stop_fd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&a.lock, NULL);
    cond_init(&a.cond);
    a.sender = agent_sender_start(&a, o, a.client);
    if (!a.sender)
        return 1;
    open_loop(&a);
    thread_must_start(&a.claimer, "agent-claim", claimer_main, &a);
    thread_must_start(&a.renewer, "agent-renew", renewer_main, &a);
    log_info("agent: %" PRIu32 " jobs for %s", o->jobs, o->server);
    uv_run(&a.loop, UV_RUN_DEFAULT);
    uv_loop_close(&a.loop);
    agent_sender_stop(a.sender);
    buf_release(&a.held);
    buf_release(&a.orders);
    pthread_mutex_destroy(&a.lock);
    pthread_cond_destroy(&a.cond);
    close(a.stop_fd);
    return 0;
}
