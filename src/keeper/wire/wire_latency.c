/*
 * How long requests take: from the moment at which the loop has read a request until its answer is
 * given to the socket, which includes the wait for the disk. In milliseconds, as in ZooKeeper.
 * Every request counts, and the connect request that opens a session, but not auth.
 *
 * It must cost nothing. The clock is read once for all packets that arrive together (wire.now_ms),
 * and once for all answers that leave together. In between nothing is kept per request: answers
 * that wait for the same thing share a struct wire_waits.
 */
#include "keeper/wire/wire_impl.h"

void wire_waits_add(struct wire_waits *to, int64_t read_ms)
{
    if (!to->count++)
        to->first_ms = read_ms;
    to->last_ms = read_ms;
    to->sum_ms += read_ms;
}

void wire_waits_move(struct wire_waits *to, struct wire_waits *from)
{
    for (int kind = 0; kind < WIRE_LATENCY_KINDS; kind++, to++, from++) {
        if (!from->count)
            continue;
        if (!to->count)
            to->first_ms = from->first_ms;
        to->last_ms = from->last_ms; /* answers leave in the order of their requests */
        to->count += from->count;
        to->sum_ms += from->sum_ms;
        *from = (struct wire_waits){0};
    }
}

void wire_waits_settle(struct wire_conn *c, int64_t now_ms)
{
    int64_t last_ms = 0;
    for (int kind = 0; kind < WIRE_LATENCY_KINDS; kind++) {
        struct wire_waits *w = &c->open_waits[kind];
        if (!w->count)
            continue;
        struct summary latency = {
            .count = w->count,
            .sum = (int64_t)w->count * now_ms - w->sum_ms,
            .min = now_ms - w->last_ms,
            .max = now_ms - w->first_ms,
        };
        summary_merge(&c->traffic.latency, &latency);
        summary_merge(&c->w->totals.latency[kind], &latency);
        if (last_ms < w->last_ms)
            last_ms = w->last_ms;
        c->unsent -= w->count;
        c->w->unsent -= w->count;
        *w = (struct wire_waits){0};
    }
    if (!last_ms)
        return;
    c->traffic.last_sent_ms = now_ms;
    c->traffic.last_latency_ms = now_ms - last_ms;
}
