/*
 * Callbacks write under a lock and signal; the case waits with a deadline.
 */
#include "callbacks.h"

#include <errno.h>
#include <time.h>

static void told_init(pthread_mutex_t *lock, pthread_cond_t *told)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(told, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(lock, NULL);
}

static struct timespec patience(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += PATIENCE_MS / 1000;
    return t;
}

static void on_event(void *arg, enum keeper_event event, const char *path)
{
    struct recorder *r = arg;

    if (event == KEEPER_EVENT_RECONNECTED)
        return;
    if (r->hook)
        r->hook(r, event);
    pthread_mutex_lock(&r->lock);
    if (r->count < RECORDER_MAX)
        r->events[r->count] = event;
    r->count++;
    r->wrong_paths += strcmp(path, r->path) != 0;
    r->thread = pthread_self();
    pthread_cond_broadcast(&r->told);
    pthread_mutex_unlock(&r->lock);
}

struct recorder *recorder_new(struct fixture *f, const char *path)
{
    struct recorder *r = keep(f, mem_zalloc(sizeof *r));

    told_init(&r->lock, &r->told);
    r->path = path;
    return r;
}

int recorder_watch(struct recorder *r, struct keeper *k, enum keeper_watch_kind kind)
{
    r->k = k;
    return keeper_watch(k, r->path, kind, on_event, r, &r->watch);
}

struct recorder *watch_hook(struct fixture *f, struct keeper *k, const char *path,
                            enum keeper_watch_kind kind,
                            void (*hook)(struct recorder *r, enum keeper_event event), void *arg)
{
    struct recorder *r = recorder_new(f, path);

    r->hook = hook;
    r->hook_arg = arg;
    must(recorder_watch(r, k, kind));
    assert_non_null(r->watch);
    return r;
}

struct recorder *watch(struct fixture *f, struct keeper *k, const char *path,
                       enum keeper_watch_kind kind)
{
    return watch_hook(f, k, path, kind, NULL, NULL);
}

void unwatch(struct recorder *r)
{
    keeper_unwatch(r->k, r->watch);
    r->watch = NULL;
}

void recorder_wait_at(struct recorder *r, int count, const char *file, int line)
{
    struct timespec until = patience();
    int seen, late = 0;

    pthread_mutex_lock(&r->lock);
    while (r->count < count && !late)
        late = pthread_cond_timedwait(&r->told, &r->lock, &until);
    seen = r->count;
    pthread_mutex_unlock(&r->lock);
    if (seen < count) {
        print_error("%s: %d events instead of %d\n", r->path, seen, count);
        _fail(file, line);
    }
}

int recorder_count(struct recorder *r)
{
    int count;

    pthread_mutex_lock(&r->lock);
    count = r->count;
    pthread_mutex_unlock(&r->lock);
    return count;
}

void expect_count_at(struct recorder *r, int count, const char *file, int line)
{
    int seen = recorder_count(r);

    if (seen == count)
        return;
    print_error("%s: %d events instead of %d:", r->path, seen, count);
    for (int i = 0; i < seen && i < RECORDER_MAX; i++)
        print_error(" %d", r->events[i]);
    print_error("\n");
    _fail(file, line);
}

void expect_event_at(struct recorder *r, enum keeper_event event, const char *file, int line)
{
    recorder_wait_at(r, 1, file, line);
    pthread_mutex_lock(&r->lock);
    _assert_int_equal(r->events[0], event, file, line);
    _assert_int_equal(r->count, 1, file, line);
    _assert_int_equal(r->wrong_paths, 0, file, line);
    pthread_mutex_unlock(&r->lock);
}

void quiesce(struct fixture *f, struct keeper *watcher, struct keeper *by)
{
    const char *path = at(f, "sentinel-%d", f->sentinels++);
    struct recorder *r = watch(f, watcher, path, KEEPER_WATCH_EXISTS);

    must(keeper_create(by, path, STR(""), 0, NULL));
    recorder_wait(r, 1);
    unwatch(r);
    must(keeper_delete(by, path, KEEPER_ANY_VERSION));
}

struct slot {
    struct done_log *log;
    size_t index;
};

static void on_done(void *arg, int err, const struct keeper_result *results, size_t count)
{
    struct slot *s = arg;
    struct done_log *log = s->log;
    struct done d = {.index = s->index, .err = err, .count = count, .thread = pthread_self()};

    if (count) {
        d.first = results[0];
        d.first.path = results[0].path ? keep(log->f, strdup(results[0].path)) : NULL;
    }
    if (log->hook)
        log->hook(log, &d);
    pthread_mutex_lock(&log->lock);
    if (log->count < log->max)
        log->done[log->count] = d;
    log->count++;
    pthread_cond_broadcast(&log->told);
    pthread_mutex_unlock(&log->lock);
}

struct done_log *done_log_new(struct fixture *f, size_t max)
{
    struct done_log *log = keep(f, mem_zalloc(sizeof *log));

    told_init(&log->lock, &log->told);
    log->f = f;
    log->max = max;
    log->done = keep(f, mem_zalloc(max * sizeof *log->done));
    return log;
}

int log_commit(struct done_log *log, struct keeper *k, const struct keeper_op *ops, size_t count)
{
    struct slot *s = keep(log->f, mem_zalloc(sizeof *s));

    pthread_mutex_lock(&log->lock);
    *s = (struct slot){log, log->submitted++};
    pthread_mutex_unlock(&log->lock);
    return keeper_commit(k, ops, count, on_done, s);
}

void done_wait_at(struct done_log *log, size_t count, const char *file, int line)
{
    struct timespec until = patience();
    size_t seen;
    int late = 0;

    pthread_mutex_lock(&log->lock);
    while (log->count < count && !late)
        late = pthread_cond_timedwait(&log->told, &log->lock, &until);
    seen = log->count;
    pthread_mutex_unlock(&log->lock);
    if (seen < count) {
        print_error("%zu callbacks instead of %zu\n", seen, count);
        _fail(file, line);
    }
}

size_t done_count(struct done_log *log)
{
    size_t count;

    pthread_mutex_lock(&log->lock);
    count = log->count;
    pthread_mutex_unlock(&log->lock);
    return count;
}

void expect_done_in_order(struct done_log *log)
{
    done_wait(log, log->submitted);
    pthread_mutex_lock(&log->lock);
    for (size_t i = 0; i < log->submitted; i++)
        assert_int_equal(log->done[i].index, i);
    assert_int_equal(log->count, log->submitted);
    pthread_mutex_unlock(&log->lock);
}
