/*
 * Events of tasks, and waiting for the end of one.
 *
 * A request that waits is parked under the task's slot and looks again when the task has ended. The
 * result of a task that is not kept is gone by then, so the outcomes of tasks that somebody waits
 * for are remembered for a moment: the last OUTCOMES of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "server/context.h"
#include "task/body.h"
#include "task/http_v1.h"

enum { OUTCOMES = 256 };

struct task_outcome {
    int64_t slot;
    struct buf json;
};

static const char *const EVENT_NAMES[TASK_EVENTS] = {
    [TASK_EVENT_ADDED] = "added",       [TASK_EVENT_UPDATED] = "updated",
    [TASK_EVENT_CLAIMED] = "claimed",   [TASK_EVENT_RELEASED] = "released",
    [TASK_EVENT_FAILED] = "failed",     [TASK_EVENT_DEAD] = "dead",
    [TASK_EVENT_FINISHED] = "finished", [TASK_EVENT_DELETED] = "deleted",
};

static bool is_id(struct str word)
{
    for (size_t i = 0; i < word.len; i++)
        if (word.p[i] < '0' || word.p[i] > '9')
            return false;
    return true;
}

static bool is_state(struct str word)
{
    for (int i = 0; i < TASK_EVENTS; i++)
        if (str_eq(word, str_of(EVENT_NAMES[i])))
            return true;
    return false;
}

const struct event_words TASK_EVENT_WORDS = {"task", is_id, NULL, is_state, true};

static uint64_t key_of(int64_t slot)
{
    return http_key("task", (struct str){(const char *)&slot, sizeof slot}, (struct str){0});
}

static void put_event(struct buf *b, const struct task_txn_change *change)
{
    const struct task *t = change->task;
    json_open(b, '{');
    json_member_int(b, "id", t->id);
    json_member_int(b, "first", t->first);
    json_member_text(b, "group", t->group);
    json_member_text(b, "event", str_of(EVENT_NAMES[change->event]));
    json_member_int(b, "ownerid", t->ownerid);
    json_member_int(b, "timespec", t->timespec);
    if (t->extra && t->extra->error.len && change->event != TASK_EVENT_CLAIMED)
        json_member_text(b, "error", t->extra->error);
    json_close(b, '}');
}

static void publish(struct events *events, const struct task_txn_change *change)
{
    CLEANUP(buf_release) struct buf json = {0};
    char first[24];
    put_event(&json, change);
    snprintf(first, sizeof first, "%" PRId64, change->task->first);
    events_publish(events, &(struct event){.kind = "task",
                                           .id = str_of(first),
                                           .group = change->task->group,
                                           .state = str_of(EVENT_NAMES[change->event]),
                                           .json = buf_str(&json)});
}

/* Waiting. */

static void put_outcome(struct buf *b, const struct task *t, const char *state)
{
    json_open(b, '{');
    json_member_int(b, "id", t->id);
    json_member_int(b, "first", t->first);
    json_member_text(b, "group", t->group);
    json_member_text(b, "state", str_of(state));
    if (t->extra && t->extra->result.len)
        json_member_text(b, "result", t->extra->result);
    if (t->extra && t->extra->error.len)
        json_member_text(b, "error", t->extra->error);
    json_close(b, '}');
}

static void remember(struct task_v1 *v, const struct task *t, const char *state)
{
    if (!v->outcomes)
        v->outcomes = mem_zalloc(OUTCOMES * sizeof *v->outcomes);
    struct task_outcome *o = &v->outcomes[v->outcome_next++ % OUTCOMES];
    o->slot = t->first;
    o->json.len = 0;
    put_outcome(&o->json, t, state);
}

void v1_release_outcomes(struct task_v1 *v)
{
    for (size_t i = 0; v->outcomes && i < OUTCOMES; i++)
        buf_release(&v->outcomes[i].json);
    free(v->outcomes);
}

void v1_on_event(void *arg, const struct task_txn_change *change)
{
    struct task_v1 *v = arg;
    const struct task *t = change->task;
    if (t->managed || t->ownerid == TASK_MESSAGES) /* on any thread; nobody waits for them */
        return;
    if (events_are_wanted(v->context->events, &TASK_EVENT_WORDS))
        publish(v->context->events, change);
    bool ends = change->event == TASK_EVENT_FINISHED || change->event == TASK_EVENT_DELETED ||
                change->event == TASK_EVENT_DEAD;
    if (!ends || !http_topic_parked(&v->context->topic, key_of(t->first)))
        return;
    if (change->event != TASK_EVENT_DEAD)
        remember(v, t, change->event == TASK_EVENT_FINISHED ? "done" : "deleted");
    http_topic_wake(&v->context->topic, key_of(t->first), HTTP_TOPIC_ALL);
}

/* Whether the task lives, in memory; and its slot. */
struct glance {
    int64_t id, slot;
    bool lives;
    const struct identity *who;
};

static void glance_at(void *arg, struct store *s, int64_t now_ms)
{
    struct glance *g = arg;
    struct task t;
    CLEANUP(arena_release) struct arena a = {0};
    if (store_get(s, g->id, &a, &t) || (g->who && !identity_reaches(g->who, SCOPE_GROUP, t.group)))
        return;
    enum task_state state = task_state(&t, now_ms);
    g->slot = t.first;
    g->lives = state != TASK_DEAD && state != TASK_DONE;
}

static void read_outcome(void *arg, struct store *s, int64_t now_ms)
{
    struct v1_call *c = arg;
    const struct v1_task_in *in = c->in;
    struct task t;
    c->out.len = 0;
    c->err = v1_get(c, s, in->id, &t);
    if (!c->err)
        put_outcome(&c->out, &t, task_state_name(task_state(&t, now_ms)));
    for (size_t i = 0; c->err && c->v1->outcomes && c->r && http_was_parked(c->r) && i < OUTCOMES;
         i++) {
        const struct task_outcome *o = &c->v1->outcomes[i];
        if (TASK_FIRST(o->slot) != in->id || !o->slot)
            continue;
        c->err = 0;
        c->out.len = 0;
        buf_put_str(&c->out, buf_str(&o->json));
    }
}

/*
 * Runs again, with its fields read again, when the task has ended. Its id may be another one by
 * then, so the slot is kept.
 */
void v1_wait(struct http_request *r)
{
    struct task_v1 *v = r->arg;
    struct v1_task_in *in = r->in;
    if (r->kept)
        in->id = TASK_FIRST(r->kept);
    struct glance g = {.id = in->id, .who = r->who};
    service_look(v->service, glance_at, &g);
    uint64_t key = key_of(g.slot);
    struct http_watch w = http_watch(r, &v->context->topic, &key, 1);
    if (g.lives) {
        g.lives = false;
        service_look(v->service, glance_at, &g); /* it may have ended before the watch */
        r->kept = g.slot;
        if (g.lives && http_park(r, &w, in->timeout))
            return;
    }
    v1_read(v1_begin(r), read_outcome);
}
