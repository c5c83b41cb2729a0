/* Looking at a service: who watches it, and what it has. */
#include "base/thread.h"
#include "task/service_impl.h"

void service_observe(struct service *s, const struct service_observer *o)
{
    LOCKED(&s->lock);
    s->observer = *o;
}

void service_watch(struct service *s, service_event_fn *event, void *arg)
{
    LOCKED(&s->lock);
    s->event = event;
    s->event_arg = arg;
}

size_t service_wanted(struct service *s, struct str group, size_t max)
{
    size_t count = 0;
    LOCKED(&s->lock);
    const struct claim_group *g = claim_queue_group(&s->waiting, group);
    for (const struct claim_link *l = g ? g->first : NULL; l && count < max; l = l->next)
        if (!l->r->claim.tasks_only)
            count += l->r->claim.limit ? l->r->claim.limit : 1;
    return count < max ? count : max;
}

void service_look(struct service *s, void (*look)(void *arg, struct store *s, int64_t now_ms),
                  void *arg)
{
    LOCKED(&s->lock);
    if (s->store)
        look(arg, s->store, service_now_ms(s));
}

void service_tally(struct service *s)
{
    LOCKED(&s->lock);
    s->tallies = tallies_new();
}

void service_fold(struct service *s, const char *label, bool (*has)(void *arg, struct str group),
                  void *arg)
{
    LOCKED(&s->lock);
    if (s->tallies)
        tallies_fold(s->tallies, label, has, arg);
}

void service_unfold(struct service *s, const void *arg)
{
    LOCKED(&s->lock);
    if (s->tallies)
        tallies_unfold(s->tallies, arg);
}

struct task_tallies *service_tallies(struct service *s)
{
    return s->tallies;
}

void service_look_at_tallies(struct service *s,
                             void (*look)(void *arg, struct task_tallies *t, struct store *store,
                                          int64_t now_ms),
                             void *arg)
{
    LOCKED(&s->lock);
    look(arg, s->tallies, s->store, service_now_ms(s));
}

void service_stats(struct service *s, struct service_stats *ret_stats)
{
    LOCKED(&s->lock);
    *ret_stats = s->stats;
    ret_stats->waiting = s->waiting.count;
    ret_stats->tasks = s->store ? store_count(s->store) : 0;
    ret_stats->last_id = s->store ? store_last_id(s->store) : 0;
}

bool service_is_ready(struct service *s)
{
    LOCKED(&s->lock);
    return s->state == SERVICE_READY;
}
