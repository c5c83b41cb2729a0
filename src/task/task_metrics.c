/*
 * Metrics of tasks by group, from the tallies of the service; and of requests.
 *
 * Writing the page holds the service's lock, so its cost is bounded whatever the number of groups
 * and tasks is: it looks at the groups that have a name, at UNNAMED_MAX that have none, and at
 * LOOK_MAX tasks to find the oldest.
 */
#include "task/http.h"
#include "task/tally.h"

enum { LOOK_MAX = 20000, UNNAMED_MAX = 1000 };

/* One for each kind of event. */
static const struct {
    enum tally_kind kind;
    const char *name, *help;
} COUNTS[] = {
    {TALLY_ADDED, "drover_tasks_added_total", "Tasks that were added."},
    {TALLY_CLAIMED, "drover_tasks_claimed_total", "Tasks that were claimed."},
    {TALLY_FINISHED, "drover_tasks_finished_total",
     "Tasks that their owner has finished or deleted."},
    {TALLY_DELETED, "drover_tasks_deleted_total", "Tasks that were deleted without an owner."},
    {TALLY_FAILED, "drover_tasks_failed_total", "Tasks that failed and are tried again."},
    {TALLY_DEAD, "drover_tasks_dead_total", "Tasks that died."},
};

enum { COUNTS_COUNT = sizeof COUNTS / sizeof *COUNTS };

struct tally_page {
    struct buf depth, oldest, counts[COUNTS_COUNT]; /* samples of each family */
    size_t known_available, tasks;                  /* of the groups that have a name */
};

static void put_counts(struct tally_page *p, struct str labels, const struct task_tally *t)
{
    for (size_t i = 0; i < COUNTS_COUNT; i++)
        metrics_put_sample(&p->counts[i], COUNTS[i].name, labels,
                           (double)t->counts[COUNTS[i].kind]);
}

static void put_depth(struct tally_page *p, struct str labels, size_t available, size_t owned)
{
    CLEANUP(buf_release) struct buf all = {0};
    buf_put_str(&all, labels);
    metrics_put_label(&all, "state", STR("available"));
    metrics_put_sample(&p->depth, "drover_tasks", buf_str(&all), (double)available);
    all.len = labels.len;
    metrics_put_label(&all, "state", STR("owned"));
    metrics_put_sample(&p->depth, "drover_tasks", buf_str(&all), (double)owned);
}

/* store NULL: another server has the tasks. */
static void put_group(struct tally_page *p, struct task_tallies *t, struct task_tally *one,
                      struct store *store, int64_t now_ms)
{
    CLEANUP(buf_release) struct buf labels = {0};
    struct store_depth d;
    bool in_use = store && store_depth(store, one, now_ms, LOOK_MAX / t->used, &d);
    if (!tally_keep(t, one, in_use, now_ms))
        return;
    metrics_put_label(&labels, "group", str_of(one->label));
    put_counts(p, buf_str(&labels), one);
    if (!store)
        return;
    put_depth(p, buf_str(&labels), d.available, d.owned);
    metrics_put_sample(&p->oldest, "drover_tasks_oldest_seconds", buf_str(&labels),
                       (double)d.age_ms / 1000);
    p->known_available += d.available - d.due;
    p->tasks += d.available + d.owned;
}

static struct str folded_labels(struct buf *b, const char *what)
{
    b->len = 0;
    metrics_put_label(b, "group", STR(""));
    metrics_put_label(b, "folded", str_of(what));
    return buf_str(b);
}

/* Under the service's lock. */
static void look(void *arg, struct task_tallies *t, struct store *store, int64_t now_ms)
{
    struct tally_page *p = arg;
    CLEANUP(buf_release) struct buf labels = {0};
    if (store)
        store_name_groups(store, t, UNNAMED_MAX);
    for (size_t i = 0; i < TALLY_GROUPS_MAX; i++)
        if (t->groups[i].name.p)
            put_group(p, t, &t->groups[i], store, now_ms);
    for (size_t i = 0; i < t->fold_count; i++)
        put_counts(p, folded_labels(&labels, t->folds[i].label), &t->folds[i].tally);
    put_counts(p, folded_labels(&labels, "others"), &t->others);
    if (!store)
        return;
    size_t available = store_available_count(store) - p->known_available;
    put_depth(p, buf_str(&labels), available, store_count(store) - p->tasks - available);
}

static void put_family(struct buf *page, const char *name, const char *type, const char *help,
                       struct buf *samples)
{
    metrics_put_family(page, name, type, help);
    buf_put(page, samples->p, samples->len);
    buf_release(samples);
}

static void collect(void *arg, struct buf *page)
{
    struct task_metrics *f = arg;
    struct tally_page p = {0};
    service_look_at_tallies(f->service, look, &p);
    put_family(page, "drover_tasks", "gauge", "Tasks by group and state.", &p.depth);
    put_family(page, "drover_tasks_oldest_seconds", "gauge",
               "How long the oldest available task of the group is available.", &p.oldest);
    for (size_t i = 0; i < COUNTS_COUNT; i++)
        put_family(page, COUNTS[i].name, "counter", COUNTS[i].help, &p.counts[i]);
}

/* One field of struct service_stats. */
#define FIGURE(name)                                                                               \
    static double read_##name(void *arg)                                                           \
    {                                                                                              \
        struct service_stats stats;                                                                \
        service_stats(arg, &stats);                                                                \
        return (double)stats.name;                                                                 \
    }

FIGURE(updates)
FIGURE(claims)
FIGURE(claimed)
FIGURE(refusals)
FIGURE(commits)
FIGURE(waiting)
FIGURE(last_id)

static double read_leader(void *arg)
{
    return service_is_ready(arg);
}

static const struct {
    const char *name, *type, *help;
    metrics_read_fn *read;
} FIGURES[] = {
    {"drover_task_updates_total", "counter", "Updates, refused ones too.", read_updates},
    {"drover_task_claims_total", "counter", "Claims, also those that got nothing.", read_claims},
    {"drover_task_claimed_total", "counter", "Tasks that were claimed.", read_claimed},
    {"drover_task_refusals_total", "counter", "Updates and claims that were refused.",
     read_refusals},
    {"drover_task_commits_total", "counter", "Transactions on the keeper.", read_commits},
    {"drover_task_waiting_claims", "gauge", "Claims that wait for a task.", read_waiting},
    {"drover_leader", "gauge", "1 when this server has the tasks: alone, or as the leader.",
     read_leader},
    {"drover_task_last_id", "gauge", "The last id that was given.", read_last_id},
};

void task_metrics_open(struct task_metrics *f, struct metrics *m, struct service *s)
{
    static const char *const kinds[] = {"kind=\"update\"", "kind=\"claim\"", "kind=\"read\""};
    static const char help[] = "How long requests took, until what they saw was durable.";
    f->service = s;
    service_tally(s);
    for (int i = 0; i < 3; i++) /* in the order of enum task_kind */
        f->latency[i] =
            metrics_histogram(m, "drover_task_seconds", kinds[i], help, &HISTOGRAM_LATENCY);
    for (size_t i = 0; i < sizeof FIGURES / sizeof *FIGURES; i++)
        metrics_read(m, FIGURES[i].name, FIGURES[i].type, "", FIGURES[i].help, FIGURES[i].read, s);
    metrics_collector(m, collect, f);
}
