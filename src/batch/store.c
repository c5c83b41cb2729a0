/*
 * Opening a store, and the few ways in which everything here reads the tree.
 *
 * Numbers for new ids. ZooKeeper numbers sequential nodes by the creations under their parent, but a
 * transaction cannot create a sequential node and its children: half a batch would be left behind by
 * a crash. So the number is computed as ZooKeeper does, (cversion + children) / 2, and the node made
 * by its name in the one transaction that makes all of it. That transaction also sets the parent (to
 * what it is, nothing) at the version seen with the number, so that of two creators one starts anew,
 * and so that no number is given twice even if a creator sleeps between reading and creating. A
 * foreign client that creates sequential nodes there gets numbers that are not taken.
 */
#include "batch/store.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

const char *const ACCESS_DIRS[ACCESS_SIZES] = {"small", "large"};

static void init_views(struct batch_store *r)
{
    char dir[96];

    for (int i = 0; i < r->machines.job.count; i++) {
        snprintf(dir, sizeof dir, "/jobs/states/%s", r->machines.job.states[i].dir);
        batch_view_init(&r->jobs[i], dir, BATCH_ID_JOB, true);
    }
    for (int i = 0; i < r->machines.batch.count; i++) {
        snprintf(dir, sizeof dir, "/drover/batch/%s", r->machines.batch.states[i].dir);
        batch_view_init(&r->batches[i], dir, BATCH_ID_BATCH, false);
    }
    for (int s = 0; s < ACCESS_SIZES; s++) {
        for (int i = 0; i < r->machines.access.count; i++) {
            snprintf(dir, sizeof dir, "/drover/access/%s/%s", ACCESS_DIRS[s],
                     r->machines.access.states[i].dir);
            batch_view_init(&r->access[s][i], dir, BATCH_ID_ACCESS, false);
        }
    }
}

int batch_store_open(const struct batch_store_options *o, struct batch_store **ret_store)
{
    struct batch_store *r = mem_zalloc(sizeof *r);
    const struct batch_machine *m = &r->machines.batch;

    r->machines = o->machines ? *o->machines : BATCH_MACHINES_BUILT_IN;
    r->options = *o;
    r->batch.pending = batch_machine_find(m, STR("Pending"));
    r->batch.held = batch_machine_find(m, STR("Held"));
    r->batch.processing = batch_machine_find(m, STR("Processing"));
    r->batch.reporting = batch_machine_find(m, STR("Reporting"));
    r->batch.failed = batch_machine_find(m, STR("Failed"));
    r->batch.update_reporting = batch_machine_find(m, STR("UpdateReporting"));
    r->batch.completed = batch_machine_find(m, STR("Completed"));
    r->batch.deleted = batch_machine_find(m, STR("Deleted"));
    pthread_mutex_init(&r->making, NULL);
    pthread_mutex_init(&r->lock, NULL);
    batch_job_cache_init(&r->job_cache);
    init_views(r);
    *ret_store = r;
    return 0;
}

void batch_store_close(struct batch_store *r)
{
    for (int i = 0; i < r->machines.job.count; i++)
        batch_view_release(&r->jobs[i]);
    for (int i = 0; i < r->machines.batch.count; i++)
        batch_view_release(&r->batches[i]);
    for (int s = 0; s < ACCESS_SIZES; s++)
        for (int i = 0; i < r->machines.access.count; i++)
            batch_view_release(&r->access[s][i]);
    batch_job_cache_release(&r->job_cache);
    pthread_mutex_destroy(&r->making);
    pthread_mutex_destroy(&r->lock);
    free(r->held_collections);
    free(r);
}

/* Makes parent/STATE for each state of a machine, or only for those that are no end. */
static int make_states(struct batch_call *c, const struct batch_machine *m, const char *parent,
                       bool ends)
{
    int err = keeper_ensure(c->k, parent, NO_BYTES);

    for (int i = 0; i < m->count && !err; i++)
        if (ends || !batch_machine_is_end(m, i))
            err = keeper_ensure(c->k, arena_printf(c->a, "%s/%s", parent, m->states[i].dir),
                                NO_BYTES);
    return err;
}

int batch_store_init(struct batch_call *c)
{
    static const char *const NODES[] = {
        "/batches",         "/batch-uuids",       "/jobs",
        "/locks",           "/locks/queue",       "/locks/storage",
        "/locks/inventory", "/locks/collections", "/access",
        "/access/small",    "/access/large",      "/drover",
        "/drover/access",   "/drover/legacy",
    };
    const struct batch_machines *m = &c->store->machines;
    int err = 0;

    for (size_t i = 0; i < sizeof NODES / sizeof *NODES && !err; i++)
        err = keeper_ensure(c->k, NODES[i], NO_BYTES);
    if (!err)
        err = make_states(c, &m->job, "/jobs/states", true);
    if (!err)
        err = make_states(c, &m->batch, "/drover/batch", false);
    for (int s = 0; s < ACCESS_SIZES && !err; s++)
        err =
            make_states(c, &m->access, s ? "/drover/access/large" : "/drover/access/small", false);
    return err ? batch_fail(c, err) : 0;
}

struct str batch_now(struct batch_call *c)
{
    int64_t now_ms = c->store->options.wall_ms ? c->store->options.wall_ms(c->store->options.arg)
                                               : clock_wall_ms();
    time_t seconds = now_ms / 1000;
    struct tm tm;
    char text[32];

    gmtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    return str_of(arena_printf(c->a, "%s.%03dZ", text, (int)(now_ms % 1000)));
}

void batch_publish(struct batch_call *c, const struct batch_event *e)
{
    if (c->store->options.changed)
        c->store->options.changed(c->store->options.arg, e);
}

#define PRINT_PATH(path, fmt)                                                                      \
    do {                                                                                           \
        va_list args;                                                                              \
        int len;                                                                                   \
                                                                                                   \
        va_start(args, fmt);                                                                       \
        len = vsnprintf(path, sizeof path, fmt, args);                                             \
        va_end(args);                                                                              \
        assert(len > 0 && len < (int)sizeof path);                                                 \
    } while (0)

int batch_node_get(struct batch_call *c, struct str *ret_data, struct keeper_stat *ret_stat,
                   const char *fmt, ...)
{
    char path[1024];
    struct buf data = {0};
    int err;

    PRINT_PATH(path, fmt);
    err = keeper_get(c->k, path, &data, ret_stat);
    if (!err)
        *ret_data = (struct str){arena_text(c->a, (struct str){data.p, data.len}), data.len};
    buf_release(&data);
    return err;
}

int batch_node_exists(struct batch_call *c, struct keeper_stat *ret_stat, const char *fmt, ...)
{
    char path[1024];

    PRINT_PATH(path, fmt);
    return keeper_exists(c->k, path, ret_stat);
}

int batch_node_children(struct batch_call *c, struct keeper_names *ret_names,
                        struct keeper_stat *ret_stat, const char *fmt, ...)
{
    struct keeper_names names = {0};
    char path[1024];
    int err;

    PRINT_PATH(path, fmt);
    err = keeper_children(c->k, path, &names, ret_stat);
    if (err)
        return err;
    ret_names->count = names.count;
    ret_names->text = NULL;
    ret_names->names = arena_alloc(c->a, (names.count + 1) * sizeof *ret_names->names);
    for (size_t i = 0; i < names.count; i++)
        ret_names->names[i] = arena_text(c->a, str_of(names.names[i]));
    keeper_names_release(&names);
    return 0;
}

int batch_fail(struct batch_call *c, int err)
{
    return err_set(c->why, err, "%s", drover_err_message(err));
}

int batch_next_number(struct batch_call *c, const char *parent, int64_t *ret_number,
                      int32_t *ret_version)
{
    struct keeper_stat stat;
    int err = keeper_exists(c->k, parent, &stat);

    if (err)
        return err;
    *ret_number = ((int64_t)stat.cversion + stat.child_count) / 2;
    *ret_version = stat.version;
    return 0;
}

int batch_index_move(struct batch_call *c, struct batch_change *t, const struct batch_machine *m,
                     struct batch_view *views, int from, int to, const char *id)
{
    int err;

    if (from != BATCH_NO_STATE && !batch_machine_is_end(m, from)) {
        err = batch_node_exists(c, NULL, "%s/%s", views[from].dir, id);
        if (!err)
            batch_change_list_remove(t, &views[from],
                                     batch_id_number(views[from].prefix, str_of(id)));
        else if (err != DROVER_NO_NODE)
            return err;
    }
    if (batch_machine_is_end(m, to))
        return 0;
    err = from == to ? DROVER_NO_NODE : batch_node_exists(c, NULL, "%s/%s", views[to].dir, id);
    if (err == DROVER_NO_NODE)
        batch_change_list_add(t, &views[to], batch_id_number(views[to].prefix, str_of(id)));
    return err == DROVER_NO_NODE ? 0 : err;
}
