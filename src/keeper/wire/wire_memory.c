/*
 * The memory that all connections hold together: answers that their clients have not read, answers
 * that wait for the disk, requests that have not arrived completely.
 *
 * Each connection has limits of its own, but ten thousand of them could hold gigabytes. When the
 * sum is too large, the connection that has made no progress for longest is closed, and so on until
 * it is not: a client that does not read loses its connection to those that do. Its session stays,
 * and it may connect again. Connections that hold little are left alone.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "keeper/wire/wire_impl.h"

enum { LITTLE_LEN = 64 * 1024 };

static void leave_holders(struct wire_conn *c)
{
    if (c->holds)
        TAILQ_REMOVE(&c->w->holders, c, holder_link);
    c->holds = false;
}

static void report(struct wire *w)
{
    char line[160];
    uint64_t unsaid = refusals_add(&w->evicted, clock_boot_ms());
    snprintf(line, sizeof line,
             "closed %" PRIu64 " ZooKeeper connections: unread answers and unfinished requests use "
             "up the memory (--memory)",
             unsaid);
    if (unsaid && w->l->o.note)
        w->l->o.note(w->l->o.arg, line);
}

static void evict(struct wire *w, struct wire_conn *c)
{
    report(w);
    wire_conn_close(c);
}

void wire_memory_count(struct wire_conn *c)
{
    struct wire *w = c->w;
    size_t holds = c->closing ? 0 : c->in.len + c->out.len + c->sending.len;
    w->held += holds - c->held;
    c->held = holds;
    leave_holders(c);
    if (holds <= LITTLE_LEN)
        return;
    c->holds = true;
    TAILQ_INSERT_TAIL(&w->holders, c, holder_link);
    if (holds > (size_t)w->o.memory_max)
        evict(w, c);
    while (w->held > (size_t)w->o.memory_max && TAILQ_FIRST(&w->holders))
        evict(w, TAILQ_FIRST(&w->holders));
}
