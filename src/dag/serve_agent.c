/*
 * The agent built into the server: claims by a call, runs on the same loop, commits by a call. It
 * takes nodes of the default group only; others are for agents that name them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/dag_impl.h"
#include "dag/environment.h"
#include "dag/strays.h"

struct serve_agent {
    struct dag *dag;
    struct runner *runner;
    uint32_t busy; /* claimed or running */
    uint64_t life; /* rises when the DAG ends: runs of before are nobody's */
};

/* A claim under way, then a run. */
struct job {
    struct serve_agent *agent;
    struct node *node;
    int64_t task;
    uint64_t life;
};

static void job_free(struct job *j)
{
    j->agent->busy--;
    dag_soon(j->agent->dag);
    free(j);
}

/* What was printed becomes the node's values. */
static void keep_output(struct dag *d, struct node *n, const struct run *r)
{
    static const char *const keys[] = {"stdout", "stderr", "mixedout"};

    for (int i = 0; i < RUN_STREAMS; i++) {
        const struct run_output *o = run_output(r, (enum run_stream)i);
        struct value *v = node_value(n, str_of(keys[i]));

        if (v)
            dag_drop_slots(d, n, v);
        node_set_text(n, keys[i], (struct str){o->text.p, o->text.len});
        node_value(n, str_of(keys[i]))->live_pid = node_live_pid(n);
        dag_keep_value(d, n, node_value(n, str_of(keys[i])), NULL, NULL);
    }
}

static void on_run_done(void *arg, struct run *r, const struct run_end *end)
{
    struct job *j = arg;
    struct outcome o = {.how = end->how, .status = end->status};

    if (j->life == j->agent->life) {
        j->node->run = NULL;
        keep_output(j->agent->dag, j->node, r);
        dag_ended(j->agent->dag, j->node, AGENT_SERVE, j->task, &o, NULL, NULL);
    }
    run_free(r);
    job_free(j);
}

static void not_started(struct job *j, const char *reason, int status)
{
    static const char *const keys[] = {"stdout", "stderr", "mixedout"};
    struct outcome o = {.how = RUN_EXITED, .status = status, .reason = reason};

    for (int i = 0; i < RUN_STREAMS; i++) { /* it printed nothing, which is an answer too */
        struct value *before = node_value(j->node, str_of(keys[i]));

        if (before)
            dag_drop_slots(j->agent->dag, j->node, before);
        node_set_text(j->node, keys[i], STR(""));
    }
    dag_ended(j->agent->dag, j->node, AGENT_SERVE, j->task, &o, NULL, NULL);
    job_free(j);
}

/* The ids of the parents, with commas. */
const char *dag_parent_text(const struct dag *d, const struct node *n, struct arena *a)
{
    const char *text = NULL;

    plan_each_parent(e, &d->graph.plan, n->ref)
    {
        uint64_t id = d->graph.plan.nodes[d->graph.plan.edges[e].parent].id;

        text = text ? arena_printf(a, "%s,%" PRIu64, text, id) : arena_printf(a, "%" PRIu64, id);
    }
    return text ? text : "root";
}

static void start(struct job *j)
{
    struct dag *d = j->agent->dag;
    enum node_type type = graph_plan(&d->graph, j->node)->type;
    struct arena a = {0};
    struct node_command c;
    struct run_spec spec;
    struct environment e;
    struct err_info why;
    int status = 0;

    node_command(j->node, type, &a, &c);
    spec = (struct run_spec){.argv = c.argv, .cwd = c.cwd, .timeout_ms = c.timeout_ms};
    if (type == NODE_CONDITION && c.timeout_ms) {
        spec.timeout_ms = c.timeout_ms - (dag_now_ms(d) - j->node->started_ms);
        spec.timeout_ms = spec.timeout_ms > 0 ? spec.timeout_ms : 1;
    }
    e = (struct environment){
        .url = d->o.url,
        .password = d->o.password,
        .node = arena_printf(&a, "%" PRIu64, j->node->id),
        .parent = dag_parent_text(d, j->node, &a),
        .token = arena_printf(&a, "DROVER_RUN=%" PRId64 ".%" PRIu64 ".%" PRIu32, d->client,
                              j->node->id, j->node->attempts),
    };
    spec.envp = environment_make(&a, &e, c.env);
    spec.token = e.token;
    if (d->o.log_dir)
        spec.log_path = arena_printf(&a, "%s/%" PRIu64 "-%" PRIu32 ".log", d->o.log_dir,
                                     j->node->id, j->node->attempts);
    j->node->run = runner_start(j->agent->runner, &spec, on_run_done, NULL, j, &status, &why);
    if (!j->node->run)
        not_started(j, why.text, status);
    arena_release(&a);
}

static void on_claimed(void *arg, int err, struct node *n)
{
    struct job *j = arg;

    if (err || j->life != j->agent->life) {
        job_free(j);
        return;
    }
    j->node = n;
    j->task = n->task;
    if (n->kill_asked) {
        struct outcome o = {.how = RUN_KILLED};

        dag_ended(j->agent->dag, n, AGENT_SERVE, j->task, &o, NULL, NULL);
        job_free(j);
    } else {
        start(j);
    }
}

void serve_agent_schedule(struct serve_agent *a)
{
    static const struct str group = {NODE_GROUP_DEFAULT, sizeof NODE_GROUP_DEFAULT - 1};

    while (a->busy < a->dag->o.jobs) {
        struct job *j = mem_zalloc(sizeof *j);
        bool busy;

        *j = (struct job){.agent = a, .life = a->life};
        if (!dag_claim(a->dag, AGENT_SERVE, &group, 1, 0, &busy, on_claimed, j)) {
            free(j);
            return;
        }
        a->busy++;
    }
}

void serve_agent_kill(struct serve_agent *a, struct node *n)
{
    (void)a;
    if (n->run)
        run_kill(n->run, RUN_GRACE_MS);
}

void serve_agent_drop(struct serve_agent *a)
{
    a->life++;
    for (uint32_t i = 0; i < a->dag->running_count; i++) {
        struct node *n = a->dag->running[i];

        if (n->run)
            run_kill(n->run, 0);
    }
}

struct serve_agent *serve_agent_open(struct dag *d)
{
    struct serve_agent *a = mem_zalloc(sizeof *a);

    a->dag = d;
    a->runner = runner_open(d->o.loop, RUNNER_BY_CGROUP);
    return a;
}

void serve_agent_close(struct serve_agent *a)
{
    runner_close(a->runner);
    free(a);
}
