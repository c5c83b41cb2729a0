/*
 * What becomes of the output of a run: small text goes into the values of the node, as in records
 * of version 0.1; anything else is a file, which the record names. Without a directory for files
 * (on an ensemble) the beginning and the end are values.
 *
 * Crash points: the record names the file as soon as there is one, so that the next server finds
 * it; until then less than OUTPUT_SPILL_MS of output is lost. A file that no record names is
 * removed after the next start. A record whose file is gone is answered so.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "dag/output_store.h"
#include "dag/service.h"

enum { VALUES_LEN = 1024 * 1024, SAVE_MS = 1000, READ_LEN = 64 * 1024, PRINTED_MS = 50 };

/* Files beside the keeper's data, or where the option says. */
int dag_output_open(struct dag *d, const char *given, int64_t total, struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf dir = {0};
    const struct context *h = d->context;
    if (!given && !h->data_dir)
        return 0;
    buf_printf(&dir, "%s%s", given ? given : h->data_dir, given ? "" : "/output");
    struct output_store_options o = {
        .dir = buf_text(&dir), .total = total, .is_shared = h->leader != NULL};
    return output_store_open(&o, &d->outputs, ret_error);
}

void dag_output_stop(struct dag *d)
{
    for (uint32_t i = 0; i < d->running.count; i++)
        if (d->running.nodes[i]->agent > 0 && d->running.nodes[i]->out)
            output_free(d->running.nodes[i]->out);
}

struct output *dag_output_new(struct dag *d, struct dag_node *n)
{
    int64_t now = dag_now_ms(d);
    uint64_t run = d->outputs ? output_store_run(d->outputs, now) : (uint64_t)now;
    dag_output_drop(d, n);
    return output_new(d->outputs, n->id, run, d->outputs ? (uint64_t)d->output_limit : VALUES_LEN);
}

void dag_output_drop(struct dag *d, struct dag_node *n)
{
    if (n->kept && n->kept->run && d->outputs)
        output_store_drop(d->outputs, n->id, n->kept->run);
    node_forget(n);
}

/* Sets the values to what is in memory; while it runs, to the beginning of it. */
static void save_values(struct dag *d, struct dag_node *n, const struct output *o, bool is_end)
{
    struct buf texts[RUN_STREAMS] = {{0}};
    output_put_texts(o, is_end, texts);
    for (int i = 0; i < RUN_STREAMS; i++) {
        struct node_datum *v = dag_output_value(d, n, (enum run_stream)i);
        size_t len = is_end ? texts[i].len : output_whole(texts[i].p, texts[i].len);
        if (len > v->len)
            dag_append_text(d, n, v, (struct str){texts[i].p + v->len, len - (size_t)v->len});
        buf_release(&texts[i]);
    }
    dag_commit_record(dag_commit_open(d), n);
}

static void drop_values(struct dag *d, struct dag_node *n)
{
    for (int i = 0; i < RUN_STREAMS; i++) {
        struct node_datum *v = node_value(n, str_of(DAG_OUTPUTS[i]));
        if (v)
            dag_drop_slots(d, n, v);
        node_drop_value(n, str_of(DAG_OUTPUTS[i]));
    }
}

static void keep_pieces(struct dag_node *n, const struct output *o)
{
    CLEANUP(buf_release) struct buf json = {0};
    if (o->pieces < 2)
        return;
    output_put_pieces(o, n->started_ms, &json);
    node_keep(n)->pieces = mem_dup(json.p, json.len);
}

/* A run that goes on has a file now. */
static void note_file(struct dag *d, struct dag_node *n, const struct output *o)
{
    if (!o->file_len || (n->kept && n->kept->run == o->run))
        return;
    drop_values(d, n);
    *node_keep(n) = (struct node_kept){.run = o->run, .live_pid = node_live_pid(n)};
    dag_commit_record(dag_commit_open(d), n);
}

int64_t dag_output_tick(struct dag *d, struct dag_node *n, int64_t now_ms)
{
    struct output *o = n->out;
    if (d->outputs) {
        int64_t next = output_tick(o, now_ms);
        note_file(d, n, o);
        return next;
    }
    if (!n->save_at || n->save_at > now_ms)
        return n->save_at ? n->save_at : INT64_MAX;
    n->save_at = 0;
    save_values(d, n, o, false);
    return INT64_MAX;
}

void dag_output_printed(struct dag *d, struct dag_node *n)
{
    if (d->outputs) {
        if (n->out->spill_at_ms)
            dag_arm(d, n->out->spill_at_ms);
        else
            note_file(d, n, n->out);
    } else if (!n->save_at) {
        n->save_at = dag_now_ms(d) + SAVE_MS;
        dag_arm(d, n->save_at);
    }
}

/* Few bytes are values in any case. If they are no text, JSON cannot have them: so is a file. */
void dag_output_end(struct dag *d, struct dag_node *n, struct output *o)
{
    bool is_small = output_is_small(o), has_file = o->file_len;
    output_end(o, dag_now_ms(d));
    bool is_kept = d->outputs && !is_small && output_store_keep(d->outputs, o);
    n->out = NULL;
    node_forget(n);
    if (is_kept)
        *node_keep(n) = (struct node_kept){.run = o->run,
                                           .lens = {o->total.of[0], o->total.of[1]},
                                           .missing = o->missing,
                                           .live_pid = node_live_pid(n)};
    else if (has_file)
        output_store_drop(d->outputs, n->id, o->run);
    if (is_small)
        keep_pieces(n, o);
    if (is_kept && o->is_large)
        drop_values(d, n);
    else
        save_values(d, n, o, true);
    dag_commit_record(dag_commit_open(d), n);
    output_free(o);
}

/* After a crash. */

/* Small text of a lost run becomes values, as if it had ended. False: it is not small, or no text.
 */
static bool take_values(struct dag *d, struct dag_node *n, struct output_file *f)
{
    struct buf texts[RUN_STREAMS] = {{0}};
    bool fits = output_offset(&f->total, RUN_MIXED) <= NODE_TEXT_INLINE_MAX;
    for (int i = 0; i < RUN_STREAMS && fits; i++) {
        struct output_want w = {
            .stream = (enum run_stream)i, .form = OUTPUT_TEXT, .end = INT64_MAX};
        output_file_seek(f, RUN_MIXED, 0);
        fits = !output_file_read(f, &w, READ_LEN, &texts[i]) && !w.missing &&
               json_is_text(buf_str(&texts[i]));
    }
    for (int i = 0; i < RUN_STREAMS; i++) {
        if (fits)
            dag_append_text(d, n, dag_output_value(d, n, (enum run_stream)i), buf_str(&texts[i]));
        buf_release(&texts[i]);
    }
    return fits;
}

void dag_output_recover(struct dag *d, struct dag_node *n)
{
    CLEANUP(buf_release) struct buf path = {0};
    struct output_file f;
    struct err_info why;
    uint64_t run = d->outputs ? output_store_find(d->outputs, n->id) : 0;
    if (run && (!n->kept || n->kept->run < run))
        *node_keep(n) = (struct node_kept){.run = run};
    if (!run || !n->kept->run)
        return;
    output_store_path(d->outputs, n->id, n->kept->run, &path);
    int err = output_file_open(&f, buf_text(&path), n->id, n->kept->run, &why);
    if (err && err != DROVER_NO_NODE)
        log_error("the output of node %" PRIu64 ": %s", n->id, why.text);
    if (!err && take_values(d, n, &f))
        dag_output_drop(d, n);
    else if (!err)
        memcpy(n->kept->lens, f.total.of, sizeof n->kept->lens);
    output_file_close(&f);
}

/* The next part of the output of a run at an agent, where the server before this one has some. */
struct output *dag_output_continue(struct dag *d, struct dag_node *n)
{
    struct output *o =
        n->kept && n->kept->run && d->outputs
            ? output_reopen(d->outputs, n->id, n->kept->run, (uint64_t)d->output_limit)
            : NULL;
    return o ? o : dag_output_new(d, n);
}

/* All files that nodes have. */
void dag_output_know(struct dag *d)
{
    struct output_name *names = NULL;
    size_t count = 0, cap = 0;
    if (!d->outputs)
        return;
    for (uint32_t i = 0; i < d->graph.count; i++) {
        const struct dag_node *n = d->graph.order[i];
        if (!n || !n->kept || !n->kept->run)
            continue;
        mem_grow(names, count, cap);
        names[count++] = (struct output_name){n->id, n->kept->run};
    }
    output_store_know(d->outputs, names, count);
}

/* Telling of what was printed. */

static void on_printer(uv_timer_t *timer)
{
    struct dag *d = timer->data;
    for (uint32_t i = 0; i < d->running.count; i++) {
        struct dag_node *n = d->running.nodes[i];
        if (!n->out)
            continue;
        dag_wake_all(d, "output", (int64_t)n->id);
        dag_wake_followers(d, n, true);
        n->out->last = (struct str){0};
        if (d->streams)
            dag_pass_on(d, n); /* who has stopped reading is not waited for */
    }
}

/* Requests that wait for output are woken 20 times a second at most, not with every line. */
void dag_printed(struct dag *d, struct dag_node *n)
{
    if (d->streams)
        dag_pass_on(d, n);
    if (n->followers)
        dag_wake_followers(d, n, false);
    dag_soon_printed(d);
}

void dag_soon_printed(struct dag *d)
{
    if (!d->closing && !uv_is_active((uv_handle_t *)&d->printer))
        UV_CHECK(uv_timer_start(&d->printer, on_printer, PRINTED_MS, 0));
}
