/*
 * Nodes by state, and how long runs took.
 *
 * A run begins when its command is started, here or by an agent on another machine. A server that
 * takes over, after a restart or as the next leader, does not know since when the commands of
 * agents run: their ends count, without a duration.
 */
#include "http/metrics.h"
#include "dag/output_store.h"
#include "dag/service.h"

static const char *const OUTCOMES[DAG_OUTCOMES] = {
    [DAG_OUTCOME_FINISHED] = "outcome=\"finished\"",
    [DAG_OUTCOME_FAILED] = "outcome=\"failed\"",
    [DAG_OUTCOME_KILLED] = "outcome=\"killed\"",
    [DAG_OUTCOME_TIMED_OUT] = "outcome=\"timed_out\"",
    [DAG_OUTCOME_LOST] = "outcome=\"lost\"",
};

/* One byte per node, so a million of them take less than a millisecond. */
static void collect(void *arg, struct buf *page)
{
    const struct dag *d = arg;
    uint32_t counts[SHOWN_NONE + 1] = {0};
    metrics_put_family(page, "drover_dag_nodes", "gauge", "Nodes by state.");
    if (!d->ready)
        return;
    for (uint32_t i = 0; i < d->graph.count; i++)
        counts[d->graph.shown[i]]++;
    for (enum node_state s = NODE_INCIPIENT; s <= NODE_SKIPPED; s++) {
        CLEANUP(buf_release) struct buf labels = {0};
        metrics_put_label(&labels, "state", str_of(node_state_name(s)));
        metrics_put_sample(page, "drover_dag_nodes", buf_str(&labels), counts[s]);
    }
}

static double read_jobs(void *arg)
{
    return ((const struct dag *)arg)->jobs;
}

static bool is_own_group(void *arg, struct str group)
{
    (void)arg;
    return str_eq(group, STR(NODE_GROUP_DEFAULT));
}

static double read_output_bytes(void *arg)
{
    const struct dag *d = arg;
    return d->outputs ? (double)output_store_numbers(d->outputs).bytes : 0;
}

static double read_output_missing(void *arg)
{
    const struct dag *d = arg;
    return d->outputs ? (double)output_store_numbers(d->outputs).missing : 0;
}

void dag_metrics_open(struct dag *d)
{
    struct metrics *m = d->context->metrics;
    struct dag_metrics *f = &d->metrics;
    f->started = metrics_counter(m, "drover_dag_runs_started_total", NULL,
                                 "Commands that were started, here or by agents.");
    for (int i = 0; i < DAG_OUTCOMES; i++) {
        f->ended[i] = metrics_counter(m, "drover_dag_runs_total", OUTCOMES[i],
                                      "Commands that have ended, each attempt.");
        f->seconds[i] = metrics_histogram(m, "drover_dag_run_seconds", OUTCOMES[i],
                                          "How long commands ran.", &HISTOGRAM_RUN);
    }
    metrics_read(m, "drover_dag_jobs", "gauge", NULL,
                 "Commands that this server runs at a time, at most.", read_jobs, d);
    metrics_read(m, "drover_output_bytes", "gauge", NULL,
                 "Bytes in the files with what commands printed.", read_output_bytes, d);
    metrics_read(m, "drover_output_missing_bytes_total", "counter", NULL,
                 "Bytes that commands printed and that were not kept.", read_output_missing, d);
    metrics_collector(m, collect, d);
    service_fold(d->context->tasks, "dag", is_own_group, NULL);
}

void dag_count_start(struct dag *d, struct dag_node *n)
{
    n->run_ms = dag_now_ms(d);
    counter_add(d->metrics.started, 1);
}

static enum dag_outcome outcome_of(enum node_state state, const struct run_end *end)
{
    if (state == NODE_FINISHED)
        return DAG_OUTCOME_FINISHED;
    if (state == NODE_KILLED)
        return DAG_OUTCOME_KILLED;
    if (end->how == RUN_TIMED_OUT)
        return DAG_OUTCOME_TIMED_OUT;
    return end->lost ? DAG_OUTCOME_LOST : DAG_OUTCOME_FAILED;
}

void dag_count_end(struct dag *d, struct dag_node *n, enum node_state state,
                   const struct run_end *end)
{
    enum dag_outcome outcome = outcome_of(state, end);
    int64_t ran_ms = n->run_ms ? dag_now_ms(d) - n->run_ms : -1;
    if (n->run_ms || n->begun)
        counter_add(d->metrics.ended[outcome], 1);
    if (ran_ms >= 0)
        histogram_add(d->metrics.seconds[outcome], (uint64_t)ran_ms * 1000000);
    n->run_ms = 0;
}
