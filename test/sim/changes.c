/* Checks that the changes of a transaction are allowed, and tells the workers that watch. */
#include "sim.h"

#include <stdio.h>

static const char QUEUES[] = QUEUE_NAMESPACE "/queues/";

static void check_last(struct sim *w, struct sim_queue *q, struct str data,
                       const struct sim_worker *by)
{
    int64_t last;
    int at = sim_next_message(q, q->last);

    sim_check(w, !queue_parse_last(data, &last), "a queue holds invalid data");
    sim_check(w, by && !strcmp(q->owner, by->steps.registration.name),
              "changed by a worker that does not own it");
    if (last == q->last)
        return;
    sim_check(w, at >= 0 && q->messages[at] == last, "a message was skipped");
    sim_check(w, q->handled[at], "a message was skipped unhandled");
    q->last = last;
}

static void owner_came(struct sim *w, struct sim_queue *q, struct str data)
{
    char owner[256];

    sim_check(w, !queue_parse_owner(data, owner), "an owner node holds invalid data");
    sim_check(w, !q->owner[0], "two owners");
    snprintf(q->owner, sizeof q->owner, "%.63s", owner);
    q->takes++;
    for (int i = 0; i < w->worker_count; i++) {
        struct sim_worker *other = w->workers[i];

        sim_check(w,
                  !other->alive || !other->keeper.session ||
                      !strcmp(other->steps.registration.name, owner) ||
                      !sim_owned(&other->steps.worker, q->name) || other->busy,
                  "another holds it still");
    }
}

static void queue_changed(struct sim *w, const struct tree_change *c, const struct sim_worker *by)
{
    struct str name = {c->path.p + strlen(QUEUES), c->path.len - strlen(QUEUES)};
    struct sim_queue *q = name.len >= QUEUE_NAME_LEN ? sim_find_queue(w, name.p) : NULL;
    bool owner = q && name.len > QUEUE_NAME_LEN;

    if (!owner && c->kind != CHANGE_SET) {
        sim_broadcast(w, EVENT_CHANGED, 0);
    } else if (!owner && q && !q->removed) {
        check_last(w, q, c->data, by);
    } else if (owner && c->kind == CHANGE_CREATE) {
        owner_came(w, q, c->data);
    } else if (owner && c->kind == CHANGE_DELETE) {
        q->owner[0] = '\0';
        sim_broadcast(w, EVENT_FREED, (int)(q - w->queues));
    }
}

void sim_changed(struct sim *w, const struct tree_changes *changes, const struct sim_worker *by)
{
    for (size_t i = 0; i < changes->count; i++) {
        const struct tree_change *c = &changes->list[i];

        if (str_starts(c->path, STR(QUEUE_NAMESPACE "/queues/")))
            queue_changed(w, c, by);
        else if (str_starts(c->path, STR(QUEUE_NAMESPACE "/workers/")) && c->kind != CHANGE_SET)
            sim_broadcast(w, EVENT_CHANGED, 0);
    }
}
