/* The module of drover serve: its options, and what it opens. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "batch/server.h"
#include "batch/tools.h"
#include "server/ground.h"
#include "server/sessions.h"

static void publish(struct batch_server *h, const char *kind, const char *id, const char *state,
                    struct str json)
{
    struct event e = {.kind = kind, .id = str_of(id), .state = str_of(state), .json = json};
    events_publish(h->context->events, &e);
}

static void on_change(void *arg, const struct batch_event *e)
{
    struct batch_server *h = arg;
    CLEANUP(buf_release) struct buf b = {0};
    json_open(&b, '{');
    json_member_text(&b, e->key, str_of(e->id));
    if (e->batch)
        json_member_text(&b, "batch", str_of(e->batch));
    if (e->from)
        json_member_text(&b, "from", str_of(e->from));
    json_member_text(&b, "state", str_of(e->state));
    json_close(&b, '}');
    publish(h, e->key, e->id, e->state, buf_str(&b));
    if (strcmp(e->key, "batch") == 0 && h->callbacks)
        batch_callbacks_wake(h->callbacks);
}

static void wake(void *arg, const struct batch_view *v, uint32_t max)
{
    http_topic_wake(&((struct batch_server *)arg)->context->topic, batch_list_key(v), (int)max);
}

static void on_stale(void *arg)
{
    batch_watcher_stale(((struct batch_server *)arg)->watcher);
}

static size_t count_waiting(void *arg, const struct batch_view *v)
{
    return http_topic_parked(&((struct batch_server *)arg)->context->topic, batch_list_key(v));
}

static void on_due(void *arg, const struct batch_report *report)
{
    publish(arg, "batch-done", report->batch, report->state, str_of(report->json));
}

static void on_warning(void *arg, const char *line)
{
    (void)arg;
    log_warning("%s", line);
}

static struct keeper *borrow(void *arg)
{
    return context_keeper(((struct batch_server *)arg)->context);
}

static void give_back(void *arg, struct keeper *k)
{
    context_return(((struct batch_server *)arg)->context, k);
}

/* Reads the machines of a pipeline, a file or a name, into the arena. */
static int load_machines(struct arena *a, const char *file,
                         const struct batch_machines **ret_machines, struct err_info *ret_error)
{
    enum { LEN_MAX = 1024 * 1024 };
    CLEANUP(buf_release) struct buf text = {0};
    struct batch_machines *machines = arena_alloc(a, sizeof *machines);
    struct err_info why;
    *ret_machines = machines;
    if (strcmp(file, BATCH_PIPELINE_STORING) == 0)
        return batch_machines_load(a, str_of(file), machines, ret_error);
    FILE *f = fopen(file, "re");
    if (!f)
        return err_set(ret_error, DROVER_IO, "cannot open the pipeline '%s': %m", file);
    buf_reserve(&text, LEN_MAX);
    text.len = fread(text.p, 1, LEN_MAX, f);
    fclose(f);
    int err = batch_machines_load(a, buf_str(&text), machines, &why);
    if (err)
        return err_set(ret_error, err, "the pipeline '%s': %s", file, why.text);
    return 0;
}

static void close_server(void *module)
{
    struct batch_server *h = module;
    periodic_stop(h->purge);
    if (h->metrics)
        batch_metrics_close(h->metrics);
    if (h->watcher)
        batch_watcher_close(h->watcher);
    if (h->callbacks)
        batch_callbacks_close(h->callbacks);
    if (h->store)
        batch_store_close(h->store);
    pthread_mutex_destroy(&h->lock);
    arena_release(&h->arena);
    free(h);
}

static const char *pipeline;      /* file with state machines, or a name; NULL: the built-in ones */
static const char *on_batch_done; /* a command or a URL; NULL: none */
static int64_t retention_ms;      /* the option; 0: never */

static const struct option OPTIONS[] = {
    {"pipeline", "FILE|storing",
     "The states of batches, jobs and access items, as JSON. With 'storing' the built-in\n"
     "ones, and jobs are Storing between Processing and Recording. Default: without it.",
     option_text, &pipeline},
    {"on-batch-done", "CMD|URL",
     "Report batches that are done: run this command with the report on its standard\n"
     "input, or post it to this URL. A report that fails is tried again.",
     option_text, &on_batch_done},
    {"batch-retention", "TIME|never",
     "Remove batches with their jobs, and access items, this long after they ended: Completed\n"
     "or Deleted.",
     option_span_or_never, &retention_ms, 1, INT64_MAX, .initial = "never",
     .flags = OPTION_RELOADS},
};

/* Retention. */

static bool is_stopping(void *purge)
{
    return periodic_is_stopping(purge);
}

/* Often enough that nothing stays a hundredth longer than it should. */
static int64_t purge_every_ms(const struct batch_server *h)
{
    enum { MIN_MS = 500, MAX_MS = 10 * 60 * 1000 };
    int64_t ms = h->retention_ms ? h->retention_ms / 100 : MAX_MS;
    return ms < MIN_MS ? MIN_MS : ms > MAX_MS ? MAX_MS : ms;
}

/* The jobs of a batch go with it. Reading very many items is followed by a rest. */
static void purge_all(struct periodic *p, void *arg)
{
    static const enum batch_kind_id kinds[] = {BATCH_KIND_BATCH, BATCH_KIND_SMALL,
                                               BATCH_KIND_LARGE};
    struct batch_server *h = arg;
    CLEANUP(arena_release) struct arena a = {0};
    struct err_info why;
    int64_t began_ms = clock_boot_ms(), kept_ms = h->retention_ms;
    struct batch_call c = {h->store, kept_ms ? borrow(h) : NULL, &a, &why};
    struct batch_purge o = {.state = BATCH_NO_STATE,
                            .before_ms = clock_wall_ms() - kept_ms,
                            .limit = INT64_MAX,
                            .stop = is_stopping,
                            .arg = p};
    int err = c.k ? batch_server_ready(h, &c) : DROVER_CLOSED;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !err; i++) {
        struct batch_purged purged;
        err = batch_purge(&c, kinds[i], &o, &purged);
        if (purged.removed)
            log_info("%s: removed %lld that ended long ago", h->store->kinds[kinds[i]].plural,
                     (long long)purged.removed);
    }
    if (c.k)
        give_back(h, c.k);
    if (err && c.k)
        log_warning("batches: cannot remove what ended long ago: %s", why.text);
    int64_t rest_ms = LIST_REST * (clock_boot_ms() - began_ms), every_ms = purge_every_ms(h);
    periodic_next(p, rest_ms > every_ms ? rest_ms : every_ms);
}

/* At the start, and when the option may have changed. */
static void set_retention(void *module)
{
    struct batch_server *h = module;
    h->retention_ms = retention_ms;
    if (h->purge)
        periodic_wake(h->purge);
    else if (retention_ms)
        h->purge = periodic_start("batch-purge", purge_every_ms(h), purge_all, h);
}

static int need_node(void *context, const char *path)
{
    ground_need(context, path);
    return 0;
}

static int open_server(struct context *context, void **ret_module, struct err_info *ret_error)
{
    struct batch_server *h = mem_zalloc(sizeof *h);
    struct batch_store_options o = {
        .changed = on_change, .available = wake, .stale = on_stale, .arg = h};
    struct batch_thread_options n = {.borrow = borrow,
                                     .give_back = give_back,
                                     .ready = batch_server_ready,
                                     .due = on_due,
                                     .warn = on_warning,
                                     .hook = on_batch_done,
                                     .policy = context->policy,
                                     .waiting = count_waiting,
                                     .wake = wake,
                                     .arg = h};

    h->context = context;
    pthread_mutex_init(&h->lock, NULL);
    int err = pipeline ? load_machines(&h->arena, pipeline, &o.machines, ret_error) : 0;
    if (err) {
        close_server(h);
        return err;
    }
    n.store = h->store = batch_store_open(&o);
    n.callbacks = h->callbacks = batch_callbacks_open(&n);
    h->watcher = batch_watcher_open(&n);
    context_listen(context, batch_watcher_session, h->watcher);
    h->metrics = batch_metrics_open(&n, context->metrics);
    set_retention(h);
    batch_store_nodes(h->store, need_node, context);
    *ret_module = h;
    return 0;
}

const struct module batch_module = {.name = "batches",
                                    .open = open_server,
                                    .routes = batch_server_routes,
                                    .reload = set_retention,
                                    .close = close_server,
                                    .options = OPTIONS,
                                    .option_count = sizeof OPTIONS / sizeof *OPTIONS};

int batch_server_ready(void *arg, struct batch_call *c)
{
    struct batch_server *h = arg;
    int err = 0;
    LOCKED(&h->lock);
    if (!h->ready) {
        err = batch_store_init(c);
        h->ready = !err;
    }
    return err;
}

uint64_t batch_list_key(const struct batch_view *v)
{
    return http_key("batch-list", str_of(v->dir), (struct str){0});
}

/* The kind of items by the path: /v1/batches, /v1/jobs, /v1/access. */
static enum batch_kind_id kind_of(const struct http_request *r)
{
    char first = r->head.path.p[sizeof "/v1/" - 1];
    const struct batch_in *in = r->in;
    return first == 'b'   ? BATCH_KIND_BATCH
           : first == 'j' ? BATCH_KIND_JOB
                          : BATCH_KIND_SMALL + (unsigned)in->queue;
}

bool batch_request_open(struct batch_request *d, struct http_request *r)
{
    struct batch_server *h = r->arg;
    const struct batch_in *in = r->in;
    struct keeper *k =
        in->session.p ? session_of_request(h->context, r, in->session) : context_keeper(h->context);
    if (!k) {
        if (!in->session.p)
            http_reply_error(r, 503, "the keeper is away: try again");
        return false;
    }
    *d = (struct batch_request){
        .r = r, .in = in, .kind = kind_of(r), .call = {h->store, k, &r->arena, &d->why}};
    if (batch_server_ready(h, &d->call)) {
        batch_request_close(d, DROVER_CLOSED);
        return false;
    }
    return true;
}

void batch_request_leave(struct batch_request *d)
{
    const struct batch_server *h = d->r->arg;
    if (d->in->session.p)
        sessions_done(h->context->sessions, d->call.k);
    else
        context_return(h->context, d->call.k);
}

void batch_request_close(struct batch_request *d, int err)
{
    batch_request_leave(d);
    if (err < 0)
        http_reply_err(d->r, err, d->why.text);
    else
        http_reply(d->r, 200, d->out.len ? buf_str(&d->out) : STR("{}"));
    buf_release(&d->out);
}

void batch_request_run(struct http_request *r, int (*answer)(struct batch_request *d))
{
    struct batch_request d;
    if (batch_request_open(&d, r))
        batch_request_close(&d, answer(&d));
}

void batch_request_open_list(struct batch_request *d, const char *key)
{
    json_open(&d->out, '{');
    json_member_open(&d->out, key, '[');
}

int batch_request_close_list(struct batch_request *d)
{
    json_close(&d->out, ']');
    json_close(&d->out, '}');
    return 0;
}
