/*
 * The store in process: the service without a loop; each caller waits for its own answer.
 *
 * Normally it uses the same embedded keeper and data directory as drover serve. With a journal of
 * the user's own (own_journal.c) the keeper is in memory only, each commit is passed to that
 * journal, and the tree is rebuilt from its records at the opening. On an ensemble it takes part in
 * the election of the leader (store_ensemble.h).
 */
#include "client/store_library.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/result.h"
#include "base/thread.h"
#include "client/keeper_library.h"
#include "client/store_ensemble.h"
#include "keeper/local/local.h"
#include "task/own_journal.h"

/* Opening. */

/* The library does not end the process: every later call gets IO. */
static void on_fatal(void *arg, const char *line)
{
    (void)arg, (void)line;
}

static int check_options(const struct drover_store_options *o, struct err_info *e)
{
    bool needs_dir = o->mode != DROVER_MEMORY && !o->journal;
    if (o->mode < DROVER_STRICT || o->mode > DROVER_MEMORY)
        return err_set(e, DROVER_BAD_ARGUMENT, "there is no such mode");
    if (needs_dir && (!o->dir || !o->dir[0]))
        return err_set(e, DROVER_BAD_ARGUMENT, "a store needs a directory or a journal");
    if (o->journal && (!o->journal->append || !o->journal->replay))
        return err_set(e, DROVER_BAD_ARGUMENT, "a journal needs append and replay");
    return 0;
}

static int open_keeper(struct drover_store *s, const struct drover_store_options *o,
                       struct err_info *e)
{
    static const enum local_mode modes[] = {
        [DROVER_STRICT] = LOCAL_STRICT,
        [DROVER_OPPORTUNISTIC] = LOCAL_OPPORTUNISTIC,
        [DROVER_MEMORY] = LOCAL_NONE,
    };
    struct local_options lo = {.mode = o->journal ? LOCAL_NONE : modes[o->mode],
                               .dir = o->dir,
                               .snapshot_every = o->snapshot_every,
                               .fatal = on_fatal};
    return local_open(&lo, &s->local, e);
}

/* Requests take effect in order: when this one has, all earlier ones have. */
static void barrier(void *arg)
{
    drover_store_count(arg);
}

static bool is_ensemble(const struct drover_store_options *o)
{
    return o->mode != DROVER_MEMORY && !o->journal && keeper_is_ensemble(o->dir);
}

static int open_all(struct drover_store *s, const struct drover_store_options *o,
                    struct err_info *e)
{
    struct service_options so = {0};
    TRY(check_options(o, e));
    if (is_ensemble(o))
        return store_ensemble_open(o->dir, o->keeper, &s->service, &s->ensemble, e);
    TRY(open_keeper(s, o, e));
    if (o->journal && o->mode != DROVER_MEMORY)
        TRY(own_journal_open(o->journal, o->mode == DROVER_OPPORTUNISTIC, o->snapshot_every,
                             s->local, &s->journal, e));
    int err = local_connect(s->local, NULL, &so.keeper);
    if (err)
        return err_set(e, err, "cannot open a session: %s", drover_err_message(err));
    if (s->journal) {
        so.journal = own_journal_append;
        so.journal_now = o->mode == DROVER_OPPORTUNISTIC ? own_journal_append_now : NULL;
        so.journal_arg = s->journal;
        own_journal_set_barrier(s->journal, barrier, s);
    }
    return service_open(&so, &s->service, e);
}

int drover_store_open(const struct drover_store_options *o, struct drover_store **ret_store,
                      struct drover_error *ret_error)
{
    struct drover_store *s = mem_zalloc(sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->ended);
    int err = open_all(s, o, ret_error);
    if (err) {
        drover_store_close(s);
        return err;
    }
    service_watch(s->service, store_library_on_event, s);
    *ret_store = s;
    return 0;
}

void drover_store_close(struct drover_store *s)
{
    if (s->journal)
        own_journal_close(s->journal);
    if (s->ensemble)
        store_ensemble_close(s->ensemble);
    if (s->service)
        service_close(s->service);
    if (s->local)
        local_close(s->local);
    pthread_cond_destroy(&s->ended);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Transactions. */

struct answer {
    struct drover_result *result;
    struct err_info *error;
    int64_t now_ms;
    int err;
};

static void set_text(struct str text, const char **to, size_t *to_len)
{
    *to = text.len ? text.p : NULL;
    *to_len = text.len;
}

void store_library_add(struct drover_result *r, const struct task *t, int64_t now_ms)
{
    struct drover_task to = {.id = t->id,
                             .timespec = t->timespec,
                             .ownerid = t->ownerid,
                             .state = (enum drover_task_state)(1U << task_state(t, now_ms)),
                             .first = t->first};
    const struct task_extra *x = t->extra;
    if (x) {
        to.priority = x->priority;
        to.attempts = x->attempts;
        to.claims = x->claims;
        to.created = x->created;
        to.expires = x->expires;
        to.ended = x->ended;
        to.bytes = x->binary;
        set_text(x->key, &to.key, &to.key_len);
        set_text(x->share, &to.share, &to.share_len);
        set_text(x->error, &to.error, &to.error_len);
        set_text(x->origin, &to.origin, &to.origin_len);
        set_text(x->result, &to.result, &to.result_len);
    }
    result_add_task(r, t->group, t->data, &to);
}

/* Sets a result, with space for errors. */
static void give(struct drover_result *r, const struct task *tasks, size_t count, size_t error_max,
                 int64_t now_ms)
{
    result_init(r, count, error_max);
    for (size_t i = 0; i < count; i++)
        store_library_add(r, &tasks[i], now_ms);
}

static void on_done(void *arg, const struct task_reply *reply)
{
    struct answer *a = arg;
    a->err = reply->err;
    if (reply->err)
        err_set(a->error, reply->err, "%s",
                reply->error_count ? reply->errors[0] : drover_err_message(reply->err));
    if (reply->err && reply->err != DROVER_REFUSED)
        return;
    give(a->result, reply->tasks, reply->task_count, reply->error_count, a->now_ms);
    for (size_t i = 0; i < reply->error_count; i++)
        result_add_error(a->result, str_of(reply->errors[i]));
}

/* Executes it. The number of tasks in the result, or an error; ret_error has the first reason. */
static int carry_out(struct drover_store *s, struct task_request *r,
                     struct drover_result *ret_result, struct drover_error *ret_error)
{
    struct answer a = {
        .result = ret_result, .error = ret_error, .now_ms = service_now_ms(s->service)};
    r->done = on_done;
    r->arg = &a;
    service_call(s->service, r);
    return a.err ? a.err : (int)ret_result->task_count;
}

int drover_store_update(struct drover_store *s, const struct drover_update *u,
                        struct drover_result *ret_result, struct drover_error *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct store_edits edits = {u->fails,      u->finishes,     u->releases,
                                      u->fail_count, u->finish_count, u->release_count};
    struct task_request r = {
        .kind = TASK_UPDATE,
        .update = {.clientid = u->clientid,
                   .add_count = u->add_count,
                   .update_count = u->update_count,
                   .deletes = u->deletes,
                   .delete_count = u->delete_count,
                   .depends = u->depends,
                   .depend_count = u->depend_count},
    };
    TRY(store_convert_adds(&a, u->adds, u->add_count, &r.update.adds, ret_error));
    TRY(store_convert_updates(&a, u->updates, u->update_count, &r.update.updates, ret_error));
    TRY(store_convert_edits(&a, &edits, &r.update.edits, &r.update.edit_count, ret_error));
    int count = carry_out(s, &r, ret_result, ret_error);
    return count > 0 ? 0 : count;
}

int drover_store_claim(struct drover_store *s, const struct drover_claim *c,
                       struct drover_result *ret_result, struct drover_error *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct store_edits edits = {c->fails,      c->finishes,     c->releases,
                                      c->fail_count, c->finish_count, c->release_count};
    struct str *groups = arena_alloc(&a, (c->group_count + 1) * sizeof *groups);
    struct task_request r = {
        .kind = TASK_CLAIM,
        .claim = {.clientid = c->clientid,
                  .duration_ms = c->duration_ms > 0 ? c->duration_ms : 0,
                  .groups = groups,
                  .group_count = c->group_count,
                  .limit = c->limit,
                  .tasks_only = c->tasks_only != 0,
                  .deletes = c->deletes,
                  .delete_count = c->delete_count,
                  .depends = c->depends,
                  .depend_count = c->depend_count},
        .wait_ms = c->wait_ms,
    };
    for (size_t i = 0; i < c->group_count; i++) {
        groups[i] = str_of(c->groups[i]);
        TRY(store_check_text(groups[i], "group", ret_error));
    }
    TRY(store_convert_edits(&a, &edits, &r.claim.edits, &r.claim.edit_count, ret_error));
    return carry_out(s, &r, ret_result, ret_error);
}

/* Reads. */

struct question {
    int64_t id;
    struct str group;
    size_t limit;
    bool owned;

    struct drover_result *result;
    struct drover_groups *groups;
    int64_t count, last_id;
    int err;
};

static void read_one(void *arg, struct store *s, int64_t now_ms)
{
    struct question *q = arg;
    CLEANUP(arena_release) struct arena a = {0};
    struct task t;
    q->err = store_get(s, q->id, &a, &t);
    if (!q->err)
        give(q->result, &t, 1, 0, now_ms);
}

static void read_list(void *arg, struct store *s, int64_t now_ms)
{
    struct question *q = arg;
    struct store_list list;
    CLEANUP(arena_release) struct arena a = {0};
    q->err = store_list(s, q->group, -1, q->limit, q->owned, now_ms, &a, &list);
    if (!q->err)
        give(q->result, list.tasks, list.count, 0, now_ms);
}

static void read_groups(void *arg, struct store *s, int64_t now_ms)
{
    struct question *q = arg;
    struct arena *a = mem_zalloc(sizeof *a);
    struct store_group *groups;
    size_t count;
    store_groups(s, now_ms, a, &groups, &count);
    *q->groups = (struct drover_groups){.memory = a};
    q->groups->names = arena_alloc(a, (count + 1) * sizeof *q->groups->names);
    for (size_t i = 0; i < count; i++)
        if (groups[i].available + groups[i].owned)
            q->groups->names[q->groups->count++] = groups[i].name.p;
}

static void read_numbers(void *arg, struct store *s, int64_t now_ms)
{
    struct question *q = arg;
    (void)now_ms;
    q->count = (int64_t)store_count(s);
    q->last_id = store_last_id(s);
}

static void on_read(void *arg, const struct task_reply *reply)
{
    struct question *q = arg;
    if (reply->err)
        q->err = reply->err;
}

static int ask(struct drover_store *s, struct question *q,
               void (*read)(void *arg, struct store *s, int64_t now_ms))
{
    struct task_request r = {.kind = TASK_READ, .read = read, .done = on_read, .arg = q};
    service_call(s->service, &r);
    return q->err;
}

int drover_store_get(struct drover_store *s, int64_t id, struct drover_result *ret_result)
{
    struct question q = {.id = id, .result = ret_result};
    int err = ask(s, &q, read_one);
    return err == DROVER_NO_TASK ? 0 : err ? err : 1;
}

int drover_store_list(struct drover_store *s, const char *group, size_t limit, int owned,
                      struct drover_result *ret_result)
{
    struct question q = {
        .group = str_of(group), .limit = limit, .owned = owned, .result = ret_result};
    TRY(store_check_text(q.group, "group", NULL));
    TRY(ask(s, &q, read_list));
    return (int)ret_result->task_count;
}

int drover_store_groups(struct drover_store *s, struct drover_groups *ret_groups)
{
    struct question q = {.groups = ret_groups};
    return ask(s, &q, read_groups);
}

int64_t drover_store_count(struct drover_store *s)
{
    struct question q = {0};
    int err = ask(s, &q, read_numbers);
    return err ? err : q.count;
}

int64_t drover_store_latest_id(struct drover_store *s)
{
    struct question q = {0};
    int err = ask(s, &q, read_numbers);
    return err ? err : q.last_id;
}

/* Snapshots. */

int drover_store_snapshot(struct drover_store *s)
{
    if (s->ensemble)
        return 0;
    return s->journal ? own_journal_snapshot(s->journal) : local_snapshot(s->local);
}

int drover_store_snapshotting(struct drover_store *s)
{
    if (s->ensemble)
        return 0;
    return s->journal ? own_journal_snapshotting(s->journal) : local_snapshotting(s->local);
}
