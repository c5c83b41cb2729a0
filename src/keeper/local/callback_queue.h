/*
 * mailbox - callbacks, in order, on the right thread, not before what they tell is durable.
 *
 * Letters are posted in the order in which things happened. A courier thread, started with the first
 * letter, waits until the head of the queue may be read and then runs it; or, when the owner has a
 * loop of its own and gave a `wake`, lays it out for mailbox_dispatch on the owner's thread.
 */
#ifndef KEEPER_LOCAL_CALLBACK_QUEUE_H
#define KEEPER_LOCAL_CALLBACK_QUEUE_H

#include <pthread.h>

#include "keeper/journal/journal.h"
#include "keeper/keeper.h"

/*
 * One callback to come. run is called once with the outcome of the waiting (0, or IO when the journal
 * failed) and frees the letter.
 */
struct callback {
    struct callback *next;
    struct journal_ticket ticket;
    const void *subject; /* by which letters can be withdrawn, NULL: never */
    void (*run)(struct callback *callback, int err);
    void (*drop)(struct callback *callback); /* withdrawn: only frees it */
};

struct callback_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct journal *journal; /* NULL: nothing to wait for */
    struct callback *sealed, **sealed_end;
    struct callback *ready, **ready_end;
    void (*wake)(void *arg);
    void *wake_arg;
    pthread_t delivery;
    bool delivery_runs, stop;

    pthread_t reader; /* who runs a letter at the moment */
    bool reading;
    const void *subject;
};

void callback_queue_init(struct callback_queue *m, struct journal *journal,
                         const struct keeper_options *o);

/* Delivers what is left, then ends. Not from inside a letter. */
void callback_queue_close(struct callback_queue *m);

void callback_queue_post(struct callback_queue *m, struct callback *callback);
void callback_queue_dispatch(struct callback_queue *m);

/*
 * Drops the letters about a subject and waits for one that is being read to be finished. True: this
 * thread is inside such a letter itself, so what it points to must live until it returns.
 */
bool callback_queue_withdraw(struct callback_queue *m, const void *subject);

#endif
