/*
 * drover agent - its loop runs the commands, and passes their output and ends to the sender.
 */
#include "cli/agent.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/uv_check.h"
#include "dag/node.h"
#include "dag/run_log.h"
#include "dag/shell_words.h"

/* Runs. */

static void send_end(struct agent_run *r, const struct run_end *end, const char *reason, int status)
{
    static const char *const hows[] = {"exited", "signalled", "timed_out", "killed"};
    struct buf b = {0};

    json_open(&b, '{');
    json_member_int(&b, "clientid", r->agent->client);
    json_member_text(&b, "node", str_of(r->node));
    json_member_int(&b, "attempt", r->attempt);
    json_member_text(&b, "how", str_of(end ? hows[end->how] : "exited"));
    json_member_int(&b, "status", end ? end->status : status);
    if (reason)
        json_member_text(&b, "reason", str_of(reason));
    for (int i = 0; i < RUN_STREAMS && r->run; i++) {
        const struct run_output *o = run_output(r->run, (enum run_stream)i);
        if (!r->queued[i] && o->text.len <= AGENT_INLINE_LEN)
            json_member_text(&b, AGENT_OUTPUTS[i], buf_str(&o->text));
    }
    json_close(&b, '}');
    agent_send(r, -1, &b);
}

static void send_stopped(struct agent_run *r)
{
    send_end(r, NULL, "the agent was stopped", 143);
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
            size_t piece =
                len > AGENT_INLINE_LEN ? output_whole(o->text.p + from, AGENT_INLINE_LEN) : len;
            struct buf text = {0};
            buf_put(&text, o->text.p + from, piece);
            agent_send(r, i, &text);
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
        send_stopped(r);
    else
        send_end(r, end, end->reason, 0);
    r->run = NULL;
    run_free(run);
}

static const char **read_list(struct arena *a, const struct json *list)
{
    const char **texts = arena_zalloc(a, ((list ? list->count : 0) + 1) * sizeof *texts);
    size_t at = 0;
    json_each(m, json_list(list))
        texts[at++] = m->kind == JSON_TEXT ? arena_text(a, m->text) : "";
    return texts;
}

static void start_run(struct agent *a, struct agent_run *r)
{
    struct str parent = json_text_of(r->spec, "parent"), cwd = json_text_of(r->spec, "cwd"),
               user = json_text_of(r->spec, "user"), password = json_text_of(r->spec, "password");
    struct policy_request ask = {
        .argv = read_list(&r->arena, json_get(r->spec, "argv")),
        .env = read_list(&r->arena, json_get(r->spec, "env")),
        .user = user.len ? arena_text(&r->arena, user) : NULL,
        .limits = limits_read(json_get(r->spec, "limits")),
    };
    struct policy_grant grant;
    struct err_info why;
    int status = 126;

    if (policy_grant(&a->policy, &ask, &r->arena, &grant, &why)) {
        send_end(r, NULL, why.text, status);
        return;
    }
    struct environment e = {
        .url = a->config.server,
        .password = password.len ? arena_text(&r->arena, password) : NULL,
        .node = r->node,
        .parent = arena_text(&r->arena, parent),
        .token = arena_printf(&r->arena, "DROVER_RUN=%" PRId64 ".%s.%" PRId64,
                              json_int_of(r->spec, "store"), r->node, r->attempt),
        .account = grant.account,
    };
    const char *dir = cwd.len ? arena_text(&r->arena, cwd) : NULL, *const *envp = environment_make(
                                                                       &r->arena, &e, ask.env);
    struct run_spec spec = {
        .argv = shell_skip(ask.argv, envp, dir, &grant, &r->arena),
        .envp = envp,
        .token = e.token,
        .cwd = dir,
        .timeout_ms = json_int_of(r->spec, "timeout"),
        .grant = &grant,
    };
    if (a->log_dir)
        spec.log_path =
            arena_printf(&r->arena, "%s/%s-%" PRId64 ".log", a->log_dir, r->node, r->attempt);
    r->run = runner_start(a->runner, &spec, on_run_done, NULL, r, &status, &why);
    if (!r->run)
        send_end(r, NULL, why.text, status);
}

/* The list of runs. */

/* Takes the runs whose ends the server has out of the list. Returns them. With the lock. */
static struct agent_run *take_over(struct agent *a)
{
    struct agent_run *over = NULL;
    for (struct agent_run **at = &a->runs; *at;) {
        struct agent_run *r = *at;
        if (!r->over) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        r->next = over;
        over = r;
        a->busy--;
    }
    return over;
}

/* Puts the started nodes into the list. Returns the first that was in it before. With the lock. */
static struct agent_run *take_fresh(struct agent *a)
{
    struct agent_run *before = a->runs;
    for (struct agent_run *r; (r = a->fresh);) {
        a->fresh = r->next;
        r->next = a->runs;
        a->runs = r;
    }
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
    struct agent_run *over = take_over(a);
    struct agent_run *before = take_fresh(a);
    bool stopping = a->stopping;
    pthread_cond_broadcast(&a->cond);
    pthread_mutex_unlock(&a->lock);
    for (struct agent_run *next; over; over = next) {
        next = over->next;
        arena_release(&over->arena);
        free(over);
    }
    for (struct agent_run *r = a->runs; r != before; r = r->next) {
        if (stopping)
            send_stopped(r);
        else
            start_run(a, r);
    }
    pthread_mutex_lock(&a->lock);
    for (struct agent_run *r = a->runs; r; r = r->next)
        if (r->killed && r->run)
            run_kill(r->run, a->grace_ms);
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
    a->give_up_at = clock_boot_ms() + AGENT_PATIENCE_MS + a->grace_ms;
    pthread_cond_broadcast(&a->cond);
    pthread_mutex_unlock(&a->lock);
    if (write(a->stop_fd, &one, sizeof one) < 0)
        log_error("agent: cannot wake its threads");
    for (struct agent_run *r = a->runs; r; r = r->next)
        if (r->run) {
            r->stopped = true;
            run_kill(r->run, a->grace_ms);
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
    a->runner = runner_open(&a->loop);
    for (int i = 0; i < 2; i++) {
        UV_CHECK(uv_signal_init(&a->loop, &a->signals[i]));
        a->signals[i].data = a;
        UV_CHECK(uv_signal_start(&a->signals[i], on_signal, numbers[i]));
    }
}

/* Runs until SIGTERM or SIGINT. */
static void run_loop(struct agent *a)
{
    uint64_t random;

    signal(SIGPIPE, SIG_IGN);
    random_fill(&random, sizeof random);
    a->client = (int64_t)(random >> 12) + 1;
    pthread_mutex_init(&a->lock, NULL);
    cond_init(&a->cond);
    open_loop(a);
    thread_must_start(&a->sender, "agent-send", agent_send_main, a);
    thread_must_start(&a->claimer, "agent-claim", agent_claim_main, a);
    thread_must_start(&a->renewer, "agent-renew", agent_renew_main, a);
    log_info("agent: %" PRIu32 " jobs for %s", a->jobs_max, a->config.server);
    uv_run(&a->loop, UV_RUN_DEFAULT);
    uv_loop_close(&a->loop);
    pthread_mutex_lock(&a->lock);
    a->finishing = true;
    pthread_cond_broadcast(&a->cond);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->sender, NULL);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->cond);
}

/* The command. */

static const char *groups = "drover/run";
static int64_t jobs;
static struct agent agent = {.lease_ms = AGENT_LEASE_MS, .grace_ms = RUN_GRACE_MS};

/* Opens the clients of the threads. The claimer and the renewer end their calls when stopped. */
static int open_clients(struct agent *a, const struct client_options *o)
{
    struct client *const all[] = {&a->claims, &a->renews, &a->sends};
    TRY(client_configure(o, &a->config));
    if (!a->config.server)
        a->config.server = TRANSPORT_SERVER_DEFAULT;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        TRY(client_connect(all[i], &a->config));
        all[i]->silent = true;
        all[i]->wait_ms = AGENT_WAIT_MS;
        if (all[i] != &a->sends)
            transport_set_stop(all[i]->transport, a->stop_fd);
    }
    return CMD_OK;
}

static int run_agent(const struct cmd_call *call)
{
    CLEANUP(mem_free) char *text = mem_dup(groups, strlen(groups));
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct agent *a = &agent;
    struct err_info why;
    char *save;

    if (a->log_dir && run_log_make_dir(a->log_dir, &why))
        return client_error("%s", why.text);
    if (policy_open(&a->policy, true, &why))
        return client_error("%s", why.text);
    for (char *one = strtok_r(text, ",", &save); one && a->group_count < AGENT_GROUPS_MAX;
         one = strtok_r(NULL, ",", &save))
        a->groups[a->group_count++] = one;
    a->jobs_max = jobs ? (uint32_t)jobs : (uint32_t)(cores > 0 ? cores : 1);
    a->stop_fd = eventfd(0, EFD_CLOEXEC);
    log_begin(LOG_TEXT, LOG_LEVEL_INFO);
    int status = open_clients(a, &call->client);
    if (!status && policy_runs_as_root(&a->policy))
        log_warning("agent: " POLICY_AS_ROOT);
    if (!status)
        run_loop(a);
    client_close(&a->claims);
    client_close(&a->renews);
    client_close(&a->sends);
    policy_close(&a->policy);
    close(a->stop_fd);
    return status;
}

static int parse_label(const struct option *o, const char *text, struct err_info *e)
{
    if (*text == '=' || !strchr(text, '=') || !json_is_text(str_of(text)))
        return err_set(e, DROVER_BAD_ARGUMENT, "'%s' is not NAME=VALUE", text);
    return option_list_add(o, text, e);
}

const struct cmd cmd_agent = CMD_INIT(
    "agent", "run nodes on this machine for a server", NULL,
    "Runs nodes of the DAG on this machine, until it receives TERM or INT.",
    CMD_OPTIONS(
        {"group", "GROUPS", "Run nodes of these groups, comma-separated. Default: drover/run.",
         option_text, &groups},
        {"jobs", "N", "Run at most N commands at a time. Default: the number of cores.",
         option_number, &jobs, 1, 100000},
        {"lease", "TIME",
         "The server gives the nodes to others when it has not heard from this agent for\n"
         "this long. Default: 15s.",
         option_span, &agent.lease_ms, 500, 3600 * 1000},
        {"grace", "TIME", "Time between TERM and KILL. Default: 5s.", option_span, &agent.grace_ms,
         0, 3600 * 1000},
        {"label", "NAME=VALUE",
         "Something that `drover agents` shows. May be given more than once.", parse_label,
         &agent.labels, .flags = OPTION_LIST},
        {"log-dir", "DIR",
         "Keep the full output of commands in this directory, one file per run: NODE-TRY.log.",
         option_text, &agent.log_dir},
        POLICY_OPTIONS(agent.policy)),
    CMD_REMOTE, run_agent);
