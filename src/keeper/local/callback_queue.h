/*
 * callback_queue - the callbacks of one keeper, in order, on the right thread, each once it may
 * pass the gate.
 *
 * Callbacks are posted in the order in which things happened. A delivery thread, started with the
 * first callback, waits at the gate and runs them one by one. If the owner has a loop of its own
 * and gave a `wake`, there is no thread: the queue subscribes to the gate, wakes the owner, and
 * callback_queue_dispatch() runs on the owner's thread whatever may pass.
 *
 * The store's lock guards the queue.
 */
#ifndef KEEPER_LOCAL_CALLBACK_QUEUE_H
#define KEEPER_LOCAL_CALLBACK_QUEUE_H

#include "keeper/journal/gate.h"
#include "keeper/keeper.h"

/*
 * `run` is called once, without the lock, with 0 or with IO if the journal has failed, and frees
 * it.
 */
struct callback {
    TAILQ_ENTRY(callback) link;
    struct gate_ticket ticket;
    const void *subject; /* by which callbacks can be withdrawn, NULL: never */
    void (*run)(struct callback *callback, int err);
    void (*drop)(struct callback *callback); /* withdrawn: only frees it */
};

struct callback_queue {
    struct gate *gate;
    TAILQ_HEAD(, callback) callbacks;
    void (*wake)(void *arg);
    void *wake_arg;
    struct gate_waiter waiter;
    pthread_cond_t changed;
    pthread_t delivery;
    bool delivery_runs, stop;

    bool running;     /* a callback, at the moment: */
    pthread_t runner; /* on which thread */
    const void *subject;
};

void callback_queue_init(struct callback_queue *q, struct gate *gate,
                         const struct keeper_options *o);

/* Runs the remaining callbacks, then ends. Not from inside a callback, not under the lock. */
void callback_queue_close(struct callback_queue *q);

/* Under the lock. */
void callback_queue_post(struct callback_queue *q, struct callback *callback);

/*
 * Wakes the owner when something that saw lsn may pass the gate. Under the lock. Does nothing
 * without `wake`.
 */
void callback_queue_wake_at(struct callback_queue *q, int64_t lsn);

/* Not under the lock. */
void callback_queue_dispatch(struct callback_queue *q);

/*
 * Drops the callbacks of a subject and waits for the end of one that is running. True: the caller
 * is that callback, so what it points to must live until it returns. Not under the lock.
 */
bool callback_queue_withdraw(struct callback_queue *q, const void *subject);

#endif
