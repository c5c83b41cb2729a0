/*
 * sim - queues, workers and a keeper in simulated time.
 *
 * Everything that is not simulated is real: the worker's state machine, its steps on the keeper,
 * the assignment, and the keeper's tree. Simulated are time, the connection to the keeper (slow,
 * broken, cut), the expiry of sessions, messages, and what happens to workers.
 *
 * While a worker waits for the keeper, time goes on: a call runs other events, which may make calls
 * of their own, before and after it takes effect. So any two steps of two workers meet in any
 * order.
 *
 * Invariants are checked at each change of the tree and whenever a message is started; the first
 * violation ends the program with the seed and the time.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "keeper/tree/tree.h"
#include "queue/registration.h"

enum { NEST_MAX = 6, MESSAGES_MAX = 64 };

struct sim;

/* A session's connection to the tree. */
struct sim_keeper {
    struct keeper base;
    struct sim *world;
    struct sim_worker *worker; /* NULL: the simulation's own, never delayed */
    int64_t session;           /* 0: ended */
};

/* A message in progress. */
struct sim_work {
    char queue[QUEUE_NAME_LEN_MAX + 1];
    int64_t id;
};

struct sim_worker {
    struct queue_steps steps;
    struct sim_keeper keeper;
    int number;
    bool alive;        /* the process runs */
    bool busy;         /* inside a keeper call */
    bool cut_off;      /* the keeper is unreachable */
    int64_t resume_ms; /* paused until then */
    int64_t heard_ms;  /* by the keeper */
    int64_t wake_ms;   /* of the scheduled wake-up */
    bool was_changed;  /* events it heard while it was paused or busy */
    struct sim_work *works;
    int work_count;
};

struct sim_queue {
    char name[QUEUE_NAME_LEN + 1];
    bool removed;
    int64_t messages[MESSAGES_MAX];
    bool handled[MESSAGES_MAX]; /* by some worker, completely */
    int message_count;
    int64_t last;
    char owner[64];
    uint64_t takes;
};

enum event_kind {
    EVENT_WAKE,
    EVENT_CHANGED,
    EVENT_FREED,
    EVENT_POSTED,
    EVENT_WORKED,
    EVENT_EXPIRE,
    EVENT_CHAOS
};

struct event {
    int64_t at_ms;
    uint64_t order;
    enum event_kind kind;
    int worker;
    int queue;
    int64_t number;
    int64_t session;
};

struct sim_options {
    uint64_t seed;
    int workers, queues, workers_max; /* at the start; chaos starts no more than that */
    int64_t quiet_ms, timeout_ms;
    int parallel;
    bool faults; /* slow and failing calls */
};

struct sim {
    struct sim_options o;
    uint64_t random;
    int64_t now_ms;
    int nest;

    struct tree tree;
    struct tree_changes changes;
    struct sim_keeper own;
    struct queues queues_at;

    struct sim_worker **workers; /* their addresses are stable */
    int worker_count;
    struct sim_queue *queues;
    int queue_count;
    int64_t last_id;

    struct event *events; /* a heap */
    size_t event_count, event_cap;
    uint64_t order;

    /* An event that schedules the next one; with it, connections break. NULL: calm. */
    void (*chaos)(struct sim *w);
    uint64_t calls, messages_handled;
};

void sim_init(struct sim *w, const struct sim_options *o);
void sim_release(struct sim *w);

/* Uniform random numbers below bound. */
uint64_t sim_random(struct sim *w, uint64_t bound);

void sim_schedule(struct sim *w, struct event e);
void sim_run_until(struct sim *w, int64_t at_ms);

/* Events. */
struct sim_worker *sim_start_worker(struct sim *w);
void sim_kill(struct sim *w, struct sim_worker *worker);
void sim_stop(struct sim *w, struct sim_worker *worker);
void sim_pause(struct sim *w, struct sim_worker *worker, int64_t ms);
void sim_cut_off(struct sim *w, struct sim_worker *worker, int64_t ms);
void sim_add_queue(struct sim *w);
void sim_remove_queue(struct sim *w, struct sim_queue *q);
void sim_post(struct sim *w, struct sim_queue *q);

/* At rest: every queue has an owner, shares differ by one at most. NULL, or the violation. */
const char *sim_balanced(struct sim *w);

/* Ends the program, with the seed, unless it holds. */
void sim_check(const struct sim *w, bool holds, const char *what);

/* How many queues the worker owns, as far as it knows; with a name: whether it owns that one. */
static inline size_t sim_owned(const struct queue_worker *w, const char *queue)
{
    size_t count = 0;

    for (size_t i = 0; i < w->assignment_count; i++)
        if (!queue || !strcmp(w->assignments[i].queue, queue))
            count += queue_assignment_is_held(&w->assignments[i]);
    return count;
}

/* The simulated keeper. */
void sim_keeper_init(struct sim_keeper *k, struct sim *w, struct sim_worker *worker);
void sim_keeper_open(struct sim_keeper *k);
void sim_keeper_expire(struct sim_keeper *k);

/* Checks and reports the changes of one transaction, by the session that made them. */
void sim_changed(struct sim *w, const struct tree_changes *c, const struct sim_worker *by);

/* For the checks of changes (changes.c). */
struct sim_queue *sim_find_queue(struct sim *w, const char *name); /* NULL: none */
int sim_next_message(const struct sim_queue *q, int64_t last);     /* its index; -1: none */
void sim_broadcast(struct sim *w, enum event_kind kind, int queue);

#endif
