#include "queue/registration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "keeper/txn.h"
#include "queue/membership.h"

enum { TRIES_MAX = 5 }; /* of a change that certainly did not happen */

/* Holds. */

struct queue_hold *queue_registration_find(struct queue_registration *m, const char *queue)
{
    for (size_t i = 0; i < m->hold_count; i++)
        if (!strcmp(m->holds[i].queue, queue))
            return &m->holds[i];
    return NULL;
}

static void drop_hold(struct queue_registration *m, struct queue_hold *h)
{
    *h = m->holds[--m->hold_count];
}

/* The worker's node with one queue more, or one less. Sorted, for people who read it. */
static struct str worker_data(const struct queue_registration *m, struct arena *a, const char *more,
                              const char *less)
{
    const char **names = arena_alloc(a, (m->hold_count + 1) * sizeof *names);
    size_t count = 0;
    struct buf b = {0};
    for (size_t i = 0; i < m->hold_count; i++)
        if (!less || strcmp(m->holds[i].queue, less))
            names[count++] = m->holds[i].queue;
    if (more)
        names[count++] = more;
    qsort(names, count, sizeof *names, queue_compare_names);
    queue_membership_put_worker(&b, names, count, m->only, m->only_count);
    return arena_take(a, &b);
}

static void worker_path(const struct queue_registration *m, char path[QUEUE_PATH_SIZE])
{
    queues_path(&m->queues, path, "workers/%s", m->name);
}

/* Writes what is owned now, after a queue was lost. */
static int write_worker(struct queue_registration *m)
{
    CLEANUP(arena_release) struct arena a = {0};
    char path[QUEUE_PATH_SIZE];
    worker_path(m, path);
    int err = keeper_set(m->queues.keeper, path, worker_data(m, &a, NULL, NULL), KEEPER_ANY_VERSION,
                         NULL);
    return err == DROVER_NO_NODE ? DROVER_SESSION_EXPIRED : err;
}

/* Joining and leaving. */

int queue_registration_join(struct queue_registration *m)
{
    CLEANUP(arena_release) struct arena a = {0};
    CLEANUP(mem_free) char *made = NULL;
    char path[QUEUE_PATH_SIZE];
    TRY(queues_init(&m->queues));
    m->hold_count = 0;
    queues_path(&m->queues, path, "workers/worker-");
    TRY(keeper_create(m->queues.keeper, path, worker_data(m, &a, NULL, NULL),
                      KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL, &made));
    snprintf(m->name, sizeof m->name, "%s", strrchr(made, '/') + 1);
    return 0;
}

void queue_registration_leave(struct queue_registration *m)
{
    char path[QUEUE_PATH_SIZE];
    while (m->hold_count && !queue_registration_release(m, m->holds[0].queue))
        ;
    if (m->name[0]) {
        worker_path(m, path);
        keeper_delete(m->queues.keeper, path, KEEPER_ANY_VERSION);
    }
    free(m->holds);
    m->holds = NULL;
    m->hold_count = m->hold_cap = 0;
    m->name[0] = '\0';
}

/* Checks that the session and the worker's node exist. */
static int confirm(struct queue_registration *m)
{
    char path[QUEUE_PATH_SIZE];
    worker_path(m, path);
    int err = keeper_exists(m->queues.keeper, path, NULL);
    return err == DROVER_NO_NODE ? DROVER_SESSION_EXPIRED : err;
}

/* The nodes of a queue, as read. */

struct queue_nodes {
    struct arena a;
    const char *queue;
    char path[QUEUE_PATH_SIZE], owner_path[QUEUE_PATH_SIZE], worker_path[QUEUE_PATH_SIZE];
    struct buf data; /* of the queue's node */
    struct queue_info info;
    bool mine;
};

static void nodes_name(struct queue_nodes *v, const struct queue_registration *m, const char *queue)
{
    v->queue = queue;
    queues_path(&m->queues, v->path, "queues/%s", queue);
    queues_path(&m->queues, v->owner_path, "queues/%s/owner", queue);
    worker_path(m, v->worker_path);
}

static int look(struct queue_nodes *v, const struct queue_registration *m)
{
    int err = queue_look(&m->queues, v->queue, &v->data, &v->info);
    v->mine = !strcmp(v->info.worker, m->name);
    return err;
}

/* After a change that failed. After UNKNOWN the sync decides it: it has happened or never will. */
static int look_after(int err, struct queue_nodes *v, const struct queue_registration *m)
{
    if (err == DROVER_UNKNOWN)
        TRY(keeper_sync(m->queues.keeper, v->path));
    return look(v, m);
}

/* Whether the nodes show that the queue is not ours, or gone. */
static bool is_lost(int looked, const struct queue_nodes *v, const struct queue_hold *h)
{
    if (looked && looked != DROVER_DAMAGED)
        return looked == DROVER_NO_NODE;
    return !v->mine || v->info.fence != h->fence;
}

static void nodes_release(struct queue_nodes *v)
{
    arena_release(&v->a);
    buf_release(&v->data);
}

/* Taking. */

enum { OWNER = 1, QUEUE, WORKER }; /* operations: on the owner node, the queue's, the worker's */

static int take_transaction(struct queue_registration *m, struct queue_nodes *v,
                            struct queue_hold *ret_hold)
{
    struct txn t = {.a = &v->a};
    struct buf owner = {0};
    queue_put_owner(&owner, m->name);
    txn_create(&t, OWNER, arena_take(&v->a, &owner), KEEPER_EPHEMERAL, "%s", v->owner_path);
    txn_add(&t, QUEUE, keeper_op_set(v->path, buf_str(&v->data), v->info.version));
    txn_set(&t, WORKER, worker_data(m, &v->a, v->queue, NULL), KEEPER_ANY_VERSION, "%s",
            v->worker_path);
    int err = txn_commit(&t, m->queues.keeper, 0);
    if (!err)
        *ret_hold = (struct queue_hold){.last = v->info.last,
                                        .fence = txn_stat(&t, OWNER)->czxid,
                                        .version = txn_stat(&t, QUEUE)->version};
    return err == DROVER_NO_NODE && t.failed == WORKER ? DROVER_SESSION_EXPIRED : err;
}

/* One attempt. NOT_TRIED: the nodes changed meanwhile, try again. */
static int take_once(struct queue_registration *m, struct queue_nodes *v,
                     struct queue_hold *ret_hold)
{
    TRY(look(v, m));
    if (v->mine) { /* by an earlier attempt that ended UNKNOWN */
        *ret_hold = (struct queue_hold){
            .last = v->info.last, .fence = v->info.fence, .version = v->info.version};
        return 0;
    }
    if (v->info.worker[0])
        return DROVER_IN_USE;
    int err = take_transaction(m, v, ret_hold);
    if (err == DROVER_UNKNOWN)
        TRY(keeper_sync(m->queues.keeper, v->path)); /* now it has happened or never will */
    else if (err != DROVER_EXISTS && err != DROVER_BAD_VERSION && err != DROVER_NO_NODE)
        return err;
    return DROVER_NOT_TRIED;
}

int queue_registration_take(struct queue_registration *m, const char *queue)
{
    CLEANUP(nodes_release) struct queue_nodes v = {0};
    struct queue_hold hold;
    int err = DROVER_NOT_TRIED;
    if (queue_registration_find(m, queue))
        return 0;
    nodes_name(&v, m, queue);
    for (int i = 0; i < TRIES_MAX && err == DROVER_NOT_TRIED; i++)
        err = take_once(m, &v, &hold);
    if (!err) {
        snprintf(hold.queue, sizeof hold.queue, "%s", queue);
        mem_grow(m->holds, m->hold_count, m->hold_cap);
        m->holds[m->hold_count++] = hold;
    }
    return err == DROVER_NOT_TRIED ? DROVER_IN_USE : err;
}

/* Advancing. */

static int advance_transaction(struct queue_registration *m, struct queue_nodes *v,
                               struct queue_hold *h, int64_t last)
{
    struct txn t = {.a = &v->a};
    struct buf data = {0};
    queue_put_last(&data, last);
    txn_add(&t, OWNER, keeper_op_check(v->owner_path, 0));
    txn_add(&t, QUEUE, keeper_op_set(v->path, arena_take(&v->a, &data), h->version));
    int err = txn_commit(&t, m->queues.keeper, 0);
    if (!err) {
        h->last = last;
        h->version = txn_stat(&t, QUEUE)->version;
    }
    return err;
}

static int lose(struct queue_registration *m, struct queue_hold *h, int err)
{
    drop_hold(m, h);
    int told = write_worker(m);
    return told == DROVER_SESSION_EXPIRED ? told : err;
}

/* The change did not happen, or may have: reads who owns the queue and where it stands. */
static int advance_settled(struct queue_registration *m, struct queue_nodes *v,
                           struct queue_hold *h, int64_t last, int err)
{
    int looked = look_after(err, v, m);
    if (is_lost(looked, v, h))
        return lose(m, h, looked == DROVER_NO_NODE ? looked : DROVER_FENCED);
    if (looked)
        return looked;
    if (err == DROVER_UNKNOWN && v->info.version == h->version)
        return DROVER_NOT_TRIED;
    h->version = v->info.version;
    h->last = v->info.last;
    return v->info.last == last ? 0 : DROVER_BAD_VERSION;
}

/* Whether the nodes have to be read to know what became of a change. */
static bool is_open(int err)
{
    return err == DROVER_NO_NODE || err == DROVER_BAD_VERSION || err == DROVER_UNKNOWN;
}

int queue_registration_advance(struct queue_registration *m, const char *queue, int64_t last)
{
    struct queue_hold *h = queue_registration_find(m, queue);
    CLEANUP(nodes_release) struct queue_nodes v = {0};
    int err = DROVER_NOT_TRIED;
    if (!h)
        return DROVER_FENCED;
    nodes_name(&v, m, queue);
    for (int i = 0; i < TRIES_MAX && err == DROVER_NOT_TRIED; i++) {
        err = advance_transaction(m, &v, h, last);
        if (is_open(err))
            err = advance_settled(m, &v, h, last, err);
    }
    return err == DROVER_NOT_TRIED ? DROVER_UNKNOWN : err;
}

/* Releasing. */

static int release_transaction(struct queue_registration *m, struct queue_nodes *v,
                               const struct queue_hold *h)
{
    struct txn t = {.a = &v->a};
    txn_add(&t, QUEUE, keeper_op_check(v->path, h->version));
    txn_add(&t, OWNER, keeper_op_delete(v->owner_path, 0));
    txn_set(&t, WORKER, worker_data(m, &v->a, NULL, h->queue), KEEPER_ANY_VERSION, "%s",
            v->worker_path);
    return txn_commit(&t, m->queues.keeper, 0);
}

static int release_settled(struct queue_registration *m, struct queue_nodes *v,
                           struct queue_hold *h, int err)
{
    int looked = look_after(err, v, m);
    if (is_lost(looked, v, h))
        return lose(m, h, 0);
    if (looked && looked != DROVER_DAMAGED)
        return looked;
    h->version = v->info.version;
    return DROVER_NOT_TRIED;
}

int queue_registration_release(struct queue_registration *m, const char *queue)
{
    struct queue_hold *h = queue_registration_find(m, queue);
    CLEANUP(nodes_release) struct queue_nodes v = {0};
    int err = DROVER_NOT_TRIED;
    if (!h)
        return 0;
    nodes_name(&v, m, queue);
    for (int i = 0; i < TRIES_MAX && err == DROVER_NOT_TRIED; i++) {
        err = release_transaction(m, &v, h);
        if (is_open(err))
            err = release_settled(m, &v, h, err);
        else if (!err)
            drop_hold(m, h);
    }
    return err == DROVER_NOT_TRIED ? DROVER_UNKNOWN : err;
}

/* Steps. */

static int take_step(struct queue_steps *s, const char *queue)
{
    int err = queue_registration_take(&s->registration, queue);
    char path[QUEUE_PATH_SIZE];
    if (err == DROVER_DAMAGED) {
        queues_path(&s->registration.queues, path, "queues/%s", queue);
        queue_warn(&s->warnings, path, 0, "its data is not {\"last\": \"...\"}");
    }
    return err;
}

/* Where the queue stands, as far as is known. */
static int64_t last_of(struct queue_registration *r, const char *queue)
{
    struct queue_hold *h = queue_registration_find(r, queue);
    return h ? h->last : 0;
}

int queue_step(struct queue_steps *s, const struct queue_worker_action *a)
{
    struct queue_registration *r = &s->registration;
    struct queue_worker *w = &s->worker;
    int err = 0;
    switch (a->kind) {
    case WORKER_JOIN:
        err = queue_registration_join(r);
        queue_worker_joined(w, s->now_ms(s->arg), err, r->name);
        break;
    case WORKER_LOOK:
        err = queue_membership_read(&s->membership, &r->queues, &s->warnings);
        queue_worker_looked(w, s->now_ms(s->arg), err, &s->membership);
        break;
    case WORKER_TAKE:
        err = take_step(s, a->queue);
        queue_worker_took(w, s->now_ms(s->arg), a->queue, err, last_of(r, a->queue));
        break;
    case WORKER_RELEASE:
        err = queue_registration_release(r, a->queue);
        queue_worker_released(w, s->now_ms(s->arg), a->queue, err);
        break;
    case WORKER_ADVANCE:
        err = queue_registration_advance(r, a->queue, a->last);
        queue_worker_advanced(w, s->now_ms(s->arg), a->queue, err, last_of(r, a->queue));
        break;
    case WORKER_CONFIRM:
        err = confirm(r);
        queue_worker_confirmed(w, s->now_ms(s->arg), err);
        break;
    default:
        queue_registration_leave(r);
    }
    return err;
}

void queue_steps_release(struct queue_steps *s)
{
    free(s->registration.holds);
    queue_worker_release(&s->worker);
    queue_membership_release(&s->membership);
    queue_warnings_release(&s->warnings);
}
