/* One thread scans for reports that are due: when it is woken, and while the hook has some. */

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/policy.h"
#include "base/thread.h"
#include "batch/server.h"
#include "http/curl.h"

/* A report that was published, and when its hook may run next. */
struct batch_callback {
    int64_t batch, report; /* numbers */
    int64_t retry_ms;
    int failures;
};

/* The published reports of the batches in Reporting, or in UpdateReporting, sorted by batch. */
struct batch_due {
    struct batch_callback *list;
    size_t count;
    int64_t cversion; /* of the list in the tree when it was read */
};

struct batch_callbacks {
    struct batch_thread_options o;
    struct periodic *thread;
    struct batch_due due[2];
    int64_t swept_ms;
    int64_t hook_end_ms; /* when the hook that is running is stopped */
};

/* The hook of a report: a command that reads it on standard input, or a URL to post it to. */

static bool go_on(void *arg)
{
    struct batch_callbacks *n = arg;
    return !periodic_is_stopping(n->thread) && clock_boot_ms() < n->hook_end_ms;
}

static int run_command(struct batch_callbacks *n, const struct batch_report *r,
                       struct err_info *ret_error)
{
    char *argv[] = {"/bin/sh", "-c", (char *)n->o.hook, NULL};
    static const char *const secrets[] = {"DROVER_TOKEN", "DROVER_ZK_AUTH", NULL};
    char batch[64], key[96], state[96];
    const char *variables[4 + ACCOUNT_VARIABLES] = {batch, key, state};
    CLEANUP(arena_release) struct arena a = {0};
    const struct account *account = n->o.policy ? n->o.policy->run_as : NULL;
    struct child_options o = {.argv = argv,
                              .input = str_of(r->json),
                              .variables = variables,
                              .tick_ms = 200,
                              .tick = go_on,
                              .arg = n,
                              .grace_ms = 2000,
                              .account = account,
                              .no_new_privs = !n->o.policy || !n->o.policy->new_privileges,
                              .hidden = secrets};
    int status;
    if (account)
        account_variables(account, &a, variables + 3);
    snprintf(batch, sizeof batch, "DROVER_BATCH=%s", r->batch);
    snprintf(key, sizeof key, "DROVER_REPORT=%s-%lld", r->batch, (long long)r->number);
    snprintf(state, sizeof state, "DROVER_STATE=%s", r->state);
    TRY(child_run(&o, &status, ret_error));
    return status == 0 ? 0
                       : err_set(ret_error, DROVER_IO, "the command ended with status %d", status);
}

static size_t drop(char *data, size_t size, size_t count, void *arg)
{
    (void)data;
    (void)arg;
    return size * count;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return go_on(arg) ? 0 : 1;
}

static int post(struct batch_callbacks *n, const struct batch_report *r, struct err_info *ret_error)
{
    const struct curl *c = curl_load(ret_error);
    CURL *curl = c ? c->curl_easy_init() : NULL;
    struct curl_slist *headers = NULL;
    char key[96];
    long status = 0;

    if (!c)
        return DROVER_IO;
    if (!curl)
        err_fatal("out of memory (libcurl)");
    snprintf(key, sizeof key, "Idempotency-Key: %s-%lld", r->batch, (long long)r->number);
    headers = c->curl_slist_append(headers, "Content-Type: application/json");
    headers = c->curl_slist_append(headers, key);
    c->curl_easy_setopt(curl, CURLOPT_URL, n->o.hook);
    c->curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    c->curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    c->curl_easy_setopt(curl, CURLOPT_POSTFIELDS, r->json);
    c->curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
    c->curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    c->curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    c->curl_easy_setopt(curl, CURLOPT_XFERINFODATA, n);
    c->curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)BATCH_HOOK_TIMEOUT_MS);
    CURLcode code = c->curl_easy_perform(curl);
    c->curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    c->curl_slist_free_all(headers);
    c->curl_easy_cleanup(curl);
    if (code != CURLE_OK)
        return err_set(ret_error, DROVER_IO, "%s", c->curl_easy_strerror(code));
    if (status < 200 || status > 299)
        return err_set(ret_error, DROVER_IO, "the web hook answered %ld", status);
    return 0;
}

static int run_hook(struct batch_callbacks *n, const struct batch_report *r,
                    struct err_info *ret_error)
{
    bool url = !strncasecmp(n->o.hook, "http://", 7) || !strncasecmp(n->o.hook, "https://", 8);
    n->hook_end_ms = clock_boot_ms() + BATCH_HOOK_TIMEOUT_MS;
    return url ? post(n, r, ret_error) : run_command(n, r, ret_error);
}

/* Reports. */

static int make_report(struct batch_call *c, const char *bid, int state, struct batch_report *ret)
{
    struct buf b = {0};
    struct batch_item batch;
    TRY(batch_item_get(c, BATCH_KIND_BATCH, str_of(bid), &batch));
    TRY(batch_report_number(c, str_of(bid), state, &ret->number));
    TRY(batch_failed_jobs(c, bid, &ret->failed));
    ret->batch = arena_text(c->a, str_of(bid));
    ret->state = c->store->machines.batch.states[state].name;
    buf_printf(&b, "{\"batch\":\"%s\",\"state\":\"%s\",\"report\":%lld,\"key\":\"%s-%lld\"", bid,
               ret->state, (long long)ret->number, bid, (long long)ret->number);
    json_member_raw(&b, "failed_jobs", ret->failed);
    json_member_int(&b, "completed", batch.counts[BATCH_LIST_COMPLETED]);
    json_member_int(&b, "deleted", batch.counts[BATCH_LIST_DELETED]);
    if (batch.nodes[0].p && json_parse(c->a, batch.nodes[0], NULL))
        json_member_raw(&b, "submission", batch.nodes[0]);
    json_close(&b, '}');
    ret->json = arena_take(c->a, &b).p;
    return 0;
}

static void hook_failed(struct batch_callbacks *n, struct batch_callback *t, const char *bid,
                        const char *why)
{
    char line[700];
    snprintf(line, sizeof line, "the report of batch %s failed: %s", bid, why);
    n->o.warn(n->o.arg, line);
    int wait_ms = 1000 << (t->failures < 6 ? t->failures++ : 6);
    t->retry_ms =
        clock_boot_ms() + (wait_ms < BATCH_HOOK_TIMEOUT_MS ? wait_ms : BATCH_HOOK_TIMEOUT_MS);
}

/* Locks this one batch: each report has its own time of retry. */
static void report(struct batch_callbacks *n, struct batch_call *c, struct batch_callback *t,
                   const char *bid, int state)
{
    struct batch_move m = {.state = STR("next")};
    struct batch_report r;
    struct batch_item b;
    struct err_info why = {"cannot read the batch"};
    if (batch_item_read(c, BATCH_KIND_BATCH, str_of(bid), &b) || b.status.state != state ||
        batch_item_lock(c, &b))
        return; /* another server locked it, or has reported it */
    m.token = b.token;
    if (make_report(c, bid, state, &r) == 0 && run_hook(n, &r, &why) == 0) {
        m.failed = r.failed;
        if (batch_item_move(c, BATCH_KIND_BATCH, str_of(bid), &m, NULL) == 0)
            return;
        why = *c->why;
    }
    batch_item_unlock(c, BATCH_KIND_BATCH, str_of(bid), m.token);
    if (!periodic_is_stopping(n->thread))
        hook_failed(n, t, bid, why.text);
}

/* *t is the callback of the batch's last report, or zero. False: the report is not due. */
static bool look_at(struct batch_callbacks *n, struct batch_call *c, struct batch_callback *t,
                    const char *bid, int state)
{
    struct batch_report r;
    int64_t number;
    if (batch_report_number(c, str_of(bid), state, &number))
        return false;
    if (t->report != number) {
        if (make_report(c, bid, state, &r) || r.number != number)
            return false;
        *t = (struct batch_callback){batch_id_number(BATCH_ID_BATCH, str_of(bid)), number};
        n->o.due(n->o.arg, &r);
    }
    if (n->o.hook && clock_boot_ms() >= t->retry_ms)
        report(n, c, t, bid, state);
    return true;
}

/*
 * Without a hook, a list that has not changed is not read again: thousands of reports may wait
 * there for external reporters. Returns whether to look again soon: the keeper failed, or the hook
 * has not reported all of them, because it failed or a reporter that has the lock may have died.
 */
static bool look_in(struct batch_callbacks *n, struct batch_call *c, struct batch_due *due,
                    int state)
{
    const char *dir = c->store->kinds[BATCH_KIND_BATCH].views[state].dir;
    struct batch_due next = {.count = 0};
    struct keeper_names names;
    struct keeper_stat stat;
    size_t old = 0;

    if (batch_node_exists(c, &stat, "%s", dir))
        return true;
    if (!n->o.hook && stat.cversion == due->cversion)
        return false;
    if (batch_node_children(c, &names, &stat, "%s", dir))
        return true;
    next.list = mem_zalloc((names.count + 1) * sizeof *next.list);
    next.cversion = stat.cversion;
    for (size_t i = 0; i < names.count && !periodic_is_stopping(n->thread); i++) {
        struct batch_callback *t = &next.list[next.count];
        int64_t batch = batch_id_number(BATCH_ID_BATCH, str_of(names.names[i]));
        while (old < due->count && due->list[old].batch < batch)
            old++;
        *t = (struct batch_callback){.batch = batch};
        if (old < due->count && due->list[old].batch == batch)
            *t = due->list[old];
        next.count += batch >= 0 && look_at(n, c, t, names.names[i], state);
    }
    free(due->list);
    *due = next;
    return n->o.hook && names.count;
}

/* Finds items that foreign clients moved. */
static void sweep(struct batch_callbacks *n, struct batch_call *c)
{
    n->swept_ms = clock_boot_ms();
    for (int i = 0; i < BATCH_KINDS; i++)
        if (i != BATCH_KIND_JOB && batch_index_sweep(c, (enum batch_kind_id)i))
            return;
}

static void scan(struct periodic *thread, void *arg)
{
    struct batch_callbacks *n = arg;
    CLEANUP(arena_release) struct arena a = {0};
    struct err_info why;
    struct batch_call c = {n->o.store, n->o.borrow(n->o.arg), &a, &why};
    bool again = true;
    if (c.k && n->o.ready(n->o.arg, &c) == 0) {
        if (!n->swept_ms || clock_boot_ms() - n->swept_ms >= BATCH_SWEEP_MS)
            sweep(n, &c);
        again = look_in(n, &c, &n->due[0], c.store->batch.reporting);
        again |= look_in(n, &c, &n->due[1], c.store->batch.update_reporting);
    }
    if (c.k)
        n->o.give_back(n->o.arg, c.k);
    periodic_next(thread, again ? BATCH_RETRY_MS : BATCH_SWEEP_MS);
}

struct batch_callbacks *batch_callbacks_open(const struct batch_thread_options *o)
{
    struct batch_callbacks *n = mem_zalloc(sizeof *n);
    n->o = *o;
    n->due[0].cversion = n->due[1].cversion = -1;
    n->thread = periodic_start("batch-callback", BATCH_RETRY_MS, scan, n);
    periodic_wake(n->thread);
    return n;
}

void batch_callbacks_wake(struct batch_callbacks *n)
{
    periodic_wake(n->thread);
}

void batch_callbacks_close(struct batch_callbacks *n)
{
    periodic_stop(n->thread);
    free(n->due[0].list);
    free(n->due[1].list);
    free(n);
}
