/*
 * Threads sleep on one of two futexes: the round being written has one, the round that takes
 * records has the other. A finished round thus wakes exactly the threads that wait for it. (A
 * condition variable woke all of them twice and made them queue for its mutex.)
 */
#include "keeper/journal/gate.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "keeper/journal/journal.h"

enum { YIELDS = 3 };

static void wake_round(struct gate *g, unsigned round)
{
    atomic_fetch_add(&g->rounds[round], 1);
    if (atomic_load(&g->sleepers[round])) /* one that comes now sees `durable` or `failed` */
        syscall(SYS_futex, &g->rounds[round], FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void gate_raise(struct gate *g, int64_t durable, unsigned round)
{
    atomic_store(&g->durable, durable);
    wake_round(g, round);
    if (!g->strict) /* several rounds share a sync */
        wake_round(g, !round);
}

void gate_notify(struct gate *g)
{
    for (struct gate_waiter *w = LIST_FIRST(&g->waiters), *next; w; w = next) {
        next = LIST_NEXT(w, link);
        if (!gate_state(g, w->lsn))
            continue;
        gate_unsubscribe(w);
        w->moved(w->arg);
    }
}

bool gate_shut(struct gate *g)
{
    return !atomic_exchange(&g->failed, true);
}

void gate_wake_all(struct gate *g)
{
    wake_round(g, 0);
    wake_round(g, 1);
}

int gate_state(const struct gate *g, int64_t lsn)
{
    if (atomic_load(&g->failed))
        return DROVER_IO;
    return !g->strict || atomic_load(&g->durable) >= lsn;
}

bool gate_subscribe(struct gate *g, struct gate_waiter *w, int64_t lsn)
{
    if (gate_state(g, lsn))
        return false;
    if (!w->subscribed)
        LIST_INSERT_HEAD(&g->waiters, w, link);
    w->lsn = w->subscribed && w->lsn < lsn ? w->lsn : lsn;
    w->subscribed = true;
    return true;
}

void gate_unsubscribe(struct gate_waiter *w)
{
    if (w->subscribed)
        LIST_REMOVE(w, link);
    w->subscribed = false;
}

struct gate_ticket gate_ticket(const struct gate *g, int64_t lsn)
{
    return (struct gate_ticket){lsn, g->strict ? journal_round(g->journal, lsn) : 0};
}

/*
 * With many threads waiting, others have changes of their own to make before the disk answers. To
 * let them run costs less than to sleep and be woken, and afterwards the round is often on disk.
 */
static void yield_to_others(const struct gate *g, int64_t lsn)
{
    if (!atomic_load(&g->journal->crowded))
        return;
    for (int i = 0; i < YIELDS && atomic_load(&g->durable) < lsn; i++)
        sched_yield();
}

static int sleep_until(struct gate *g, struct gate_ticket t)
{
    yield_to_others(g, t.lsn);
    atomic_fetch_add(&g->sleepers[t.round], 1);
    for (;;) {
        uint32_t seen = atomic_load(&g->rounds[t.round]);
        if (atomic_load(&g->failed) || atomic_load(&g->durable) >= t.lsn)
            break;
        syscall(SYS_futex, &g->rounds[t.round], FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    }
    atomic_fetch_sub(&g->sleepers[t.round], 1);
    return atomic_load(&g->failed) ? DROVER_IO : 0;
}

int gate_wait(struct gate *g, struct gate_ticket t)
{
    int state = gate_state(g, t.lsn);
    if (state)
        return state > 0 ? 0 : state;
    journal_hasten(g->journal, t.lsn);
    return sleep_until(g, t);
}

int gate_wait_synced(struct gate *g, int64_t lsn)
{
    return g->journal ? sleep_until(g, journal_request_sync(g->journal, lsn)) : 0;
}
