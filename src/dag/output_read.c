#include "dag/output_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/output_store.h"

enum { NEAR_LEN = 16 * 1024 * 1024 }; /* so far behind the end, it is in the page cache */

void output_read_init(struct output_read *o, struct dag *d, const struct dag_node *n,
                      enum run_stream s, enum output_form form)
{
    *o = (struct output_read){
        .dag = d,
        .node = n->id,
        .want = {.stream = s, .form = form, .end = INT64_MAX},
        .view.fd = -1,
        .file.fd = -1,
    };
}

void output_read_release(struct output_read *o)
{
    output_view_release(&o->view);
    output_file_close(&o->file);
    buf_release(&o->path);
    buf_release(&o->piece);
    free(o->slots);
}

/* Values as records. */

/* The streams of a small output, in their order and with their times. */
static void put_pieces(const struct dag_node *n, const struct node_kept *k, struct buf *records)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct node_datum *mixed = node_value(n, STR("mixedout"));
    const struct json *list = json_parse(&a, str_of(k->pieces), NULL);
    struct str text = mixed ? buf_str(&mixed->bytes) : STR("");
    json_each(m, json_list(list)) {
        const struct json *len = m->kind == JSON_LIST && m->first ? m->first->next : NULL;
        if (!len || !len->next || m->first->number < 0 || m->first->number > 1 || len->number < 0 ||
            (uint64_t)len->number > text.len)
            return;
        output_put_record(records, (enum output_kind)m->first->number,
                          n->started_ms + len->next->number,
                          (struct str){text.p, (size_t)len->number});
        text.p += len->number;
        text.len -= (size_t)len->number;
    }
}

static void put_value(const struct dag_node *n, const char *key, enum output_kind kind,
                      struct buf *records)
{
    const struct node_datum *v = node_value(n, str_of(key));
    struct str text = v ? buf_str(&v->bytes) : STR("");
    while (text.len) {
        size_t len = text.len < OUTPUT_DATA_MAX ? text.len : OUTPUT_DATA_MAX;
        output_put_record(records, kind, n->ended_ms ? n->ended_ms : n->started_ms,
                          (struct str){text.p, len});
        text.p += len;
        text.len -= len;
    }
}

static const struct node_datum *value_of(const struct output_read *o, const struct dag_node *n)
{
    return node_value(n, str_of(DAG_OUTPUTS[o->want.stream]));
}

static void look_at_values(struct output_read *o, const struct dag_node *n)
{
    const struct node_datum *v = value_of(o, n), *err = node_value(n, STR("stderr"));
    o->run = v ? v->pid : 0;
    o->place = v ? OUTPUT_IN_VALUES : OUTPUT_NOWHERE;
    if (!v)
        return;
    o->total.of[o->want.stream == RUN_STDERR] = v->len;
    o->reads_keeper = v->slot_count;
    if (v->slot_count) {
        free(o->slots);
        o->slots = mem_alloc(v->slot_count * sizeof *o->slots);
        memcpy(o->slots, v->slots, v->slot_count * sizeof *o->slots);
        o->slot_count = v->slot_count;
        buf_put_str(&o->view.memory, buf_str(&v->bytes));
    } else if (n->kept && n->kept->pieces) {
        put_pieces(n, n->kept, &o->view.memory);
    } else if (o->want.stream == RUN_STDERR || (err && err->len == v->len && !err->slot_count)) {
        put_value(n, "stderr", OUTPUT_STDERR, &o->view.memory);
    } else {
        put_value(n, DAG_OUTPUTS[o->want.stream], OUTPUT_STDOUT, &o->view.memory);
    }
}

/* Looking. */

/* Another run: all from the beginning. */
static void turn_to(struct output_read *o, uint64_t run)
{
    if (o->run && o->run != run)
        o->want.next = 0;
    if (o->run != run) {
        output_file_close(&o->file);
        o->again = true;
    }
    o->run = run;
}

static void look_at_live(struct output_read *o, const struct output *out)
{
    turn_to(o, out->run);
    o->place = OUTPUT_LIVE;
    o->total = out->total;
    o->missing = out->missing;
    output_look(out, o->want.stream, o->want.next, o->file.fd < 0 || o->again, &o->view);
    o->again = false;
}

static void look_at_file(struct output_read *o, const struct node_kept *k)
{
    if (o->place != OUTPUT_IN_FILE)
        output_file_close(&o->file); /* of the run; it may be sealed by now */
    turn_to(o, k->run);
    o->place = OUTPUT_IN_FILE;
    memcpy(o->total.of, k->lens, sizeof k->lens);
    o->missing = k->missing;
    o->path.len = 0;
    output_store_path(o->dag->outputs, o->node, k->run, &o->path);
    buf_text(&o->path);
}

bool output_read_look(struct output_read *o)
{
    const struct dag *d = o->dag;
    const struct dag_node *n = d->ready ? graph_find(&d->graph, o->node) : NULL;
    output_view_release(&o->view);
    o->view = (struct output_view){.fd = -1};
    o->piece.len = 0;
    o->err = 0;
    o->reads_keeper = false;
    if (!n)
        return false;
    o->ended = node_state_is_terminal(graph_state(&d->graph, n));
    if (n->out)
        look_at_live(o, n->out);
    else if (n->kept && n->kept->run && d->outputs)
        look_at_file(o, n->kept);
    else
        look_at_values(o, n);
    return true;
}

bool output_read_is_near(const struct output_read *o)
{
    if (o->reads_keeper || o->place == OUTPUT_IN_FILE)
        return false;
    return o->place != OUTPUT_LIVE || o->file.sealed || !o->view.file_len ||
           output_offset(&o->total, o->want.stream) - o->want.next <= NEAR_LEN;
}

/* Reading. */

/* The slot that has the next byte, or what is behind the slots. */
static int read_slot(struct output_read *o, struct keeper *k)
{
    CLEANUP(buf_release) struct buf slot = {0};
    uint64_t at = 0;
    uint32_t i = 0;
    while (i < o->slot_count && at + o->slots[i].len <= o->want.next)
        at += o->slots[i++].len;
    if (i < o->slot_count)
        TRY(keeper_get(k, dag_slot_path(o->node, o->slots[i].number).text, &slot, NULL));
    struct str text = buf_str(i < o->slot_count ? &slot : &o->view.memory);
    size_t skip = (size_t)(o->want.next - at);
    if (skip >= text.len)
        return 0;
    text = (struct str){text.p + skip, text.len - skip};
    if (text.len > o->want.end - o->want.next)
        text.len = (size_t)(o->want.end - o->want.next);
    if (text.len > OUTPUT_DATA_MAX)
        text.len = OUTPUT_DATA_MAX;
    if (o->want.form == OUTPUT_CHUNKS)
        output_put_record(&o->piece, o->want.stream == RUN_STDERR ? OUTPUT_STDERR : OUTPUT_STDOUT,
                          0, text);
    else
        buf_put_str(&o->piece, text);
    o->want.next += text.len;
    return 0;
}

static int read_keeper(struct output_read *o)
{
    struct context *context = o->dag->context;
    struct keeper *k = context_keeper(context);
    if (!k)
        return DROVER_CLOSED;
    int err = read_slot(o, k);
    context_return(context, k);
    return err;
}

static int read_file(struct output_read *o)
{
    if (o->file.fd < 0) {
        TRY(output_file_open(&o->file, o->path.p, o->node, o->run, &o->why));
        output_file_seek(&o->file, o->want.stream, o->want.next);
    }
    return output_file_read(&o->file, &o->want, o->max, &o->piece);
}

/* What was to be read may have been cut meanwhile: then the next look begins behind the cut. */
static int read_live(struct output_read *o)
{
    int err = output_view_read(&o->view, &o->file, &o->want, o->max, &o->piece);
    o->again = err == DROVER_DAMAGED;
    return err;
}

void output_read_more(struct output_read *o)
{
    o->why.text[0] = '\0';
    if (o->place == OUTPUT_NOWHERE || o->want.next >= o->want.end)
        return;
    o->err = o->reads_keeper              ? read_keeper(o)
             : o->place == OUTPUT_IN_FILE ? read_file(o)
                                          : read_live(o);
    if (o->err && !o->why.text[0])
        err_explain(&o->why, o->err);
}
