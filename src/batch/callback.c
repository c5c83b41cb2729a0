/* One thread scans for reports that are due, every second and when it is woken. */
#include "batch/callback.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "batch/batch.h"
#include "batch/index.h"
#include "batch/lock.h"

enum { CALLBACK_CHAINS = 4096 };

/* A report that was published, and when its hook may run next. */
struct batch_callback {
    int64_t report, retry_ms;
    int failures;
    int state; /* of its batch */
    bool due;  /* seen in this scan */
    struct batch_callback *next;
};

struct batch_callbacks {
    struct batch_callback_options o;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool woken, stop;
    struct batch_callback *callbacks[CALLBACK_CHAINS]; /* hashed by the number of the report */
    int64_t seen[2]; /* cversions of the two lists of due batches, when they were read */
    int64_t swept_ms;
};

static bool is_stopping(void *arg)
{
    struct batch_callbacks *n = arg;
    bool stop;

    pthread_mutex_lock(&n->lock);
    stop = n->stop;
    pthread_mutex_unlock(&n->lock);
    return stop;
}

static struct batch_callback *find_callback(struct batch_callbacks *n, int64_t report)
{
    struct batch_callback *t = n->callbacks[report % CALLBACK_CHAINS];

    while (t && t->report != report)
        t = t->next;
    return t;
}

static struct batch_callback *add_callback(struct batch_callbacks *n, int64_t report, int state)
{
    struct batch_callback **chain = &n->callbacks[report % CALLBACK_CHAINS],
                          *t = mem_zalloc(sizeof *t);

    *t = (struct batch_callback){.report = report, .state = state, .next = *chain};
    *chain = t;
    return t;
}

/* Drops those whose batch left the list of that state. */
static void drop_callbacks(struct batch_callbacks *n, int state)
{
    for (int i = 0; i < CALLBACK_CHAINS; i++) {
        for (struct batch_callback **link = &n->callbacks[i]; *link;) {
            struct batch_callback *t = *link;

            if (t->due || t->state != state) {
                t->due = false;
                link = &t->next;
            } else {
                *link = t->next;
                free(t);
            }
        }
    }
}

static int make_report(struct batch_call *c, const char *bid, int state, struct batch_report *ret)
{
    struct keeper_names failed;
    struct buf b = {0};
    struct batch_item batch;
    int err = batch_item_get(c, BATCH_KIND_BATCH, str_of(bid), &batch);

    if (!err)
        err = batch_report_number(c, str_of(bid), state, &ret->number);
    if (!err)
        err = batch_node_children(c, &failed, NULL, "/batches/%s/states/%s", bid,
                                  BATCH_LISTS[BATCH_LIST_FAILED]);
    if (err)
        return err;
    ret->failed = batch_json_ids(c, &failed);
    ret->batch = arena_text(c->a, str_of(bid));
    ret->state = c->store->machines.batch.states[state].name;
    buf_printf(&b, "{\"batch\":\"%s\",\"state\":\"%s\",\"report\":%lld,\"key\":\"%s-%lld\"", bid,
               ret->state, (long long)ret->number, bid, (long long)ret->number);
    json_key(&b, "failed_jobs");
    json_put_raw(&b, ret->failed);
    json_member_int(&b, "completed", batch.counts[BATCH_LIST_COMPLETED]);
    json_member_int(&b, "deleted", batch.counts[BATCH_LIST_DELETED]);
    if (batch.nodes[0].p && json_parse(c->a, batch.nodes[0], NULL)) {
        json_key(&b, "submission");
        json_put_raw(&b, batch.nodes[0]);
    }
    json_close(&b, '}');
    ret->json = batch_text(c->a, &b).p;
    return 0;
}

static void hook_failed(struct batch_callbacks *n, struct batch_callback *t, const char *bid,
                        const char *why)
{
    char line[700];

    snprintf(line, sizeof line, "the report of batch %s failed: %s", bid, why);
    n->o.warn(n->o.arg, line);
    t->retry_ms = clock_boot_ms() + (1000 << (t->failures < 6 ? t->failures : 6));
    if (t->retry_ms > clock_boot_ms() + BATCH_HOOK_TIMEOUT_MS)
        t->retry_ms = clock_boot_ms() + BATCH_HOOK_TIMEOUT_MS;
    t->failures++;
}

/* Locks this one batch: each report has its own time of retry. */
static int take(struct batch_call *c, const char *bid, int state, int64_t *ret_token)
{
    struct batch_item b;
    int err = batch_item_read(c, BATCH_KIND_BATCH, str_of(bid), &b);

    if (!err && b.status.state != state)
        err = DROVER_BAD_VERSION;
    if (!err)
        err = batch_item_lock(c, &b);
    if (!err)
        *ret_token = b.token;
    return err;
}

static void report(struct batch_callbacks *n, struct batch_call *c, struct batch_callback *t,
                   const char *bid, int state)
{
    struct batch_move m = {.state = STR("next")};
    struct batch_report r;
    struct err_info why = {"cannot read the batch"};
    int err = take(c, bid, state, &m.token), became;

    if (err)
        return; /* another server locked it, or has reported it */
    err = make_report(c, bid, state, &r);
    if (!err)
        err = batch_hook_run(n->o.hook, &r, is_stopping, n, &why);
    if (!err) {
        m.failed = r.failed;
        err = batch_item_move(c, BATCH_KIND_BATCH, str_of(bid), &m, &became);
        if (!err)
            return;
        snprintf(why.text, sizeof why.text, "%s", c->why->text);
    }
    batch_item_unlock(c, BATCH_KIND_BATCH, str_of(bid), m.token);
    if (!is_stopping(n))
        hook_failed(n, t, bid, why.text);
}

static void look_at(struct batch_callbacks *n, struct batch_call *c, const char *bid, int state)
{
    struct batch_report r;
    struct batch_callback *t;
    int64_t number;

    if (batch_report_number(c, str_of(bid), state, &number))
        return;
    t = find_callback(n, number);
    if (!t) {
        if (make_report(c, bid, state, &r) || r.number != number)
            return;
        t = add_callback(n, number, state);
        n->o.due(n->o.arg, &r);
    }
    t->due = true;
    if (n->o.hook && clock_boot_ms() >= t->retry_ms)
        report(n, c, t, bid, state);
}

/*
 * Without a hook, a list that has not changed is not read again: thousands of reports may wait
 * there for external reporters.
 */
static void look_in(struct batch_callbacks *n, struct batch_call *c, int which, int state)
{
    const char *dir = c->store->kinds[BATCH_KIND_BATCH].views[state].dir;
    struct keeper_names names;
    struct keeper_stat stat;

    if (batch_node_exists(c, &stat, "%s", dir) || (!n->o.hook && stat.cversion == n->seen[which]) ||
        batch_node_children(c, &names, &stat, "%s", dir))
        return;
    for (size_t b = 0; b < names.count && !is_stopping(n); b++)
        if (batch_id_number(BATCH_ID_BATCH, str_of(names.names[b])) >= 0)
            look_at(n, c, names.names[b], state);
    n->seen[which] = stat.cversion;
    drop_callbacks(n, state);
}

static void look_at_all(struct batch_callbacks *n, struct batch_call *c)
{
    look_in(n, c, 0, c->store->batch.reporting);
    look_in(n, c, 1, c->store->batch.update_reporting);
}

static void settle_all(struct batch_callbacks *n, struct batch_call *c, int state)
{
    struct keeper_names names;

    if (batch_node_children(c, &names, NULL, "%s",
                            c->store->kinds[BATCH_KIND_BATCH].views[state].dir))
        return;
    for (size_t i = 0; i < names.count && !is_stopping(n); i++)
        batch_settle(c, names.names[i]);
}

/* Finds items that foreign clients moved, and batches whose jobs they ended. */
static void sweep(struct batch_callbacks *n, struct batch_call *c)
{
    n->swept_ms = clock_boot_ms();
    for (int i = 0; i < BATCH_KINDS; i++)
        if (i != BATCH_KIND_JOB && batch_index_sweep(c, i))
            return;
    settle_all(n, c, c->store->batch.processing);
    settle_all(n, c, c->store->batch.pending);
}

static void scan(struct batch_callbacks *n)
{
    struct arena a = {0};
    struct err_info why;
    struct batch_call c = {n->o.store, n->o.borrow(n->o.arg), &a, &why};

    if (!c.k)
        return;
    if (n->o.ready(n->o.arg, &c) == 0) {
        if (!n->swept_ms || clock_boot_ms() - n->swept_ms >= BATCH_SWEEP_MS)
            sweep(n, &c);
        else
            batch_index_refresh(&c, BATCH_KIND_BATCH);
        look_at_all(n, &c);
    }
    n->o.give_back(n->o.arg, c.k);
    arena_release(&a);
}

static void *run(void *arg)
{
    struct batch_callbacks *n = arg;

    pthread_mutex_lock(&n->lock);
    while (!n->stop) {
        n->woken = false;
        pthread_mutex_unlock(&n->lock);
        scan(n);
        n->o.scanned(n->o.arg);
        pthread_mutex_lock(&n->lock);
        if (!n->woken && !n->stop)
            cond_wait_until(&n->wake, &n->lock, clock_boot_ms() + BATCH_SCAN_MS);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

int batch_callbacks_open(const struct batch_callback_options *o,
                         struct batch_callbacks **ret_callbacks)
{
    struct batch_callbacks *n = mem_zalloc(sizeof *n);

    n->o = *o;
    n->seen[0] = n->seen[1] = -1;
    pthread_mutex_init(&n->lock, NULL);
    cond_init(&n->wake);
    thread_must_start(&n->thread, "batch-callback", run, n);
    *ret_callbacks = n;
    return 0;
}

void batch_callbacks_wake(struct batch_callbacks *n)
{
    pthread_mutex_lock(&n->lock);
    n->woken = true;
    pthread_cond_signal(&n->wake);
    pthread_mutex_unlock(&n->lock);
}

void batch_callbacks_close(struct batch_callbacks *n)
{
    pthread_mutex_lock(&n->lock);
    n->stop = true;
    pthread_cond_signal(&n->wake);
    pthread_mutex_unlock(&n->lock);
    pthread_join(n->thread, NULL);
    for (int i = 0; i < CALLBACK_CHAINS; i++)
        for (struct batch_callback *t = n->callbacks[i], *next; t; t = next) {
            next = t->next;
            free(t);
        }
    pthread_cond_destroy(&n->wake);
    pthread_mutex_destroy(&n->lock);
    free(n);
}
