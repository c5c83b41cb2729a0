/* Groups change, so their metrics are collected for each page; at most GROUPS_MAX are named. */
#include "task/http.h"

enum { GROUPS_MAX = 1000 };

struct task_groups {
    struct arena arena;
    struct store_group *groups;
    size_t count;
};

static void look(void *arg, struct store *s, int64_t now_ms)
{
    struct task_groups *c = arg;
    store_groups(s, now_ms, &c->arena, &c->groups, &c->count);
}

static void put_sample(struct buf *page, struct str group, const char *state, size_t count)
{
    CLEANUP(buf_release) struct buf labels = {0};
    metrics_put_label(&labels, "group", group);
    metrics_put_label(&labels, "state", str_of(state));
    metrics_put_sample(page, "drover_tasks", buf_str(&labels), (double)count);
}

static void collect(void *arg, struct buf *page)
{
    struct task_metrics *f = arg;
    struct task_groups c = {0};
    size_t available = 0, owned = 0;
    service_look(f->service, look, &c);
    if (c.count)
        metrics_put_family(page, "drover_tasks", "gauge", "Tasks by group and state.");
    for (size_t i = 0; i < c.count; i++) {
        if (i < GROUPS_MAX) {
            put_sample(page, c.groups[i].name, "available", c.groups[i].available);
            put_sample(page, c.groups[i].name, "owned", c.groups[i].owned);
        } else {
            available += c.groups[i].available;
            owned += c.groups[i].owned;
        }
    }
    if (c.count > GROUPS_MAX) { /* the empty name: no group has it */
        put_sample(page, STR(""), "available", available);
        put_sample(page, STR(""), "owned", owned);
    }
    arena_release(&c.arena);
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
    {"drover_task_last_id", "gauge", "The last id that was given.", read_last_id},
};

void task_metrics_open(struct task_metrics *f, struct metrics *m, struct service *s)
{
    static const char *const kinds[] = {"kind=\"update\"", "kind=\"claim\"", "kind=\"read\""};
    static const char help[] = "How long requests took, until what they saw was durable.";
    f->service = s;
    for (int i = 0; i < 3; i++) /* in the order of enum task_kind */
        f->latency[i] = metrics_histogram(m, "drover_task_seconds", kinds[i], help);
    for (size_t i = 0; i < sizeof FIGURES / sizeof *FIGURES; i++)
        metrics_read(m, FIGURES[i].name, FIGURES[i].type, "", FIGURES[i].help, FIGURES[i].read, s);
    metrics_collector(m, collect, f);
}
