#include "queue/step.h"

#include <stdlib.h>

static int64_t now(const struct queue_steps *act)
{
    return act->now_ms(act->arg);
}

static int64_t last_of(struct queue_steps *act, const char *queue)
{
    struct queue_hold *h = queue_registration_find(&act->registration, queue);

    return h ? h->last : 0;
}

static int do_join(struct queue_steps *act, const struct queue_worker_action *a)
{
    int err = queue_registration_join(&act->registration);

    (void)a;
    queue_worker_joined(&act->worker, now(act), err, act->registration.name);
    return err;
}

static int do_look(struct queue_steps *act, const struct queue_worker_action *a)
{
    int err = queue_membership_read(&act->membership, &act->registration.queues, &act->notes);

    (void)a;
    queue_worker_looked(&act->worker, now(act), err, &act->membership);
    return err;
}

static int do_take(struct queue_steps *act, const struct queue_worker_action *a)
{
    int err = queue_registration_take(&act->registration, a->queue);
    char path[QUEUE_PATH_SIZE];

    if (err == DROVER_DAMAGED) {
        queues_path(&act->registration.queues, path, "queues/%s", a->queue);
        queue_warn(&act->notes, path, 0, "its data is not {\"last\": \"...\"}");
    }
    queue_worker_took(&act->worker, now(act), a->queue, err, last_of(act, a->queue));
    return err;
}

static int do_release(struct queue_steps *act, const struct queue_worker_action *a)
{
    int err = queue_registration_release(&act->registration, a->queue);

    queue_worker_released(&act->worker, now(act), a->queue, err);
    return err;
}

static int do_advance(struct queue_steps *act, const struct queue_worker_action *a)
{
    int err = queue_registration_advance(&act->registration, a->queue, a->last);

    queue_worker_advanced(&act->worker, now(act), a->queue, err, last_of(act, a->queue));
    return err;
}

static int do_confirm(struct queue_steps *act, const struct queue_worker_action *a)
{
    int err = queue_registration_confirm(&act->registration);

    (void)a;
    queue_worker_confirmed(&act->worker, now(act), err);
    return err;
}

static int do_end(struct queue_steps *act, const struct queue_worker_action *a)
{
    (void)a;
    queue_registration_leave(&act->registration);
    return 0;
}

static int (*const DO[])(struct queue_steps *act, const struct queue_worker_action *a) = {
    [WORKER_JOIN] = do_join,       [WORKER_LOOK] = do_look,       [WORKER_TAKE] = do_take,
    [WORKER_RELEASE] = do_release, [WORKER_ADVANCE] = do_advance, [WORKER_CONFIRM] = do_confirm,
    [WORKER_END] = do_end,
};

int queue_step(struct queue_steps *act, const struct queue_worker_action *a)
{
    return DO[a->kind](act, a);
}

void queue_steps_release(struct queue_steps *act)
{
    free(act->registration.holds);
    queue_worker_release(&act->worker);
    queue_membership_release(&act->membership);
    queue_warnings_release(&act->notes);
}
