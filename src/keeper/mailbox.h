/*
 * mailbox - callbacks, in order, on the right thread, not before what they tell is durable.
 *
 * Letters are posted in the order in which things happened. A courier thread, started with the first
 * letter, waits until the head of the queue may be read and then runs it; or, when the owner has a
 * loop of its own and gave a `wake`, lays it out for mailbox_dispatch on the owner's thread.
 */
#ifndef KEEPER_MAILBOX_H
#define KEEPER_MAILBOX_H

#include <pthread.h>

#include "keeper/journal.h"
#include "keeper/keeper.h"

/*
 * One callback to come. run is called once with the outcome of the waiting (0, or IO when the journal
 * failed) and frees the letter.
 */
struct letter {
    struct letter *next;
    struct journal_ticket ticket;
    const void *subject; /* by which letters can be withdrawn, NULL: never */
    void (*run)(struct letter *letter, int err);
    void (*drop)(struct letter *letter); /* withdrawn: only frees it */
};

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct journal *journal; /* NULL: nothing to wait for */
    struct letter *sealed, **sealed_end;
    struct letter *ready, **ready_end;
    void (*wake)(void *arg);
    void *wake_arg;
    pthread_t courier;
    bool courier_runs, stop;

    pthread_t reader; /* who runs a letter at the moment */
    bool reading;
    const void *subject;
};

void mailbox_init(struct mailbox *m, struct journal *journal, const struct keeper_options *o);

/* Delivers what is left, then ends. Not from inside a letter. */
void mailbox_close(struct mailbox *m);

void mailbox_post(struct mailbox *m, struct letter *letter);
void mailbox_dispatch(struct mailbox *m);

/*
 * Drops the letters about a subject and waits for one that is being read to be finished. True: this
 * thread is inside such a letter itself, so what it points to must live until it returns.
 */
bool mailbox_withdraw(struct mailbox *m, const void *subject);

#endif
