/* One thread that looks at what is due, when it is told to and every second. */
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

/* A report that was told of, and when its hook may be tried again. */
struct batch_callback {
    int64_t report, retry_ms;
    int failures;
    int state; /* that its batch is in */
    bool due;  /* seen in this round */
    struct batch_callback *next;
};

struct batch_callbacks {
    struct batch_callback_options o;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool poked, stop;
    struct batch_callback *told[CALLBACK_CHAINS]; /* by the number of the report */
    int64_t seen[2]; /* cversions of the lists of what is due, when they were read */
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

static struct batch_callback *find_told(struct batch_callbacks *n, int64_t report)
{
    struct batch_callback *t = n->told[report % CALLBACK_CHAINS];

    while (t && t->report != report)
        t = t->next;
    return t;
}

static struct batch_callback *add_told(struct batch_callbacks *n, int64_t report, int state)
{
    struct batch_callback **chain = &n->told[report % CALLBACK_CHAINS], *t = mem_zalloc(sizeof *t);

    *t = (struct batch_callback){.report = report, .state = state, .next = *chain};
    *chain = t;
    return t;
}

/* What is no longer in the list of that state is forgotten. */
static void forget_told(struct batch_callbacks *n, int state)
{
    for (int i = 0; i < CALLBACK_CHAINS; i++) {
        for (struct batch_callback **link = &n->told[i]; *link;) {
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

static struct str json_ids(struct batch_call *c, const struct keeper_names *ids)
{
    struct buf b = {0};
    struct str text;

    json_open(&b, '[');
    for (size_t i = 0; i < ids->count; i++)
        json_put_text(&b, str_of(ids->names[i]));
    json_close(&b, ']');
    text = (struct str){arena_text(c->a, (struct str){b.p, b.len}), b.len};
    buf_release(&b);
    return text;
}

static int make_report(struct batch_call *c, const char *bid, int state, struct batch_report *ret)
{
    struct keeper_names failed;
    struct buf b = {0};
    struct batch batch;
    int err = batch_get(c, str_of(bid), &batch);

    if (!err)
        err = batch_report_number(c, str_of(bid), state, &ret->report);
    if (!err)
        err = batch_node_children(c, &failed, NULL, "/batches/%s/states/%s", bid,
                                  BATCH_LISTS[BATCH_LIST_FAILED]);
    if (err)
        return err;
    ret->failed = json_ids(c, &failed);
    ret->batch = arena_text(c->a, str_of(bid));
    ret->state = c->store->machines.batch.states[state].name;
    json_open(&b, '{');
    json_key(&b, "batch");
    json_put_text(&b, str_of(bid));
    json_key(&b, "state");
    json_put_text(&b, str_of(ret->state));
    json_key(&b, "report");
    json_put_int(&b, ret->report);
    json_key(&b, "key");
    json_put_text(&b, str_of(arena_printf(c->a, "%s-%lld", bid, (long long)ret->report)));
    json_key(&b, "failed_jobs");
    json_put_raw(&b, ret->failed);
    for (int i = BATCH_LIST_COMPLETED; i < BATCH_LIST_COUNT; i++) {
        json_key(&b, i == BATCH_LIST_COMPLETED ? "completed" : "deleted");
        json_put_int(&b, batch.counts[i]);
    }
    if (batch.submission.p && json_parse(c->a, batch.submission, NULL)) {
        json_key(&b, "submission");
        json_put_raw(&b, batch.submission);
    }
    json_close(&b, '}');
    ret->json = arena_text(c->a, (struct str){b.p, b.len});
    buf_release(&b);
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

/* Takes that batch and no other: whoever is due is in the list, and each has its own time. */
static int take(struct batch_call *c, const char *bid, int state, int64_t *ret_token)
{
    struct batch_change t = {.a = c->a};
    struct batch_status s;
    int32_t version;
    int err = batch_read_status(c, bid, &s, &version);

    if (err)
        return err;
    if (s.state != state)
        return DROVER_BAD_VERSION;
    batch_change_set(&t, batch_status_write(&c->store->machines.batch, &s, c->a), version,
                     "/batches/%s/status", bid);
    batch_change_create(&t, NO_BYTES, KEEPER_EPHEMERAL, "/batches/%s/lock", bid);
    return batch_lock_commit(c, &t, 0, 1, ret_token);
}

static void report(struct batch_callbacks *n, struct batch_call *c, struct batch_callback *t,
                   const char *bid, int state)
{
    struct batch_move m = {.state = STR("next")};
    struct batch_report notice;
    struct err_info why;
    int err = take(c, bid, state, &m.token), became;

    if (err)
        return; /* another has it in hand, or it is reported by now */
    err = make_report(c, bid, state, &notice);
    if (!err)
        err = batch_hook_run(n->o.hook, &notice, is_stopping, n, &why);
    if (!err) {
        m.failed = notice.failed;
        err = batch_move(c, str_of(bid), &m, &became);
        if (!err)
            return;
        snprintf(why.text, sizeof why.text, "%s", c->why->text);
    }
    batch_lock_drop(c, "batches", bid, m.token);
    if (!is_stopping(n))
        hook_failed(n, t, bid, why.text);
}

static void look_at(struct batch_callbacks *n, struct batch_call *c, const char *bid, int state)
{
    struct batch_report notice;
    struct batch_callback *t;
    int64_t number;

    if (batch_report_number(c, str_of(bid), state, &number))
        return;
    t = find_told(n, number);
    if (!t) {
        if (make_report(c, bid, state, &notice) || notice.report != number)
            return;
        t = add_told(n, number, state);
        n->o.done(n->o.arg, &notice);
    }
    t->due = true;
    if (n->o.hook && clock_boot_ms() >= t->retry_ms)
        report(n, c, t, bid, state);
}

/*
 * Without a hook a list that has not changed holds nothing new, and is not read: reports may wait there in
 * thousands for whoever makes them.
 */
static void look_in(struct batch_callbacks *n, struct batch_call *c, int which, int state)
{
    const char *dir = c->store->batches[state].dir;
    struct keeper_names names;
    struct keeper_stat stat;

    if (batch_node_exists(c, &stat, "%s", dir) || (!n->o.hook && stat.cversion == n->seen[which]) ||
        batch_node_children(c, &names, &stat, "%s", dir))
        return;
    for (size_t b = 0; b < names.count && !is_stopping(n); b++)
        if (batch_id_number(BATCH_ID_BATCH, str_of(names.names[b])) >= 0)
            look_at(n, c, names.names[b], state);
    n->seen[which] = stat.cversion;
    forget_told(n, state);
}

static void look(struct batch_callbacks *n, struct batch_call *c)
{
    look_in(n, c, 0, c->store->batch.reporting);
    look_in(n, c, 1, c->store->batch.update_reporting);
}

static void settle_all(struct batch_callbacks *n, struct batch_call *c, int state)
{
    struct keeper_names names;

    if (batch_node_children(c, &names, NULL, "%s", c->store->batches[state].dir))
        return;
    for (size_t i = 0; i < names.count && !is_stopping(n); i++)
        batch_settle(c, names.names[i]);
}

/* Foreign clients: batches that they moved, and such as have ended without a word. */
static void sweep(struct batch_callbacks *n, struct batch_call *c)
{
    n->swept_ms = clock_boot_ms();
    for (int i = 0; i < BATCH_SOURCES; i++)
        if (batch_index_sweep(c, (enum batch_source)i))
            return;
    settle_all(n, c, c->store->batch.processing);
    settle_all(n, c, c->store->batch.pending);
}

static void turn(struct batch_callbacks *n)
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
            batch_index_refresh(&c, BATCH_SOURCE_BATCHES);
        look(n, &c);
    }
    n->o.give_back(n->o.arg, c.k);
    arena_release(&a);
}

static void *run(void *arg)
{
    struct batch_callbacks *n = arg;

    pthread_mutex_lock(&n->lock);
    while (!n->stop) {
        n->poked = false;
        pthread_mutex_unlock(&n->lock);
        turn(n);
        n->o.tick(n->o.arg);
        pthread_mutex_lock(&n->lock);
        if (!n->poked && !n->stop)
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
    n->poked = true;
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
        for (struct batch_callback *t = n->told[i], *next; t; t = next) {
            next = t->next;
            free(t);
        }
    pthread_cond_destroy(&n->wake);
    pthread_mutex_destroy(&n->lock);
    free(n);
}
