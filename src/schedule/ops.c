/* Operations on schedules: ticks, and what clients ask for. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "dag/service.h"
#include "drover.h"
#include "schedule/schedules.h"
#include "server/audit.h"
#include "server/leader.h"
#include "task/tail.h"

static void op_free(struct schedule_op *op)
{
    schedule_free(op->fresh);
    arena_release(&op->arena);
    free(op);
}

static void on_gone(struct http_request *r)
{
    struct schedule_op *op = r->handler_data;
    op->r = NULL;
}

struct schedule_op *schedule_op_new(struct schedules *all, enum schedule_op_kind kind,
                                    struct schedule *s, struct http_request *r)
{
    struct schedule_op *op = mem_zalloc(sizeof *op);
    op->all = all;
    op->kind = kind;
    op->r = r;
    op->may_run = !r || http_may_run(r);
    op->set_paused = -1;
    op->steps = arena_zalloc(&op->arena, (s ? 1 : TICKS_MAX) * sizeof *op->steps);
    if (s)
        op->steps[op->count++].s = s;
    if (r) {
        r->handler_data = op;
        r->gone = on_gone;
    }
    return op;
}

/* The end of an operation. */

static void note_error(struct schedule *s, const char *why)
{
    if (why && (!s->error || strcmp(s->error, why)))
        log_warning("the schedule %s: %s", s->name, why);
    free(s->error);
    s->error = why ? mem_dup(why, strlen(why)) : NULL;
}

static void take_fresh(struct schedule *s, struct schedule *fresh)
{
    char *old = s->spec;
    s->spec = fresh->spec;
    s->cron = fresh->cron;
    s->zone = fresh->zone;
    s->every_ms = fresh->every_ms;
    s->missed = fresh->missed;
    s->skips_overlap = fresh->skips_overlap;
    s->is_graph = fresh->is_graph;
    fresh->spec = old;
}

/*
 * The DAG has let go of nodes that were under way, on the embedded keeper, where a commit is
 * decided at once: the stored state says whether they were added. On an ensemble, the table is read
 * again.
 */
static void read_again(struct schedules *all, struct schedule *s)
{
    CLEANUP(buf_release) struct buf data = {0};
    struct schedule_state state;
    char path[SCHEDULE_PATH_SIZE];
    struct keeper *k = context_keeper(all->context);
    schedule_path(s->name, true, path);
    if (k && !keeper_get(k, path, &data, NULL) && !schedule_read_state(buf_str(&data), &state))
        s->state = state;
    if (k)
        context_return(all->context, k);
}

static void settle(struct schedule_op *op, struct schedule_step *step)
{
    struct schedule *s = step->s;
    bool ticks = op->kind == SCHEDULE_TICK;
    if (op->fresh)
        take_fresh(s, op->fresh);
    s->exists = op->kind != SCHEDULE_DELETE;
    s->state = step->to;
    s->again_ms = 0;
    note_error(s, step->why);
    if (ticks || op->kind == SCHEDULE_RUN)
        counter_add(step->adds  ? op->all->ticks
                    : step->why ? op->all->failed
                                : op->all->skipped,
                    1);
}

static void settle_failure(struct schedule_op *op, struct schedule_step *step, int err,
                           const struct task_reply *reply)
{
    struct schedule *s = step->s;
    if (err == DROVER_UNKNOWN && !op->all->context->leader)
        read_again(op->all, s);
    if (op->kind != SCHEDULE_TICK)
        return;
    note_error(s, reply && reply->error_count ? reply->errors[0] : drover_err_message(err));
    s->again_ms = clock_wall_ms() + AGAIN_MS;
    counter_add(op->all->failed, 1);
}

static void begin(struct schedule_op *op);

/* The next change in line for a schedule; one that nobody has stored or wants is removed. */
static void go_on(struct schedules *all, struct schedule *s)
{
    struct schedule_op *next = s->waiting;
    s->busy = false;
    if (next) {
        s->waiting = next->waiting;
        if (!s->waiting)
            s->waiting_end = &s->waiting;
        begin(next);
    } else if (s->exists) {
        schedule_table_place(all->table, s);
    } else {
        schedule_table_remove(all->table, s);
    }
}

/* A transaction of several ticks was refused: each alone. */
static void split(struct schedule_op *op)
{
    for (size_t i = 0; i < op->count; i++) {
        op->steps[i].s->busy = false;
        begin(schedule_op_new(op->all, SCHEDULE_TICK, op->steps[i].s, NULL));
    }
}

static void finish(struct schedule_op *op, int err, const struct task_reply *reply)
{
    struct schedules *all = op->all;
    if (!all) {
        op_free(op);
        return;
    }
    *op->link = op->next;
    if (op->next)
        op->next->link = op->link;
    if (op->count > 1 && (err == DROVER_REFUSED || err == DROVER_GROUP_FULL)) {
        split(op);
        op_free(op);
        return;
    }
    for (size_t i = 0; i < op->count; i++) {
        if (err)
            settle_failure(op, &op->steps[i], err, reply);
        else
            settle(op, &op->steps[i]);
    }
    if (op->r && err)
        schedule_answer_err(all, op->r, err, reply);
    else if (op->r)
        schedule_answer(op->r, op->steps[0].s, clock_wall_ms());
    for (size_t i = 0; i < op->count; i++)
        go_on(all, op->steps[i].s);
    op_free(op);
    schedules_tick(all);
}

static void on_done(void *arg, const struct task_reply *reply)
{
    finish(arg, reply->err, reply);
}

static void on_nodes_done(void *arg, int err)
{
    finish(arg, err, NULL);
}

/* Commits. */

static void put_op(struct schedule_op *op, struct keeper_op *to, const struct schedule_step *step,
                   bool of_state)
{
    CLEANUP(buf_release) struct buf data = {0};
    char path[SCHEDULE_PATH_SIZE];
    bool exists = step->s->exists;
    schedule_path(step->s->name, of_state, path);
    if (of_state) {
        schedule_put_state(&data, &step->to);
    } else {
        op->fresh->name = step->s->name;
        schedule_put_node(&data, op->fresh);
        op->fresh->name = NULL;
    }
    const char *text = arena_text(&op->arena, str_of(path));
    if (op->kind == SCHEDULE_DELETE)
        *to = keeper_op_delete(text, KEEPER_ANY_VERSION);
    else if (exists)
        *to = keeper_op_set(text, arena_take(&op->arena, &data), KEEPER_ANY_VERSION);
    else
        *to = keeper_op_create(text, arena_take(&op->arena, &data), 0);
}

/* Whether the task that was added last has not ended. */
static bool task_lives(struct store *s, int64_t first)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct task t;
    return first && !store_get(s, TASK_FIRST(first), &a, &t) && !t.dead && !t.done;
}

static int prepare(void *arg, struct store *s, int64_t now_ms, struct task_update *u)
{
    struct schedule_op *op = arg;
    (void)now_ms;
    u->adds = op->adds;
    u->add_count = 0;
    for (size_t i = 0; i < op->count; i++) {
        struct schedule_step *step = &op->steps[i];
        const struct schedule *of = step->s;
        step->adds = step->wants && (op->kind == SCHEDULE_RUN || !of->skips_overlap ||
                                     !task_lives(s, of->state.task));
        if (step->adds)
            op->adds[u->add_count++] = step->add;
    }
    return 0;
}

static void decided(void *arg, const struct task *tasks, size_t count)
{
    struct schedule_op *op = arg;
    for (size_t i = 0; i < op->count; i++) {
        struct schedule_step *step = &op->steps[i];
        if (step->adds && count) {
            step->to.task = tasks->first;
            step->to.runs = step->s->state.runs + 1;
            tasks++;
            count--;
        }
        put_op(op, &op->ops[i], step, true);
    }
}

static void submit(struct schedule_op *op, size_t op_count)
{
    op->request.kind = TASK_UPDATE;
    op->request.extra = op->ops;
    op->request.extra_count = op_count;
    op->request.done = on_done;
    op->request.arg = op;
    service_submit(op->all->context->tasks, &op->request);
}

/* Ticks. */

/* The task of a schedule, from its spec. */
static void read_task(struct schedule_op *op, struct schedule_step *step)
{
    const struct json *spec = json_parse(&op->arena, str_of(step->s->spec), NULL),
                      *task = json_get(spec, "task");
    step->extra = (struct task_extra){.priority = (int32_t)json_int_of(task, "priority"),
                                      .key = json_text_of(task, "key")};
    step->add = (struct task){.group = json_text_of(task, "group"),
                              .data = json_text_of(task, "data"),
                              .on_key = step->extra.key.len ? ON_KEY_KEEP : ON_KEY_REFUSE};
    if (!task_extra_is_plain(&step->extra))
        step->add.extra = &step->extra;
}

static void submit_tasks(struct schedule_op *op)
{
    for (size_t i = 0; i < op->count; i++)
        if (op->steps[i].wants)
            read_task(op, &op->steps[i]);
    op->request.prepare = prepare;
    op->request.decided = decided;
    submit(op, op->count);
}

/* Each tick that runs commands is in the audit log. */
static int audit_nodes(struct schedule_op *op, const struct schedule_step *step)
{
    const char *members = arena_printf(&op->arena, "\"node\":%" PRId64 ",\"nodes\":%" PRId64,
                                       step->to.node, step->to.node_count);
    return audit_note(op->all->context->audit,
                      &(struct audit_event){.who = "schedule",
                                            .from = "",
                                            .action = "tick",
                                            .target = str_of(step->s->name),
                                            .members = str_of(members)});
}

/* The nodes; or, if there is something wrong with them, only the next time and the reason. */
static void submit_nodes(struct schedule_op *op)
{
    struct schedule_step *step = &op->steps[0];
    struct schedule *s = step->s;
    struct dag *d = op->all->dag;
    const struct json *spec = json_parse(&op->arena, str_of(s->spec), NULL);
    struct draft draft;
    struct err_info why;
    if (op->kind == SCHEDULE_TICK && s->skips_overlap)
        step->wants =
            step->wants && !dag_lives(d, (uint64_t)s->state.node, (uint64_t)s->state.node_count);
    int err = step->wants ? dag_draft(d, json_get(spec, "graph"), &op->arena, &draft, &why) : 0;
    if (err)
        step->why = arena_text(&op->arena, str_of(why.text));
    if (err && op->r) {
        http_reply_error(op->r, 409, why.text);
        op->r = NULL;
    }
    if (err || !step->wants) {
        step->wants = false;
        submit_tasks(op);
        return;
    }
    step->adds = true;
    step->to.runs++;
    step->to.node = (int64_t)draft.first_id;
    step->to.node_count = draft.count;
    if (audit_nodes(op, step)) {
        draft_release(&draft);
        finish(op, DROVER_IO, NULL);
        return;
    }
    put_op(op, &op->ops[0], step, true);
    draft.with = &op->ops[0];
    dag_add(d, &draft, on_nodes_done, op);
}

bool schedule_op_aim(struct schedule_op *op, struct schedule_step *step)
{
    const struct schedule *s = step->s;
    struct schedule_state *to = &step->to;
    int64_t now_ms = clock_wall_ms();
    bool kept = s->exists && op->fresh && schedule_same_times(s, op->fresh);
    step->to = s->state;
    switch (op->kind) {
    case SCHEDULE_TICK:
        if (s->state.paused || s->state.next_ms > now_ms)
            return false;
        step->wants = schedule_due(s, now_ms, &to->last_ms, &to->next_ms);
        break;
    case SCHEDULE_RUN:
        step->wants = true;
        break;
    case SCHEDULE_PUT:
        to->paused = op->set_paused < 0 ? to->paused : op->set_paused;
        if (kept && (to->paused || !s->state.paused))
            break;
        if (!kept)
            to->from_ms = now_ms;
        op->fresh->state = *to;
        to->next_ms = schedule_after(op->fresh, now_ms);
        break;
    case SCHEDULE_PAUSE:
        to->paused = true;
        break;
    case SCHEDULE_RESUME:
        to->paused = false;
        if (s->state.paused)
            to->next_ms = schedule_after(s, now_ms);
        break;
    case SCHEDULE_DELETE:
        break;
    }
    return true;
}

static void enter(struct schedule_op *op)
{
    struct schedules *all = op->all;
    op->next = all->under_way;
    op->link = &all->under_way;
    if (op->next)
        op->next->link = &op->next;
    all->under_way = op;
    for (size_t i = 0; i < op->count; i++) {
        op->steps[i].s->busy = true;
        schedule_table_place(all->table, op->steps[i].s);
    }
}

void schedule_op_begin_ticks(struct schedule_op *op)
{
    enter(op);
    submit_tasks(op);
}

/* Of one schedule that is not busy. */
static void begin(struct schedule_op *op)
{
    struct schedule_step *step = &op->steps[0];
    bool runs = op->kind == SCHEDULE_TICK || op->kind == SCHEDULE_RUN;
    enter(op);
    if (op->kind != SCHEDULE_PUT && !step->s->exists) {
        finish(op, DROVER_NO_NODE, NULL);
    } else if (step->s->exists && step->s->is_graph && !op->may_run) {
        finish(op, DROVER_NO_AUTH, NULL);
    } else if (!schedule_op_aim(op, step)) {
        finish(op, 0, NULL);
    } else if (runs && step->s->is_graph && !op->all->dag->ready) {
        finish(op, DROVER_NOT_LEADER, NULL);
    } else if (runs && step->s->is_graph) {
        submit_nodes(op);
    } else if (runs) {
        submit_tasks(op);
    } else {
        size_t count = 0; /* the parent is made first and deleted last */
        if (op->kind == SCHEDULE_PUT)
            put_op(op, &op->ops[count++], step, false);
        put_op(op, &op->ops[count++], step, true);
        if (op->kind == SCHEDULE_DELETE) {
            char path[SCHEDULE_PATH_SIZE];
            schedule_path(step->s->name, false, path);
            op->ops[count++] =
                keeper_op_delete(arena_text(&op->arena, str_of(path)), KEEPER_ANY_VERSION);
        }
        submit(op, count);
    }
}

void schedule_op_start(struct schedule_op *op)
{
    struct schedule *s = op->steps[0].s;
    if (!s->busy) {
        begin(op);
        return;
    }
    *s->waiting_end = op;
    s->waiting_end = &op->waiting;
}

static void drop_waiting(struct schedules *all, struct schedule *s, int err)
{
    for (struct schedule_op *op = s->waiting, *next; op; op = next) {
        next = op->waiting;
        if (op->r)
            schedule_answer_err(all, op->r, err, NULL);
        op_free(op);
    }
    s->waiting = NULL;
    s->waiting_end = &s->waiting;
}

void schedule_ops_drop(struct schedules *all, int err)
{
    for (struct schedule_op *op = all->under_way, *next; op; op = next) {
        next = op->next;
        op->all = NULL; /* its reply frees it */
        if (op->r)
            schedule_answer_err(all, op->r, err, NULL);
        op->r = NULL;
        for (size_t i = 0; i < op->count; i++)
            drop_waiting(all, op->steps[i].s, err);
    }
    all->under_way = NULL;
}
