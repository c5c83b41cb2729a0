/*
 * gate - when an answer may leave the store.
 *
 * The invariant: an answer leaves when the journal is durable up to the last transaction that the
 * answer saw. It holds for reads and changes, for successes and refusals, for watch events, in
 * process and on every port. "Durable" means synced in strict mode. In the other modes the gate is
 * always open.
 *
 * There is one gate per store. Whoever looked at the tree notes, under the store's lock, the LSN of
 * the last transaction that it saw, and then does one of two things:
 *
 *     gate_ticket -> unlock -> gate_wait     a thread that may block
 *     gate_state, gate_subscribe             a loop: asks, or is called once when to ask again
 *
 * A thread that blocks also hastens: it writes the round itself if nobody is writing, and deferred
 * records (journal.h) are written at once. A subscriber does not: deferred records are written when
 * the loop that deferred them has nothing else to do.
 *
 * After a failed write or sync the gate is shut for good: gate_wait() and gate_state() return IO,
 * and all subscribers are called.
 */
#ifndef KEEPER_JOURNAL_GATE_H
#define KEEPER_JOURNAL_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct journal;

/* A subscription. Zero-initialise, set `moved` and `arg`; it lives as long as it is subscribed. */
struct gate_waiter {
    void (*moved)(void *arg); /* called under the store's lock, on any thread */
    void *arg;
    int64_t lsn;
    bool subscribed;
    LIST_ENTRY(gate_waiter) link; /* in gate.waiters */
};

/* Zero-initialise it and set `lock`; the rest is the journal's. */
struct gate {
    pthread_mutex_t *lock;            /* the store's */
    struct journal *journal;          /* NULL: there is none, and the gate is always open */
    bool strict;                      /* answers wait for the disk */
    LIST_HEAD(, gate_waiter) waiters; /* under the lock */
    _Atomic int64_t durable;          /* LSN up to which everything is on disk */
    _Atomic bool failed;
    _Atomic uint32_t rounds[2];   /* futexes: one for the round being written, one for the next */
    _Atomic uint32_t sleepers[2]; /* threads on each of them */
};

/* What a thread waits for: an LSN, and the futex of the round that it is part of. */
struct gate_ticket {
    int64_t lsn;
    unsigned round;
};

/* Under the lock. */
struct gate_ticket gate_ticket(const struct gate *g, int64_t lsn);

/* Not under the lock. Returns when an answer that saw the ticket's LSN may leave: 0, or IO. */
int gate_wait(struct gate *g, struct gate_ticket t);

/* The same, and the transaction is on disk in opportunistic mode too. */
int gate_wait_synced(struct gate *g, int64_t lsn);

/*
 * 1: an answer that saw lsn may leave. 0: not yet. IO: it never will. Any thread, with or without
 * lock.
 */
int gate_state(const struct gate *g, int64_t lsn);

/*
 * Has `moved` called once, when gate_state(g, lsn) is no longer 0. Several subscriptions of one
 * waiter are one, for the smallest LSN. Under the lock. False: it is not 0 now, and `moved` will
 * not be called.
 */
bool gate_subscribe(struct gate *g, struct gate_waiter *w, int64_t lsn);

/* Under the lock. Does nothing if it is not subscribed. */
void gate_unsubscribe(struct gate_waiter *w);

/*
 * For the journal. gate_raise() wakes the threads of a round, not under the lock; gate_notify()
 * calls the subscribers, under it. After a failure: gate_shut(), false if it was shut before, then
 * gate_notify() and gate_wake_all().
 */
void gate_raise(struct gate *g, int64_t durable, unsigned round);
void gate_notify(struct gate *g);
bool gate_shut(struct gate *g);
void gate_wake_all(struct gate *g);

#endif
