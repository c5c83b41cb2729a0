/*
 * The store in process: searches, changes of many tasks, waiting for the end of one, and groups.
 *
 * Waiting: a waiter is in the store's list from before it looks at the task until it returns, so
 * the event of the task's end, which follows the commit, finds it whatever comes first.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "base/thread.h"
#include "client/group_body.h"
#include "client/store_library.h"
#include "task/find.h"
#include "task/settings_change.h"
#include "task/settings_json.h"

enum { PAGE = 1000, HOLDERS_MAX = 100 };

/* The first member of what a read under the service's lock gets. */
struct store_read {
    int err;
};

static void on_read(void *arg, const struct task_reply *reply)
{
    struct store_read *r = arg;
    if (reply->err)
        r->err = reply->err;
}

static int run_read(struct drover_store *s, struct store_read *arg,
                    void (*read)(void *arg, struct store *s, int64_t now_ms), struct err_info *e)
{
    struct task_request r = {.kind = TASK_READ, .read = read, .done = on_read, .arg = arg};
    arg->err = 0;
    service_call(s->service, &r);
    return arg->err ? err_explain(e, arg->err) : 0;
}

/* Searches. */

struct store_search {
    struct store_read read;
    struct store_filter filter;
    struct store_cursor from, next;
    size_t limit;
    struct arena arena; /* of a page */
    struct store_list list;
    int64_t now_ms;
};

static void read_found(void *arg, struct store *s, int64_t now_ms)
{
    struct store_search *q = arg;
    q->next = q->from;
    q->now_ms = now_ms;
    q->read.err = store_find_tasks(s, &q->filter, now_ms, &q->next, q->limit, &q->arena, &q->list);
}

static int find_all(struct drover_store *s, struct store_search *q, size_t limit,
                    struct drover_result *r, struct err_info *e)
{
    size_t cap = 0;
    do {
        size_t left = limit ? limit - r->task_count : PAGE;
        q->limit = left < PAGE ? left : PAGE;
        arena_reset(&q->arena);
        TRY(run_read(s, &q->read, read_found, e));
        result_grow(r, &cap, q->list.count);
        for (size_t i = 0; i < q->list.count; i++)
            store_library_add(r, &q->list.tasks[i], q->now_ms);
        q->from = q->next;
    } while (!q->from.end && (!limit || r->task_count < limit));
    return (int)r->task_count;
}

int drover_store_find(struct drover_store *s, const struct drover_filter *f, size_t limit,
                      struct drover_result *ret_result, struct drover_error *ret_error)
{
    struct store_search q = {0};
    struct drover_result r;
    char next[CURSOR_SIZE];
    if (f->ids)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "ids are for a bulk");
    TRY(store_convert_filter(f, &q.filter, &q.from, ret_error));
    result_init(&r, 0, 0);
    int count = find_all(s, &q, limit, &r, ret_error);
    arena_release(&q.arena);
    if (count < 0) {
        drover_result_release(&r);
        return count;
    }
    cursor_write(&q.from, next);
    r.next = q.from.end ? NULL : arena_text(r.memory, str_of(next));
    *ret_result = r;
    return count;
}

/* Changes of many. */

struct store_bulk {
    struct task_bulk bulk;
    int err;
};

static int prepare_bulk(void *arg, struct store *s, int64_t now_ms, struct task_update *u)
{
    struct store_bulk *b = arg;
    return bulk_prepare(&b->bulk, s, now_ms, u);
}

static void on_bulk(void *arg, const struct task_reply *reply)
{
    struct store_bulk *b = arg;
    b->err = reply->err;
}

static int check_bulk(const struct drover_bulk *b, struct err_info *e)
{
    const struct drover_filter *f = &b->filter;
    struct str group = result_text(b->group, 0);
    if (b->action < DROVER_BULK_DELETE || b->action > DROVER_BULK_PRIORITY)
        return err_set(e, DROVER_BAD_ARGUMENT, "there is no such action");
    if (!b->all && !result_text(f->group, 0).len && !result_text(f->key, 0).len &&
        !result_text(f->text, 0).len && !result_text(f->error, 0).len &&
        !result_text(f->origin, 0).len && !f->states && !f->ids)
        return err_set(e, DROVER_BAD_ARGUMENT, "the filter is empty: `all` means every task");
    if (b->action == DROVER_BULK_MOVE && (!group.len || group.len > TASK_GROUP_LEN_MAX))
        return err_set(e, DROVER_BAD_ARGUMENT, "group must have 1 to %d bytes", TASK_GROUP_LEN_MAX);
    if (b->priority < -TASK_PRIORITY_MAX || b->priority > TASK_PRIORITY_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "priority must be from %d to %d", -TASK_PRIORITY_MAX,
                       TASK_PRIORITY_MAX);
    return store_check_text(group, "group", e);
}

static int bulk_all(struct drover_store *s, const struct drover_bulk *from, struct store_bulk *b,
                    struct drover_bulk_count *count, struct err_info *e)
{
    do {
        struct task_request r = {
            .kind = TASK_UPDATE,
            .update = {.clientid = from->clientid, .operate = true, .skips = true},
            .prepare = prepare_bulk,
            .done = on_bulk,
            .arg = b};
        arena_reset(b->bulk.arena);
        service_call(s->service, &r);
        if (b->err)
            return err_explain(e, b->err);
        count->matched += (int64_t)b->bulk.matched;
        count->changed += (int64_t)bulk_changed(&b->bulk);
        b->bulk.from = b->bulk.next;
        if (from->progress && from->progress(from->arg, count->matched, count->changed))
            return err_set(e, DROVER_CLOSED, "stopped by the caller");
    } while (!b->bulk.from.end);
    return 0;
}

int drover_store_bulk(struct drover_store *s, const struct drover_bulk *b,
                      struct drover_bulk_count *ret_count, struct drover_error *ret_error)
{
    static const enum task_edit_kind kinds[] = {EDIT_DELETE, EDIT_RETRY, EDIT_MOVE, EDIT_RELEASE,
                                                EDIT_PRIORITY};
    CLEANUP(arena_release) struct arena a = {0};
    struct drover_bulk_count count = {0};
    TRY(check_bulk(b, ret_error));
    struct store_bulk work = {.bulk = {.limit = PAGE,
                                       .kind = kinds[b->action],
                                       .group = result_text(b->group, 0),
                                       .priority = b->priority,
                                       .dry_run = b->dry_run != 0,
                                       .arena = &a}};
    TRY(store_convert_filter(&b->filter, &work.bulk.filter, &work.bulk.from, ret_error));
    int err = bulk_all(s, b, &work, &count, ret_error);
    if (ret_count)
        *ret_count = count;
    return err;
}

/* Waiting. */

struct store_waiter {
    struct store_read read;
    struct drover_store *store;
    int64_t id;
    struct drover_result now; /* the task when it was last read */

    /* Under the store's lock. */
    struct store_waiter *next;
    bool joined, ended;
    int64_t slot;
    struct drover_result outcome; /* if it has ended */
};

static void set_task(struct drover_result *r, const struct task *t, int64_t now_ms)
{
    drover_result_release(r);
    result_init(r, 1, 0);
    store_library_add(r, t, now_ms);
}

void store_library_on_event(void *arg, const struct task_txn_change *change)
{
    static const enum drover_task_state ends[TASK_EVENTS] = {
        [TASK_EVENT_FINISHED] = DROVER_TASK_DONE,
        [TASK_EVENT_DEAD] = DROVER_TASK_DEAD,
        [TASK_EVENT_DELETED] = DROVER_TASK_DELETED,
    };
    struct drover_store *s = arg;
    if (!ends[change->event] || !atomic_load(&s->waiter_count))
        return;
    LOCKED(&s->lock);
    for (struct store_waiter *w = s->waiters; w; w = w->next) {
        if (w->ended || w->slot != change->slot)
            continue;
        set_task(&w->outcome, change->task, change->task->timespec);
        w->outcome.tasks[0].state = ends[change->event];
        w->ended = true;
    }
    pthread_cond_broadcast(&s->ended);
}

/* Whoever changes the task after this finds the waiter in the list. */
static void read_waited(void *arg, struct store *s, int64_t now_ms)
{
    struct store_waiter *w = arg;
    CLEANUP(arena_release) struct arena a = {0};
    struct task t;
    w->read.err = store_get(s, w->id, &a, &t);
    if (w->read.err)
        return;
    set_task(&w->now, &t, now_ms);
    LOCKED(&w->store->lock);
    w->slot = t.first;
    if (w->joined)
        return;
    w->joined = true;
    w->next = w->store->waiters;
    w->store->waiters = w;
    atomic_fetch_add(&w->store->waiter_count, 1);
}

static void leave(struct drover_store *s, struct store_waiter *w)
{
    LOCKED(&s->lock);
    struct store_waiter **at = &s->waiters;
    while (*at && *at != w)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = w->next;
    atomic_fetch_sub(&s->waiter_count, 1);
}

static bool wait_until(struct drover_store *s, const struct store_waiter *w, int64_t end_ms)
{
    LOCKED(&s->lock);
    while (!w->ended && clock_boot_ms() < end_ms)
        cond_wait_until(&s->ended, &s->lock, end_ms);
    return w->ended;
}

/* 1: w->outcome; 2: w->now, which has ended; 0: w->now. */
static int await(struct drover_store *s, struct store_waiter *w, int64_t end_ms, struct err_info *e)
{
    enum { EVENT_MS = 1000 }; /* between the end of a task and its event */
    const int over = DROVER_TASK_DEAD | DROVER_TASK_DONE;
    TRY(run_read(s, &w->read, read_waited, e));
    if (w->now.tasks[0].state & over)
        return 2;
    if (wait_until(s, w, end_ms))
        return 1;
    w->id = DROVER_FIRST(w->now.tasks[0].first);
    int err = run_read(s, &w->read, read_waited, e);
    if (!err)
        return w->now.tasks[0].state & over ? 2 : 0;
    return err == DROVER_NO_TASK && wait_until(s, w, clock_boot_ms() + EVENT_MS) ? 1 : err;
}

int drover_store_wait(struct drover_store *s, int64_t id, int64_t timeout_ms,
                      struct drover_result *ret_result, struct drover_error *ret_error)
{
    struct store_waiter w = {.store = s, .id = id};
    int64_t now_ms = clock_boot_ms();
    timeout_ms = timeout_ms < 0 ? 0 : timeout_ms > TASK_MS_MAX ? TASK_MS_MAX : timeout_ms;
    int got = await(s, &w, now_ms + timeout_ms, ret_error);
    leave(s, &w);
    if (got >= 0) {
        struct drover_result *from = got == 1 ? &w.outcome : &w.now;
        *ret_result = *from;
        *from = (struct drover_result){0};
    }
    drover_result_release(&w.outcome);
    drover_result_release(&w.now);
    return got > 0 ? 1 : got;
}

/* Groups. */

struct group_read {
    struct store_read read;
    struct drover_groups groups; /* of all */
    bool internal;
    struct str name; /* of one */
    struct drover_group group;
    struct buf settings;
};

static struct drover_counts counts_of(const struct store_group *g)
{
    return (struct drover_counts){.available = (int64_t)g->states[TASK_AVAILABLE],
                                  .delayed = (int64_t)g->states[TASK_DELAYED],
                                  .retrying = (int64_t)g->states[TASK_RETRYING],
                                  .claimed = (int64_t)g->states[TASK_CLAIMED],
                                  .dead = (int64_t)g->states[TASK_DEAD],
                                  .done = (int64_t)g->states[TASK_DONE]};
}

static int by_name(const void *a, const void *b)
{
    const struct store_group *x = a, *y = b;
    return str_compare(x->name, y->name);
}

static void read_groups(void *arg, struct store *s, int64_t now_ms)
{
    struct group_read *q = arg;
    struct arena *a = mem_zalloc(sizeof *a);
    struct store_group *groups;
    size_t count;
    drover_groups_release(&q->groups);
    store_groups(s, now_ms, a, &groups, &count);
    qsort(groups, count, sizeof *groups, by_name);
    struct drover_groups g = {.memory = a, .names = arena_alloc(a, (count + 1) * sizeof *g.names)};
    struct drover_counts *counts = arena_alloc(a, (count + 1) * sizeof *counts);
    for (size_t i = 0; i < count; i++) {
        if (groups[i].internal && !q->internal)
            continue;
        counts[g.count] = counts_of(&groups[i]);
        g.names[g.count++] = groups[i].name.p;
    }
    g.counts = counts;
    q->groups = g;
}

int drover_store_count_groups(struct drover_store *s, int internal,
                              struct drover_groups *ret_groups)
{
    struct group_read q = {.internal = internal != 0};
    int err = run_read(s, &q.read, read_groups, NULL);
    if (err)
        drover_groups_release(&q.groups);
    else
        *ret_groups = q.groups;
    return err;
}

static void read_group(void *arg, struct store *s, int64_t now_ms)
{
    struct group_read *q = arg;
    struct arena *a = mem_zalloc(sizeof *a);
    const struct settings_table *table = store_settings(s);
    const struct settings_entry *entry = settings_table_find(table, q->name);
    const struct task_settings *settings =
        entry ? &entry->settings : settings_table_of(table, q->name);
    struct store_group counts = {0};
    struct store_list holders;
    drover_group_release(&q->group);
    struct drover_group g = {.memory = a};
    if (settings != &TASK_SETTINGS_DEFAULT)
        g.pattern = arena_text(a, settings_pattern(settings));
    q->settings.len = 0;
    settings_put(&q->settings, settings);
    store_count_group(s, q->name, now_ms, a, &counts);
    g.counts = counts_of(&counts);
    store_holders(s, q->name, HOLDERS_MAX, now_ms, a, &holders);
    struct drover_task *claimed = arena_zalloc(a, (holders.count + 1) * sizeof *claimed);
    for (size_t i = 0; i < holders.count; i++)
        claimed[g.claimed_count++] = (struct drover_task){.id = holders.tasks[i].id,
                                                          .first = holders.tasks[i].first,
                                                          .ownerid = holders.tasks[i].ownerid,
                                                          .timespec = holders.tasks[i].timespec,
                                                          .state = DROVER_TASK_CLAIMED};
    g.claimed = claimed;
    q->group = g;
}

int drover_store_group(struct drover_store *s, const char *group, struct drover_group *ret_group,
                       struct drover_error *ret_error)
{
    struct group_read q = {.name = str_of(group)};
    CLEANUP(arena_release) struct arena a = {0};
    TRY(store_check_text(q.name, "group", ret_error));
    int err = run_read(s, &q.read, read_group, ret_error);
    if (!err)
        group_body_read_settings(json_parse(&a, buf_str(&q.settings), NULL), q.group.memory,
                                 &q.group.settings);
    buf_release(&q.settings);
    if (err)
        drover_group_release(&q.group);
    else
        *ret_group = q.group;
    return err;
}

/* Settings. */

struct store_setting {
    struct settings_change change;
    struct service *service;
    int err;
};

static int prepare_setting(void *arg, struct store *s, int64_t now_ms, struct task_update *u)
{
    struct store_setting *w = arg;
    (void)now_ms, (void)u;
    return settings_change_prepare(&w->change, s);
}

static void on_settled(void *arg, struct store *s)
{
    struct store_setting *w = arg;
    settings_change_settle(&w->change, s);
    service_look_again(w->service);
}

static void on_set(void *arg, const struct task_reply *reply)
{
    struct store_setting *w = arg;
    w->err = reply->err;
}

/* members NULL: removes them. */
static int change_group(struct drover_store *s, const char *pattern, const struct json *members,
                        struct arena *a, struct err_info *e)
{
    struct store_setting w = {
        .change = {.pattern = str_of(pattern), .members = members, .arena = a},
        .service = s->service};
    struct task_request r = {.kind = TASK_UPDATE,
                             .prepare = prepare_setting,
                             .settled = on_settled,
                             .extra = &w.change.op,
                             .extra_count = 1,
                             .done = on_set,
                             .arg = &w};
    const char *wrong = settings_pattern_wrong(w.change.pattern);
    if (wrong)
        return err_set(e, DROVER_BAD_ARGUMENT, "group: %s", wrong);
    TRY(store_check_text(w.change.pattern, "group", e));
    service_call(s->service, &r);
    if (w.err == DROVER_BAD_ARGUMENT && w.change.wrong.text[0])
        return err_set(e, w.err, "%s", w.change.wrong.text);
    return w.err ? err_explain(e, w.err) : 0;
}

int drover_store_set_group(struct drover_store *s, const char *pattern,
                           const struct drover_settings *settings, struct drover_error *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct buf text = {0};
    int err = group_body_put_settings(&text, settings, ret_error);
    const struct json *members = json_parse(&a, arena_take(&a, &text), ret_error);
    TRY(err);
    return members ? change_group(s, pattern, members, &a, ret_error) : DROVER_BAD_ARGUMENT;
}

int drover_store_unset_group(struct drover_store *s, const char *pattern,
                             struct drover_error *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    int err = change_group(s, pattern, NULL, &a, ret_error);
    return err == DROVER_NO_NODE ? 0 : err ? err : 1;
}
