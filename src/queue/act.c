#include "queue/act.h"

#include <stdlib.h>

static int64_t now(const struct act *act)
{
    return act->now_ms(act->arg);
}

static int64_t last_of(struct act *act, const char *queue)
{
    struct hold *h = member_find(&act->member, queue);

    return h ? h->last : 0;
}

static int do_join(struct act *act, const struct worker_action *a)
{
    int err = member_join(&act->member);

    (void)a;
    worker_joined(&act->worker, now(act), err, act->member.name);
    return err;
}

static int do_look(struct act *act, const struct worker_action *a)
{
    int err = census_read(&act->census, &act->member.queues, &act->notes);

    (void)a;
    worker_looked(&act->worker, now(act), err, &act->census);
    return err;
}

static int do_take(struct act *act, const struct worker_action *a)
{
    int err = member_take(&act->member, a->queue);
    char path[QUEUE_PATH_SIZE];

    if (err == DROVER_DAMAGED) {
        queues_path(&act->member.queues, path, "queues/%s", a->queue);
        census_note(&act->notes, path, 0, "its data is not {\"last\": \"...\"}");
    }
    worker_took(&act->worker, now(act), a->queue, err, last_of(act, a->queue));
    return err;
}

static int do_give_up(struct act *act, const struct worker_action *a)
{
    int err = member_give_up(&act->member, a->queue);

    worker_gave_up(&act->worker, now(act), a->queue, err);
    return err;
}

static int do_advance(struct act *act, const struct worker_action *a)
{
    int err = member_advance(&act->member, a->queue, a->last);

    worker_advanced(&act->worker, now(act), a->queue, err, last_of(act, a->queue));
    return err;
}

static int do_confirm(struct act *act, const struct worker_action *a)
{
    int err = member_confirm(&act->member);

    (void)a;
    worker_confirmed(&act->worker, now(act), err);
    return err;
}

static int do_end(struct act *act, const struct worker_action *a)
{
    (void)a;
    member_leave(&act->member);
    return 0;
}

static int (*const DO[])(struct act *act, const struct worker_action *a) = {
    [WORKER_JOIN] = do_join,       [WORKER_LOOK] = do_look,       [WORKER_TAKE] = do_take,
    [WORKER_GIVE_UP] = do_give_up, [WORKER_ADVANCE] = do_advance, [WORKER_CONFIRM] = do_confirm,
    [WORKER_END] = do_end,
};

int act_on(struct act *act, const struct worker_action *a)
{
    return DO[a->kind](act, a);
}

void act_release(struct act *act)
{
    free(act->member.holds);
    worker_release(&act->worker);
    census_release(&act->census);
    census_notes_release(&act->notes);
}
