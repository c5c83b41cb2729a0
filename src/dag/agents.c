/*
 * Agents: those on other machines, and the built-in agent.
 *
 * Agents on other machines claim and renew in the task store (doc/design.md); the DAG offers nodes
 * to the claims that wait, and observes the changes of its tasks.
 *
 * The built-in agent runs nodes of the default group on the server's loop. While commands are short
 * it claims ahead, twice as many nodes as it has jobs: when a command ends, the next one is started
 * at once, and the end is committed and another node is claimed while that one runs. So a job never
 * waits for the disk. A node that is claimed ahead is published as incipient and released after
 * AHEAD_MS, since then commands are not short. After a crash it must be known which nodes were
 * started (started.h): without that file, nothing is claimed ahead.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "dag/service.h"
#include "dag/shell_words.h"

/* Agents on other machines: observing the task store. */

/* On any thread, with the service's lock held. */
static void on_wanted(void *arg, const struct task_claim *c, bool waits)
{
    struct dag *d = arg;
    if (!atomic_load(&d->has_ready))
        return;
    LOCKED(&d->lock);
    for (size_t i = 0; i < c->group_count && !waits && d->missed_count < DAG_MISSED_MAX; i++)
        d->missed[d->missed_count++] = map_hash_str(c->groups[i]);
    uv_async_send(&d->wake);
}

static struct dag_node *find_slot(const struct dag *d, int64_t slot)
{
    uint32_t hash = map_hash_u64((uint64_t)slot);
    for (uint32_t at, ref = map_first(&d->by_slot, hash, &at); ref;
         ref = map_next(&d->by_slot, hash, &at))
        if (graph_at(&d->graph, ref)->slot == slot)
            return graph_at(&d->graph, ref);
    return NULL;
}

/* A node starts an attempt. */
static void start_attempt(struct dag *d, struct dag_node *n, int64_t agent, int64_t lease_at)
{
    plan_start(&d->graph.plan, n->ref);
    dag_unpark(d, n);
    n->attempts++;
    n->kill_asked = n->begun = false;
    n->save_at = n->run_ms = 0;
    for (struct node_datum *v = n->values; v; v = v->next)
        v->live_pid = 0; /* of an earlier run */
    n->started_ms = n->started_ms ? n->started_ms : dag_now_ms(d);
    dag_enter_running(d, n, agent, lease_at);
}

/* An agent has claimed or renewed a task, and that is durable. */
static void on_changed(void *arg, int64_t slot, const struct task *t)
{
    struct dag *d = arg;
    struct dag_node *n = d->ready ? find_slot(d, slot) : NULL;
    if (!n || n->task_busy || n->task_drop)
        return; /* the DAG has changed the task itself */
    n->task = t->id;
    if (n->agent == t->ownerid && n->agent > 0) {
        n->lease_at = t->timespec;
        dag_arm(d, n->lease_at);
    } else if (!n->agent && graph_plan(&d->graph, n)->offered) {
        start_attempt(d, n, t->ownerid, t->timespec);
        if (t->ownerid > 0)
            dag_show(d, n);
        else
            dag_unclaim(d, n); /* not an agent: client ids of agents are positive */
        dag_soon(d);
    }
}

void dag_observe(struct dag *d, bool on)
{
    service_observe(d->context->tasks, on ? &(struct service_observer){on_wanted, on_changed, d}
                                          : &(struct service_observer){0});
}

/* Offering. */

/* Takes the list of missed claims. */
static uint32_t take_missed(struct dag *d, uint32_t *ret_hashes)
{
    LOCKED(&d->lock);
    uint32_t count = d->missed_count;
    memcpy(ret_hashes, d->missed, count * sizeof *ret_hashes);
    d->missed_count = 0;
    return count;
}

static void offer_group(struct dag *d, uint32_t group, const uint32_t *missed, uint32_t count)
{
    struct dag_plan *p = &d->graph.plan;
    struct str name = str_of(d->graph.groups[group]);
    size_t wanted = service_wanted(d->context->tasks, name, DAG_OFFERED_MAX);
    uint32_t ref, hash = map_hash_str(name);
    for (uint32_t i = 0; i < count; i++)
        wanted += missed[i] == hash;
    while (p->queues[group].offered.count < wanted && (ref = plan_best_unoffered(p, group))) {
        plan_offer(p, ref);
        dag_put_task(dag_commit_open(d), graph_at(&d->graph, ref));
    }
}

/*
 * Offers as many nodes of each group as claims want, the best first. has_ready is set before the
 * claims are counted, so a claim that comes too late to be counted wakes the loop again.
 */
void dag_offer(struct dag *d)
{
    struct dag_plan *p = &d->graph.plan;
    uint32_t missed[DAG_MISSED_MAX];
    bool has_ready = false;
    for (uint32_t g = 0; g < p->queue_count; g++)
        has_ready |= p->queues[g].ready.count > 0;
    atomic_store(&d->has_ready, has_ready);
    uint32_t count = take_missed(d, missed);
    for (uint32_t g = 0; g < p->queue_count && has_ready; g++)
        if (p->queues[g].ready.count)
            offer_group(d, g, missed, count);
}

/* Running. */

bool dag_is_run_by(const struct dag_node *n, int64_t agent, int64_t attempt)
{
    return n->agent == agent && agent > 0 && n->attempts == attempt;
}

/* The built-in agent. */

enum { AHEAD_MS = 100, SAVE_MS = 1000 };

/* A claim in flight, then a run. */
struct serve_job {
    struct dag *dag;
    struct serve_job *next; /* in the list of waiting jobs */
    struct dag_node *node;
    int64_t since_ms; /* when it began to wait or to run, by clock_boot_ms() */
    uint64_t epoch;
};

static void job_free(struct serve_job *j)
{
    j->dag->agent.busy--;
    dag_soon(j->dag);
    free(j);
}

/* Adds the new output of a run to the node's values. */
static void save_output(struct dag *d, struct dag_node *n, const struct run *r, bool is_end)
{
    n->save_at = 0;
    for (int i = 0; i < RUN_STREAMS; i++) {
        const struct run_output *o = run_output(r, (enum run_stream)i);
        struct node_datum *v = dag_output_value(d, n, (enum run_stream)i);
        size_t len = is_end ? o->text.len : output_whole(o->text.p, o->text.len);
        if (len > v->len)
            dag_append_text(d, n, v, (struct str){o->text.p + v->len, len - (size_t)v->len});
    }
    dag_commit_record(dag_commit_open(d), n);
}

/* Output is stored while the command runs, but not with every line. */
static void on_printed(void *arg, struct run *r)
{
    struct serve_job *j = arg;
    struct dag *d = j->dag;
    (void)r;
    if (j->epoch != j->dag->agent.epoch)
        return;
    dag_printed(d);
    if (j->node->save_at)
        return;
    j->node->save_at = dag_now_ms(d) + SAVE_MS;
    dag_arm(d, j->node->save_at);
}

/* Stores the output that is due. Returns when the next is. */
static int64_t save_outputs(struct dag *d, int64_t now_ms)
{
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < d->running.count; i++) {
        struct dag_node *n = d->running.nodes[i];
        if (n->run && n->save_at && n->save_at <= now_ms)
            save_output(d, n, n->run, false);
        else if (n->run && n->save_at && n->save_at < next)
            next = n->save_at;
    }
    return next;
}

static struct serve_job *take_ahead(struct dag *d, struct serve_job **at)
{
    struct serve_job *j = *at;
    *at = j->next;
    if (!*at)
        d->agent.ahead_last = at;
    return j;
}

static void start(struct serve_job *j);

static void on_run_done(void *arg, struct run *r, const struct run_end *end)
{
    struct serve_job *j = arg;
    struct dag *d = j->dag;
    d->agent.running--;
    d->agent.eager = d->started && clock_boot_ms() - j->since_ms < AHEAD_MS;
    while (d->agent.ahead && d->agent.running < d->jobs)
        start(take_ahead(d, &d->agent.ahead)); /* first: it has waited for this */
    if (j->epoch == d->agent.epoch) {
        j->node->run = NULL;
        save_output(d, j->node, r, true);
        dag_end_run(d, j->node, end, NULL, NULL);
    }
    run_free(r);
    job_free(j);
}

static void not_started(struct serve_job *j, const char *reason, int status)
{
    struct run_end end = {.how = RUN_EXITED, .status = status, .reason = reason};
    for (int i = 0; i < RUN_STREAMS; i++) /* it printed nothing */
        dag_output_value(j->dag, j->node, (enum run_stream)i);
    dag_end_run(j->dag, j->node, &end, NULL, NULL);
    j->dag->agent.running--;
    job_free(j);
}

void dag_command(const struct dag *d, const struct dag_node *n, struct arena *a,
                 struct node_command *ret_command)
{
    enum node_type type = graph_plan(&d->graph, n)->type;
    node_command(n, type, a, ret_command);
    if (type == NODE_CONDITION && ret_command->timeout_ms) {
        ret_command->timeout_ms -= dag_now_ms(d) - n->started_ms;
        ret_command->timeout_ms = ret_command->timeout_ms > 0 ? ret_command->timeout_ms : 1;
    }
}

const char *dag_parent_text(const struct dag *d, const struct dag_node *n, struct arena *a)
{
    const char *text = NULL;
    plan_each_parent(e, &d->graph.plan, n->ref) {
        uint64_t id = d->graph.plan.nodes[d->graph.plan.edges[e].parent].id;
        text = text ? arena_printf(a, "%s,%" PRIu64, text, id) : arena_printf(a, "%" PRIu64, id);
    }
    return text ? text : "root";
}

/* Marks the node as started, for the next server, and publishes that. */
static void announce(struct serve_job *j)
{
    struct dag *d = j->dag;
    struct dag_node *n = j->node;
    j->dag->agent.running++;
    j->since_ms = clock_boot_ms();
    dag_count_start(d, n);
    if (d->started)
        n->mark = started_mark(d->started, n->id, n->attempts);
    if (!n->ahead)
        return;
    n->ahead = false;
    if (n->attempts == 1)
        n->started_ms = dag_now_ms(d);
    dag_show(d, n);
}

static void start(struct serve_job *j)
{
    const struct dag *d = j->dag;
    struct dag_node *n = j->node;
    CLEANUP(arena_release) struct arena a = {0};
    struct policy_grant grant;
    struct node_command c;
    struct err_info why;
    int status = 126;

    announce(j);
    dag_command(d, n, &a, &c);
    if (policy_grant(d->policy, &c.ask, &a, &grant, &why)) {
        not_started(j, why.text, status);
        return;
    }
    struct environment e = {
        .url = d->context->url,
        .password = dag_password(d, n, &a),
        .node = arena_printf(&a, "%" PRIu64, n->id),
        .parent = dag_parent_text(d, n, &a),
        .token = arena_printf(&a, DAG_RUN_TOKEN, d->client, n->id, n->attempts),
        .account = grant.account,
    };
    const char *const *envp = environment_make(&a, &e, c.ask.env);
    struct run_spec spec = {
        .argv = shell_skip(c.ask.argv, envp, c.cwd, &grant, &a),
        .envp = envp,
        .cwd = c.cwd,
        .token = e.token,
        .timeout_ms = c.timeout_ms,
        .log_path = d->log_dir ? arena_printf(&a, "%s/%" PRIu64 "-%" PRIu32 ".log", d->log_dir,
                                              n->id, n->attempts)
                               : NULL,
        .grant = &grant,
    };
    n->run = runner_start(j->dag->agent.runner, &spec, on_run_done, on_printed, j, &status, &why);
    if (!n->run)
        not_started(j, why.text, status);
}

static void wait_for_an_end(struct serve_job *j)
{
    struct dag *d = j->dag;
    j->since_ms = clock_boot_ms();
    j->next = NULL;
    *d->agent.ahead_last = j;
    d->agent.ahead_last = &j->next;
    dag_arm(d, dag_now_ms(d) + AHEAD_MS);
}

/* Ends a claim that was not started. */
static void end_unstarted(struct serve_job *j)
{
    dag_end_run(j->dag, j->node, &(struct run_end){.how = RUN_KILLED}, NULL, NULL);
    job_free(j);
}

static void on_claimed(void *arg, int err)
{
    struct serve_job *j = arg;
    if (err || j->epoch != j->dag->agent.epoch)
        job_free(j);
    else if (j->node->kill_asked)
        end_unstarted(j);
    else if (j->dag->agent.running < j->dag->jobs)
        start(j);
    else
        wait_for_an_end(j);
}

/* Claims the best ready node, or returns NULL. */
static struct dag_node *claim(struct dag *d, dag_done_fn *done, void *arg)
{
    struct dag_node *n = graph_at(&d->graph, plan_best(&d->graph.plan, DAG_GROUP_DEFAULT));
    if (n && n->task_busy) /* it is being offered: the next best that is not */
        n = graph_at(&d->graph, plan_best_unoffered(&d->graph.plan, DAG_GROUP_DEFAULT));
    if (!n || n->task_busy)
        return NULL;
    struct dag_commit *t = dag_commit_open(d);
    start_attempt(d, n, AGENT_SERVE, INT64_MAX);
    dag_put_task(t, n);
    dag_commit_then(t, done, arg);
    return n;
}

const char *serve_agent_default_jobs(void)
{
    static char text[24];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(text, sizeof text, "%ld", cores > 0 ? cores : 1);
    return text;
}

uint32_t serve_agent_jobs(int64_t wanted)
{
    enum { RUN_FILES = 8 }; /* descriptors of a run: pipes, pidfd, log, cgroup */
    size_t jobs = file_limit_keep((size_t)wanted, RUN_FILES);
    if (jobs < (size_t)wanted)
        log_warning("--jobs: %zu commands at a time instead of %" PRId64 ", because of the limit "
                    "on open files (ulimit -n)",
                    jobs, wanted);
    return (uint32_t)jobs;
}

void serve_agent_schedule(struct dag *d)
{
    while (d->agent.busy < (d->agent.eager ? 3 * d->jobs : d->jobs)) {
        struct serve_job *j = mem_zalloc(sizeof *j);
        *j = (struct serve_job){.dag = d, .epoch = d->agent.epoch};
        j->node = claim(d, on_claimed, j);
        if (!j->node) {
            free(j);
            return;
        }
        j->node->ahead = d->agent.busy++ >= d->jobs;
    }
}

void serve_agent_kill(struct dag *d, struct dag_node *n)
{
    if (n->run)
        run_kill(n->run, RUN_GRACE_MS);
    for (struct serve_job **at = &d->agent.ahead; *at; at = &(*at)->next)
        if ((*at)->node == n) {
            end_unstarted(take_ahead(d, at));
            return;
        }
}

/*
 * Stores output. Releases the nodes that have waited too long; then nothing is claimed ahead until
 * a short command ends.
 */
int64_t serve_agent_tick(struct dag *d, int64_t now_ms)
{
    struct serve_job *first = d->agent.ahead;
    int64_t waited = first ? clock_boot_ms() - first->since_ms : 0;
    int64_t next = save_outputs(d, now_ms), due = now_ms + AHEAD_MS - waited;
    if (!first)
        return next;
    if (waited < AHEAD_MS)
        return due < next ? due : next;
    d->agent.eager = false;
    while (d->agent.ahead) {
        struct serve_job *j = take_ahead(d, &d->agent.ahead);
        dag_unclaim(d, j->node);
        job_free(j);
    }
    return next;
}

void serve_agent_drop(struct dag *d)
{
    d->agent.epoch++;
    while (d->agent.ahead)
        job_free(take_ahead(d, &d->agent.ahead));
    for (uint32_t i = 0; i < d->running.count; i++)
        if (d->running.nodes[i]->run)
            run_kill(d->running.nodes[i]->run, 0);
}
