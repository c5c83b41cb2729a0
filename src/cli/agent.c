/* The loop of an agent: runs the commands, and passes their output and ends to the sender. */
#include "cli/agent.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/uv_check.h"

const char *const AGENT_OUTPUTS[RUN_STREAMS] = {"stdout", "stderr", "mixedout"};

void agent_free_run(struct agent_run *r)
{
    arena_release(&r->arena);
    free(r);
}

/* Calls. */

struct transport *agent_transport(struct agent *a, bool stoppable)
{
    struct transport_options o = {.server = a->o->server, .token = a->o->token};
    struct transport *t = NULL;
    struct err_info why;

    if (transport_open(&o, &t, &why))
        err_fatal("%s", why.text);
    if (stoppable)
        transport_set_stop(t, a->stop_fd);
    return t;
}

static bool has_given_up(struct agent *a)
{
    LOCKED(&a->lock);
    return a->stopping && clock_boot_ms() > a->give_up_at;
}

/* Logs only the first failure, and the recovery. */
int agent_call(struct agent *a, struct transport *t, const char *method, const char *path,
               struct str body, struct transport_answer *ret_answer)
{
    struct timespec pause = {.tv_nsec = AGENT_PAUSE_MS * 1000000L};
    struct err_info why;

    for (;;) {
        int err = transport_call(t, method, path, body, AGENT_WAIT_MS + TRANSPORT_TIMEOUT_MS,
                                 ret_answer, &why);

        if (!err && ret_answer->status != 503) {
            if (atomic_exchange(&a->is_down, false))
                log_info("agent: the server is reachable again");
            if (ret_answer->status != 200 && ret_answer->status != 409)
                log_error("agent: %s: %.*s", path, STR_ARGS(ret_answer->body));
            return ret_answer->status;
        }
        if (!err)
            buf_release(&ret_answer->body);
        if (err == DROVER_CLOSED || has_given_up(a))
            return 0;
        if (!atomic_exchange(&a->is_down, true))
            log_warning("agent: %s; trying again", err ? why.text : "the server is not ready");
        nanosleep(&pause, NULL);
    }
}

/* Runs. */

static void send_end(struct agent_run *r, const struct run_end *end, const char *reason, int status)
{
    static const char *const hows[] = {"exited", "signalled", "timed_out", "killed"};
    struct agent_message *m = mem_zalloc(sizeof *m);
    struct buf *b = &m->text;

    m->run = r;
    m->stream = -1;
    json_open(b, '{');
    json_member_int(b, "clientid", r->agent->client);
    json_member_text(b, "node", str_of(r->node));
    json_member_int(b, "attempt", r->attempt);
    json_member_text(b, "how", str_of(end ? hows[end->how] : "exited"));
    json_member_int(b, "status", end ? end->status : status);
    if (reason)
        json_member_text(b, "reason", str_of(reason));
    for (int i = 0; i < RUN_STREAMS && r->run; i++) {
        const struct run_output *o = run_output(r->run, (enum run_stream)i);

        if (r->queued[i] || o->text.len > AGENT_INLINE_LEN)
            continue;
        json_member_text(b, AGENT_OUTPUTS[i], buf_str(&o->text));
    }
    json_close(b, '}');
    agent_send(r->agent, m);
}

/* Passes new output to the sender. */
static void queue_output(struct agent_run *r, bool last)
{
    for (int i = 0; i < RUN_STREAMS && r->run; i++) {
        const struct run_output *o = run_output(r->run, (enum run_stream)i);
        size_t from = r->queued[i], len = o->text.len - from;

        if (!last)
            len = output_whole(o->text.p + from, len);
        else if (!from && o->text.len <= AGENT_INLINE_LEN)
            continue; /* is sent with the end */
        while (len) {
            struct agent_message *m = mem_zalloc(sizeof *m);
            size_t piece =
                len > AGENT_INLINE_LEN ? output_whole(o->text.p + from, AGENT_INLINE_LEN) : len;

            m->run = r;
            m->stream = i;
            buf_put(&m->text, o->text.p + from, piece);
            agent_send(r->agent, m);
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

static const char **read_list(struct arena *a, const struct json *list)
{
    const char **texts = arena_zalloc(a, ((list ? list->count : 0) + 1) * sizeof *texts);
    size_t at = 0;

    for (const struct json *m = list ? list->first : NULL; m; m = m->next)
        texts[at++] = m->kind == JSON_TEXT ? arena_text(a, m->text) : "";
    return texts;
}

static void start_run(struct agent *a, struct agent_run *r)
{
    const struct json *v = json_parse(&r->arena, r->spec, NULL);
    struct str parent = {0}, cwd = {0};
    struct run_spec spec = {0};
    struct err_info why;
    int64_t store = 0;
    int status = 0;

    json_get_int(v, "store", &store, NULL);
    json_get_int(v, "timeout", &spec.timeout_ms, NULL);
    json_get_text(v, "parent", &parent, NULL);
    json_get_text(v, "cwd", &cwd, NULL);
    struct environment e = {
        .url = a->o->server,
        .password = a->o->token,
        .node = r->node,
        .parent = arena_text(&r->arena, parent),
        .token = arena_printf(&r->arena, "DROVER_RUN=%" PRId64 ".%s.%" PRId64, store, r->node,
                              r->attempt),
    };
    spec.argv = read_list(&r->arena, json_get(v, "argv"));
    spec.envp = environment_make(&r->arena, &e, read_list(&r->arena, json_get(v, "env")));
    spec.token = e.token;
    spec.cwd = cwd.len ? arena_text(&r->arena, cwd) : NULL;
    if (a->o->log_dir)
        spec.log_path =
            arena_printf(&r->arena, "%s/%s-%" PRId64 ".log", a->o->log_dir, r->node, r->attempt);
    r->run = runner_start(a->runner, &spec, on_run_done, NULL, r, &status, &why);
    if (!r->run)
        send_end(r, NULL, why.text, status);
}

/* The lists that the threads share. */

/* Takes the runs whose ends were sent out of the list. Returns them. With the lock. */
static struct agent_run *take_sent(struct agent *a)
{
    struct agent_run *sent = a->sent;

    a->sent = NULL;
    for (struct agent_run *r = sent; r; r = r->sent_next) {
        if (r->prev)
            r->prev->next = r->next;
        else
            a->runs = r->next;
        if (r->next)
            r->next->prev = r->prev;
        a->busy--;
    }
    return sent;
}

/* Puts the started nodes into the list. Returns the first that was in it before. With the lock. */
static struct agent_run *take_fresh(struct agent *a)
{
    struct agent_run *before = a->runs, *next;

    for (struct agent_run *r = a->fresh; r; r = next) {
        next = r->next;
        r->prev = NULL;
        r->next = a->runs;
        if (a->runs)
            a->runs->prev = r;
        a->runs = r;
    }
    a->fresh = NULL;
    return before;
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

    pthread_mutex_lock(&a->lock);
    struct agent_run *sent = take_sent(a);
    struct agent_run *before = take_fresh(a);
    bool stopping = a->stopping;
    pthread_cond_broadcast(&a->cond);
    pthread_mutex_unlock(&a->lock);
    for (struct agent_run *next; sent; sent = next) {
        next = sent->sent_next;
        agent_free_run(sent);
    }
    for (struct agent_run *r = a->runs; r != before; r = r->next) {
        if (stopping)
            send_end(r, NULL, "the agent was stopped", 143);
        else
            start_run(a, r);
    }
    pthread_mutex_lock(&a->lock);
    for (struct agent_run *r = a->runs; r; r = r->next)
        if (r->killed && r->run)
            run_kill(r->run, a->o->grace_ms);
    pthread_mutex_unlock(&a->lock);
    close_if_done(a);
}

static void on_flush(uv_timer_t *timer)
{
    struct agent *a = timer->data;

    for (struct agent_run *r = a->runs; r; r = r->next)
        queue_output(r, false);
}

/* The first signal kills the runs and reports their ends; the second kills the agent. */
static void on_signal(uv_signal_t *handle, int number)
{
    struct agent *a = handle->data;
    uint64_t one = 1;

    log_info("agent: stopping: received SIG%s", sigabbrev_np(number));
    for (int i = 0; i < 2; i++)
        uv_signal_stop(&a->signals[i]);
    pthread_mutex_lock(&a->lock);
    a->stopping = true;
    a->give_up_at = clock_boot_ms() + AGENT_PATIENCE_MS + a->o->grace_ms;
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
    UV_CHECK(uv_timer_start(&a->flush, on_flush, AGENT_FLUSH_MS, AGENT_FLUSH_MS));
    a->runner = runner_open(&a->loop, RUNNER_BY_CGROUP);
    for (int i = 0; i < 2; i++) {
        UV_CHECK(uv_signal_init(&a->loop, &a->signals[i]));
        a->signals[i].data = a;
        UV_CHECK(uv_signal_start(&a->signals[i], on_signal, numbers[i]));
    }
}

int agent_main(const struct agent_options *o)
{
    struct agent a = {.o = o};
    uint64_t random = 0;

    signal(SIGPIPE, SIG_IGN);
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return 1;
    a.client = (int64_t)(random >> 12) + 1;
    a.stop_fd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&a.lock, NULL);
    cond_init(&a.cond);
    open_loop(&a);
    thread_must_start(&a.sender, "agent-send", agent_send_main, &a);
    thread_must_start(&a.claimer, "agent-claim", agent_claim_main, &a);
    thread_must_start(&a.renewer, "agent-renew", agent_renew_main, &a);
    log_info("agent: %" PRIu32 " jobs for %s", o->jobs, o->server);
    uv_run(&a.loop, UV_RUN_DEFAULT);
    uv_loop_close(&a.loop);
    pthread_mutex_lock(&a.lock);
    a.finishing = true;
    pthread_cond_broadcast(&a.cond);
    pthread_mutex_unlock(&a.lock);
    pthread_join(a.sender, NULL);
    pthread_mutex_destroy(&a.lock);
    pthread_cond_destroy(&a.cond);
    close(a.stop_fd);
    return 0;
}
