/*
 * Storing values: small ones in the record, large text in slots, followed by a tail that grows in
 * the record until it is large enough for a slot. So text that arrives in small pieces, like the
 * output of a command, needs few slots, and each piece costs one write of the record.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/dag_impl.h"

/* Adds a slot at the end. */
static void put_slot(struct dag *d, struct dag_node *n, struct node_datum *v, struct str text)
{
    struct dag_commit *t = dag_commit_open(d);
    char path[DAG_PATH_LEN];

    v->slots = mem_realloc(v->slots, (v->slot_count + 1) * sizeof *v->slots);
    v->slots[v->slot_count++] = (struct datum_slot){n->next_slot, (uint32_t)text.len};
    dag_commit_bucket(t, BUCKET_SLOTS, dag_bucket(BUCKET_SLOTS, n->id));
    dag_slot_path(path, sizeof path, n->id, n->next_slot++);
    dag_commit_op(t, keeper_op_create(path, text, 0));
}

static void spill(struct dag *d, struct dag_node *n, struct node_datum *v)
{
    struct buf text = v->bytes;

    if (!v->is_text || text.len <= NODE_TEXT_INLINE_MAX)
        return;
    v->bytes = (struct buf){0};
    for (size_t at = 0; at < text.len; at += NODE_SLOT_LEN) {
        size_t len = text.len - at < NODE_SLOT_LEN ? text.len - at : NODE_SLOT_LEN;

        put_slot(d, n, v, (struct str){text.p + at, len});
    }
    buf_release(&text);
}

void dag_append_text(struct dag *d, struct dag_node *n, struct node_datum *v, struct str text)
{
    buf_put_str(&v->bytes, text);
    v->len += text.len;
    spill(d, n, v);
}

void dag_append_piece(struct dag *d, struct dag_node *n, struct node_datum *v, struct str text)
{
    struct buf before = v->bytes;

    if (before.len && v->slot_count < NODE_PIECES_MAX) {
        v->bytes = (struct buf){0};
        put_slot(d, n, v, buf_str(&before));
        buf_release(&before);
    }
    dag_append_text(d, n, v, text);
}

bool dag_replace_piece(struct dag *d, struct dag_node *n, struct node_datum *v, uint64_t start,
                       struct str text)
{
    char path[DAG_PATH_LEN];
    uint64_t at = 0;
    uint32_t i = 0;

    for (; i < v->slot_count && at < start; i++)
        at += v->slots[i].len;
    if (at != start || (i == v->slot_count && !v->bytes.len))
        return false;
    if (i == v->slot_count) {
        v->len -= v->bytes.len;
        v->bytes.len = 0;
        dag_append_text(d, n, v, text);
        return true;
    }
    dag_slot_path(path, sizeof path, n->id, v->slots[i].number);
    dag_commit_op(dag_commit_open(d), keeper_op_delete(path, KEEPER_ANY_VERSION));
    v->len = v->len - v->slots[i].len + text.len;
    put_slot(d, n, v, text);
    v->slots[i] = v->slots[--v->slot_count];
    return true;
}

const char *const DAG_OUTPUTS[RUN_STREAMS] = {"stdout", "stderr", "mixedout"};

struct node_datum *dag_output_value(struct dag *d, struct dag_node *n, enum run_stream s)
{
    struct node_datum *v = node_value(n, str_of(DAG_OUTPUTS[s]));

    if (v && v->live_pid == node_live_pid(n))
        return v;
    if (v)
        dag_drop_slots(d, n, v);
    node_set_text(n, DAG_OUTPUTS[s], STR(""));
    v = node_value(n, str_of(DAG_OUTPUTS[s]));
    v->live_pid = node_live_pid(n);
    return v;
}

void dag_save_value(struct dag *d, struct dag_node *n, struct node_datum *v, dag_done_fn *done,
                    void *arg)
{
    spill(d, n, v);
    struct dag_commit *t = dag_commit_open(d);
    dag_commit_record(t, n);
    dag_commit_then(t, done, arg);
}
